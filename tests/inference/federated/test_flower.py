"""Tests of secure sums with Flower: the sums, missing holders, and the values that the server can see.

Tests that need the environment of Flower (`make flower`) are skipped if it is not installed.
"""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import process_memory
import pytest
from holders import SCHEMA_FILE, plan, tables

from equistrata.environments import FLOWER
from equistrata.errors import InputError
from equistrata.inference.federated import _flower_worker as worker
from equistrata.inference.federated import flower as module
from equistrata.inference.federated.aggregation import InProcessAggregator, SumQuestion, TooFewHolders
from equistrata.inference.federated.estimate import federate
from equistrata.inference.federated.flower import FlowerFailed, flower
from equistrata.inference.federated.holder import TableHolder
from equistrata.privacy.noise import SeededNoise

MODULI = (2**46, 2**46, 1000)


@pytest.fixture
def environment(flower_python, monkeypatch):
    """Use the environment of Flower if it is installed, for any working directory."""
    monkeypatch.setenv(FLOWER.variable, flower_python)


def says(numbers, **cases):
    """Return the command of a holder that prints the given numbers.

    For another kind of question, the command runs the Python statement in `cases`.
    """
    body = "import json, os, signal, sys, time; kind = json.load(sys.stdin)['kind']\n"
    for kind, statement in cases.items():
        body += f"if kind == {kind!r}: {statement}\n"
    return [sys.executable, "-I", "-c", body + f"print({json.dumps(list(numbers))!r})"]


DIES = "os.kill(os.getppid(), signal.SIGKILL)"  # the process of the holder in the middle of the protocol


# --- Tests without Flower


def test_limbs_carry_whole_numbers_without_loss():
    rng = np.random.default_rng(0)
    numbers = [0, 1, 2**24 - 1, 2**24, 2**62 - 1, *map(int, rng.integers(0, 2**62, 50))]
    count = worker.limb_count([2**62])
    assert count == 3
    assert [worker.limb_count([bound]) for bound in (2, 2**24, 2**24 + 1, 2**48, 2**48 + 1)] == [1, 1, 2, 2, 3]
    assert worker.joined(worker.limbs(numbers, count)) == numbers
    twice = worker.limbs(numbers, count) + worker.limbs(numbers[::-1], count)
    assert worker.joined(twice) == [a + b for a, b in zip(numbers, numbers[::-1], strict=True)]
    most = (worker.MODULUS_RANGE - 1) // (3 * worker.LIMB)  # including the offset that Flower adds
    assert most >= 2**14


def test_masks_follow_from_all_of_the_seed_and_fill_the_range():
    pytest.importorskip("cryptography")
    first, second = (worker.mask(b"%032d" % seed, 1 << 40, [(1,), (5000, 2)]) for seed in (1, 2))
    assert [a.shape for a in first] == [(1,), (5000, 2)]
    assert not (first[1] == second[1]).any()
    assert all(
        (a == b).all() for a, b in zip(first, worker.mask(b"%032d" % 1, 1 << 40, [(1,), (5000, 2)]), strict=True)
    )
    uniform = first[1].ravel() / 2**40
    assert 0 <= uniform.min() < 0.001 < 0.999 < uniform.max() < 1
    assert uniform.mean() == pytest.approx(0.5, abs=0.015)  # 5 standard errors
    assert len(np.unique(first[1])) == 10_000


@pytest.mark.parametrize(
    ("holders", "settings", "sentence"),
    [
        (2, {}, "at least three holders, not 2"),
        (3, {"missing": 1}, "at most 0 may be missing with Flower's SecAgg.*, not 1"),
        (4, {"missing": 2}, "at most 1 may be missing with Flower's SecAgg.*, not 2"),
        (5, {"missing": 3}, "at most 2 may be missing with Flower's SecAgg.*, not 3"),
        (4, {"missing": -1}, "at most 1 may be missing"),
        (4, {"timeout": 0}, "time-out"),
        (4, {"timeout": float("nan")}, "time-out"),
    ],
)
def test_holders_that_the_protocol_cannot_serve(holders, settings, sentence):
    with pytest.raises(InputError, match=sentence), flower([says([1])] * holders, **settings):
        pass


