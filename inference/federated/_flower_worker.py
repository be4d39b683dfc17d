"""Secure sums on Flower: `python -I _flower_worker.py server|holder SETTINGS`, or `--check`.

This program runs in the environment of Flower, so it imports only the standard library, NumPy and Flower (flwr). Flower
provides the transport (its Fleet API, over gRPC with TLS), the authentication of the nodes and the protocol (its
SecAgg+ workflow and client mod). The additions to Flower are described in docs/federated.md. The vectors contain whole
numbers in limbs of 24 bits, which are not changed by the quantization of Flower.

The server reads questions from standard input, with one JSON document per line, and writes answers to standard output.

The keys and certificates are created by `_flower_keys.py`. Without them, neither the server nor a holder starts.
"""

import hashlib
import importlib
import importlib.metadata
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np

LIMB_BITS = 24
LIMB = 1 << LIMB_BITS
MODULUS_RANGE = 1 << 40  # the modulus of the masks, which is large enough for the limbs of 2^15 holders
QUESTION = "equistrata.question"
STAGES = 4  # the number of stages of the protocol


def limbs(numbers, count):
    """Return the limbs of whole numbers as floats, with shape (len(numbers), count). The lowest 24 bits are first."""
    shifts = LIMB_BITS * np.arange(count)
    return ((np.asarray(numbers, dtype=np.int64)[:, None] >> shifts) & (LIMB - 1)).astype(np.float64)


def joined(sums):
    """Return the whole numbers that correspond to sums of limbs, as Python integers."""
    return [sum(int(limb) << (LIMB_BITS * place) for place, limb in enumerate(row)) for row in sums]


