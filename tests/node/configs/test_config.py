import random

import pytest

from kernel.config import NodeConfig, Voter
from kernel.opening import controller_of
from node.configs.config import ConfigError, node_config, parse_overrides, read_config
from quorum_controller.config import MutationWindow
from simulator.cluster.memory_vfs import MemoryVfs
from wire.types import Endpoint

COMBINED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "2@h2:9094,1@localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "log.dirs": "/data/a, /data/b",
}
BROKER = {**COMBINED, "process.roles": "broker", "node.id": "9", "listeners": "PLAINTEXT://:9092"}
CONTROLLER = {**COMBINED, "process.roles": "controller", "listeners": "CONTROLLER://:9093"}


def without(base, *keys):
    return {key: value for key, value in base.items() if key not in keys}


def test_combined_node():
    config = node_config(COMBINED, host_name="here")
    assert (config.node_id, config.is_broker, config.is_controller) == (1, True, True)
    assert config.voters == (Voter(1, "localhost", 9093), Voter(2, "h2", 9094))
    assert config.is_voter
    assert config.voter(2).host == "h2"
    assert config.broker_listeners == (Endpoint("PLAINTEXT", "", 9092),)
    assert config.controller_listeners == (Endpoint("CONTROLLER", "", 9093),)
    assert config.advertised_broker_listeners == (Endpoint("PLAINTEXT", "here", 9092),)
    assert config.advertised_controller_listeners == (Endpoint("CONTROLLER", "here", 9093),)
    assert config.log_dirs == ("/data/a", "/data/b")
    assert config.metadata_log_dir == "/data/a"
    assert config.unknown_keys == ()


def test_broker_and_controller_alone():
    broker = node_config(BROKER)
    assert (broker.is_broker, broker.is_controller, broker.is_voter) == (True, False, False)
    assert broker.controller_listeners == broker.advertised_controller_listeners == ()
    controller = node_config(CONTROLLER)
    assert not controller.is_broker
    assert controller.broker_listeners == ()


def test_defaults_are_kafkas():
    config = node_config(COMBINED)
    assert config.quorum.election_timeout_ms == 1000
    assert config.broker.session_timeout_ms == 9000
    assert config.metadata_log.record_bytes_between_snapshots == 20971520
    assert (config.topic_defaults.partition_count, config.connection_limits.request_bytes_max) == (
        1,
        104857600,
    )


@pytest.mark.parametrize(
    ("key", "value", "read"),
    [
        ("controller.quorum.election.timeout.ms", "250", lambda c: c.quorum.election_timeout_ms),
        ("controller.quorum.fetch.timeout.ms", "250", lambda c: c.quorum.fetch_timeout_ms),
        ("broker.heartbeat.interval.ms", "100", lambda c: c.broker.heartbeat_interval_ms),
        ("metadata.log.segment.bytes", "16384", lambda c: c.metadata_log.segment_bytes),
        ("internal.metadata.log.segment.bytes", "16384", lambda c: c.metadata_log.segment_bytes),
        ("metadata.max.idle.interval.ms", "0", lambda c: c.metadata_log.idle_interval_ms_max),
        ("default.replication.factor", "3", lambda c: c.topic_defaults.replication_factor),
        ("socket.request.max.bytes", "1000", lambda c: c.connection_limits.request_bytes_max),
        ("connections.max.idle.ms", "7", lambda c: c.connection_limits.idle_ms_max),
    ],
)
def test_numbers(key, value, read):
    assert read(node_config({**COMBINED, key: value})) == int(value)


def test_flags_rack_metadata_folder_and_unknown_keys():
    config = node_config(
        {
            **COMBINED,
            "delete.topic.enable": "FALSE",
            "broker.rack": "r1",
            "metadata.log.dir": "/meta",
            "num.network.threads": "3",
            "connections.max.idle.ms": "-1",
        }
    )
    assert not config.broker.delete_topic_enable
    assert (config.broker.rack, config.metadata_log_dir) == ("r1", "/meta")
    assert config.unknown_keys == ("num.network.threads",)
    assert config.connection_limits.idle_ms_max == 0


def test_controllers_are_advertised_in_the_order_of_their_names():
    config = node_config(
        {
            **COMBINED,
            "listeners": "A://:1,PLAINTEXT://:9092,B://:2",
            "controller.listener.names": "B,A",
            "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "advertised.listeners": "A://proxy:3,PLAINTEXT://proxy:4",
        },
        host_name="here",
    )
    outside = (Endpoint("B", "here", 2), Endpoint("A", "proxy", 3))
    assert config.advertised_controller_listeners == outside


def test_advertised_listeners_replace_those_of_brokers():
    config = node_config({**COMBINED, "advertised.listeners": "plaintext://proxy:1"})
    assert config.advertised_broker_listeners == (Endpoint("PLAINTEXT", "proxy", 1),)
    assert config.advertised_controller_listeners[0].port == 9093


