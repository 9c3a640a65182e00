"""Every key of Kafka's config definitions: acted on, or named once at start when it is set.

That a node acts on a key is shown, not listed: set to another value the key changes a field of
NodeConfig that running nodes read (they run with configs that record it), or what holds for
partitions. Every other value of a key in `REFUSED` is refused beside the other keys. A number is
taken exactly where Kafka's definition takes it, or docs/running.md says why not.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from immutables import Map

from broker.cleaning.cleaner_settings import cleaner_settings
from broker.replicas.topic_settings import TopicSettingsOf
from kernel.lifecycle.cordoned_directories import cordoned_directories
from kernel.serving.auto_topics import INTERNAL, creatable_topic
from metadata.config_schema import ConfigDefinition, ConfigType, broker_configs
from metadata.config_values import parse_value
from metadata.features import METADATA_VERSION_MAX
from metadata.image import EMPTY, METADATA_VERSION
from metadata.node_configs import NodeConfigs
from node.configs.config import ConfigError, node_config
from node.configs.config_keys import INT_MAX, NUMBERS, Whole
from node.configs.record_keys import LONG_MAX
from node.configs.records_config import RACK_SELECTOR, records_config
from quorum_controller.configs.topic_defaults import partition_defaults
from quorum_controller.security.authorization import AccessRules
from tests.kernel.harness import World, create_topic_body
from tests.node.configs.test_config import BROKER, COMBINED, without
from wire.messages import codec
from wire.types import DirectoryId

NO_EFFECT = {"properties", "unknown_keys"}
"""Fields that hold every key: a change there is none."""
SUPER = {
    **COMBINED,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
}
NAMED = {
    **COMBINED,
    "listeners": "A://:1,B://:2,CONTROLLER://:3",
    "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "A",
}
CHANGES: dict[str, tuple[dict[str, str], str]] = {
    "advertised.listeners": (COMBINED, "PLAINTEXT://proxy:1"),
    "authorizer.class.name": (COMBINED, SUPER["authorizer.class.name"]),
    "broker.id": ({**without(BROKER, "node.id"), "broker.id": "7"}, "8"),
    "broker.rack": (COMBINED, "r"),
    "controller.listener.names": (NAMED, "CONTROLLER,B"),
    "controller.quorum.voters": (COMBINED, "1@localhost:9093"),
    "controller.quorum.bootstrap.servers": (COMBINED, "localhost:9093"),
    "cordoned.log.dirs": (COMBINED, "*"),
    "delegation.token.secret.key": (COMBINED, "s"),
    "inter.broker.listener.name": (NAMED, "B"),
    "listener.security.protocol.map": (COMBINED, "A:PLAINTEXT"),
    "listeners": (COMBINED, "PLAINTEXT://:1,CONTROLLER://:2"),
    "compression.gzip.level": ({**COMBINED, "compression.type": "gzip"}, "7"),
    "compression.lz4.level": ({**COMBINED, "compression.type": "lz4"}, "7"),
    "compression.zstd.level": ({**COMBINED, "compression.type": "zstd"}, "7"),
    "group.consumer.assignors": (COMBINED, "range"),
    "group.consumer.heartbeat.interval.ms": (COMBINED, "5001"),
    "group.consumer.session.timeout.ms": (COMBINED, "45001"),
    "group.coordinator.rebalance.protocols": (COMBINED, "classic"),
    "log.cleaner.max.compaction.lag.ms": ({**COMBINED, "log.cleanup.policy": "compact"}, "7"),
    "log.cleaner.dedupe.buffer.size": (COMBINED, "67108864"),
    "log.dir": (without(COMBINED, "log.dirs"), "/other"),
    "log.dirs": (COMBINED, "/other"),
    "log.flush.interval.ms": (COMBINED, "7"),
    "log.roll.jitter.ms": (COMBINED, "7"),
    "log.roll.ms": (COMBINED, "7"),
    "max.connections.per.ip.overrides": (COMBINED, "10.0.0.1:3"),
    "metadata.log.dir": (COMBINED, "/other"),
    "node.id": (BROKER, "8"),
    "offsets.topic.compression.codec": (COMBINED, "2"),
    "process.roles": (COMBINED, "controller"),
    "produce.validation": (COMBINED, "records"),
    "queued.max.request.bytes": (COMBINED, "104857600"),
    "replica.selector.class": (COMBINED, RACK_SELECTOR),
    "security.inter.broker.protocol": (COMBINED, "SSL"),
    "super.users": (SUPER, "User:a"),
}
"""Keys that need others beside them: those, and the value that makes the difference."""
REFUSED = {
    "listener.security.protocol.map": "every protocol but PLAINTEXT, and a map without a listener",
    "process.roles": "roles without their listeners",
    "security.inter.broker.protocol": "a protocol without a listener",
}
"""Keys whose other values contradict the keys beside them, as in Kafka."""
ROOT = Path(__file__).parents[3]
SHELL = ("process.py", "identity.py", "driver.py")
USERS = [
    path
    for package in ("kernel", "network", "quorum_controller", "storage")
    for path in sorted((ROOT / package).glob("**/*.py"))
    if path.name != "config.py"
]
"""Files that use the parts of a NodeConfig."""


def read_attributes(path: Path) -> set[str]:
    """Names behind a dot in a file, where they are read."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    reads = (n for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load))
    return {node.attr for node in reads}


