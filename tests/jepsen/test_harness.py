"""The parts of the harness that need no nodes: schedule, operations, recording, verdicts."""

import json
from itertools import pairwise
from random import Random

import pytest

from cli.jepsen_run import _parse as parsed
from cli.main import main
from jepsen import cluster
from jepsen.cluster import Cluster, ClusterError
from jepsen.generator import (
    ACTIVE_KEYS,
    OPERATIONS_PER_KEY,
    Ask,
    Rotation,
    client_rng,
    register_draw,
    think_time_s,
    topic_set_draw,
)
from jepsen.history import JSONL_FILE, MSGPACK_FILE, NEMESIS_FILE, Recorder
from jepsen.linearizability import read_history
from jepsen.names import OF_RECORDS, WORKLOADS
from jepsen.nemesis import ALONE_S_MAX, DOWN_S_MAX, FETCH_TIMEOUT_S, QUIET_S, schedule
from jepsen.report import (
    INVALID,
    PICTURE_FILE,
    UNKNOWN,
    VALID,
    Check,
    composed,
    counts,
    enough_happened,
    linearizable,
    nemesis_bit,
)
from jepsen.run import EXIT_CODES, HarnessError, Options, run
from jepsen.workloads import refused, unanswered, workload_named

BOTH = ("kill", "pause")


# ---- schedule ------------------------------------------------------------------------------------


def test_the_schedule_comes_from_the_seed_alone():
    assert schedule(7, BOTH, 60) == schedule(7, BOTH, 60) != schedule(8, BOTH, 60)
    kills = [fault for fault in schedule(7, BOTH, 60) if fault.kind == "kill"]
    alone = schedule(7, ("kill",), 60)
    assert len(alone) > 3
    assert kills[0].at_s == alone[0].at_s, "each kind has a stream of its own"


@pytest.mark.parametrize("seed", range(20))
def test_faults_fit_into_the_run(seed):
    faults = schedule(seed, BOTH, 60)
    assert faults == sorted(faults, key=lambda fault: fault.at_s)
    assert all(0 < fault.at_s < 60 - QUIET_S and fault.duration_s >= 0 for fault in faults)
    assert {fault.target for fault in faults} <= {"leader", "follower"}
    kills = [fault for fault in faults if fault.kind == "kill"]
    beheadings = [number for number, fault in enumerate(kills) if fault.alone_s]
    assert beheadings == list(range(0, len(kills), 3))
    assert all(fault.alone_s <= ALONE_S_MAX < 1.5 * FETCH_TIMEOUT_S for fault in kills)


def test_a_beheading_needs_both_kinds():
    assert all(fault.alone_s == 0 for fault in schedule(1, ("kill",), 120))
    assert all(fault.alone_s == 0 for fault in schedule(1, ("pause",), 120))
    assert schedule(1, (), 60) == []


def test_coordinators_are_killed_by_a_schedule_of_their_own():
    faults = schedule(3, ("coordinator", "kill"), 120)
    killed = [fault for fault in faults if fault.kind == "coordinator"]
    assert killed == schedule(3, ("coordinator",), 120)
    assert len(killed) > 8
    assert all(0 <= fault.duration_s <= DOWN_S_MAX and not fault.alone_s for fault in killed)
    assert len({fault.duration_s for fault in killed}) > 8


def test_leaders_move_and_are_overtaken_by_schedules_of_their_own():
    faults = schedule(3, ("leader", "overtake"), 120)
    moves = [fault for fault in faults if fault.kind == "leader"]
    assert len(moves) > 8
    assert all(fault.duration_s == 0 and fault.alone_s == 0 for fault in moves)
    overtakings = [fault.at_s for fault in faults if fault.kind == "overtake"]
    assert len(overtakings) > 2
    assert all(after - before >= 20 for before, after in pairwise(overtakings))


@pytest.mark.parametrize(
    ("words", "kinds"),
    [
        (["--workload", "topic-set"], ("kill", "pause")),
        (["--workload", "append-log"], ("kill", "pause", "leader")),
        (["--workload", "txn"], ("kill", "pause", "leader", "coordinator")),
        (["--workload", "group"], ("kill", "pause", "leader", "coordinator")),
        (["--workload", "append-log", "--unclean"], ("overtake",)),
        (["--workload", "append-log", "--nemesis", "leader"], ("leader",)),
        (["--workload", "append-log", "--nemesis", "none"], ()),
    ],
)
def test_the_faults_of_a_workload(words, kinds):
    assert parsed(words).nemesis == kinds


# ---- operations ----------------------------------------------------------------------------------


