"""Tests of prefect.yaml, which find settings that Prefect would ignore or that would fail at night."""

import copy
import sys

import pytest
import yaml
from prefect.cli.deploy._models import DeploymentConfig

from equistrata.errors import InputError
from equistrata.flows.config.release import ReleaseConfig
from equistrata.flows.release.flow import PUBLISHED
from equistrata.flows.watch.deployments import check_prefect_yaml, faults, pools, read_prefect_yaml


@pytest.fixture(scope="module")
def document(repo_root):
    return read_prefect_yaml(repo_root / "prefect.yaml")


@pytest.fixture
def broken(document):
    """Return a copy of the document that may be changed."""
    return copy.deepcopy(document)


def at(document, path):
    """Return the parent of the value at this path, and the last key of the path."""
    *steps, last = path.split("/")
    for step in steps:
        document = document[int(step) if step.isdecimal() else step]
    return document, int(last) if last.isdecimal() else last


def test_ours_has_no_fault(document):
    assert faults(document) == []
    assert pools(document) == ["equistrata"]


def test_ours_holds_what_a_steward_relies_on(document):
    flows = [deployment["entrypoint"].rpartition(".")[2] for deployment in document["deployments"]]
    assert flows == ["release", "budget_check", "audit"]
    for deployment in document["deployments"]:
        read = DeploymentConfig.model_validate(deployment)
        assert read.concurrency_limit.limit == 1
        assert read.tags
        assert deployment["work_pool"]["job_variables"]["env"] == {
            "DO_NOT_TRACK": "1",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        }
        assert all(schedule["timezone"] == "America/New_York" for schedule in deployment.get("schedules", []))
    (step,) = document["pull"]
    assert list(step) == ["prefect.deployments.steps.set_working_directory"]
    config = ReleaseConfig.build(**document["deployments"][0]["parameters"]["config"])
    assert config.dataset == document["deployments"][1]["parameters"]["dataset"], "the check watches over the release"
    (trigger,) = document["deployments"][2]["triggers"]
    assert trigger["match"] == {"prefect.resource.id": f"equistrata.dataset.{config.dataset}"}, (
        "and the audit follows it"
    )
    assert trigger["expect"] == [PUBLISHED]


