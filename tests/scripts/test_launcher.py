import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from node.configs.config import node_config
from node.configs.properties import parse_properties
from scripts.launcher import commands, kafka_client, processes, report
from scripts.launcher.commands import main
from scripts.launcher.description import check_cluster_ids, load_cluster, save_cluster
from scripts.launcher.kafka_client import ClusterView, QuorumView
from scripts.launcher.layout import Cluster, new_id, plan_nodes, server_properties
from scripts.launcher.refusal import RefusalError
from tests.interop.quorum import free_base_port
from wire.errors import ErrorCode
from wire.messages.codec import decode_request, encode_response, newest

SCRIPT = Path(__file__).parents[2] / "scripts" / "quorum"
CLUSTER_ID = "Z29sZGVuLXNoYXJlZC0wMQ"


def cluster(folder=Path("/q"), brokers=None, settings=None):
    return Cluster(folder, CLUSTER_ID, 3, brokers, 9092, settings or {})


@pytest.mark.parametrize("error", [RefusalError("no"), OSError(28, "full"), KeyboardInterrupt()])
def test_settings_that_no_node_started_with_are_forgotten(tmp_path, monkeypatch, error):
    def start_node(*_):
        raise error

    monkeypatch.setattr(commands, "ensure_environment", lambda: Path(sys.executable))
    monkeypatch.setattr(processes, "start_node", start_node)
    words = ["--nodes", "1", "--base-port", "21234", "--set", "log.retention.ms=5"]
    assert main(["up", "--dir", str(tmp_path), *words]) != 0
    assert json.loads((tmp_path / "cluster.json").read_text())["settings"] == {}


def test_combined_plan_and_dedicated_plan():
    combined = ("broker", "controller")
    assert [(n.id, n.roles, n.kafka, n.controller) for n in plan_nodes(2, None, 9092)] == [
        (1, combined, "127.0.0.1:9092", "127.0.0.1:10092"),
        (2, combined, "127.0.0.1:9093", "127.0.0.1:10093"),
    ]
    assert [(n.id, n.roles, n.kafka, n.controller, n.ports) for n in plan_nodes(2, 0, 9092)] == [
        (1, ("controller",), "", "127.0.0.1:10092", (10092, 11092)),
        (2, ("controller",), "", "127.0.0.1:10093", (10093, 11093)),
    ]
    assert [(n.id, n.roles, n.kafka, n.controller) for n in plan_nodes(1, 2, 9092)] == [
        (1, ("controller",), "", "127.0.0.1:10092"),
        (101, ("broker",), "127.0.0.1:9092", ""),
        (102, ("broker",), "127.0.0.1:9093", ""),
    ]


@pytest.mark.parametrize(
    ("nodes", "brokers", "port"), [(0, 0, 1), (3, -1, 1), (3, 0, 64600), (3, 1, 63533)]
)
def test_plans_that_cannot_work(nodes, brokers, port):
    with pytest.raises(RefusalError, match=r"--nodes|--brokers|--base-port"):
        plan_nodes(nodes, brokers, port)


@pytest.mark.parametrize("brokers", [None, 0, 2])
def test_every_server_properties_is_accepted_by_the_node(brokers):
    planned = cluster(brokers=brokers, settings={"num.partitions": "7"})
    for node in planned.nodes:
        config = node_config(server_properties(planned, node))
        assert config.node_id == node.id
        assert (config.is_broker, config.is_controller) == (
            "broker" in node.roles,
            "controller" in node.roles,
        )
        assert config.topic_defaults.partition_count == 7
        assert config.unknown_keys == ()


@pytest.mark.parametrize("brokers", [None, 0, 2])
def test_folder_is_saved_and_loaded(tmp_path, brokers):
    planned = cluster(tmp_path / "q", brokers, settings={"a": "b"})
    assert load_cluster(planned.folder) is None
    save_cluster(planned)
    assert load_cluster(planned.folder) == planned
    text = (planned.node_folder(2) / "server.properties").read_text()
    assert parse_properties(text)["node.id"] == "2"


def test_a_description_from_before_dedicated_controllers_keeps_its_roles(tmp_path):
    (tmp_path / "cluster.json").write_text(json.dumps(CLUSTER_JSON))
    loaded = load_cluster(tmp_path)
    assert loaded is not None
    assert [node.roles for node in loaded.nodes] == [("broker", "controller")] * 3
    (tmp_path / "cluster.json").write_text(json.dumps(CLUSTER_JSON | {"brokers": 1}))
    loaded = load_cluster(tmp_path)
    assert loaded is not None
    assert [node.roles for node in loaded.nodes] == [("controller",)] * 3 + [("broker",)]