def limb_count(moduli):
    """Return the number of limbs of the largest number."""
    return max(1, -(-(max(moduli) - 1).bit_length() // LIMB_BITS))


def mask(seed, num_range, dimensions):
    """Return uniform random numbers below `num_range`, which is a power of two, from a key stream.

    They replace the numbers from the 32-bit generator of Flower.
    """
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    key = hashlib.sha256(b"equistrata mask" + seed).digest()
    stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    arrays = []
    for shape in dimensions:
        size = int(np.prod(shape, dtype=np.int64))
        words = np.frombuffer(stream.update(bytes(8 * size)), dtype="<u8")
        arrays.append((words & np.uint64(num_range - 1)).astype(np.int64).reshape(shape))
    return arrays


def patch_masks():
    """Replace the generator of the masks by `mask`, for the server and for the clients of SecAgg+."""
    for name in (
        "client.mod.secure_aggregation.secaggplus_mod",
        "server.workflow.secure_aggregation.secaggplus_workflow",
    ):
        module = importlib.import_module(f"flwr.{name}")  # the package has a function with the name of the module
        if not hasattr(module, "pseudo_rand_gen"):
            raise SystemExit("this version of Flower is not supported; install the version in flower_requirements.txt")
        module.pseudo_rand_gen = mask


# The server


def serve(settings):
    """Answer the questions from standard input until it ends."""
    from flwr.common import ConfigRecord, Context, RecordDict
    from flwr.common.constant import Status
    from flwr.common.typing import RunStatus
    from flwr.server.grid.inmemory_grid import InMemoryGrid
    from flwr.server.superlink.linkstate.linkstate_factory import LinkStateFactory

    patch_masks()
    factory = LinkStateFactory(":flwr-in-memory-state:")
    state = factory.state()
    keys = [Path(path).read_bytes() for path in settings["public_keys"]]  # in the order of the holders
    fleet = start_tls_server(settings, factory, keys)
    print(json.dumps({"ready": True}), flush=True)
    members = None
    for line in sys.stdin:
        question = json.loads(line)
        run = state.create_run("", "", "", {}, ConfigRecord())
        for status in (Status.STARTING, Status.RUNNING):
            state.update_run_status(run, RunStatus(status, "", ""))
        if members is None:
            members, absent = wait_for(state, keys, settings["starting"])
        if len(members) < max(settings["needed"], 3):
            print(json.dumps({"stayed": len(members), "absent": absent}), flush=True)
            continue
        grid = InMemoryGrid(factory)
        grid.set_run(run)
        context = Context(run, 0, {}, RecordDict(), {})
        total, members = add_up(grid, context, members, question, settings)
        print(json.dumps({"stayed": len(members), "total": total}), flush=True)
        state.update_run_status(run, RunStatus(Status.FINISHED, "completed", ""))
    fleet.stop(grace=1)


def start_tls_server(settings, factory, keys):
    """Start the server of Flower over TLS. Only holders that have one of these public keys can connect."""
    import grpc
    from flwr.proto.fleet_pb2 import DeleteNodeRequest
    from flwr.server.app import _run_fleet_api_grpc_rere
    from flwr.server.superlink.ffs.ffs_factory import FfsFactory
    from flwr.server.superlink.fleet.grpc_rere.server_interceptor import AuthenticateServerInterceptor

    class Bound(AuthenticateServerInterceptor):
        """An interceptor that also checks the node number of each message.

        Flower checks only the key and the node number.
        """

        def _wrap_method_handler(self, method_handler, expected_node_id, node_public_key):
            checked = super()._wrap_method_handler(method_handler, expected_node_id, node_public_key)

            def of_its_own(request, context):
                # A holder that leaves is treated as a drop-out. Otherwise Flower would delete its node number and
                # would then fail to find it.
                messages = getattr(request, "messages_list", ())
                foreign = any(message.metadata.src_node_id != expected_node_id for message in messages)
                if foreign or isinstance(request, DeleteNodeRequest):
                    context.abort(grpc.StatusCode.UNAUTHENTICATED, "the message belongs to another node")
                return checked.unary_unary(request, context)

            return grpc.unary_unary_rpc_method_handler(
                of_its_own, checked.request_deserializer, checked.response_serializer
            )

    if len(set(keys)) < len(keys):
        raise SystemExit("two holders have the same public key; make a key for each with _flower_keys.py")
    factory.state().store_node_public_keys(set(keys))
    certificate = Path(settings["certificate"]).read_bytes()
    credentials = certificate, certificate, Path(settings["key"]).read_bytes()
    files = FfsFactory(settings["folder"])
    return _run_fleet_api_grpc_rere(settings["address"], factory, files, credentials, [Bound(factory)])


def wait_for(state, keys, seconds):
    """Wait until all holders have connected, or until the time is over.

    Return the node numbers of the holders that have connected, and the positions (from 1) of the others.
    """
    end = time.monotonic() + seconds
    while None in (nodes := [state.get_node_id(key) for key in keys]) and time.monotonic() < end:
        time.sleep(0.05)
    return sorted(filter(None, nodes)), [place for place, node in enumerate(nodes, 1) if node is None]


def add_up(grid, context, members, question, settings):
    """Run one round of SecAgg+ and return the sums and the members that stayed.

    The sums are None if too few members stayed to remove the masks.
    """
    from flwr.common import ArrayRecord, ConfigRecord, FitIns, parameters_to_ndarrays
    from flwr.server import LegacyContext
    from flwr.server.compat.grid_client_proxy import GridClientProxy
    from flwr.server.strategy import FedAvg
    from flwr.server.workflow import SecAggPlusWorkflow
    from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD, Key

    class Sum(FedAvg):
        """A strategy that sends the question and keeps the sum.

        The workflow computes the mean, so the sum is the mean times the number of members that stayed.
        """

        found = None

        def configure_fit(self, server_round, parameters, client_manager):
            config = {QUESTION: json.dumps(question)}
            return [(GridClientProxy(node, grid, context.run_id), FitIns(parameters, config)) for node in members]

        def aggregate_fit(self, server_round, results, failures):
            mean = parameters_to_ndarrays(results[0][1].parameters)[0]
            self.found = np.rint(mean * len(results)).astype(np.int64), [proxy.node_id for proxy, _ in results]
            return None, {}

    strategy = Sum()
    legacy = LegacyContext(context, strategy=strategy)
    legacy.state.config_records[MAIN_CONFIGS_RECORD] = ConfigRecord({Key.CURRENT_ROUND: 1})
    legacy.state.array_records[MAIN_PARAMS_RECORD] = ArrayRecord()
    workflow = SecAggPlusWorkflow(
        num_shares=len(members),
        reconstruction_threshold=threshold(len(members), settings["needed"]),
        max_weight=1.0,
        clipping_range=float(LIMB),
        quantization_range=2 * LIMB,  # with this range, quantization adds LIMB to each number and does not round
        modulus_range=MODULUS_RANGE,
        timeout=float(settings["timeout"]),
    )
    workflow(grid, legacy)
    if strategy.found is None:
        return None, []
    sums, stayed = strategy.found
    moduli = question["moduli"]
    totals = joined(sums.reshape(len(moduli), limb_count(moduli)))
    return [total % modulus for total, modulus in zip(totals, moduli, strict=True)], sorted(stayed)


def threshold(members, needed):
    """Return the number of shares that recover a mask.

    It is the number of members that must stay, but Flower requires that it is less than the number of members.
    """
    return min(needed, members - 1)


# A holder


def hold(settings):
    """Answer questions until the server or this process ends, or until there was no question for too long."""
    from flwr.client import ClientApp, NumPyClient
    from flwr.client import app as client_module
    from flwr.client.mod import secaggplus_mod
    from flwr.common.secure_aggregation.crypto.symmetric_encryption import bytes_to_private_key

    patch_masks()
    key = bytes_to_private_key(Path(settings["key"]).read_bytes())
    asked = watch(settings["starting"] + STAGES * settings["timeout"])
    answered = set()

    class Holder(NumPyClient):
        def fit(self, parameters, config):
            asked()
            question = json.loads(config[QUESTION])
            if question["kind"] in answered:
                raise RuntimeError("this holder has already answered a question of this kind")
            answered.add(question["kind"])
            numbers = answer(settings, config[QUESTION], question["moduli"])
            # One row of limbs for each number. The number of examples is 1 for every holder, so it reveals nothing.
            return [limbs(numbers, limb_count(question["moduli"]))], 1, {}

    client_app = ClientApp(client_fn=lambda context: Holder().to_client(), mods=[guard(settings), secaggplus_mod])

    def refuse(*arguments):
        raise RuntimeError("the server sent code, but a holder does not run the code of the server")

    client_module.install_from_fab = refuse
    # By default, the client of Flower asks for messages every three seconds.
    client_module.time = SimpleNamespace(**vars(time) | {"sleep": lambda seconds: time.sleep(min(seconds, 0.1))})
    client_module.start_client_internal(
        server_address=settings["address"],
        node_config={},
        load_client_app_fn=lambda *names: client_app,
        root_certificates=Path(settings["certificate"]).read_bytes(),
        insecure=False,
        authentication_keys=(key, key.public_key()),
        transport="grpc-rere",
        max_wait_time=float(settings["starting"]),
        flwr_path=Path(settings["folder"]),
    )
    raise SystemExit("the server cannot be reached, has ended or does not know this holder's key; see the log above")


def answer(settings, question, moduli):
    """Return the numbers of the holder, which are computed by its command.

    If the command refuses, its message remains in the folder of the holder, because an error would be sent to the
    server.
    """
    limit = settings["timeout"]
    try:
        done = subprocess.run(
            settings["command"], input=question, capture_output=True, text=True, check=False, timeout=limit
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"the holder's command did not answer within {limit:g} seconds") from None
    sys.stderr.write(done.stderr)
    if done.returncode == 2:
        (Path(settings["folder"]) / "refusal.txt").write_text(done.stderr, "utf-8")
    try:
        numbers = json.loads(done.stdout) if done.returncode == 0 else []
    except ValueError:
        numbers = []
    fits = len(numbers) == len(moduli) and all(
        type(number) is int and 0 <= number < modulus for number, modulus in zip(numbers, moduli, strict=False)
    )
    if not fits:
        raise RuntimeError("the holder's command failed, or its answer is not valid")
    return numbers


def guard(settings):
    """Return a client mod that accepts only messages of the protocol, with the settings that were agreed on."""
    from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage

    holders, needed = settings["holders"], settings["needed"]
    unmasked = set()

    def check(message, context, call_next):
        if message.metadata.message_type != "train" or RECORD_KEY_CONFIGS not in message.content.config_records:
            raise RuntimeError("the server sent a message that is not part of a secure sum")
        config = message.content.config_records[RECORD_KEY_CONFIGS]
        stage = config[Key.STAGE]
        if stage == Stage.SETUP:
            members = config[Key.SAMPLE_NUMBER]
            agreed = (
                max(needed, 3) <= members <= holders
                and config[Key.SHARE_NUMBER] == members
                and config[Key.THRESHOLD] == threshold(members, needed)
                and config[Key.MOD_RANGE] == MODULUS_RANGE
                and config[Key.TARGET_RANGE] == 2 * LIMB
                and config[Key.CLIPPING_RANGE] == float(LIMB)
                and config[Key.MAX_WEIGHT] == 1.0
            )
            if not agreed:
                raise RuntimeError("the server's settings of the protocol are not the ones that the holders agreed on")
        if stage == Stage.UNMASK:
            present, gone = set(config[Key.ACTIVE_NODE_ID_LIST]), set(config[Key.DEAD_NODE_ID_LIST])
            run = message.metadata.run_id
            if len(present) < needed or present & gone or run in unmasked:
                raise RuntimeError("the server asks to remove masks in a way that the holders did not agree on")
            unmasked.add(run)
        return call_next(message, context)

    return check


def watch(seconds):
    """End this process and its commands if the parent process ends or if there is no question for too long.

    The parent holds standard input, so the end of standard input shows that the parent has ended. Return the function
    that must be called for every question.
    """
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)
    end = [time.monotonic() + seconds]

    def watch_both():
        while time.monotonic() < end[0]:
            if select.select([sys.stdin.buffer], [], [], 1)[0] and not os.read(sys.stdin.fileno(), 4096):
                break
        os.killpg(0, signal.SIGKILL)

    def asked():
        end[0] = time.monotonic() + seconds

    threading.Thread(target=watch_both, daemon=True).start()
    return asked


def check_version():
    """Print the version of Flower if everything that is used exists."""
    patch_masks()
    from flwr.server.app import _run_fleet_api_grpc_rere  # noqa: F401

    assert len(mask(b"seed", 1 << 40, [(2, 3)])[0]) == 2
    print(importlib.metadata.version("flwr"))


if __name__ == "__main__":
    os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
    if sys.argv[1] == "--check":
        check_version()
    else:
        chosen = json.loads(Path(sys.argv[2]).read_text("utf-8"))
        needed = ["key", "certificate"] + ["public_keys"] * (sys.argv[1] == "server")
        if not all(chosen.get(name) for name in needed):
            raise SystemExit(f"the settings need {', '.join(needed)}; make them with _flower_keys.py")
        os.environ["FLWR_HOME"] = chosen["folder"]
        if sys.argv[1] == "server":
            serve(chosen)
        else:
            hold(chosen)
