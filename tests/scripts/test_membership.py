"""Nodes that come and go (`quorum add-node`, `remove-node`), and a dynamic quorum's beginning."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cli.initial_controllers import initial_controllers
from node.configs.config import node_config
from scripts.launcher import commands, membership, processes, readiness, report
from scripts.launcher.commands import main
from scripts.launcher.description import load_cluster, save_cluster
from scripts.launcher.kafka_client import QuorumView
from scripts.launcher.layout import (
    AddedNode,
    Cluster,
    Voters,
    format_flags,
    new_id,
    server_properties,
)
from scripts.launcher.membership import check_removable, held_partitions, planned_node, without
from scripts.launcher.refusal import RefusalError

PYTHON = Path(sys.executable)
COMBINED, CONTROLLER, BROKER = ("broker", "controller"), ("controller",), ("broker",)


def dynamic(folder=Path("/q"), brokers=None, added=(), removed=(), *, has_begun=True, nodes=3):
    voters = Voters({number: new_id() for number in range(1, nodes + 1)}, has_begun)
    return Cluster(folder, new_id(), nodes, brokers, 9092, {}, voters, added, removed)


def static(**fields):
    return replace(dynamic(**fields), voters=None)


@pytest.mark.parametrize("brokers", [None, 0, 2])
def test_a_dynamic_quorum_is_found_by_its_controllers(brokers):
    planned = dynamic(brokers=brokers, added=(AddedNode(4, CONTROLLER, 5),), removed=(2,))
    for node in planned.nodes:
        properties = server_properties(planned, node)
        assert "controller.quorum.voters" not in properties
        servers = "127.0.0.1:10092,127.0.0.1:10094,127.0.0.1:10097"
        assert properties["controller.quorum.bootstrap.servers"] == servers
        config = node_config(properties)
        assert (config.voters, config.unknown_keys) == ((), ())


@pytest.mark.parametrize("brokers", [None, 1])
def test_the_first_start_names_the_voters(brokers):
    planned = dynamic(brokers=brokers, has_begun=False)
    flags = format_flags(planned, planned.nodes[2])
    assert flags[0] == "--initial-controllers"
    found = initial_controllers(flags[1], "CONTROLLER")
    ends = {voter.key.id: voter.endpoints[0].port for voter in found.by_id.values()}
    assert ends == {1: 10092, 2: 10093, 3: 10094}
    if brokers:
        assert format_flags(planned, planned.node(101)) == []


def test_a_voter_whose_folder_is_lost_gets_no_vote_back():
    """Its directory id had granted votes that nobody remembers."""
    planned = dynamic()
    assert format_flags(planned, planned.nodes[0]) == ["--no-initial-controllers"]


def test_a_controller_that_is_added_is_no_first_voter():
    planned = dynamic(added=(AddedNode(4, COMBINED, 3),), has_begun=False)
    assert format_flags(planned, planned.node(4)) == ["--no-initial-controllers"]
    assert format_flags(static(), static().nodes[0]) == []


@pytest.mark.parametrize(
    ("brokers", "role", "expected"),
    [
        (None, None, AddedNode(4, COMBINED, 3)),
        (None, "broker", AddedNode(101, BROKER, 3)),
        (None, "controller", AddedNode(4, CONTROLLER, 3)),
        (2, None, AddedNode(103, BROKER, 5)),
        (2, "controller", AddedNode(4, CONTROLLER, 5)),
        (0, "combined", AddedNode(4, COMBINED, 3)),
    ],
)
def test_the_next_node(brokers, role, expected):
    assert planned_node(dynamic(brokers=brokers), role) == expected


def test_no_id_and_no_port_is_used_twice():
    planned = dynamic(removed=(3,))
    for _ in range(3):
        added = planned_node(planned, None)
        planned = without(replace(planned, added=(*planned.added, added)), added.plan(9092))
        planned = replace(planned, added=(*planned.added, planned_node(planned, "broker")))
    ids = [each.id for each in planned.added]
    assert ids == [4, 101, 5, 102, 6, 103]
    assert [node.id for node in planned.nodes] == [1, 2, 101, 102, 103]
    ports = [port for node in planned.nodes for port in node.ports]
    assert len(set(ports)) == len(ports)
    plans = [each.plan(9092) for each in planned.added[:2]]
    assert [node.ports for node in plans] == [(9095, 10095, 11095), (9096, 11096)]


def test_nodes_and_ports_have_an_end():
    many = dynamic(nodes=100)
    with pytest.raises(RefusalError, match="has had 100 nodes; 100 are allowed"):
        planned_node(many, None)
    planned_node(replace(dynamic(), base_port=63532), "broker")
    with pytest.raises(RefusalError, match="node 101 needs port 65536; the highest is 65535"):
        planned_node(replace(dynamic(), base_port=63533), "broker")


def test_static_voters_stay_as_they_are():
    with pytest.raises(RefusalError, match="a controller cannot join /q: its voters are static"):
        planned_node(static(), None)
    assert planned_node(static(), "broker").id == 101
    with pytest.raises(RefusalError, match="node 1 cannot leave /q: its voters are static"):
        check_removable(static(), static().nodes[0], view(1, 2, 3), PYTHON)


def test_a_broker_beside_static_voters_may_leave(monkeypatch):
    monkeypatch.setattr(membership, "_described", lambda *_: [])
    planned = static(brokers=2)
    check_removable(planned, planned.node(102), view(1, 2, 3), PYTHON)


def view(*voters):
    return QuorumView(voters[0], 1, 9, dict.fromkeys(voters, 9), {7: 4})


def test_the_last_controller_and_the_last_voter_stay():
    alone = dynamic(brokers=0, removed=(2, 3))
    with pytest.raises(RefusalError, match="node 1 is the only controller of /q"):
        check_removable(alone, alone.nodes[0], view(1), PYTHON)
    beside_an_observer = dynamic(brokers=0, removed=(3,))
    with pytest.raises(RefusalError, match="node 1 is the only voter of /q"):
        check_removable(beside_an_observer, beside_an_observer.nodes[0], view(1), PYTHON)
    check_removable(beside_an_observer, beside_an_observer.nodes[1], view(1), PYTHON)


def test_a_broker_that_holds_replicas_stays(monkeypatch):
    partitions = [{"index": number, "replicas": [2, 3]} for number in range(4)]
    topics = [{"name": "a", "partitions": partitions}, {"name": "b", "partitions": partitions[:1]}]
    asked = []

    def run_tool(_, words):
        asked.append(words)
        return json.dumps({"topics": topics})

    monkeypatch.setattr(membership, "run_tool", run_tool)
    planned = dynamic()
    with pytest.raises(
        RefusalError, match=r"holds replicas of 5 partitions \(a-0, a-1, a-2, \.\.\.\); move"
    ):
        check_removable(planned, planned.node(2), view(1, 2, 3), PYTHON)
    check_removable(planned, planned.node(1), view(1, 2, 3), PYTHON)
    assert "127.0.0.1:9093,127.0.0.1:9094" in asked[1], "the others are asked"
    assert held_partitions(topics[1:], 3) == ["b-0"]
    topics.pop(0)
    with pytest.raises(RefusalError, match=r"of 1 partitions \(b-0\); move"):
        check_removable(planned, planned.node(2), view(1, 2, 3), PYTHON)


def test_the_only_broker_stays():
    planned = dynamic(brokers=1)
    with pytest.raises(RefusalError, match="node 101 is the only broker of /q"):
        check_removable(planned, planned.node(101), view(1), PYTHON)


@pytest.fixture
def tool(monkeypatch):
    """The commands of kraftline that are run; each fails that `failing` names."""
    ran, failing = [], set()

    def run_tool(_, words):
        ran.append(list(words))
        if failing & set(words):
            raise RefusalError("it says no")
        return ""

    monkeypatch.setattr(membership, "run_tool", run_tool)
    return ran, failing


def test_a_voter_is_added_by_its_own_properties(tool):
    ran, failing = tool
    planned = dynamic(added=(AddedNode(4, COMBINED, 3),))
    membership.add_voter(planned, planned.node(4), PYTHON)
    (words,) = ran
    assert words[2] == "127.0.0.1:10092,127.0.0.1:10093,127.0.0.1:10094"
    assert words[-2:] == ["/q/node4/server.properties", "add-controller"]
    failing.add("add-controller")
    with pytest.raises(RefusalError, match="node 4 runs and is no voter: it says no; try `kraftl"):
        membership.add_voter(planned, planned.node(4), PYTHON)


def test_a_voter_is_removed_by_its_directory_id(tool, tmp_path):
    ran, failing = tool
    planned = dynamic(tmp_path)
    node = planned.node(2)
    with pytest.raises(RefusalError, match=r"meta\.properties"):
        membership.remove_voter(planned, node, view(1, 2, 3), PYTHON)
    planned.data_folder(2).mkdir(parents=True)
    stored = planned.data_folder(2) / "meta.properties"
    stored.write_text("version=1\n")
    with pytest.raises(RefusalError, match=r"has no directory\.id"):
        membership.remove_voter(planned, node, view(1, 2, 3), PYTHON)
    stored.write_text("directory.id=abc\n")
    membership.remove_voter(planned, node, view(1, 3), PYTHON)
    assert ran == [], "it is no voter"
    membership.remove_voter(planned, node, view(1, 2, 3), PYTHON)
    assert ran[1][-4:] == ["--controller-id", "2", "--controller-directory-id", "abc"]
    assert ran[0] == [*ran[1], "--dry-run"]
    failing.add("--dry-run")
    with pytest.raises(RefusalError, match="node 2 stays a voter: it says no"):
        membership.remove_voter(planned, node, view(1, 2, 3), PYTHON)
    del ran[0], ran[1:]
    membership.unregister(planned, node, PYTHON)
    membership.unregister(dynamic(brokers=1), dynamic(brokers=1).node(1), PYTHON)
    assert [words[:2] for words in ran[1:]] == [["cluster", "unregister"]]


def test_a_broker_that_is_not_registered_can_leave(tool, monkeypatch):
    """It never registered, or the remove-node before was interrupted after it."""
    said = "Broker ID 2 is not currently registered"

    def run_tool(_, words):
        raise RefusalError(said)

    monkeypatch.setattr(membership, "run_tool", run_tool)
    planned = dynamic()
    membership.unregister(planned, planned.node(2), PYTHON)
    said = "it says no"
    with pytest.raises(RefusalError, match="it says no"):
        membership.unregister(planned, planned.node(2), PYTHON)


def test_a_tool_that_fails_is_one_line():
    with pytest.raises(RefusalError, match="expected one argument"):
        membership.run_tool(PYTHON, ["topics", "--bootstrap-server"])
    assert "kraftline" in membership.run_tool(PYTHON, ["--version"])


def test_it_is_saved_and_loaded(tmp_path):
    added = (AddedNode(4, COMBINED, 3), AddedNode(101, BROKER, 4))
    planned = dynamic(tmp_path / "q", added=added, removed=(1, 4))
    save_cluster(planned)
    assert load_cluster(planned.folder) == planned
    assert not planned.node_folder(1).exists()
    save_cluster(static(folder=tmp_path / "s"))
    assert load_cluster(tmp_path / "s").voters is None


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"voters": 3}, "'voters' is '3', not an object"),
        ({"voters": {"directory_ids": {"1": 2}, "has_begun": True}}, "'1' is '2', not a text"),
        ({"voters": {"directory_ids": {"a": "b"}, "has_begun": True}}, "invalid literal"),
        ({"voters": {"directory_ids": {"1": "\ud800"}, "has_begun": True}}, "a directory id has"),
        ({"voters": {"directory_ids": {}}}, "'has_begun' is missing"),
        ({"added": {}}, "'added' is '{}', not a list"),
        ({"added": [4]}, "an entry of 'added'' is '4', not an object"),
        ({"added": [{"id": 4, "roles": [], "slot": 3}]}, "'roles' is (), not of broker"),
        ({"added": [{"id": 4, "roles": ["x"], "slot": 3}]}, "'roles' is ('x',), not of broker"),
        ({"added": [{"id": 4, "roles": ["broker"]}]}, "'slot' is missing"),
        ({"removed": ["1"]}, "an entry of 'removed'' is '1', not a whole number"),
    ],
)
def test_a_damaged_description(tmp_path, fields, said):
    planned = dynamic(tmp_path)
    save_cluster(planned)
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    with pytest.raises(RefusalError) as refused:
        load_cluster(tmp_path)
    assert said in str(refused.value)


# ---- commands ----------------------------------------------------------------------------------


@pytest.fixture
def started(monkeypatch):
    """Nodes that `up` and `add-node` start, as far as they see: all serve at once."""
    found = []
    monkeypatch.setattr(commands, "ensure_environment", lambda: PYTHON)
    monkeypatch.setattr(processes, "check_ports", lambda nodes: None)
    monkeypatch.setattr(commands, "_start", lambda _, nodes, __: found.extend(nodes))
    monkeypatch.setattr(commands, "_print_status", lambda *_, **__: 0)
    monkeypatch.setattr(membership, "serving_quorum", lambda _: view(1, 2, 3))
    return found


@pytest.mark.parametrize("brokers", [[], ["--brokers", "1"]])
def test_up_makes_dynamic_voters_and_notes_that_they_have_begun(tmp_path, started, brokers):
    assert main(["up", "--dir", str(tmp_path), *brokers]) == 0
    voters = load_cluster(tmp_path).voters
    assert (sorted(voters.directory_ids), voters.has_begun) == ([1, 2, 3], True)
    assert len(started) == 3 + bool(brokers)
    assert main(["up", "--dir", str(tmp_path)]) == 0
    assert load_cluster(tmp_path).voters == voters


def test_up_leaves_a_static_quorum_static(tmp_path, started):
    planned = static(folder=tmp_path)
    save_cluster(planned)
    assert main(["up", "--dir", str(tmp_path), "--base-port", "9192"]) == 0
    assert load_cluster(tmp_path) == replace(planned, base_port=9192)


@pytest.mark.parametrize("words", [["--static"], ["--set", "controller.quorum.voters=1@a:1"]])
def test_a_new_quorum_of_static_voters(tmp_path, started, words):
    assert main(["up", "--dir", str(tmp_path), *words]) == 0
    assert load_cluster(tmp_path).voters is None


def test_dynamic_voters_keep_their_ports(tmp_path, started, capsys):
    save_cluster(dynamic(tmp_path, has_begun=False))
    assert main(["up", "--dir", str(tmp_path), "--base-port", "9192"]) == 0
    assert main(["up", "--dir", str(tmp_path), "--base-port", "9192"]) == 0
    assert main(["up", "--dir", str(tmp_path), "--base-port", "9292"]) == 1
    assert "the voters of" in capsys.readouterr().err
    assert load_cluster(tmp_path).base_port == 9192


def test_add_node(tmp_path, started, tool, capsys):
    ran, failing = tool
    save_cluster(dynamic(tmp_path))
    assert main(["add-node", "--dir", str(tmp_path)]) == 0
    assert main(["add-node", "--dir", str(tmp_path), "--role", "broker"]) == 0
    assert [node.id for node in started] == [4, 101]
    assert [words[-1] for words in ran] == ["add-controller"]
    assert "node 101 has joined" in capsys.readouterr().out
    failing.add("add-controller")
    assert main(["add-node", "--dir", str(tmp_path)]) == 1
    assert "node 5 runs and is no voter" in capsys.readouterr().err
    assert [each.id for each in load_cluster(tmp_path).added] == [4, 101, 5], "it runs"


def test_a_node_that_does_not_start_leaves_nothing(tmp_path, started, monkeypatch):
    def start(*_):
        raise RefusalError("it ended")

    planned = dynamic(tmp_path)
    save_cluster(planned)
    monkeypatch.setattr(commands, "_start", start)
    assert main(["add-node", "--dir", str(tmp_path)]) == 1
    assert load_cluster(tmp_path) == planned
    assert not planned.node_folder(4).exists()


HELD = {"name": "a", "partitions": [{"index": 0, "replicas": [101]}]}


def test_remove_node(tmp_path, started, tool, monkeypatch, capsys):
    ran, failing = tool
    save_cluster(dynamic(tmp_path, brokers=2))
    for number in (2, 101):
        folder = load_cluster(tmp_path).data_folder(number)
        (folder / "meta.properties").write_text("directory.id=abc\n")
    monkeypatch.setattr(membership, "_described", lambda *_: [])
    failing.add("remove-controller")
    assert main(["remove-node", "2", "--dir", str(tmp_path)]) == 1
    monkeypatch.setattr(membership, "_described", lambda *_: [HELD])
    assert main(["remove-node", "101", "--dir", str(tmp_path)]) == 1
    monkeypatch.setattr(membership, "_described", lambda *_: [])
    assert load_cluster(tmp_path).removed == ()
    failing.clear()
    assert main(["remove-node", "2", "--dir", str(tmp_path)]) == 0
    assert main(["remove-node", "101", "--dir", str(tmp_path)]) == 0
    assert load_cluster(tmp_path).removed == (2, 101)
    assert [words[-1] for words in ran] == ["--dry-run", "--dry-run", "abc", "101"]
    assert "its data stays in" in capsys.readouterr().out
    assert main(["clean", "--yes", "--dir", str(tmp_path)]) == 0
    assert list(tmp_path.parent.glob(f"{tmp_path.name}/*")) == []


def test_a_quorum_without_a_leader_has_no_comings_and_goings(tmp_path, capsys):
    save_cluster(dynamic(tmp_path))
    for words in (["add-node"], ["remove-node", "1"]):
        assert main([*words, "--dir", str(tmp_path)]) == 1
        assert "has no leader; nodes come and go while it serves" in capsys.readouterr().err


def test_an_observer_serves_once_the_leader_lists_it(monkeypatch):
    monkeypatch.setattr(readiness, "find_quorum", lambda _: view(1, 2, 3))
    planned = dynamic(added=(AddedNode(7, CONTROLLER, 3), AddedNode(8, CONTROLLER, 4)))
    assert readiness.unready(planned, [planned.node(7), planned.node(8)]) == [planned.node(8)]


def test_an_observer_is_shown_as_one():
    planned = dynamic(added=(AddedNode(7, CONTROLLER, 3),))
    pids = dict.fromkeys(planned.ids_ever, 9)
    found = report.status_object(planned, pids, set(), view(1, 2, 3), None)
    states = [node["state"] for node in found["nodes"]]
    assert states == ["leader", "follower", "follower", "observer"]