def test_a_pool_of_containers_has_variables_of_its_own(broken):
    pool = broken["deployments"][0]["work_pool"]
    pool["job_variables"] |= {"image": "equistrata", "volumes": ["/srv/state:/var/lib/equistrata"]}
    assert faults(broken) == []
    pool["job_variables"]["volume"] = pool["job_variables"].pop("volumes")
    assert any("a key 'volume' that Prefect ignores silently" in fault for fault in faults(broken))
    del pool["job_variables"]["image"]
    pool["job_variables"]["volumes"] = []
    assert any("a key 'volumes'" in fault for fault in faults(broken)), "a process has none"


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        ("deploy", [], "prefect.yaml has a key 'deploy' that Prefect ignores silently"),
        ("deployments/0/cron", "* * * * *", "'sample-monthly': it has a key 'cron' that Prefect ignores silently"),
        ("deployments/0/work_pool/nmae", "x", "its work_pool has a key 'nmae'"),
        ("deployments/0/work_pool/job_variables/environment", {}, "its job_variables has a key 'environment'"),
        ("deployments/0/work_pool", {}, "it needs a work_pool with a name"),
        ("deployments/0/concurrency_limit/strategy", "ENQUEUE", "its concurrency_limit has a key 'strategy'"),
        ("deployments/0/concurrency_limit/collision_strategy", "WAIT", "its concurrency_limit's collision_strategy"),
        ("deployments/0/concurrency_limit/limit", 2, "two releases of one data set may run at once"),
        ("deployments/0/concurrency_limit", None, "two releases of one data set may run at once"),
        ("deployments/0/schedules/0", {"cron": "0 6 1 * *"}, "a schedule needs a timezone"),
        ("deployments/0/schedules/0/cron", "0 6 1 *", "a schedule's cron: "),
        ("deployments/0/schedules/0/timezone", "America/Gotham", "a schedule's timezone: "),
        ("deployments/0/schedules/0/timezone", "Europe/Vienna",
         "time_zone 'America/New_York' differs from that of its schedule"),
        ("deployments/0/schedules/0/time_zone", "UTC", "a schedule's time_zone: "),
        ("deployments/0/entrypoint", "flows/release/flow.py:releases", "cannot be loaded"),
        ("deployments/0/entrypoint", "flows/nothing.py:release", "cannot be loaded"),
        ("deployments/0/parameters/config/delta", "1e-9",
         "its parameters: config.delta: '1e-9' is not of type 'number'"),
        ("deployments/0/parameters/config/colour", "blue", "its parameters: config"),
        ("deployments/0/parameters/config/output", "release", "output 'release' is the same each time"),
        ("deployments/0/parameters/config/output", "{moon}", "'{moon}' in '{moon}' is not a placeholder"),
        ("deployments/0/parameters/config/release_id", "sample", "release_id 'sample' is the same each time"),
        ("deployments/0/parameters/config/ledger", "postgresql://a:canary-71@b/c", "URL must not be given"),
        ("deployments/1/parameters/ahead", "three", "its parameters: ahead: 'three' is not of type 'integer'"),
        ("deployments/1/parameters", {}, "its parameters: $: 'dataset' is a required property"),
        ("deployments/2/triggers/0/expects", ["x"], "a trigger has a key 'expects' that Prefect ignores silently"),
        ("deployments/2/triggers/0/expect", 3, "a trigger's expect"),
        ("deployments/2/triggers/0/parameters/config/mode", "secret", "a trigger's parameters: config.mode"),
        ("deployments/2/triggers/0/parameters/config/releases", ["{{ event.payload.folder }}"],
         "not fill in templates inside a list"),
        ("deployments/1/name", "sample-monthly", "deployment name 'sample-monthly' is used twice"),
    ],
)  # fmt: skip
def test_what_would_not_do_what_it_says_is_named(broken, path, value, fault):
    place, last = at(broken, path)
    place[last] = value
    found = faults(broken)
    assert any(fault in sentence for sentence in found), found
    assert "canary" not in " ".join(found)


def test_a_number_that_yaml_reads_as_a_text_is_found(tmp_path, repo_root):
    """In YAML, 1e-9 is a string. The file looks correct, but Prefect would refuse it."""
    wrong = (repo_root / "prefect.yaml").read_text("utf-8").replace("1.0e-9", "1e-9", 2)
    path = tmp_path / "prefect.yaml"
    path.write_text(wrong, "utf-8")
    assert any("delta" in fault for fault in faults(read_prefect_yaml(path)))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("deployments: {}", "needs a list"),
        ("[", "not valid YAML at line 2"),
        ("a: 1", "needs a list"),
        (b"\xff\xfe\x00", "not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read_gets_one_sentence(tmp_path, text, sentence):
    path = tmp_path / "prefect.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match=sentence):
        read_prefect_yaml(path)


def test_the_command_prints_the_pools_or_what_is_wrong(repo_root, tmp_path, broken, monkeypatch, capsys):
    def check(*arguments):
        monkeypatch.setattr(sys, "argv", ["equistrata.flows.watch.deployments", *map(str, arguments)])
        code = check_prefect_yaml()
        told = capsys.readouterr()
        return code, told.out, told.err

    assert check(repo_root / "prefect.yaml") == (0, "equistrata\n", "")
    broken["deployments"][0]["cron"] = "0 6 1 * *"
    path = tmp_path / "prefect.yaml"
    path.write_text(yaml.safe_dump(broken), "utf-8")
    code, out, err = check(path)
    assert (code, out) == (2, "")
    assert err.startswith("error: deployment 'sample-monthly': it has a key 'cron'")
    code, out, err = check(tmp_path / "nothing.yaml")
    assert (code, out) == (2, "")
    assert "cannot be read" in err
