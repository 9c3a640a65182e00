"""ApiVersions and DescribeQuorum as real Kafka was asked: the same frames put to a quorum of ours.

What depends on the state of a running quorum (leader, offsets, times, addresses) is another one
here; all the rest of the answer must be Kafka's.
"""

from typing import Any

import pytest

from tests.kernel.harness import World
from tests.wire.recorded_pairs import answered
from wire.api_keys import API_VERSIONS, DESCRIBE_QUORUM
from wire.messages import codec

QUESTIONS = answered("API_VERSIONS", "DESCRIBE_QUORUM")
OF_4_3 = [pair for pair in QUESTIONS if pair["kafka_version"] == "4.3.1"]
OF_3_9 = [pair for pair in QUESTIONS if pair["kafka_version"] == "3.9.1"]
NOT_SERVED = {
    "broker": {
        "offsets, groups, transactions, share groups: no coordinator here": {
            *range(8, 10), *range(11, 17), *range(22, 29), 42, 47, 61, 65, 66, 68, 69, 76, 77, 78,
            79, *range(83, 93),
        },
        "records between brokers, deletion of records, log directories to choose": {21, 23, 34},
        "SASL: listeners are PLAINTEXT": {17, 36},
    },
    "controller": {
        "SASL: listeners are PLAINTEXT": {17, 36},
        "delegation tokens are described by brokers": {41},
    },
}  # fmt: skip
"""APIs of Kafka 4.3.1 that ours does not list, by listener and reason."""
NO_COORDINATOR = {"share.version", "streams.version"}
OTHER_LEVELS: dict[str, set[str]] = {"broker": NO_COORDINATOR, "controller": set()}
"""Features that are 0 to 0 here, by listener: brokers coordinate groups of consumers alone."""
LEVEL_ZERO_SINCE = 4
"""Version of ApiVersions; older ones do not name features that begin at level 0."""


@pytest.fixture(scope="module")
def world() -> World:
    """Three nodes, brokers and controllers, with a leader."""
    made = World(3)
    made.start_all()
    made.run_until(made.is_ready)
    made.run_for(600)
    return made


def kind(pair: dict[str, Any]) -> str:
    """Of the recorded listener."""
    return "controller" if pair["to"].startswith("controller") else "broker"


def ours_and_kafkas(world: World, pair: dict[str, Any]) -> tuple[Any, Any]:
    """Both answers, as a client of the recorded version reads them."""
    leader = world.active()
    assert leader is not None
    received: list[bytes] = []
    listener = "CONTROLLER" if kind(pair) == "controller" else "PLAINTEXT"
    pipe = world.open_client(leader, listener, received.append)
    frame = bytes.fromhex(pair["request_hex"])
    world.send(pipe, len(frame).to_bytes(4, "big") + frame)
    world.run_until(lambda: bool(received), 5_000)
    answers = b"".join(received)[4:], bytes.fromhex(pair["response_hex"])
    key, version = pair["api_key"], pair["api_version"]
    (our_id, ours), (kafkas_id, kafkas) = (codec.decode_response(key, version, a) for a in answers)
    assert our_id == kafkas_id
    return ours, kafkas


def name(pair: dict[str, Any]) -> str:
    return f"{pair['id']}-{pair['api']}-v{pair['api_version']}-{pair['to']}"


@pytest.mark.parametrize("pair", [p for p in OF_4_3 if p["api_key"] == API_VERSIONS], ids=name)
def test_versions_are_those_of_kafka(world: World, pair: dict[str, Any]) -> None:
    ours, kafkas = ours_and_kafkas(world, pair)
    assert (ours.error_code, ours.throttle_time) == (kafkas.error_code, kafkas.throttle_time)
    assert ours.zk_migration_ready == kafkas.zk_migration_ready
    listed = {api.api_key: api for api in ours.api_keys}
    expected = {api.api_key: api for api in kafkas.api_keys}
    missing = set().union(*NOT_SERVED[kind(pair)].values())
    assert expected.keys() - listed.keys() == missing
    assert listed == {key: api for key, api in expected.items() if key not in missing}


@pytest.mark.parametrize("pair", [p for p in OF_4_3 if p["api_key"] == API_VERSIONS], ids=name)
def test_features_are_those_of_kafka(world: World, pair: dict[str, Any]) -> None:
    ours, kafkas = ours_and_kafkas(world, pair)
    found = {feature.name: feature for feature in ours.supported_features}
    expected = {feature.name: feature for feature in kafkas.supported_features}
    assert found.keys() == expected.keys()
    other = OTHER_LEVELS[kind(pair)]
    assert all(found[name] == expected[name] for name in found.keys() - other)
    levels = {(found[name].min_version, found[name].max_version) for name in found.keys() & other}
    assert levels <= {(0, 0)}
    assert ("kraft.version" in found) == (pair["api_version"] >= LEVEL_ZERO_SINCE)


@pytest.mark.parametrize("pair", [p for p in OF_3_9 if p["api_key"] == API_VERSIONS], ids=name)
def test_nodes_and_clients_of_3_9_have_a_version_in_common(
    world: World, pair: dict[str, Any]
) -> None:
    ours, kafkas = ours_and_kafkas(world, pair)
    assert (ours.error_code, ours.throttle_time) == (kafkas.error_code, kafkas.throttle_time)
    listed = {api.api_key: api for api in ours.api_keys}
    shared = [(listed[old.api_key], old) for old in kafkas.api_keys if old.api_key in listed]
    assert all(new.min_version <= old.max_version <= new.max_version for new, old in shared)
    assert {API_VERSIONS, DESCRIBE_QUORUM} <= {old.api_key for _, old in shared}


def settled(answer: Any) -> Any:
    """A DescribeQuorum answer without what depends on a running quorum.

    Those are: leader and offsets, times, directory ids (kraft.version 1 in two scenarios),
    observers (our brokers are voters), addresses.
    """
    (topic,) = answer.topics
    (partition,) = topic.partitions
    return (
        (answer.error_code, answer.error_message, topic.topic_name),
        (partition.partition_index, partition.error_code, partition.error_message),
        [voter.replica_id for voter in partition.current_voters],
        [(node.node_id, [at.name for at in node.listeners]) for node in answer.nodes],
    )


@pytest.mark.parametrize(
    "pair", [p for p in QUESTIONS if p["api_key"] == DESCRIBE_QUORUM], ids=name
)
def test_the_quorum_is_described_as_kafka_does(world: World, pair: dict[str, Any]) -> None:
    ours, kafkas = ours_and_kafkas(world, pair)
    assert settled(ours) == settled(kafkas)
    if pair["scenario"].startswith("static"):
        replicas = [answer.topics[0].partitions[0].current_voters for answer in (ours, kafkas)]
        directories = [{replica.replica_directory_id for replica in some} for some in replicas]
        assert directories == [{None}, {None}]