def test_own_listener_names_need_a_map():
    config = node_config(
        {
            **COMBINED,
            "listeners": "INSIDE://:1,OUTSIDE://:2,CONTROLLER://:3",
            "listener.security.protocol.map": (
                "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT"
            ),
            "inter.broker.listener.name": "INSIDE",
        }
    )
    assert config.connection_limits.protected_listener == "INSIDE"
    assert [e.listener for e in config.broker_listeners] == ["INSIDE", "OUTSIDE"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"node.id": "x"}, "Invalid value x for configuration node.id: Not a number of type INT"),
        ({"node.id": "-1"}, "for configuration node.id: Value must be at least 0"),
        ({"broker.id": "2"}, "must set `node.id` to the same value as `broker.id`"),
        ({"process.roles": "brokre"}, "String must be one of: broker, controller"),
        ({"process.roles": "broker,broker"}, "Duplicate role names"),
        ({"process.roles": ""}, 'Missing required configuration "process.roles"'),
        ({"node.id": "5"}, r"the node id 5 must be included in the set of voters .*Set\(1,2\)"),
        ({"controller.quorum.voters": ""}, "must contain a parseable set of controllers"),
        ({"controller.quorum.voters": "1-h:1"}, "is not in the form `{id}@{host}:{port}`"),
        ({"controller.quorum.voters": "1@h:1,1@g:1"}, "a voter id is listed twice"),
        ({"controller.quorum.voters": "1@h:1,2@h:1"}, "two voters have the same address"),
        ({"controller.quorum.voters": "1@h:99999"}, "the port between 1 and 65535"),
        ({"listeners": "PLAINTEXT://:9092"}, "must only contain values appearing in the 'list"),
        ({"listeners": "PLAINTEXT://:1,CONTROLLER://:1"}, "must have a different port"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "must have a different name"),
        ({"listeners": "PLAINTEXT:9092"}, "Unable to parse PLAINTEXT:9092 to a broker endpoint"),
        ({"listeners": "PLAINTEXT://:70000,CONTROLLER://:1"}, "must be between 0 and 65535"),
        ({"listeners": "X://:1,CONTROLLER://:2"}, "No security protocol defined for listener X"),
        ({"listeners": "SSL://:1,CONTROLLER://:2"}, " listeners: listener SSL uses SSL, and only"),
        (
            {"listener.security.protocol.map": "CONTROLLER:SASL_SSL,PLAINTEXT:PLAINTEXT"},
            "protocol.map: listener CONTROLLER uses SASL_SSL, and only PLAINTEXT is supported",
        ),
        ({"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"}, "not found in listener.sec"),
        ({"listener.security.protocol.map": "A:B"}, "not in the form NAME:PROTOCOL"),
        ({"listener.security.protocol.map": ":PLAINTEXT"}, "not in the form NAME:PROTOCOL"),
        ({"listener.security.protocol.map": "A"}, "not in the form NAME:PROTOCOL"),
        ({"controller.listener.names": ""}, "must contain at least one value"),
        ({"process.roles": "controller"}, "must only contain KRaft controller listeners"),
        ({"inter.broker.listener.name": "X"}, "must be a listener name defined in advertised"),
        ({"advertised.listeners": "X://h:1"}, "equal to or a subset of the ones defined"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "nonroutable meta-address 0.0.0.0"),
        ({"auto.create.topics.enable": "yes"}, "Expected value to be either true or false"),
        ({"num.partitions": "0"}, "for configuration num.partitions: Value must be at least 1"),
        ({"num.partitions": "99999999999"}, "Value must be no more than 2147483647"),
        ({"metadata.log.segment.ms": "1.5"}, "Not a number of type LONG"),
        (
            {"broker.heartbeat.interval.ms": "9000"},
            "value 9000 for .*: Value must be less than broker.session.timeout.ms=9000$",
        ),
        (
            {"broker.session.timeout.ms": "2000"},
            "value 2000 for configuration broker.heartbeat.interval.ms: Value must be less",
        ),
        (
            {"broker.heartbeat.interval.ms": "1", "broker.session.timeout.ms": "10"},
            r"value 1 for .*: Value \(used as 10\) must be less than broker.session.timeout.ms=10$",
        ),
        ({"log.dirs": "/a,/a"}, "a folder is named twice"),
        ({"log.dirs": "/a,/b\0"}, "configuration log.dirs: a folder's name has no NUL"),
        ({"metadata.log.dir": "\0"}, "configuration metadata.log.dir: a folder's name has no NUL"),
        ({"zookeeper.connect": "h:1"}, "ZooKeeper is not supported"),
        ({"authorizer.class.name": "X"}, "must be one of: org.apache.kafka.metadata.authorizer."),
    ],
)
def test_refusals_of_a_combined_node_are_one_line(changes, message):
    with pytest.raises(ConfigError, match=message) as refusal:
        node_config({**COMBINED, **changes})
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"node.id": "1"}, "the node id 1 must not be included in the set of voters"),
        ({"listeners": "PLAINTEXT://:1,CONTROLLER://:2"}, "must not contain KRaft controller"),
        ({"listeners": "CONTROLLER://:2"}, "at least one broker advertised listener"),
        (
            {"controller.quorum.auto.join.enable": "true"},
            "auto.join.enable is only supported when process.roles contains the 'controller' role",
        ),
    ],
)
def test_refusals_of_a_broker(changes, message):
    with pytest.raises(ConfigError, match=message):
        node_config({**BROKER, **changes})


