"""DescribeLogDirs: what Kafka's reassignment tool asks every broker first."""

import errno
from datetime import timedelta
from typing import Any

import pytest

from kernel.formatting import bootstrap_checkpoint
from kernel.serving.access import Access
from metadata.image import METADATA_VERSION, Image
from quorum_controller.security.authorization import AccessRules, Caller
from storage.log_dir.bootstrap_checkpoint import write_bootstrap_checkpoint
from tests.kernel.harness import World
from wire.api_keys import ALTER_PARTITION_REASSIGNMENTS, DESCRIBE_LOG_DIRS
from wire.errors import ErrorCode
from wire.messages import codec


def asked(world: World, topics: dict[str, tuple[int, ...]] | None, version: int = 5) -> Any:
    client = world.client(1)
    client.connection._version_limits = {DESCRIBE_LOG_DIRS: version}
    new = codec.newest(DESCRIBE_LOG_DIRS, "request")
    rows = None if topics is None else tuple(
        new.DescribableLogDirTopic(topic=name, partitions=numbers)
        for name, numbers in topics.items()
    )  # fmt: skip
    return client.call(DESCRIBE_LOG_DIRS, new.DescribeLogDirsRequest(topics=rows))


def found(answer: Any) -> dict[str, dict[str, list[int]]]:
    return {
        result.log_dir: {
            topic.name: [p.partition_index for p in topic.partitions] for topic in result.topics
        }
        for result in answer.results
    }


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
def test_a_broker_tells_what_it_hosts(version: int) -> None:
    world = World(3)
    world.start_all()
    world.run_until(world.is_ready)
    client = world.client(1)
    client.create_topic("wide", partitions=3, replicas=3)
    client.create_topic("narrow", partitions=6)
    world.run_for(50)
    image = world.kernel(1).cache.image
    narrow = image.topic_named("narrow")
    assert narrow is not None
    mine = [number for number, p in sorted(narrow.partitions.items()) if 1 in p.replicas]
    assert found(asked(world, None, version)) == {
        "/data": {"narrow": mine, "wide": [0, 1, 2]} if mine else {"wide": [0, 1, 2]}
    }
    assert found(asked(world, {"wide": (1, 9), "nothing": (0,)}, version)) == {
        "/data": {"wide": [1]}
    }
    assert found(asked(world, {}, version)) == {"/data": {}}


def sizes(answer: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.name, partition.partition_index): partition.partition_size
        for result in answer.results
        for topic in result.topics
        for partition in topic.partitions
    }


def world_with_records() -> World:
    """Three nodes; a broker of Kafka left records in node 1's folder of wide-1."""
    world = World(3)
    world.start_all()
    world.run_until(world.is_ready)
    world.client(1).create_topic("wide", partitions=3, replicas=3)
    world.run_for(3_000)
    world.kill(1)
    vfs = world.nodes[1].vfs
    assert vfs.is_directory("/data/wide-1")
    for name, length in (
        (20 * "0" + ".log", 700),
        ("00000000000000000009.log", 60),
        ("x.index", 8),
    ):
        file = vfs.open(f"/data/wide-1/{name}", create=True)
        file.pwrite(bytes(length), 0)
    world.start(1)
    world.run_until(world.is_ready)
    world.run_for(3_000)
    return world


def test_the_size_of_a_replica_is_that_of_its_segments() -> None:
    world = world_with_records()
    expected = {("wide", 0): 0, ("wide", 1): 760, ("wide", 2): 0}
    assert sizes(asked(world, None)) == expected
    assert sizes(asked(world, {"wide": (1,)})) == {("wide", 1): 760}


def test_what_was_moved_away_has_no_size_when_it_comes_back() -> None:
    world = world_with_records()
    folders = world.kernel(1).folders
    assert folders is not None
    wide = world.kernel(1).cache.image.topic_named("wide")
    assert wide is not None
    assert folders.record_bytes() == {(wide.topic_id, 1): 760}
    reassign(world, "wide", 1, (2, 3))
    world.run_until(lambda: not world.nodes[1].vfs.exists("/data/wide-1"))
    world.run_for(100)
    assert folders.record_bytes() == {}
    assert folders.with_records() == set()
    reassign(world, "wide", 1, (2, 3, 1))
    world.run_until(lambda: world.nodes[1].vfs.exists("/data/wide-1"))
    assert sizes(asked(world, {"wide": (1,)})) == {("wide", 1): 0}


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
def test_the_volume_is_told_from_version_4_on(version: int) -> None:
    world = World(1)
    world.start_all()
    world.run_until(world.is_ready)
    vfs = world.nodes[1].vfs
    used = vfs.used_bytes()
    vfs.bytes_max = used + 1_000_000
    (result,) = asked(world, None, version).results
    if version < 4:
        assert (result.total_bytes, result.usable_bytes) == (-1, -1)
    else:
        assert result.total_bytes == vfs.bytes_max
        assert 0 < result.usable_bytes <= 1_000_000


@pytest.mark.parametrize("cordoned", ["", "/data"])
def test_a_cordoned_directory_is_marked(cordoned: str) -> None:
    world = World(1, properties=(("cordoned.log.dirs", cordoned),))
    content = bootstrap_checkpoint({METADATA_VERSION: 30}, 0)
    write_bootstrap_checkpoint(world.nodes[1].vfs, "/data", content)
    world.start_all()
    world.run_until(world.is_ready)
    (result,) = asked(world, None).results
    assert result.is_cordoned == bool(cordoned)


def test_a_directory_that_cannot_be_asked_is_a_storage_error() -> None:
    world = World(1)
    world.start_all()
    world.run_until(world.is_ready)
    client = world.client(1)
    client.create_topic("a")
    world.nodes[1].vfs.failing = lambda kind, path: (
        errno.EIO if (kind, path) == ("read", "/data") else None
    )
    (result,) = asked(world, None).results
    assert (result.error_code, result.log_dir) == (ErrorCode.kafka_storage_error, "/data")
    assert (result.topics, result.total_bytes, result.usable_bytes) == ((), -1, -1)


def test_it_needs_describe_on_the_cluster() -> None:
    rules = AccessRules(super_users=frozenset({"User:root"}))
    body = codec.newest(DESCRIBE_LOG_DIRS, "request").DescribeLogDirsRequest(topics=None)
    access, image = Access(rules), Image()
    refused = access.refusal(image, Caller("User:a"), DESCRIBE_LOG_DIRS, body)
    assert refused.error_code is ErrorCode.cluster_authorization_failed
    assert refused.results == ()
    assert access.refusal(image, Caller("User:root"), DESCRIBE_LOG_DIRS, body) is None


def reassign(world: World, name: str, partition: int, replicas: tuple[int, ...]) -> None:
    """Give one partition other replicas."""
    new = codec.newest(ALTER_PARTITION_REASSIGNMENTS, "request")
    row = new.ReassignablePartition(partition_index=partition, replicas=replicas)
    body = new.AlterPartitionReassignmentsRequest(
        topics=(new.ReassignableTopic(name=name, partitions=(row,)),),
        timeout=timedelta(seconds=10),
    )
    answer = world.client(1).call(ALTER_PARTITION_REASSIGNMENTS, body)
    assert answer.error_code is ErrorCode.none
    assert answer.responses[0].partitions[0].error_code is ErrorCode.none
