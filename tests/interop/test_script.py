"""`scripts/quorum` as its users meet it: life cycle, status object, refusals, exit codes."""

import json
import os
import shutil
import signal
import socket
from pathlib import Path

from tests.interop.quorum import Quorum, running, wait_until

STATUS_KEYS = {"cluster_id", "leader_id", "leader_epoch", "high_watermark", "nodes"}
NODE_KEYS = {
    "id", "pid", "alive", "roles", "state", "kafka", "controller", "http", "log_end_offset", "lag",
}  # fmt: skip


def test_life_cycle(tmp_path: Path) -> None:
    with running(tmp_path / "q") as quorum:
        status = quorum.status()
        assert set(status) == STATUS_KEYS
        assert all(set(node) == NODE_KEYS for node in status["nodes"])
        again = quorum.run("up", "--base-port", str(quorum.base_port))
        assert "running" in again.stdout + again.stderr
        assert {n["pid"] for n in quorum.status()["nodes"]} == {n["pid"] for n in status["nodes"]}

        leader = status["leader_id"]
        quorum.run("kill", str(leader))
        degraded = json.loads(quorum.run("status", "--json", expect=3).stdout)
        assert not next(n for n in degraded["nodes"] if n["id"] == leader)["alive"]
        quorum.run("restart", str(leader))
        quorum.wait_healthy()

        quorum.run("down")
        assert quorum.run("status", "--json", expect=3).stdout
        quorum.up()
        assert quorum.wait_healthy()["cluster_id"] == status["cluster_id"]
        quorum.run("down")
        quorum.run("clean", "--yes")
        assert not (tmp_path / "q").exists()


def test_pause_and_resume(tmp_path: Path) -> None:
    with running(tmp_path / "q") as quorum:
        leader = quorum.status()["leader_id"]
        quorum.run("pause", str(leader))
        other = lambda: quorum.status()["leader_id"] not in (None, leader)  # noqa: E731
        wait_until(other, 15, quorum.logs)
        quorum.run("resume", str(leader))
        quorum.wait_healthy()


def test_sigterm_hands_over_and_exits_zero(tmp_path: Path) -> None:
    with running(tmp_path / "q") as quorum:
        leader = quorum.status()["leader_id"]
        pid = quorum.node(leader)["pid"]
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not quorum.node(leader)["alive"], 15, quorum.logs)
        status = quorum.status()
        assert status["leader_id"] not in (None, leader)


def test_port_taken_is_one_line(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path / "q")
    with socket.socket() as squatter:
        squatter.bind(("127.0.0.1", quorum.base_port + 1))
        squatter.listen()
        done = quorum.run("up", "--base-port", str(quorum.base_port), expect=1)
    assert str(quorum.base_port + 1) in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_separate_brokers(tmp_path: Path) -> None:
    with running(tmp_path / "q", "--nodes", "3", "--brokers", "2") as quorum:
        roles = {tuple(node["roles"]) for node in quorum.status()["nodes"]}
        assert roles == {("controller",), ("broker",)}


def test_controllers_alone(tmp_path: Path) -> None:
    with running(tmp_path / "q", "--nodes", "3", "--brokers", "0") as quorum:
        nodes = quorum.wait_healthy()["nodes"]
        assert [(node["roles"], node["kafka"]) for node in nodes] == [(["controller"], "")] * 3
        assert sorted(node["state"] for node in nodes) == ["follower", "follower", "leader"]
        quorum.run("restart", "2")
        quorum.run("up")


def test_nodes_come_and_go(tmp_path: Path) -> None:
    with running(tmp_path / "q") as quorum:
        quorum.run("add-node")
        quorum.run("add-node", "--role", "broker")
        nodes = quorum.wait_healthy()["nodes"]
        assert [node["id"] for node in nodes] == [1, 2, 3, 4, 101]
        assert sum(node["state"] == "follower" for node in nodes) == 3
        leader = quorum.status()["leader_id"]
        quorum.run("remove-node", str(leader))
        quorum.run("kill", "101")
        quorum.run("remove-node", "101")
        refused = quorum.run("remove-node", str(leader), expect=1)
        assert f"there is no node {leader}" in refused.stderr
        quorum.run("down")
        quorum.run("up")
        nodes = quorum.wait_healthy()["nodes"]
        assert [node["id"] for node in nodes] == [n for n in (1, 2, 3, 4) if n != leader]


def test_a_voter_with_a_new_disk_joins_by_itself(tmp_path: Path) -> None:
    joins = ("--set", "controller.quorum.auto.join.enable=true")
    with running(tmp_path / "q", *joins) as quorum:
        quorum.run("kill", "2")
        shutil.rmtree(tmp_path / "q" / "node2" / "data")
        quorum.run("restart", "2")
        is_voter = lambda: quorum.node(2)["state"] in ("follower", "leader")  # noqa: E731
        wait_until(is_voter, 20, quorum.logs)
        quorum.wait_healthy()


def test_unknown_command_is_usage(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path / "q")
    quorum.run("bounce", expect=2)


def test_a_setting_that_no_node_starts_with_is_not_kept(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path / "q")
    base_port = ("--base-port", str(quorum.base_port))
    wrong = "controller.quorum.fetch.timeout.ms=soon"
    try:
        done = quorum.run("up", *base_port, "--nodes", "1", "--set", wrong, expect=1)
        assert "controller.quorum.fetch.timeout.ms" in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
        quorum.run("up")
        assert quorum.wait_healthy()["leader_id"] == 1
    finally:
        quorum.run("down")


def test_a_node_that_starts_says_what_it_is(tmp_path: Path) -> None:
    with running(tmp_path / "q", "--nodes", "1") as quorum:
        lines = [json.loads(line) for line in quorum.run("logs", "1").stdout.splitlines()]
        (started,) = [line for line in lines if line["event"] == "started"]
        assert started["node_id"] == 1
        assert started["listeners"] == [
            f"PLAINTEXT://127.0.0.1:{quorum.base_port}",
            f"CONTROLLER://127.0.0.1:{quorum.base_port + 1000}",
        ]
        assert [line["event"] for line in lines].count("broker_serves") == 1