@pytest.mark.parametrize(
    ("held", "asked", "message"),
    [
        (None, ["--brokers", "0"], "holds a quorum of combined nodes, not --brokers 0;"),
        (0, ["--brokers", "2"], "holds a quorum with --brokers 0, not 2;"),
        (0, ["--nodes", "1"], "holds a quorum with --nodes 3, not 1;"),
    ],
)
def test_the_roles_of_a_quorum_stay(tmp_path, capsys, held, asked, message):
    save_cluster(cluster(tmp_path, held))
    assert main(["up", "--dir", str(tmp_path), *asked]) == 1
    assert message in capsys.readouterr().err
    assert load_cluster(tmp_path) == cluster(tmp_path, held)


@pytest.mark.parametrize("flags", [[], ["--brokers", "0"]])
def test_up_without_brokers_makes_dedicated_controllers_only_when_asked(
    tmp_path, monkeypatch, flags
):
    def start_node(*_):
        raise RefusalError("enough")

    monkeypatch.setattr(commands, "ensure_environment", lambda: Path(sys.executable))
    monkeypatch.setattr(processes, "start_node", start_node)
    words = ["--nodes", "2", "--base-port", str(free_base_port(2)), *flags]
    assert main(["up", "--dir", str(tmp_path), *words]) == 1
    for number in (1, 2):
        text = (tmp_path / f"node{number}" / "server.properties").read_text()
        roles = parse_properties(text)["process.roles"]
        assert roles == ("controller" if flags else "broker,controller")


CLUSTER_JSON = {"cluster_id": CLUSTER_ID, "nodes": 3, "brokers": 0, "base_port": 1, "settings": {}}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "Expecting property name"),
        ("[]", "'the content' is '[]', not an object"),
        ("[" * 100_000, "recursion"),
        ({"nodes": ...}, "'nodes' is missing"),
        ({"nodes": "3"}, "'nodes' is '3', not a whole number"),
        ({"nodes": True}, "'nodes' is 'True', not a whole number"),
        ({"brokers": 1.0}, "'brokers' is '1.0', not a whole number"),
        ({"combined": 1}, "'combined' is '1', not true or false"),
        ({"combined": True, "brokers": 2}, "'brokers' is 2, and combined nodes have none"),
        ({"nodes": 0}, "--nodes 0 is not between 1 and 100"),
        ({"base_port": 70_000}, "--base-port 70000 is not between 1 and"),
        ({"cluster_id": None}, "'cluster_id' is 'None', not a text"),
        ({"cluster_id": "\ud800"}, "'cluster_id' has '\\ud800', which is no character"),
        ({"settings": []}, "'settings' is '[]', not an object"),
        ({"settings": {"a": 1}}, "'a' is '1', not a text"),
        ({"settings": {"a": "\ud800"}}, "setting 'a' has '\\ud800', which is no character"),
    ],
)
def test_a_damaged_description_is_one_line(tmp_path, capsys, content, said):
    if isinstance(content, dict):
        fields = {key: value for key, value in (CLUSTER_JSON | content).items() if value != ...}
        content = json.dumps(fields)
    (tmp_path / "cluster.json").write_text(content)
    assert main(["status", "--dir", str(tmp_path)]) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"quorum: cannot read {tmp_path / 'cluster.json'}: ")
    assert said in told
    assert told.count("\n") == 1


def test_meta_properties_that_cannot_be_read(tmp_path):
    planned = cluster(tmp_path)
    planned.data_folder(1).mkdir(parents=True)
    (planned.data_folder(1) / "meta.properties").write_text("cluster.id=\\u12")
    with pytest.raises(RefusalError, match=r"meta.properties: cluster.id: malformed"):
        check_cluster_ids(planned)


def test_no_process_without_its_pid_file(tmp_path):
    planned = cluster(tmp_path)
    node = planned.nodes[0]
    (planned.node_folder(node.id) / "node.pid").mkdir(parents=True)
    idle = tmp_path / "idle"
    idle.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(60)\n")
    idle.chmod(0o755)
    with pytest.raises(IsADirectoryError):
        processes.start_node(planned, node, idle, tmp_path)
    lines = [line for path in Path("/proc").glob("[0-9]*/cmdline") if (line := command_line(path))]
    assert lines
    assert not [line for line in lines if str(tmp_path).encode() in line]


