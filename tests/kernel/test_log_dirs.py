"""DescribeLogDirs: what Kafka's reassignment tool asks every broker first."""

from typing import Any

import pytest

from kernel.access import Access
from metadata.image import Image
from quorum_controller.authorization import AccessRules, Caller
from tests.kernel.harness import World
from wire import codec
from wire.api_keys import DESCRIBE_LOG_DIRS
from wire.errors import ErrorCode


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


def test_it_needs_describe_on_the_cluster() -> None:
    rules = AccessRules(super_users=frozenset({"User:root"}))
    body = codec.newest(DESCRIBE_LOG_DIRS, "request").DescribeLogDirsRequest(topics=None)
    access, image = Access(rules), Image()
    refused = access.refusal(image, Caller("User:a"), DESCRIBE_LOG_DIRS, body)
    assert refused.error_code is ErrorCode.cluster_authorization_failed
    assert refused.results == ()
    assert access.refusal(image, Caller("User:root"), DESCRIBE_LOG_DIRS, body) is None