RECORDS_READ = {
    name
    for package in ("broker", "coordinator", "replication")
    for path in (ROOT / package).glob("**/*.py")
    if path.name != "config.py"
    for name in read_attributes(path)
}
"""Names of the fields of a RecordsConfig that the records of a broker read, and others."""


class Recorded:
    """A config that notes which of its fields are read, parts included."""

    def __init__(self, config: Any, seen: set[str], path: str = "") -> None:
        self.__dict__.update(config=config, seen=seen, path=path)

    def __getattr__(self, name: str) -> Any:
        derived = getattr(type(self.config), name)
        if isinstance(derived, property):
            assert derived.fget is not None
            return derived.fget(self)
        value = getattr(self.config, name)
        path = f"{self.path}{name}"
        self.seen.add(path)
        if isinstance(value, msgspec.Struct) and name != "inspection_listener":
            return Recorded(value, self.seen, f"{path}.")
        return value


@cache
def fields_read() -> frozenset[str]:
    """Fields that nodes read while they start, serve, lose one and go on; and rarely read ones."""
    world, seen = World(3, access=AccessRules(allows_without_acl=True)), set[str]()
    for node in world.nodes.values():
        node.config = Recorded(node.config, seen)  # type: ignore[assignment]
    world.start_all()
    world.run_until(world.is_ready)
    client = world.client(1)
    client.call(19, create_topic_body("a", -1, -1))
    describe = codec.newest(75, "request")
    topics = (describe.TopicRequest(name="a"),)
    client.call(75, describe.DescribeTopicPartitionsRequest(topics=topics, cursor=None))
    client.delete_topic("a")
    world.terminate(2)
    world.run_for(30_000)
    return frozenset(seen) | frozenset(read_in_code())


def read_in_code() -> Iterator[str]:
    """Fields that the shell takes from the config, and those of parts on rarely taken paths.

    The latter by their name, where no other part has a field of that name.
    """
    shell = "".join((ROOT / "node" / name).read_text() for name in SHELL)
    yield from re.findall(r"\bconfig\.([a-z_]+)", shell)
    names = {attribute for path in USERS for attribute in read_attributes(path)}
    paths = leaves(msgspec.structs.replace(node_config(COMBINED), access=AccessRules()))
    parts = Counter(path.rpartition(".")[2] for path in paths)
    for path in paths:
        part, _, name = path.rpartition(".")
        if part and parts[name] == 1 and name in names:
            yield path


def leaves(config: Any, path: str = "") -> dict[str, Any]:
    """Every field by its path, those of parts instead of the part."""
    found: dict[str, Any] = {}
    for name in config.__struct_fields__:
        value = getattr(config, name)
        if isinstance(value, msgspec.Struct) and name != "inspection_listener":
            found |= leaves(value, f"{path}{name}.")
        elif path or name not in NO_EFFECT:
            found[f"{path}{name}"] = value
    return found


def other_value(definition: ConfigDefinition) -> Iterator[str]:
    """Values that Kafka takes and that are not the default."""
    texts = ["true", "false", "/x", "x", "PLAINTEXT", *map(str, range(-2, 20)), "123456"]
    rule = definition.rule
    texts += [] if rule is None else [*rule.values, str(rule.minimum), str(rule.maximum)]
    if definition.type in (ConfigType.INT, ConfigType.LONG) and definition.default is not None:
        texts.insert(0, str(int(definition.default) - 1))
    for text in texts:
        value, error = parse_value(definition, text)
        if error is None and text != definition.default and value is not None:
            yield text


def setting(key: str) -> tuple[dict[str, str], str]:
    """The properties around a key, and a value of it that Kafka takes."""
    return CHANGES.get(key) or (COMBINED, next(other_value(broker_configs()[key])))


def changed_fields(base: dict[str, str], key: str, value: str) -> set[str]:
    """Paths in NodeConfig that differ when the key is set."""
    before, after = leaves(node_config(base)), leaves(node_config({**base, key: value}))
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