@pytest.mark.parametrize("value", ["true", "false"])
def test_a_controller_may_join_by_itself(value):
    key = "controller.quorum.auto.join.enable"
    assert node_config({**COMBINED, key: value}).quorum.joins == (value == "true")
    assert not node_config(COMBINED).quorum.joins
    assert not node_config({**BROKER, key: "false"}).quorum.joins


def test_missing_keys():
    with pytest.raises(ConfigError, match=r'Missing required configuration "node.id"'):
        node_config(without(COMBINED, "node.id"))
    moving = without(COMBINED, "controller.quorum.voters")
    text = (
        "If using process.roles, either controller.quorum.bootstrap.servers must contain the set "
        "of bootstrap controllers or controller.quorum.voters must contain a parseable set"
    )
    with pytest.raises(ConfigError, match=text):
        node_config(moving)
    found = node_config({**moving, "controller.quorum.bootstrap.servers": "h:1, [::1]:65535"})
    assert (found.voters, found.bootstrap_servers) == ((), (("h", 1), ("::1", 65535)))
    assert node_config(COMBINED).bootstrap_servers == ()


@pytest.mark.parametrize(
    ("entry", "what"),
    [("h", "name"), ("h:", "port"), (":1", "port"), ("h:0", "port"), ("h:65536", "port")],
)
def test_bootstrap_servers_that_are_refused(entry, what):
    given = {**COMBINED, "controller.quorum.bootstrap.servers": f"a:1,{entry}"}
    text = f"Failed to parse host {what} from {entry} for the configuration controller.quorum.boot"
    with pytest.raises(ConfigError, match=text):
        node_config(given)


def test_the_rest_of_missing_keys():
    assert isinstance(node_config(without(COMBINED, "log.dirs")), NodeConfig)


def test_overrides_win_over_the_file(tmp_path):
    path = tmp_path / "server.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in COMBINED.items()))
    config = read_config(path, ["num.partitions=4", "num.partitions = 5"])
    assert config.topic_defaults.partition_count == 5
    with pytest.raises(ConfigError, match="expected key=value"):
        parse_overrides(["nonsense"])
    with pytest.raises(ConfigError, match=r"cannot read .*nothing"):
        read_config(tmp_path / "nothing")


def limits(**changes):
    keys = {name.replace("__", "."): value for name, value in changes.items()}
    return node_config({**COMBINED, **keys}).connection_limits


def test_limits_of_connections():
    found = limits(
        max__connections="7",
        max__connections__per__ip="0",
        max__connections__per__ip__overrides="127.0.0.1:5, ::1:6",
        connections__max__idle__ms="0",
    )
    assert (found.connections_max, found.per_address_max) == (7, 0)
    assert found.per_address_overrides == (("127.0.0.1", 5), ("::1", 6))
    assert found.idle_ms_max == 1, "0 closes what is idle at once, as in Kafka"
    assert found.protected_listener is None, "one broker listener needs no protection"
    assert limits(connections__max__idle__ms="-5").idle_ms_max == 0, "never"


def test_the_inter_broker_listener_is_protected_beside_others():
    found = limits(
        listeners="INTERNAL://:9091,EXTERNAL://:9092,CONTROLLER://:9093",
        listener__security__protocol__map="INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT,"
        "CONTROLLER:PLAINTEXT",
        inter__broker__listener__name="INTERNAL",
    )
    assert found.protected_listener == "INTERNAL"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("max.connections", "-1", "Value must be at least 0"),
        ("max.connection.creation.rate", "-1", "Value must be at least 0"),
        ("max.connections.per.ip", "0", "can be set to zero only if"),
        ("max.connections.per.ip.overrides", "localhost:5", "ADDRESS:COUNT with an IP address"),
        ("max.connections.per.ip.overrides", "10.0.0.1", "ADDRESS:COUNT with an IP address"),
        ("max.connections.per.ip.overrides", "10.0.0.1:x", "ADDRESS:COUNT with an IP address"),
        ("max.connections.per.ip.overrides", "10.0.0.1:1,10.0.0.1:2", "listed twice"),
    ],
)
def test_limits_that_are_refused(key, value, message):
    with pytest.raises(ConfigError, match=message) as refused:
        node_config({**COMBINED, key: value})
    assert key in str(refused.value)


def test_windows_of_the_mutation_quota_reach_the_controller():
    window = MutationWindow(count=3, size_seconds=5)
    given = {"controller.quota.window.num": "3", "controller.quota.window.size.seconds": "5"}
    config = node_config(COMBINED | given)
    assert config.mutations == window
    controller = controller_of(config, "cluster", MemoryVfs(), random.Random(1), lambda: bytes(16))
    assert controller._config.mutations == window


def test_rate_of_new_connections():
    assert node_config(COMBINED).connection_limits.creation_rate == 2**31 - 1
    config = node_config({**COMBINED, "max.connection.creation.rate": "7"})
    assert config.connection_limits.creation_rate == 7
