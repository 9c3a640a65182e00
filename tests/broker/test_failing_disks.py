"""A disk that fails while a broker works on its partitions: all of the log directory goes offline.

The failure is met inside an append, of a leader or of a fetcher, and what it leads to (roles,
fetchers, answers to who waits) runs before that append returns.
"""

import errno
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from broker.effects import DirectoryFailed, Effect, SendParts, SendPeerBytes
from broker.events import TimeAdvanced
from tests.broker.brokers import LOG_DIR, response
from tests.broker.fronts import content
from tests.broker.test_replication import (
    CLIENT,
    TOPIC_ID,
    Pair,
    fetch,
    produce,
)
from wire.api_keys import FETCH, PRODUCE
from wire.connections.framing import FrameReader, frame
from wire.errors import ErrorCode
from wire.messages import codec

NONE, STORAGE_ERROR = ErrorCode.none, ErrorCode.kafka_storage_error
WAITING = {"min_bytes": 10_000, "max_wait": timedelta(seconds=9)}


def of_both(partitions: tuple[int, int] = (0, 1), **more: Any) -> Any:
    """A Fetch of two partitions."""
    new = codec.newest(FETCH, "request")
    rows = tuple(
        new.FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1_000)
        for number in partitions
    )
    topic = new.FetchTopic(topic_id=TOPIC_ID, partitions=rows)
    return replace(codec.default_request(FETCH), topics=(topic,), **more)


def to_both(acks: int) -> Any:
    """A Produce to two partitions."""
    body = produce(acks)
    (topic,) = body.topic_data
    (row,) = topic.partition_data
    rows = (row, replace(row, index=1))
    return replace(body, topic_data=(replace(topic, partition_data=rows),))


def codes(api_key: int, version: int, effects: list[Effect]) -> list[list[ErrorCode]]:
    """Errors of the partitions in each response; several may leave at once."""
    frames = FrameReader(1 << 20)
    for effect in effects:
        if isinstance(effect, SendParts):
            frames.feed(content(effect.parts))
    found = []
    while (one := frames.next_frame()) is not None:
        topics = response(api_key, version, [frame(bytes(one))]).responses
        rows = "partition_responses" if api_key == PRODUCE else "partitions"
        found.append([row.error_code for topic in topics for row in getattr(topic, rows)])
    return found


def failed(effects: list[Effect]) -> list[str]:
    return [each.path for each in effects if isinstance(each, DirectoryFailed)]


@pytest.mark.parametrize("acks", [1, -1])
def test_a_leader_answers_who_waits_when_an_append_fails(acks: int) -> None:
    pair = Pair(partitions=2)
    leader = pair.leader
    leader.request(PRODUCE, 13, produce(-1))
    leader.vfs.failing = lambda *_: errno.EIO
    effects = leader.request(PRODUCE, 13, to_both(acks))
    assert failed(effects) == [LOG_DIR]
    assert codes(PRODUCE, 13, effects) == [[STORAGE_ERROR], [STORAGE_ERROR] * 2]
    assert leader.broker._replicas.waiting_counts == (0, 0, 0)
    assert codes(PRODUCE, 13, leader.request(PRODUCE, 13, produce(acks))) == [[STORAGE_ERROR]]


def test_a_leader_answers_fetches_that_wait_when_an_append_fails() -> None:
    pair = Pair(partitions=2)
    leader = pair.leader
    for partitions in ((0, 1), (1, 0)):
        leader.request(FETCH, 17, of_both(partitions, **WAITING))
    leader.vfs.failing = lambda *_: errno.EIO
    effects = leader.request(PRODUCE, 13, produce(0))
    assert failed(effects) == [LOG_DIR]
    assert leader.broker._replicas.waiting_counts == (0, 0, 0)
    assert codes(FETCH, 17, effects) == [[STORAGE_ERROR] * 2] * 2, "read behind the failure"


def test_a_follower_goes_offline_inside_the_append_of_a_fetcher() -> None:
    pair = Pair(partitions=2)
    pair.replicate()
    follower = pair.follower
    follower.connect(CLIENT)
    follower.request(FETCH, 17, of_both(**WAITING))
    follower.vfs.failing = lambda *_: errno.EIO
    pair.request(PRODUCE, 13, to_both(1))
    seen = pair.replicate()
    assert failed(seen) == [LOG_DIR]
    (parts,) = pair.answers[-1:]
    assert codes(FETCH, 17, [SendParts(CLIENT, parts)]) == [[STORAGE_ERROR] * 2]
    assert follower.broker._replicas.waiting_counts == (0, 0, 0)
    follower.now_ms += 5_000
    effects = follower.step(TimeAdvanced())
    assert not [each for each in effects if isinstance(each, SendPeerBytes)], "nobody is fetched"
    assert codes(FETCH, 17, follower.request(FETCH, 17, fetch())) == [[STORAGE_ERROR]]