def is_acted_on(key: str) -> bool:
    base, value = setting(key)
    changed = changed_fields(base, key, value)
    held = [effects(properties) for properties in (base, {**base, key: value})]
    return bool(changed & fields_read()) or held[0] != held[1]


def effects(properties: dict[str, str]) -> tuple[Any, ...]:
    """Settings of partitions and log directories below the dynamic configs."""
    image = msgspec.structs.replace(EMPTY, features=Map({METADATA_VERSION: METADATA_VERSION_MAX}))
    config = node_config(properties)
    directory_ids = {path: DirectoryId(bytes(16)) for path in config.log_dirs}
    settings = TopicSettingsOf(config.node_id, properties)
    records = leaves(records_config(config, directory_ids)) if config.is_broker else {}
    return (
        partition_defaults(NodeConfigs(EMPTY, 1, properties)),
        cordoned_directories(image, config, directory_ids),
        cleaner_settings(EMPTY, config.node_id, properties),
        settings.log("topic"),
        settings.partition("topic"),
        [creatable_topic(config, name) for name in (*INTERNAL, "topic")],
        {path: value for path, value in records.items() if path.rpartition(".")[2] in RECORDS_READ},
    )


@pytest.mark.parametrize("key", sorted(broker_configs()))
def test_a_key_is_acted_on_or_named(key):
    base, value = setting(key)
    if key in REFUSED:
        with pytest.raises(ConfigError, match=key.replace(".", r"\.")):
            node_config({**base, key: value})
        return
    is_named = key in node_config({**base, key: value}).unknown_keys
    assert is_named != is_acted_on(key), f"{is_named=}"


def differences() -> dict[str, str]:
    """The table of ranges that differ from Kafka's, by key."""
    text = (ROOT / "docs" / "running.md").read_text(encoding="utf-8")
    table = text.partition("| number | taken here | why not as in Kafka's definition |\n")[2]
    rows = [line.split("|")[1:-1] for line in table.partition("\n\n")[0].splitlines()[1:]]
    return {key.strip().strip("`"): why.strip() for key, _, why in rows}


def edges(number: Whole, definition: ConfigDefinition) -> set[int]:
    """Numbers in and out of both ranges, at their ends."""
    type_max = INT_MAX if definition.type is ConfigType.INT else LONG_MAX
    ends = {number.minimum, number.maximum, 0, -type_max - 1, type_max}
    rule = definition.rule
    ends |= {int(end) for end in (rule.minimum, rule.maximum) if end} if rule is not None else set()
    return {end + step for end in ends for step in (-1, 0, 1)}


def is_taken(key: str, value: int) -> bool:
    try:
        node_config({**COMBINED, key: str(value)})
    except ConfigError as error:
        assert key in str(error)  # noqa: PT017 - either is right, the caller compares
        return False
    return True


@pytest.mark.parametrize(
    "number",
    [number for number in NUMBERS if number.key in broker_configs()],
    ids=lambda number: number.key,
)
def test_a_number_is_taken_where_kafka_takes_it_or_the_difference_has_a_reason(number):
    definition = broker_configs()[number.key]
    found = {
        value
        for value in edges(number, definition)
        if is_taken(number.key, value) != (parse_value(definition, str(value))[1] is None)
    }
    assert bool(found) == (number.key in differences()), f"{found=}"


def test_the_differences_are_of_numbers_and_have_reasons():
    assert differences().keys() <= {number.key for number in NUMBERS}
    assert all(differences().values())


@pytest.mark.parametrize(
    ("key", "value", "used", "read"),
    [
        ("internal.metadata.log.segment.bytes", -1, 12, lambda c: c.metadata_log.segment_bytes),
        ("internal.metadata.log.segment.bytes", 13, 13, lambda c: c.metadata_log.segment_bytes),
        ("broker.heartbeat.interval.ms", -1, 10, lambda c: c.broker.heartbeat_interval_ms),
        (
            "initial.broker.registration.timeout.ms",
            -1,
            0,
            lambda c: c.broker.initial_registration_timeout_ms,
        ),
        ("default.replication.factor", 0, 0, lambda c: c.topic_defaults.replication_factor),
        (
            "default.replication.factor",
            2**15,
            -(2**15),
            lambda c: c.topic_defaults.replication_factor,
        ),
        ("default.replication.factor", 2**16 + 3, 3, lambda c: c.topic_defaults.replication_factor),
        ("metadata.max.retention.ms", -2, -2, lambda c: c.metadata_log.retention_ms),
    ],
)
def test_a_number_that_is_taken_is_used_as_this_one(key, value, used, read):
    assert read(node_config({**COMBINED, key: str(value)})) == used
