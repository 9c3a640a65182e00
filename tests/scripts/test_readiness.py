"""Waiting for nodes: as long as they make progress, with a line now and then, and no longer."""

import itertools
import socket
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from scripts.launcher import kafka_client, processes, readiness, report
from scripts.launcher.kafka_client import ClusterView, QuorumView
from scripts.launcher.layout import Cluster
from scripts.launcher.readiness import (
    LINE_SECONDS,
    LOAD_SECONDS_MAX,
    PATIENCE_SECONDS,
    WORK_SECONDS,
    Watch,
)
from scripts.launcher.refusal import RefusalError

CLUSTER = Cluster(Path("/q"), "Z29sZGVuLXNoYXJlZC0wMQ", 3, None, 9092)
BEGIN = 100.0
OVER = BEGIN + PATIENCE_SECONDS
EARLIER = BEGIN + 10


def is_over(watch, now):
    """True if the wait is given up for want of progress."""
    refusal = watch.refusal(now, [1], {})
    assert refusal in (
        None,
        "not ready, and no progress for 60 s, waiting for 1; see quorum logs NODE",
    )
    return refusal is not None


def test_a_node_without_progress_is_given_up_after_a_while():
    watch = Watch(BEGIN)
    watch.look(EARLIER, [1], {1: WORK_SECONDS - 0.01})
    assert not is_over(watch, OVER)
    assert is_over(watch, OVER + 0.01)


def test_processor_time_of_a_node_that_loads_is_progress_each_time():
    watch = Watch(BEGIN)
    for count in range(1, 5):
        now = BEGIN + count * PATIENCE_SECONDS
        watch.look(now, [1], {1: count * WORK_SECONDS})
        assert not is_over(watch, now + PATIENCE_SECONDS)
    watch.look(now + 10, [1], {1: 4 * WORK_SECONDS + WORK_SECONDS - 0.01})
    assert is_over(watch, now + PATIENCE_SECONDS + 0.01), "its whole time counts once"


def test_each_node_that_loads_counts_for_itself():
    watch = Watch(BEGIN)
    watch.look(BEGIN, [1, 2], {1: 100 * WORK_SECONDS, 2: 0.0})
    watch.look(EARLIER, [1, 2], {1: 100 * WORK_SECONDS, 2: WORK_SECONDS})
    assert not is_over(watch, EARLIER + PATIENCE_SECONDS)
    assert is_over(watch, EARLIER + PATIENCE_SECONDS + 0.01)


def test_progress_is_looked_at_twice_a_second():
    watch = Watch(BEGIN)
    assert not watch.is_look_due(BEGIN + 0.49)
    assert watch.is_look_due(BEGIN + 0.5)
    watch.look(BEGIN + 0.75, [1], {})
    assert not watch.is_look_due(BEGIN + 1.24)
    assert watch.is_look_due(BEGIN + 1.25)


def test_a_further_node_that_serves_is_progress():
    watch = Watch(BEGIN)
    watch.look(BEGIN, [1, 2, 3], {})
    watch.look(EARLIER, [1, 3], {})
    assert not is_over(watch, EARLIER + PATIENCE_SECONDS)
    watch.look(EARLIER + 20, [1, 3], {})
    assert is_over(watch, EARLIER + PATIENCE_SECONDS + 0.01)


def test_a_node_that_has_answered_does_not_load():
    """Nor when it is too busy to answer again: elections without end are no progress."""
    watch = Watch(BEGIN)
    watch.look(BEGIN, [1, 2], {2: 0.0})
    watch.look(EARLIER, [1, 2], {1: 1000.0, 2: 0.0})
    assert is_over(watch, OVER + 0.01)


