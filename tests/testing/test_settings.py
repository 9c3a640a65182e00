"""Settings of the nodes of a test cluster."""

import pytest

from node.configs.config import read_config
from testing.settings import FIXED, NodePorts, SettingsError, check, defaults, properties

PORTS = [NodePorts(broker=100 + i, controller=200 + i) for i in range(3)]


@pytest.mark.parametrize("nodes", [1, 9])
def test_sizes_that_are_allowed(nodes):
    check(nodes, {})


@pytest.mark.parametrize("nodes", [0, 10])
def test_sizes_that_are_refused(nodes):
    with pytest.raises(SettingsError, match="1 to 9"):
        check(nodes, {})


@pytest.mark.parametrize("key", sorted(FIXED))
def test_keys_of_the_cluster_itself_are_refused(key):
    with pytest.raises(SettingsError, match=f"sets {key} itself"):
        check(1, {key: "1"})


@pytest.mark.parametrize(
    ("key", "value"),
    [("", "1"), ("a b", "1"), ("a=b", "1"), ("a\n", "1"), ("a\r", "1"), ("a", "\n"), ("a", "\r")],
)
def test_what_is_not_one_line_is_refused(key, value):
    with pytest.raises(SettingsError, match="not one line"):
        check(1, {key: value})


def test_a_node_reads_its_properties(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text(properties(2, PORTS, "/d\\x", {"num.partitions": "7"}))
    config = read_config(file, [])
    assert config.node_id == 2
    assert config.is_broker
    assert config.is_controller
    assert [(at.listener, at.port) for at in config.listeners] == [
        ("PLAINTEXT", 101),
        ("CONTROLLER", 201),
    ]
    assert [(voter.id, voter.port) for voter in config.voters] == [(1, 200), (2, 201), (3, 202)]
    assert list(config.log_dirs) == ["/d\\x"]
    assert dict(config.properties)["num.partitions"] == "7"


def test_a_config_is_stronger_than_the_default():
    text = properties(1, PORTS[:1], "/d", {"offsets.topic.num.partitions": "9"})
    assert "offsets.topic.num.partitions=9\n" in text
    assert "offsets.topic.num.partitions=3\n" not in text


@pytest.mark.parametrize(
    ("nodes", "replicas", "in_sync"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (5, 3, 2)]
)
def test_replicas(nodes, replicas, in_sync):
    found = defaults(nodes)
    assert found["default.replication.factor"] == str(replicas)
    assert found["offsets.topic.replication.factor"] == str(replicas)
    assert found["transaction.state.log.replication.factor"] == str(replicas)
    assert found["min.insync.replicas"] == str(in_sync)
    assert found["transaction.state.log.min.isr"] == str(in_sync)


def test_a_node_knows_every_default(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text(properties(1, PORTS, "/d", {}))
    assert not read_config(file, []).unknown_keys