def test_keys_rotate_and_the_last_ones_stay():
    rotation, rng = Rotation("k", ACTIVE_KEYS + 2), Random(1)
    taken = [rotation.take(rng) for _ in range(ACTIVE_KEYS * OPERATIONS_PER_KEY * 3)]
    assert rotation.used == [f"k-{number}" for number in range(ACTIVE_KEYS + 2)]
    assert set(taken) == set(rotation.used)
    assert taken.count("k-0") == OPERATIONS_PER_KEY
    endless = Rotation("k")
    for _ in range(2000):
        endless.take(rng)
    assert len(endless.used) > ACTIVE_KEYS + 10


def test_topics_are_created_where_absent_and_deleted_where_present():
    ids: dict[str, str] = {}
    draw, rng = topic_set_draw(Rotation("topic"), ids.get), Random(2)
    absent = [draw(rng) for _ in range(300)]
    ids |= {f"topic-{number}": "id" for number in range(100)}
    present = [draw(rng) for _ in range(300)]

    def share(asked, f):
        return sum(ask.f == f for ask in asked) / len(asked)

    assert share(absent, "create") > 3 * share(absent, "delete") > 0
    assert share(present, "delete") > 3 * share(present, "create") > 0
    by_id = [ask.value[1] for ask in present if ask.f == "delete"]
    assert {None, "id"} == set(by_id)
    assert all(ask.value[1] is None for ask in absent)


def test_no_value_is_written_twice():
    draw, rng = register_draw(Rotation("register")), Random(3)
    asked = [draw(rng) for _ in range(500)]
    written = [ask.value for ask in asked if ask.f == "write"]
    assert len(written) == len(set(written)) > 100
    assert {ask.f for ask in asked} == {"read", "write"}
    assert {ask.at_leader for ask in asked if ask.f == "read"} == {True, False}


def test_threads_have_streams_of_their_own():
    assert client_rng(1, 0).random() == client_rng(1, 0).random() != client_rng(1, 1).random()
    pauses = [think_time_s(client_rng(1, n), 50, 8) for n in range(400)]
    assert 0.12 < sum(pauses) / len(pauses) < 0.20, "8 threads at 50 a second: 0.16 s each"


@pytest.mark.parametrize("name", [name for name in WORKLOADS if name not in OF_RECORDS])
def test_every_key_is_read_at_the_end_by_a_read_of_the_model(name):
    workload = workload_named(name, operations=1000)
    asked = workload.draw(Random(1))
    assert asked.key in workload.keys
    assert workload.final_read(asked.key).f in ("exists", "read")


# ---- what answers prove --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "code", "kind"),
    [
        ("create", 36, "fail"),  # TOPIC_ALREADY_EXISTS: not by this request, maybe an old image
        ("delete", 3, "fail"),
        ("delete", 100, "fail"),
        ("create", 38, "fail"),
        ("create", 41, "info"),  # NOT_CONTROLLER: may be in the log
        ("create", 7, "info"),
        ("create", -1, "info"),
        ("exists", 41, "fail"),  # of the barrier: the read was not answered
    ],
)
def test_refusals(f, code, kind):
    assert refused(Ask(f, ["t", None], "t"), code).type == kind


def test_operations_without_a_response():
    create, read = Ask("create", ["t", None], "t"), Ask("read", None, "r")
    assert unanswered(create, is_sent=True, reason="closed").type == "info"
    assert unanswered(create, is_sent=False, reason="refused").type == "fail"
    assert unanswered(read, is_sent=True, reason="timeout").type == "fail"


# ---- recording -----------------------------------------------------------------------------------


def test_every_event_is_in_the_files_before_the_next(tmp_path):
    recorder = Recorder(tmp_path)
    first = recorder.invoke(0, "write", 1, node=2, key="r")
    assert len(read_history(tmp_path / JSONL_FILE).events) == 1
    recorder.fault("kill", {"node": 1})
    second = recorder.invoke(1, "read", None, node=1, key="r")
    recorder.complete(first, "ok", 1)
    recorder.complete(second, "info", None, "timeout")
    for name in (JSONL_FILE, MSGPACK_FILE):
        history = read_history(tmp_path / name)
        assert list(history.events) == recorder.events
        assert [(o.process, o.type, o.key) for o in history.operations] == [
            (0, "ok", "r"),
            (1, "info", "r"),
        ]
    lines = [json.loads(line) for line in (tmp_path / JSONL_FILE).read_text().splitlines()]
    assert [line["index"] for line in lines] == [0, 1, 2, 3, 4]
    assert lines[3]["pair"] == 0
    assert len((tmp_path / NEMESIS_FILE).read_text().splitlines()) == 1
    recorder.close()
    whole = (tmp_path / JSONL_FILE).read_bytes()
    (tmp_path / "torn.jsonl").write_bytes(whole[:-9])
    assert len(read_history(tmp_path / "torn.jsonl").events) == 4


# ---- verdicts ------------------------------------------------------------------------------------


def test_false_beats_unknown_beats_true():
    good, unsure, bad = Check("a", VALID), Check("b", UNKNOWN), Check("c", INVALID)
    assert composed([good]) == VALID
    assert composed([good, unsure]) == UNKNOWN
    assert composed([unsure, bad, good]) == INVALID
    assert [EXIT_CODES[verdict] for verdict in (VALID, INVALID, UNKNOWN)] == [0, 1, 2]