def test_a_line_says_what_is_waited_for():
    watch = Watch(BEGIN)
    assert watch.line(BEGIN + LINE_SECONDS - 0.01, [1], {1: 0.0}) is None
    watch.look(BEGIN, [1, 3], {3: 4.4})
    assert watch.line(BEGIN + LINE_SECONDS, [1, 3], {3: 4.4}) == (
        "after 5 s: node 1 has answered and does not serve yet, "
        "node 3 loads (4 s of processor time)"
    )
    assert watch.line(BEGIN + LINE_SECONDS + 1, [1], {}) is None
    assert watch.line(BEGIN + 3 * LINE_SECONDS, [1, 3], {1: 7.0, 3: 9.6}) == (
        "after 15 s: node 1 has answered and does not serve yet, "
        "node 3 loads (10 s of processor time)"
    )


def test_a_node_that_works_and_never_answers_is_given_up():
    watch = Watch(BEGIN)
    end = BEGIN + LOAD_SECONDS_MAX
    for now in (BEGIN, end - 100, end - 50, end):
        waiting, silent = [1, 2, 3, 4], {1: now, 2: now, 3: now}
        watch.look(now, waiting, {1: now, 2: now} if now == BEGIN else silent)
        assert watch.refusal(now, waiting, silent) is None
    assert watch.refusal(end + 0.1, waiting, silent) == (
        "not ready, and no answer for 600 s from 1, 2; see quorum logs NODE"
    )
    assert watch.refusal(end + 0.1, [3, 4], {3: now}) is None, "both have answered before"


COMBINED = Cluster(Path("/q"), CLUSTER.cluster_id, 2, None, 9092)
DEDICATED = Cluster(Path("/q"), CLUSTER.cluster_id, 2, 1, 9092)
ENDS = {1: 0, 2: 7}
BOTH = {1: False, 2: False}


def unready_ids(monkeypatch, cluster, *, views, ends, asleep=(), asked=(1, 2, 101)):
    """Nodes that do not serve, by the answers to DescribeCluster and DescribeQuorum.

    Args:
        monkeypatch: of the test.
        cluster: whose nodes are waited for.
        views: brokers with whether they are fenced, by the node that answers.
        ends: log end offsets of the voters as node 2 says them, None without a leader.
        asleep: nodes whose process is stopped or paused.
        asked: nodes that are waited for, those of them that the cluster has.
    """
    clusters = {
        cluster.node(node_id).kafka: ClusterView(cluster.cluster_id, fenced)
        for node_id, fenced in views.items()
    }
    quorums = {} if ends is None else {cluster.node(2).controller: QuorumView(2, 1, 7, ends, {})}
    monkeypatch.setattr(processes, "is_awake", lambda _, node_id: node_id not in asleep)
    monkeypatch.setattr(readiness, "ask_cluster", clusters.get)
    monkeypatch.setattr(report, "ask_quorum", lambda address, _: quorums.get(address))
    nodes = [node for node in cluster.nodes if node.id in asked]
    return [node.id for node in readiness.unready(cluster, nodes)]


@pytest.mark.parametrize(
    ("views", "expected"),
    [
        ({1: BOTH, 2: BOTH}, []),
        ({1: BOTH}, [2]),  # node 2 does not answer
        ({1: BOTH, 2: {1: False, 2: True}}, [2]),  # fenced
        ({1: BOTH, 2: {1: True, 2: False}}, [2]),  # another one is
        ({1: BOTH, 2: {2: False}}, [2]),  # node 2 has not heard of node 1
        ({1: {}, 2: {}}, [1, 2]),
        ({1: {**BOTH, 3: True}, 2: BOTH}, []),  # node 3 is not waited for
    ],
)
def test_a_broker_serves_when_it_sees_those_asked_for_unfenced(monkeypatch, views, expected):
    assert unready_ids(monkeypatch, COMBINED, views=views, ends=ENDS) == expected


def test_only_the_brokers_asked_for_count(monkeypatch):
    views = {2: {1: True, 2: False}}
    assert unready_ids(monkeypatch, COMBINED, views=views, ends=ENDS, asked=[2]) == []