def command_line(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_answers_that_are_too_short_or_too_long():
    start = b"\0\0\0\1"
    for rest in (b"", b"\x80" * 6 + b"\1", b"\1\0\x7f", b"\0\0\0\xff\xff\xff\xff\x7f"):
        with pytest.raises(kafka_client.NoAnswerError, match=r"too short|too long"):
            kafka_client.decode_describe_quorum(start + rest)


def test_folder_of_another_cluster_is_refused(tmp_path):
    planned = cluster(tmp_path)
    save_cluster(planned)
    path = planned.data_folder(1) / "meta.properties"
    path.write_text(f"version=1\nnode.id=1\ncluster.id={CLUSTER_ID}\n")
    check_cluster_ids(planned)
    path.write_text("version=1\nnode.id=1\ncluster.id=other\n")
    with pytest.raises(RefusalError, match=r"cluster\.id=other, expected Z29"):
        check_cluster_ids(planned)


def test_cluster_ids_are_22_characters_and_no_flags():
    ids = [new_id() for _ in range(200)]
    assert {len(one) for one in ids} == {22}
    assert not any(one.startswith("-") for one in ids)


def test_hand_written_requests_are_what_kio_reads():
    body = decode_quorum_request(kafka_client.describe_quorum_request(), 55, 1)
    assert [(t.topic_name, [p.partition_index for p in t.partitions]) for t in body.topics] == [
        ("__cluster_metadata", [0])
    ]
    body = decode_quorum_request(kafka_client.describe_cluster_request(), 60, 2)
    assert (body.endpoint_type, body.include_fenced_brokers) == (1, True)
    assert not body.include_cluster_authorized_operations


def decode_quorum_request(request, key, version):
    assert int.from_bytes(request[:4], "big") == len(request) - 4
    frame = request[4:]
    assert (int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")) == (key, version)
    header = 2 + 2 + 4 + 2 + len(kafka_client.CLIENT_ID) + 1
    return decode_request(key, version, memoryview(frame)[header:])


def quorum_response(error=ErrorCode.none, leader=3):
    schema = newest(55, "response")

    def replica(replica_id, end):
        return schema.ReplicaState(
            replica_id=replica_id, replica_directory_id=None, log_end_offset=end
        )

    partition = schema.PartitionData(
        partition_index=0,
        error_code=error,
        error_message=None,
        leader_id=leader,
        leader_epoch=7,
        high_watermark=41,
        current_voters=(replica(1, -1), replica(3, 42)),
        observers=(replica(101, 40),),
    )
    body = schema.DescribeQuorumResponse(
        error_code=ErrorCode.none,
        error_message=None,
        topics=(schema.TopicData(topic_name="__cluster_metadata", partitions=(partition,)),),
        nodes=(),
    )
    return encode_response(55, 1, 1, body)


def test_describe_quorum_of_kio_is_read():
    assert kafka_client.decode_describe_quorum(quorum_response()) == QuorumView(
        3, 7, 41, {1: -1, 3: 42}, {101: 40}
    )
    refused = quorum_response(ErrorCode.not_leader_or_follower, -1)
    assert kafka_client.decode_describe_quorum(refused) is None


def test_cut_responses_are_no_answer():
    frame = quorum_response()
    for length in range(len(frame) - 20):
        with pytest.raises(kafka_client.NoAnswerError):
            kafka_client.decode_describe_quorum(frame[:length])


def test_describe_cluster_of_kio_is_read():
    from datetime import timedelta

    schema = newest(60, "response")
    body = schema.DescribeClusterResponse(
        throttle_time=timedelta(),
        error_code=ErrorCode.none,
        cluster_id=CLUSTER_ID,
        brokers=tuple(
            schema.DescribeClusterBroker(
                broker_id=number, host="h", port=1, rack=rack, is_fenced=number == 2
            )
            for number, rack in ((1, None), (2, "rack"))
        ),
    )
    view = kafka_client.decode_describe_cluster(encode_response(60, 2, 1, body))
    assert view == ClusterView(CLUSTER_ID, {1: False, 2: True})


QUORUM = QuorumView(2, 5, 10, {1: 8, 2: 10, 3: -1}, {})
BROKERS = ClusterView(CLUSTER_ID, {1: False, 2: False, 3: True})
PIDS = {1: 11, 2: 12, 3: 13}


def test_status_object_and_states():
    found = report.status_object(cluster(), PIDS, set(), QUORUM, BROKERS)
    assert (found["leader_id"], found["leader_epoch"], found["high_watermark"]) == (2, 5, 10)
    rows = [(n["id"], n["state"], n["log_end_offset"], n["lag"]) for n in found["nodes"]]
    assert rows == [(1, "follower", 8, 2), (2, "leader", 10, 0), (3, "fenced", None, None)]
    json.dumps(found)


def test_a_node_that_runs_without_a_leader_is_not_starting():
    found = report.status_object(cluster(), {**PIDS, 1: None}, set(), None, None)
    assert [node["state"] for node in found["nodes"]] == ["stopped", "no leader", "no leader"]
    assert "no leader" in report.table(found)


@pytest.mark.parametrize(
    ("pids", "paused", "quorum", "code"),
    [
        (PIDS, set(), QUORUM, 0),
        ({**PIDS, 1: None}, set(), QUORUM, 3),
        (PIDS, {1}, QUORUM, 3),
        (PIDS, set(), None, 3),
    ],
)
def test_exit_codes(pids, paused, quorum, code):
    assert report.exit_code(report.status_object(cluster(), pids, paused, quorum, None)) == code


def test_table_marks_the_leader():
    found = report.status_object(cluster(), {**PIDS, 1: None}, {3}, QUORUM, BROKERS)
    lines = report.table(found).splitlines()
    assert lines[0].split() == [
        "node",
        "pid",
        "roles",
        "leader",
        "state",
        "lag",
        "kafka",
        "controller",
        "http",
    ]
    assert lines[1].split()[:4] == ["1", "-", "broker,controller", "stopped"]
    assert lines[2].split()[3:5] == ["*", "leader"]
    assert lines[3].split()[3] == "paused"
    assert len({line.index("127.0.0.1:9") for line in lines[1:]}) == 1
    assert "leader 2, epoch 5, high watermark 10" in report.headline(found)


def test_taken_port_names_the_process():
    with socket.socket() as squatter:
        squatter.bind(("127.0.0.1", 0))
        squatter.listen()
        port = squatter.getsockname()[1]
        (node,) = plan_nodes(1, 1, port)[1:]
        with pytest.raises(RefusalError, match=rf"port {port} of node 101 is taken by .*pid"):
            processes.check_ports([node])


def test_locked_folder_is_refused(tmp_path):
    planned = cluster(tmp_path)
    save_cluster(planned)
    path = planned.data_folder(1) / ".lock"
    path.touch()
    processes.check_folder_free(planned, planned.nodes[0])
    code = (
        "import fcntl,sys; f=open(sys.argv[1],'r+b'); fcntl.lockf(f, fcntl.LOCK_EX);"
        "print('locked', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(RefusalError, match=f"locked by a running node .pid {holder.pid}"):
            processes.check_folder_free(planned, planned.nodes[0])
        holder.stdin.close()


def test_pid_of_another_process_does_not_count(tmp_path):
    import os

    planned = cluster(tmp_path)
    save_cluster(planned)
    path = planned.node_folder(1) / "node.pid"
    assert processes.running_pid(planned, 1) is None
    path.write_text(f"{os.getpid()} {processes.start_time(os.getpid())}\n")
    assert processes.running_pid(planned, 1) == os.getpid()
    path.write_text(f"{os.getpid()} 1\n")
    assert processes.running_pid(planned, 1) is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["status"], "there is no quorum in"),
        (["up", "--nodes", "0"], "--nodes 0 is not between 1 and 100"),
        (["up", "--brokers", "-1"], "--brokers -1 is not between 0 and 100"),
        (["up", "--base-port", "65000"], "--base-port 65000 is not between 1 and 63533"),
        (["up", "--base-port", "0"], "--base-port 0 is not between 1 and"),
    ],
)
def test_refusals_are_one_line_and_exit_1(tmp_path, capsys, words, message):
    assert main([words[0], "--dir", str(tmp_path / "q"), *words[1:]]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "q").exists()


