"""Additional checks of prefect.yaml, because Prefect silently ignores unknown keys.

The command `python -m equistrata.flows.watch.deployments` prints the work pools that the file needs. If the file has
faults, it prints them and returns the exit code 2. It reads the file and imports the flows, but it does not connect to
a server.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from prefect.cli.deploy import _models as models
from prefect.client.schemas.objects import ConcurrencyLimitConfig
from prefect.client.schemas.schedules import CronSchedule
from prefect.events.schemas.deployment_triggers import DeploymentEventTrigger
from prefect.flows import Flow, load_flow_from_entrypoint
from prefect.utilities.callables import parameter_schema
from prefect.utilities.schema_tools import validate
from prefect.workers.process import ProcessVariables
from pydantic import BaseModel, ValidationError

from equistrata.data.texts import documents
from equistrata.errors import InputError
from equistrata.flows.config.release import ReleaseConfig
from equistrata.printable import printable

# Additional variables in the pools of prefect-docker 0.7.4 and prefect-kubernetes 0.8.0, which need not be installed.
OF_CONTAINERS = (
    "annotations", "auto_remove", "backoff_limit", "cluster_config", "container_create_kwargs", "cpu_limit",
    "cpu_request", "finished_job_ttl", "image", "image_pull_policy", "job_watch_timeout_seconds", "mem_limit",
    "memory_limit", "memory_request", "memswap_limit", "namespace", "network_mode", "networks",
    "pod_watch_timeout_seconds", "privileged", "registry_credentials", "service_account_name", "volumes",
)  # fmt: skip
ANCHORS = "definitions"  # the key for YAML anchors in the guides of Prefect, which Prefect itself ignores


def read_prefect_yaml(path: Path) -> dict[str, Any]:
    """Read a prefect.yaml file. If this is not possible, raise an InputError."""
    document = documents.load(path, repr(str(path)), aliases=True)
    if not isinstance(document, dict) or not isinstance(document.get("deployments"), list):
        raise InputError(f"{str(path)!r} needs a list of 'deployments'")
    return document


def faults(document: Mapping[str, Any]) -> list[str]:
    """Return the faults of a prefect.yaml file, one sentence each."""
    found = list(_unknown(document, models.PrefectYamlModel, "prefect.yaml", ANCHORS))
    deployments = document["deployments"]
    names = [str(deployment.get("name")) for deployment in deployments]
    found += [f"deployment name {name!r} is used twice" for name in sorted(set(names)) if names.count(name) > 1]
    for name, deployment in zip(names, deployments, strict=True):
        found += [f"deployment {name!r}: {fault}" for fault in _faults(deployment)]
    return found


def pools(document: Mapping[str, Any]) -> list[str]:
    """Return the names of the work pools that the deployments use."""
    return sorted({deployment["work_pool"]["name"] for deployment in document["deployments"]})


def _faults(deployment: Mapping[str, Any]) -> Iterator[str]:
    pool, limit = deployment.get("work_pool") or {}, deployment.get("concurrency_limit")
    yield from _unknown(deployment, models.DeploymentConfig, "it")
    yield from _unknown(pool, models.WorkPoolConfig, "its work_pool")
    variables = pool.get("job_variables") or {}
    yield from _unknown(
        variables, ProcessVariables, "its job_variables", *(OF_CONTAINERS if "image" in variables else ())
    )
    others = {key: value for key, value in deployment.items() if key != "schedules"}
    yield from _misfits(models.DeploymentConfig, others, "its ")
    if not pool.get("name"):
        yield "it needs a work_pool with a name"
    if isinstance(limit, Mapping):
        yield from _unknown(limit, models.ConcurrencyLimitSpec, "its concurrency_limit")
        yield from _misfits(ConcurrencyLimitConfig, limit, "its concurrency_limit's ")
    schedules = deployment.get("schedules") or []
    for schedule in schedules:
        if "timezone" not in schedule:
            yield "a schedule needs a timezone; without it, its hours are in UTC"
        cron = {key: schedule[key] for key in ("cron", "timezone") if key in schedule}
        yield from list(_misfits(models.RawScheduleConfig, schedule, "a schedule's ")) or (
            _misfits(CronSchedule, cron, "a schedule's ") if "cron" in cron else ()
        )
    try:
        flow = _flow(str(deployment.get("entrypoint")))
    except Exception as error:
        yield f"its entrypoint {deployment.get('entrypoint')!r} cannot be loaded ({type(error).__name__})"
        return
    parameters = deployment.get("parameters") or {}
    wrong = _wrong_parameters(flow, parameters, "its")
    yield from wrong
    for trigger in deployment.get("triggers") or []:
        # Templates are plain texts until they are filled in by an event.
        yield from _unknown(trigger, DeploymentEventTrigger, "a trigger", "type")
        yield from _misfits(DeploymentEventTrigger, trigger, "a trigger's ")
        yield from _wrong_parameters(flow, trigger.get("parameters") or {}, "a trigger's")
        if _template_in_list(trigger.get("parameters")):
            yield "a trigger's parameters: Prefect does not fill in templates inside a list; write a string"
    if flow.name == "release" and not wrong:
        yield from _release(parameters, [str(schedule.get("timezone")) for schedule in schedules], limit)


@cache
def _flow(entrypoint: str) -> Flow[..., Any]:
    return load_flow_from_entrypoint(entrypoint)  # executes the module again in each call


def _wrong_parameters(flow: Flow[..., Any], given: Mapping[str, Any], whose: str) -> list[str]:
    wrong = validate(dict(given), parameter_schema(flow).model_dump_for_openapi())
    return [f"{whose} parameters: {error.json_path.removeprefix('$.')}: {error.message}" for error in wrong]


def _template_in_list(value: Any, inside: bool = False) -> bool:
    if isinstance(value, Mapping):
        return any(_template_in_list(each, inside) for each in value.values())
    if isinstance(value, list):
        return any(_template_in_list(each, True) for each in value)
    return inside and isinstance(value, str) and "{{" in value


def _release(parameters: Mapping[str, Any], zones: list[str], limit: Any) -> Iterator[str]:
    """Yield the faults of a scheduled release.

    Each release must have its own name, the time zone of the schedule must be used, and only one release may run at a
    time.
    """
    try:
        config = ReleaseConfig.build(**parameters["config"])
    except InputError as error:
        yield f"its config: {error}"
        return
    if not zones:
        return
    for setting, value in (("output", config.output), ("release_id", config.release_id)):
        if value is not None and "{" not in value:
            yield f"{setting} {value!r} is the same each time; add a placeholder such as {{month}}"
    if {config.time_zone} != set(zones):
        yield f"time_zone {config.time_zone!r} differs from that of its schedule ({', '.join(zones)})"
    if (limit.get("limit") if isinstance(limit, Mapping) else limit) != 1:
        yield "two releases of one data set may run at once; give it concurrency_limit 1"


def _misfits(model: type[BaseModel], given: Mapping[str, Any], whose: str) -> Iterator[str]:
    try:
        model.model_validate(given)
    except ValidationError as error:
        for fault in error.errors():
            place = ".".join(str(part) for part in fault["loc"])
            yield f"{whose}{place + ': ' if place else ''}{fault['msg']}"


def _unknown(given: Mapping[str, Any], model: type[BaseModel], what: str, *more: str) -> Iterator[str]:
    known = {field.alias or name for name, field in model.model_fields.items()} | set(model.model_fields) | set(more)
    for key in given:
        if key not in known:
            yield f"{what} has a key {key!r} that Prefect ignores silently; it knows {', '.join(sorted(known))}"


def check_prefect_yaml() -> int:
    """Check prefect.yaml or another given file, and print the work pools that it needs."""
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "prefect.yaml")
    try:
        document = read_prefect_yaml(path)
        found = faults(document)
    except InputError as error:
        found = [str(error)]
    for fault in found:
        print(f"error: {printable(fault)}", file=sys.stderr)
    if found:
        return 2
    print(*pools(document), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(check_prefect_yaml())