def test_an_environment_that_is_not_there(monkeypatch, tmp_path):
    monkeypatch.setenv(FLOWER.variable, str(tmp_path / "python"))
    with pytest.raises(InputError, match="run equistrata setup flower"), flower([says([1])] * 3):
        pass
    monkeypatch.setenv(FLOWER.variable, sys.executable)  # an interpreter without Flower
    with pytest.raises(InputError, match="does not have the required version of Flower"), flower([says([1])] * 3):
        pass


# --- Tests with Flower


@pytest.mark.slow
def test_the_worker_s_own_checks(flower_python, repo_root):
    """A holder accepts only the protocol with the given settings, and it removes the masks once if there are enough
    holders.
    """
    done = subprocess.run(
        [flower_python, "-I", "-c", GUARD_CHECKS, str(repo_root / "inference" / "federated")],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["passed", "10", "refused", "14"]


GUARD_CHECKS = """
import sys
sys.path.insert(0, sys.argv[1])
import _flower_worker as worker
from types import SimpleNamespace as Bag
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage

passed = refused = 0

def message(config, kind="train", run=1):
    records = {} if config is None else {RECORD_KEY_CONFIGS: config}
    return Bag(metadata=Bag(message_type=kind, run_id=run), content=Bag(config_records=records))

def lets(check, asked):
    global passed
    assert check(asked, None, lambda message, context: "through") == "through"
    passed += 1

def stops(check, asked):
    global refused
    try:
        check(asked, None, lambda message, context: "through")
    except RuntimeError:
        refused += 1
    else:
        raise AssertionError("let through")

settings = {"holders": 4, "needed": 3}
agreed = {Key.STAGE: Stage.SETUP, Key.SAMPLE_NUMBER: 4, Key.SHARE_NUMBER: 4, Key.THRESHOLD: 3, Key.MAX_WEIGHT: 1.0,
          Key.MOD_RANGE: worker.MODULUS_RANGE, Key.TARGET_RANGE: 2 * worker.LIMB, Key.CLIPPING_RANGE:
          float(worker.LIMB)}
guard = worker.guard(settings)
lets(guard, message(agreed))
lets(guard, message(agreed | {Key.SAMPLE_NUMBER: 3, Key.SHARE_NUMBER: 3, Key.THRESHOLD: 2}))
for key, value in ((Key.SAMPLE_NUMBER, 5), (Key.SAMPLE_NUMBER, 2), (Key.SHARE_NUMBER, 3), (Key.THRESHOLD, 2),
                   (Key.MAX_WEIGHT, 1e-9), (Key.MOD_RANGE, 2), (Key.TARGET_RANGE, 4), (Key.CLIPPING_RANGE, 1.0)):
    stops(guard, message(agreed | {key: value}))
stops(guard, message(None))
stops(guard, message(agreed, kind="evaluate"))
for stage in (Stage.SHARE_KEYS, Stage.COLLECT_MASKED_VECTORS):
    lets(guard, message({Key.STAGE: stage}))

def unmask(present, gone, run=1):
    return message({Key.STAGE: Stage.UNMASK, Key.ACTIVE_NODE_ID_LIST: present, Key.DEAD_NODE_ID_LIST: gone}, run=run)

stops(guard, unmask([1, 2], [3, 4]))
stops(guard, unmask([1, 2, 3], [3, 4]))
lets(guard, unmask([1, 2, 3], [4]))
stops(guard, unmask([1, 2, 4], [3]))  # a second time, as if another had gone
stops(guard, unmask([1, 2, 3, 4], []))
lets(guard, unmask([1, 2, 3, 4], [], run=2))
three = worker.guard({"holders": 3, "needed": 3})
lets(three, message(agreed | {Key.SAMPLE_NUMBER: 3, Key.SHARE_NUMBER: 3, Key.THRESHOLD: 2}))
for members in (4, 5, 6):
    held = worker.guard({"holders": 6, "needed": 4})
    lets(held, message(agreed | {Key.SAMPLE_NUMBER: members, Key.SHARE_NUMBER: members, Key.THRESHOLD: min(4, members -
    1)}))
print("passed", passed, "refused", refused)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("environment")
def test_the_sums_are_those_of_the_in_process_aggregator_with_one_of_four_dropping_out():
    """The sums must be equal to the sums of the aggregator in this process.

    The process of the third holder is killed during the second question.
    """
    agreed = plan(holders=4, missing=1, largest_share=0.3)
    members = [TableHolder(agreed, frame, SeededNoise(i)) for i, frame in enumerate(tables(4, 2000))]
    simulated = InProcessAggregator(members, needed=3)
    sizes = simulated.total(agreed.sizes())
    question = agreed.sums(sizes.sums.tolist())
    expected = InProcessAggregator(members, needed=3, dropped=frozenset({2})).total(question)
    commands = []
    for place, member in enumerate(members):
        counted, added = (member.answer(asked).tolist() for asked in (agreed.sizes(), question))
        cases = {"sizes": f"print({counted}); sys.exit()"} | ({"sums": DIES} if place == 2 else {})
        commands.append(says(added, **cases))

    with flower(commands, missing=1, timeout=30) as running:
        assert not running.simulated
        assert running.name.startswith("Flower 1.")
        counted = running.total(agreed.sizes())
        assert (counted.holders, counted.sums.tolist()) == (4, sizes.sums.tolist())
        added = running.total(question)
    assert added.holders == expected.holders == 3
    assert added.sums.tolist() == expected.sums.tolist()
    assert added.sums.tolist() != simulated.total(question).sums.tolist()


ANSWER = """
import json, sys
from pathlib import Path
from equistrata.inference.federated.protocol import FederatedPlan
from equistrata.inference.federated.aggregation import SumQuestion
from equistrata.inference.federated.holder import TableHolder
from equistrata.privacy.noise import SeededNoise
folder, place = Path({folder!r}), {place}
asked = json.load(sys.stdin)
agreed = FederatedPlan.from_dict(json.loads((folder / "plan.json").read_text()))
holder = TableHolder(agreed, folder / f"{{place}}.csv", SeededNoise(place), folder / f"state-{{place}}")
question = SumQuestion(asked["kind"], tuple(asked["moduli"]), asked["settings"])
print(json.dumps(holder.answer(question).tolist()))
"""


@pytest.mark.slow
@pytest.mark.usefixtures("environment")
def test_a_whole_estimate_on_flower_is_the_simulated_one(tmp_path):
    frames, agreed = tables(3, 500), plan()
    (tmp_path / "visits.yaml").write_text(SCHEMA_FILE)
    (tmp_path / "plan.json").write_text(json.dumps(agreed.to_dict(str(tmp_path / "visits.yaml"))))
    for place, frame in enumerate(frames):
        frame.to_csv(tmp_path / f"{place}.csv", index=False)
    members = [TableHolder(agreed, tmp_path / f"{place}.csv", SeededNoise(place)) for place in range(3)]
    commands = [[sys.executable, "-c", ANSWER.format(folder=str(tmp_path), place=place)] for place in range(3)]
    with flower(commands, timeout=200) as running:
        found = federate(agreed, running)
    expected = federate(agreed, InProcessAggregator(members))
    assert found.strata == expected.strata
    assert found.overall == expected.overall
    assert (found.simulated, expected.simulated) == (False, True)


def vectors():
    """Return the numbers of four holders, with shape (4, 3). The limbs and digits of the numbers are unique."""
    rng = np.random.default_rng(20261121)
    large = rng.integers(2**40, 2**44, (4, 2))
    return np.concatenate([large, rng.integers(0, 200, (4, 1))], axis=1).tolist()


def look(commands, folder, timeout=8):
    """Run a question and search the memory of the server at the same time.

    Return the total, the places of the vectors that were found, and the sums.
    """
    expected = {place: process_memory.traces(vector[:2]) for place, vector in enumerate(vectors())}
    seen, stop = set(), threading.Event()
    with flower(commands, missing=1, timeout=timeout, folder=folder) as running:
        process_memory.readable_or_skip(running._server.pid)
        everything = [shape for shapes in expected.values() for shape in shapes]

        def watch():
            while not stop.is_set():
                seen.update(process_memory.found(running._server.pid, everything))
                stop.wait(0.5)

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            total = running.total(SumQuestion("canaries", MODULI))
        finally:
            stop.set()
            watcher.join()
        seen |= process_memory.found(running._server.pid, everything)
        sums = process_memory.found(running._server.pid, process_memory.traces(total.sums[:2].tolist()))
    log = (folder / "server" / "log").read_bytes()
    assert b"Secure aggregation completed" in log
    shown = {place for place, shapes in expected.items() if any(shape in seen or shape in log for shape in shapes)}
    return total, shown, sums


@pytest.mark.slow
@pytest.mark.usefixtures("environment")
def test_no_holder_s_number_is_in_the_server_s_memory_or_log(tmp_path):
    """The memory and the log are searched at all times, and one of the four holders is killed. The search must find the
    sum.
    """
    commands = [says(vector) for vector in vectors()]
    commands[1] = says(vectors()[1], canaries=DIES)
    total, shown, sums = look(commands, tmp_path / "run")
    stayed = [vector for place, vector in enumerate(vectors()) if place != 1]
    assert total.sums.tolist() == [sum(column) % m for column, m in zip(zip(*stayed, strict=True), MODULI, strict=True)]
    assert total.holders == 3
    assert sums  # the search finds the sum
    assert shown == set()


@pytest.mark.slow
@pytest.mark.usefixtures("environment")
def test_without_masks_the_same_search_finds_every_holder_s_number(tmp_path, monkeypatch):
    """The test above must fail if all masks are zero, which does not change the sums.

    The last holder is slow, so that a slow search can find the vectors of the other holders.
    """
    source = Path(worker.__file__).read_text("utf-8")
    broken = source.replace("words & np.uint64(num_range - 1)", "words & np.uint64(0)")
    assert broken != source
    (tmp_path / "worker.py").write_text(broken, "utf-8")
    monkeypatch.setattr(module, "FLOWER_WORKER", tmp_path / "worker.py")
    commands = [*map(says, vectors()[:3]), says(vectors()[3], canaries="time.sleep(15)")]
    total, shown, _ = look(commands, tmp_path / "run", timeout=40)
    assert total.sums.tolist() == [
        sum(column) % m for column, m in zip(zip(*vectors(), strict=True), MODULI, strict=True)
    ]
    assert shown >= {0, 1, 2}


@pytest.mark.slow
@pytest.mark.usefixtures("environment")
def test_numbers_wrap_at_their_own_modulus_and_each_kind_is_asked_once():
    numbers = [[9, 2**62 - 1], [8, 2**62 - 2], [7, 3]]
    with flower([says(vector) for vector in numbers], timeout=20) as running:
        total = running.total(SumQuestion("first", (10, 2**62)))
        assert total.sums.tolist() == [4, (2**63) % 2**62]
        assert running.total(SumQuestion("second", (10, 2**62))).sums.tolist() == total.sums.tolist()
        with pytest.raises(TooFewHolders):  # if a holder is missing, a second sum would show its numbers
            running.total(SumQuestion("first", (10, 2**62)))


@pytest.mark.slow
@pytest.mark.usefixtures("environment")
def test_too_many_drop_outs_give_no_sum():
    gone = says([3], sums=DIES)
    with flower([says([1]), says([2]), gone, gone], missing=1, timeout=5) as running:
        assert running.total(SumQuestion("sizes", (10,))).sums.tolist() == [9]
        with pytest.raises(TooFewHolders, match="3 are needed"):
            running.total(SumQuestion("sums", (10,)))


@pytest.mark.slow
@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("answer", ["[1, 2]", "[10]", "[-1]", "[0.5]", "[true]", "nothing", "7"])
def test_an_answer_that_does_not_fit_is_a_drop_out(answer):
    odd = says([1], q=f"print({answer!r}); sys.exit()")
    with flower([says([1]), says([2]), says([3]), odd], missing=1, timeout=20) as running:
        total = running.total(SumQuestion("q", (10,)))
    assert (total.sums.tolist(), total.holders) == ([6], 3)


@pytest.mark.slow
@pytest.mark.usefixtures("environment")
def test_a_holder_s_refusal_reaches_its_user_and_not_the_server(tmp_path):
    refuses = says([1], q="sys.exit(sys.stderr.write('this canary refuses') and 2)")
    with (
        flower([says([1]), says([2]), refuses], timeout=20, folder=tmp_path) as running,
        pytest.raises(InputError, match="this canary refuses"),
    ):
        running.total(SumQuestion("q", (10,)))
    assert b"canary" not in (tmp_path / "server" / "log").read_bytes()


@pytest.mark.slow
@pytest.mark.usefixtures("environment")
def test_the_processes_end_with_the_block_and_the_folder_goes(monkeypatch):
    made = []
    real = module.tempfile.mkdtemp
    monkeypatch.setattr(module.tempfile, "mkdtemp", lambda **given: made.append(real(**given)) or made[-1])
    with flower([says([1])] * 3, timeout=20) as running:
        assert os.stat(made[0]).st_mode & 0o777 == 0o700
        server = running._server
        server.kill()
        server.wait()
        with pytest.raises(FlowerFailed, match="ended early"):
            running.total(SumQuestion("q", (10,)))
    assert not Path(made[0]).exists()
    assert server.poll() is not None


# --- Unknown clients

OUTSIDER = """
import json, sys, time
from pathlib import Path
from types import SimpleNamespace
from flwr.client import ClientApp, app
from flwr.common.secure_aggregation.crypto.symmetric_encryption import bytes_to_private_key, generate_key_pairs
settings = json.loads(Path(sys.argv[1]).read_text())
secure, own = sys.argv[2] != "plain", generate_key_pairs()
app.start_client_internal(server_address=settings["address"], node_config={}, load_client_app_fn=lambda *_: ClientApp(),
    insecure=not secure, root_certificates=Path(settings["certificate"]).read_bytes() if secure else None,
    authentication_keys=own, transport="grpc-rere", max_wait_time=3, flwr_path=Path(sys.argv[1]).parent)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("environment")
def test_outsiders_that_come_first_take_no_holder_s_place_and_block_nothing(tmp_path, flower_python, monkeypatch):
    """If a client has no TLS or has its own key, it must be refused before a holder is connected and also later.

    They must not change the sums of the holders.
    """
    settings, said, start = tmp_path / "server" / "settings.json", [], module._start

    def outsider(kind):
        command = [flower_python, "-I", "-c", OUTSIDER, str(settings), kind]
        said.append(subprocess.run(command, capture_output=True, text=True, timeout=60).stderr)

    def held_back(python, role, folder, given):
        if folder.name == "holder-0":
            outsider("plain")
            outsider("own key")
        return start(python, role, folder, given)

    monkeypatch.setattr(module, "_start", held_back)
    with flower([says([number]) for number in (1, 2, 3)], timeout=20, folder=tmp_path) as running:
        assert running.total(SumQuestion("first", (100,))).sums.tolist() == [6]
        outsider("own key")
        total = running.total(SumQuestion("second", (100,)))
        assert (total.sums.tolist(), total.holders) == ([6], 3)
    assert ["Public key not recognized" in each for each in said] == [False, True, True]
    assert "Giving up reconnection" in said[0]
    created = (tmp_path / "server" / "log").read_text().count("Created node_id")
    assert created == 3


@pytest.mark.slow
@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("missing", [0, 1])
def test_a_holder_with_a_wrong_key_counts_as_one_that_never_comes(tmp_path, monkeypatch, missing):
    """The holder is refused. If one holder may be missing, the run continues, and otherwise the
    error names the holder.
    """
    start = module._start

    def swapped(python, role, folder, given):
        if folder.name == "holder-2":
            (folder / "key.pem").unlink()
            module._make_keys(python, "holder", folder)
        return start(python, role, folder, given)

    monkeypatch.setattr(module, "_start", swapped)
    monkeypatch.setattr(module, "STARTING", 20)
    with flower([says([1])] * 4, missing=missing, timeout=5, folder=tmp_path) as running:
        if missing:
            total = running.total(SumQuestion("q", (10,)))
            assert (total.sums.tolist(), total.holders) == ([3], 3)
        else:
            with pytest.raises(
                TooFewHolders, match=r"only 3 .*holder 3 did not connect within 20 seconds.*4 are needed"
            ):
                running.total(SumQuestion("q", (10,)))
    assert "does not know this holder's key" in (tmp_path / "holder-2" / "log").read_text()


@pytest.mark.slow
def test_a_node_acts_for_itself_alone(flower_python, repo_root, tmp_path):
    """The test uses the client of Flower. There is no key, or the key is different, or the number or the message is
    from another node. The client is also used as a second node and to leave.
    """
    folder = repo_root / "inference" / "federated"
    for arguments in (["server", "127.0.0.1", tmp_path / "s"], ["holder", tmp_path / "a", tmp_path / "b"]):
        subprocess.run([flower_python, "-I", str(folder / "_flower_keys.py"), *map(str, arguments)], check=True)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.glob("*/key.pem")} == {0o600}
    again = [flower_python, "-I", str(folder / "_flower_keys.py"), "holder", str(tmp_path / "a")]
    assert subprocess.run(again, capture_output=True).returncode != 0  # an existing key is not replaced
    command = [flower_python, "-I", "-c", NODES, str(folder), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["refused", "9"]


NODES = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import _flower_worker as worker
import socket, grpc
from flwr.client.grpc_rere_client.client_interceptor import AuthenticateClientInterceptor
from flwr.common.secure_aggregation.crypto.symmetric_encryption import bytes_to_private_key, generate_key_pairs
from flwr.proto.fleet_pb2 import *
from flwr.proto.fleet_pb2_grpc import FleetStub
from flwr.proto.message_pb2 import Message, Metadata
from flwr.proto.node_pb2 import Node
from flwr.server.superlink.linkstate.linkstate_factory import LinkStateFactory

root, refused = Path(sys.argv[2]), 0
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    address = f"127.0.0.1:{free.getsockname()[1]}"
factory = LinkStateFactory(":flwr-in-memory-state:")
settings = {"address": address, "folder": str(root), "key": str(root / "s/key.pem"),
            "certificate": str(root / "s/certificate.pem")}
public_keys = [(root / name / "public.pem").read_bytes() for name in "ab"]
server = worker.start_tls_server(settings, factory, public_keys)

def stub(keys=None, certificate="certificate.pem"):
    secure = grpc.secure_channel(address, grpc.ssl_channel_credentials((root / "s" / certificate).read_bytes()))
    return FleetStub(secure if keys is None else grpc.intercept_channel(secure, AuthenticateClientInterceptor(*keys)))

def keys(name):
    key = bytes_to_private_key((root / name / "key.pem").read_bytes())
    return key, key.public_key()

def no(call, request, code=grpc.StatusCode.UNAUTHENTICATED):
    global refused
    try:
        call(request, timeout=10)
    except grpc.RpcError as error:
        assert error.code() == code, error
        refused += 1
    else:
        raise AssertionError("let in")

no(stub().CreateNode, CreateNodeRequest(ping_interval=30))
no(stub(generate_key_pairs()).CreateNode, CreateNodeRequest(ping_interval=30))
no(stub((generate_key_pairs()[0], keys("a")[1])).CreateNode, CreateNodeRequest(ping_interval=30))  # a's name, no key
a, b = stub(keys("a")), stub(keys("b"))
no(a.PullMessages, PullMessagesRequest(node=Node(node_id=1)))  # before it came
one, two = (each.CreateNode(CreateNodeRequest(ping_interval=30)).node.node_id for each in (a, b))
assert worker.wait_for(factory.state(), public_keys, 5) == (sorted([one, two]), [])
no(a.CreateNode, CreateNodeRequest(ping_interval=30))  # a second place
no(a.PullMessages, PullMessagesRequest(node=Node(node_id=two)))
forged = Message(metadata=Metadata(src_node_id=two, dst_node_id=1, run_id=1, reply_to_message_id="x"))
no(a.PushMessages, PushMessagesRequest(node=Node(node_id=one), messages_list=[forged]))
no(b.DeleteNode, DeleteNodeRequest(node=Node(node_id=two)))
b.PullMessages(PullMessagesRequest(node=Node(node_id=two)))
plain = FleetStub(grpc.insecure_channel(address))
no(plain.CreateNode, CreateNodeRequest(ping_interval=30), grpc.StatusCode.UNAVAILABLE)
assert factory.state().node_ids.keys() == {one, two}
server.stop(0)
print("refused", refused)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("environment")
def test_a_holder_s_command_ends_with_the_run_even_if_its_holder_was_killed(tmp_path):
    for_ever = "open(os.environ['PIDS'] + sys.argv[1], 'w').write(str(os.getpid())); {}; time.sleep(600)"
    pids = tmp_path / "pids-"
    commands = [says([1]), says([1])]
    for name, more in (("lives", "0"), ("orphan", DIES)):
        (program,) = says([1], q=for_ever.format(more).replace("os.environ['PIDS']", repr(str(pids))))[3:]
        commands.append([sys.executable, "-I", "-c", program, name])
    with flower(commands, missing=1, timeout=4) as running, pytest.raises(TooFewHolders):
        running.total(SumQuestion("q", (10,)))
    numbers = [int(path.read_text()) for path in tmp_path.glob("pids-*")]
    assert len(numbers) == 2
    for number in numbers:
        deadline = time.monotonic() + 5
        while Path(f"/proc/{number}").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not Path(f"/proc/{number}").exists()


PARENT = """
import sys
from equistrata.inference.federated.aggregation import SumQuestion
from equistrata.inference.federated.flower import flower
waits = "import os, sys, time; open(sys.argv[1] + str(os.getpid()), 'w'); time.sleep(600)"
with flower([[sys.executable, "-I", "-c", waits, sys.argv[1]]] * 3, timeout=60) as running:
    running.total(SumQuestion("q", (10,)))
"""


@pytest.mark.slow
@pytest.mark.usefixtures("environment")
def test_commands_end_when_the_run_itself_is_killed(tmp_path):
    """Since the run is killed with kill -9, it cannot end the processes that it has started."""
    run = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path / "pid-")])
    deadline = time.monotonic() + 120
    while len(list(tmp_path.glob("pid-*"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.1)
    run.kill()
    run.wait()
    numbers = [path.name.removeprefix("pid-") for path in tmp_path.glob("pid-*")]
    assert len(numbers) == 3
    while any(Path(f"/proc/{number}").exists() for number in numbers):
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.parametrize("role", ["server", "holder"])
def test_neither_server_nor_holder_starts_without_keys(flower_python, tmp_path, role):
    (tmp_path / "settings.json").write_text(json.dumps({"address": "0.0.0.0:0", "folder": str(tmp_path)}))
    done = subprocess.run(
        [flower_python, "-I", worker.__file__, role, str(tmp_path / "settings.json")], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "make them with _flower_keys.py" in done.stderr