def test_a_python_that_is_too_old_is_one_line():
    script = Path(__file__).parents[2] / "scripts" / "quorum"
    old = "import runpy, sys; sys.version_info = (3, 9, 2); "
    run = f"runpy.run_path({str(script)!r}, run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", old + run], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "quorum: Python 3.9 is too old; 3.11 or newer is needed\n"


def test_a_folder_that_cannot_be_is_one_line(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/nothing")):
        assert main(["up", "--dir", str(folder), "--base-port", "28950"]) == 1
        error = capsys.readouterr().err
        assert error.startswith(f"quorum: cannot write to {folder}")
        assert error.count("\n") == 1


def test_commands_on_a_stopped_quorum(tmp_path, capsys):
    planned = cluster(tmp_path / "q")
    save_cluster(planned)
    folder = ["--dir", str(planned.folder)]
    assert main(["status", *folder, "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["leader_id"] is None
    assert main(["kill", *folder, "1"]) == 1
    assert "node 1 does not run" in capsys.readouterr().err
    assert main(["kill", *folder, "9"]) == 1
    assert "its nodes are 1, 2, 3" in capsys.readouterr().err
    assert main(["up", *folder, "--nodes", "5"]) == 1
    assert "--nodes 3, not 5" in capsys.readouterr().err
    assert main(["down", *folder]) == 0
    assert main(["clean", *folder, "--yes"]) == 0
    assert not planned.folder.exists()


def test_usage_errors_exit_2():
    for words in ([], ["bounce"], ["up", "--set", "x"], ["kill"]):
        done = subprocess.run(
            [sys.executable, str(SCRIPT), *words], capture_output=True, check=False
        )
        assert done.returncode == 2, words