@pytest.mark.parametrize(
    ("ends", "expected"),
    [(ENDS, []), ({1: -1, 2: 7}, [1]), ({2: 7}, [1])],
)
def test_a_controller_serves_when_the_leader_lists_its_end(monkeypatch, ends, expected):
    """The end of a broker is not asked for, nor a controller for the brokers."""
    views = {101: {101: False}}
    assert unready_ids(monkeypatch, DEDICATED, views=views, ends=ends) == expected


@pytest.mark.parametrize(("ends", "asleep"), [(None, ()), (ENDS, (2,))])
def test_nobody_serves_before_a_controller_names_a_leader(monkeypatch, ends, asleep):
    views = {1: BOTH, 2: BOTH}
    assert unready_ids(monkeypatch, COMBINED, views=views, ends=ends, asleep=asleep) == [1, 2]


@pytest.fixture
def clock(monkeypatch):
    """Two seconds from look to look, and no waiting between them."""
    ticks = itertools.count(BEGIN, 2)
    monkeypatch.setattr(readiness.time, "monotonic", lambda: float(next(ticks)))
    monkeypatch.setattr(readiness.time, "sleep", lambda _: None)


@pytest.fixture
def idle():
    """A process that runs and does nothing."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


@pytest.mark.usefixtures("clock")
def test_a_node_that_loads_for_minutes_is_waited_for(monkeypatch, capsys, idle):
    looks = iter(range(100))
    node = CLUSTER.nodes[1]
    monkeypatch.setattr(
        readiness, "unready", lambda _, waiting: waiting if next(looks) < 90 else []
    )
    monkeypatch.setattr(readiness, "answers", lambda _: False)
    seconds = itertools.count()
    monkeypatch.setattr(processes, "cpu_seconds", lambda _: float(next(seconds)))
    readiness.wait_ready(CLUSTER, [node], {node.id: idle})
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "quorum: after 6 s: node 2 loads (2 s of processor time)"
    assert lines[-1].startswith("quorum: after 180 s: node 2 loads")
    assert len(lines) == 30


@pytest.mark.usefixtures("clock")
def test_a_node_that_spins_before_it_answers_is_given_up(monkeypatch, idle):
    node = CLUSTER.nodes[1]
    monkeypatch.setattr(readiness, "unready", lambda _, waiting: waiting)
    monkeypatch.setattr(readiness, "answers", lambda _: False)
    hours = itertools.count(0, 3600)
    monkeypatch.setattr(processes, "cpu_seconds", lambda _: float(next(hours)))
    with pytest.raises(RefusalError, match=r"no answer for 60[12] s from 2; see quorum logs"):
        readiness.wait_ready(CLUSTER, [node], {node.id: idle})


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("answers", [False, True])
def test_a_node_that_hangs_is_given_up(monkeypatch, idle, answers):
    """A real process that takes no time, or one that answers however much it takes."""
    node = CLUSTER.nodes[1]
    monkeypatch.setattr(readiness, "unready", lambda _, waiting: waiting)
    monkeypatch.setattr(readiness, "answers", lambda _: answers)
    if answers:
        hours = itertools.count(0, 3600)
        monkeypatch.setattr(processes, "cpu_seconds", lambda _: float(next(hours)))
    with pytest.raises(RefusalError, match=r"no progress for 60 s, waiting for 2; see quorum logs"):
        readiness.wait_ready(CLUSTER, [node], {node.id: idle})


def test_processor_time_of_a_process():
    code = "import time\nwhile time.process_time() < 0.2: pass\nprint(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert 0.1 < processes.cpu_seconds(process.pid) < 10
        process.communicate(b"\n")
    assert processes.cpu_seconds(process.pid) == 0


def test_a_node_answers_when_a_response_comes_back():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert not kafka_client.answers(address, 0.01), "it takes the connection and is silent"
        server.accept()[0].close()
        with ThreadPoolExecutor(1) as pool:
            answered = pool.submit(kafka_client.answers, address, 10.0)
            with server.accept()[0] as connection:
                connection.recv(1000)
                connection.sendall(struct.pack(">i", 4) + bytes(4))
            assert answered.result()
    assert not kafka_client.answers(address, 0.01), "nobody listens"