def stale(tmp_path):
    recorder = Recorder(tmp_path)
    for process, f, value, output in ((0, "write", 1, 1), (0, "write", 2, 2), (1, "read", None, 1)):
        recorder.complete(recorder.invoke(process, f, value, key="r-0"), "ok", output)
    recorder.close()
    return recorder.history()


def test_a_stale_read_is_invalid_with_key_and_picture(tmp_path):
    check, details = linearizable(stale(tmp_path), "register", tmp_path)
    assert (check.verdict, details["keys"]) == (INVALID, {"r-0": "illegal"})
    assert "r-0" in check.reason
    assert any("read -> 1" in line for line in details["counterexample"])
    assert "<html" in (tmp_path / PICTURE_FILE).read_text()


def test_counts_and_runs_in_which_nothing_happened(tmp_path):
    recorder = Recorder(tmp_path)
    recorder.complete(recorder.invoke(0, "write", 1), "ok", 1)
    recorder.complete(recorder.invoke(0, "read", None), "fail", None, "timeout")
    recorder.invoke(0, "write", 2)
    recorder.fault("kill", 1)
    recorder.close()
    found = counts(recorder.events)
    assert found == {
        "write": {"ok": 1, "fail": 0, "info": 1},
        "read": {"ok": 0, "fail": 1, "info": 0},
    }
    assert enough_happened(found).reason == "never ok: read"
    assert enough_happened({}).verdict == UNKNOWN
    assert nemesis_bit({"kill": 1, "pause": 0}, BOTH).reason == "no process was affected by: pause"
    assert nemesis_bit({"kill": 1, "pause": 0}, ("kill",)).verdict == VALID


# ---- command line --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--workload", "queue"], "queue"),
        (
            ["--workload", "topic-set", "--nemesis", "kill,flood"],
            "unknown fault 'flood': none, or of kill, pause, leader, overtake, coordinator\n",
        ),
        (
            ["--workload", "topic-set", "--nodes", "0"],
            "argument --nodes: '0' is not a whole number from 1 to 9\n",
        ),
        (
            ["--workload", "topic-set", "--time-limit", "nan"],
            "argument --time-limit: 'nan' is not a number from 1 to 86400\n",
        ),
        (
            ["--workload", "topic-set", "--seed", str(2**63)],
            f"'{2**63}' is not a whole number from 0 to {2**63 - 1}",
        ),
        (["--workload", "topic-set", "--nemesis", "leader"], "'leader' is none of this run"),
        (["--workload", "append-log", "--nemesis", "overtake"], "'overtake' is none of this run"),
        (["--workload", "append-log", "--unclean", "--nemesis", "kill"], "none, or of overtake"),
        (["--workload", "append-log", "--unclean", "--nodes", "2"], "needs at least 3 nodes"),
        (["--workload", "append-log", "--reads", "local"], "--reads local is none of append-log"),
        (["--workload", "topic-set", "--reads", "uncommitted"], "is none of topic-set"),
        (["--workload", "txn", "--reads", "linearizable"], "is none of txn"),
        (["--workload", "txn", "--early-commits"], "--early-commits is about group"),
        (["--workload", "group", "--reads", "uncommitted"], "is none of group"),
        (["--workload", "append-log", "--nemesis", "coordinator"], "'coordinator' is none"),
        (["--workload", "topic-set", "--unclean"], "--unclean is about append-log"),
        (["--workload", "topic-set", "--no-idempotence"], "--no-idempotence is about append-log"),
        ([], "--workload"),
    ],
)
def test_a_wrong_command_line_is_254(words, message, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["jepsen", "run", *words])
    assert ended.value.code == 254
    said = capsys.readouterr().err
    assert message in said
    assert said.startswith("kraftline jepsen run: ")
    assert said.count("\n") == 1


def test_a_folder_with_something_in_it_is_refused(tmp_path, capsys):
    (tmp_path / "old").write_text("x")
    words = ["--workload", "topic-set", "--dir", str(tmp_path)]
    assert main(["jepsen", "run", *words]) == 255
    assert "is not empty" in capsys.readouterr().err
    options = Options(
        workload="topic-set", nemesis=(), nodes=1, time_limit_s=1, seed=0, rate=1, concurrency=1,
        folder=tmp_path,
    )  # fmt: skip
    with pytest.raises(HarnessError, match="is not empty"):
        run(options, print)
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


async def test_nodes_are_not_started_without_the_script(monkeypatch, tmp_path):
    """The wheel has none."""
    monkeypatch.setattr(cluster, "SCRIPT", tmp_path / "quorum")
    with pytest.raises(ClusterError, match="which the source tree has"):
        await Cluster(tmp_path, 1, 11_000).start()
