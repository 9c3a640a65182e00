"""Replicas and counts of a broker as values."""

from typing import Any

import pytest

from broker.events import ConnectionOpened, StopRequested
from broker.largest_logs import LogSize, LogSizes
from broker.records_counts import DelayedCount, SessionCount
from broker.replicas import replica_views
from broker.replicas.replica_views import FollowerView, FutureLogView, ReplicaFetchView, SegmentView
from metadata.features import METADATA_VERSION_MAX
from metadata.records import FeatureLevelRecord
from tests.broker.brokers import LOG_DIR, Driven
from tests.broker.fronts import LISTENER
from tests.broker.metadata_log import D2, A, B
from tests.broker.test_broker import append, list_offsets
from tests.broker.test_replication import BATCH_BYTES, Pair, fetch, produce
from tests.storage.test_unified_log import produced
from wire.api_keys import ALTER_REPLICA_LOG_DIRS, FETCH, LIST_OFFSETS, PRODUCE
from wire.messages import codec
from wire.types import TopicId

KEY = (A, 0)


def replicated(**fields: Any) -> Pair:
    """Two brokers with one batch of two records, which is committed."""
    pair = Pair(**fields)
    pair.replicate()
    pair.request(PRODUCE, 13, produce(-1))
    pair.replicate()
    return pair


def test_a_leader_with_its_followers() -> None:
    pair = replicated()
    view = pair.leader.broker.replica(KEY)
    assert view is not None
    assert (view.role, view.error, view.leader_id) == ("leader", None, 1)
    assert (view.leader_epoch, view.partition_epoch, view.fetching) == (0, 1, None)
    led = view.leadership
    assert led is not None
    assert (led.isr, led.pending, led.maximal_isr) == ([1, 2], None, [1, 2])
    assert (led.min_insync_replicas, led.is_under_min_isr, led.epoch_start_offset) == (1, False, 0)
    (follower,) = led.followers
    assert follower == FollowerView(
        id=2,
        is_in_sync=True,
        log_start_offset=0,
        log_end_offset=2,
        lag=0,
        last_fetch_ms=1_001_000,
        last_caught_up_ms=1_001_000,
    )


def test_a_replica_that_moves_to_another_log_directory() -> None:
    driven = Driven(more_dirs={"/log2": D2})
    newest = FeatureLevelRecord(name="metadata.version", feature_level=METADATA_VERSION_MAX)
    driven.metadata.write(newest)
    driven.metadata.topic("a")
    driven.start()
    append(driven)
    view = driven.broker.replica(KEY)
    assert view is not None
    assert view.future_log is None
    driven.connect()
    new = codec.newest(ALTER_REPLICA_LOG_DIRS, "request")
    row = new.AlterReplicaLogDirTopic(name="a", partitions=(0,))
    moved = new.AlterReplicaLogDir(path="/log2", topics=(row,))
    driven.request(ALTER_REPLICA_LOG_DIRS, 2, new.AlterReplicaLogDirsRequest(dirs=(moved,)))
    view = driven.broker.replica(KEY)
    assert view is not None
    assert view.log is not None
    assert view.log.log_dir == LOG_DIR
    assert view.future_log == FutureLogView(
        log_dir="/log2",
        log_end_offset=view.log.log_end_offset,
        size_bytes=view.log.size_bytes,
        lag=0,
        is_assigned=True,
    )
    assert view.log.log_end_offset > 0
    append(driven)
    driven.metadata.change(directories=(D2,))
    driven.publish()
    view = driven.broker.replica(KEY)
    assert view is not None
    assert view.log is not None
    assert (view.log.log_dir, view.future_log) == ("/log2", None)


def test_a_follower_that_lags_and_one_that_has_not_fetched() -> None:
    pair = Pair(isr=(1,))
    view = pair.leader.broker.replica(KEY)
    assert view is not None
    assert view.leadership is not None
    (silent,) = view.leadership.followers
    assert (silent.is_in_sync, silent.log_end_offset, silent.lag) == (False, None, None)
    assert (silent.last_fetch_ms, silent.last_caught_up_ms) == (None, None)
    pair.replicate()
    pair.request(PRODUCE, 13, produce(1))
    pair.leader.now_ms += 400
    pair.leader.step()
    view = pair.leader.broker.replica(KEY)
    assert view is not None
    assert view.leadership is not None
    assert view.leadership.pending == "expand"
    assert (view.leadership.isr, view.leadership.maximal_isr) == ([1], [1, 2])
    (late,) = view.leadership.followers
    assert (late.lag, late.last_fetch_ms) == (2, 1_001_000), "wall clock of the fetch"


def test_a_follower_has_the_lag_of_its_fetcher() -> None:
    pair = replicated()
    view = pair.follower.broker.replica(KEY)
    assert view is not None
    assert (view.role, view.leader_id, view.leadership) == ("follower", 1, None)
    assert view.fetching == ReplicaFetchView(lag=0, failure=None)
    assert view.log is not None
    assert (view.log.log_end_offset, view.log.log_dir) == (2, LOG_DIR)
    pair.follower.broker._fetchers._fetchers[1, 0]._states[KEY].lag = 7
    assert pair.follower.broker.counts().replica_lag_max == 7
    view = pair.follower.broker.replica(KEY)
    assert view is not None
    assert view.fetching == ReplicaFetchView(lag=7, failure=None)
    pair.follower.broker._fetchers.failed[KEY] = "why"
    view = pair.follower.broker.replica(KEY)
    assert view is not None
    assert view.fetching is not None
    assert view.fetching.failure == "why"
    assert pair.follower.broker.counts().failed_partitions == 1


def test_a_log_with_segments_and_producers(monkeypatch: pytest.MonkeyPatch) -> None:
    driven = Driven()
    driven.metadata.topic(internal_segment_bytes="100")
    driven.start()
    for sequence in range(3):
        batch = produced(5, producer=9 - sequence, epoch=1, sequence=0)
        driven.broker._replicas.append(
            {KEY: batch}, required_acks=1, timeout_ms=0, answer=lambda _: None
        )
    log = driven.broker._replicas.partitions[KEY].log
    assert log is not None
    log.raise_log_start_to(1)
    view = driven.broker.replica(KEY)
    assert view is not None
    assert view.log is not None
    size = view.log.size_bytes // 3
    assert (view.log.log_start_offset, view.log.log_end_offset) == (1, 3)
    assert (view.log.high_watermark, view.log.last_stable_offset) == (3, 3)
    assert view.log.segments == [
        SegmentView(base_offset=base, size_bytes=size, largest_timestamp_ms=5) for base in range(3)
    ]
    assert [each.producer_id for each in view.log.producers] == [7, 8, 9]
    first = view.log.producers[0]
    assert (first.producer_epoch, first.last_sequence, first.last_timestamp_ms) == (1, 0, 5)
    assert first.transaction_start_offset is None
    monkeypatch.setattr(replica_views, "SEGMENTS_MAX", 2)
    monkeypatch.setattr(replica_views, "PRODUCERS_MAX", 2)
    view = driven.broker.replica(KEY)
    assert view is not None
    assert view.log is not None
    assert (view.log.segment_count, view.log.producer_count) == (3, 3)
    assert [each.base_offset for each in view.log.segments] == [1, 2], "the newest"
    assert [each.producer_id for each in view.log.producers] == [7, 8], "the newest"


def test_no_index_is_read_for_a_view() -> None:
    driven = Driven()
    driven.metadata.topic()
    driven.start()
    append(driven)
    log = driven.broker._replicas.partitions[KEY].log
    assert log is not None
    log.log.segments[0]._indexes = None
    view = driven.broker.replica(KEY)
    assert view is not None
    assert view.log is not None
    assert view.log.segments[0].largest_timestamp_ms is None
    assert log.log.segments[0]._indexes is None


def test_a_failed_log_directory() -> None:
    driven = Driven()
    driven.metadata.topic()
    driven.start()
    driven.broker._local.fail(LOG_DIR, OSError("broken"))
    view = driven.broker.replica(KEY)
    assert view is not None
    assert (view.role, view.error, view.log) == ("offline", "KAFKA_STORAGE_ERROR", None)
    assert (view.leader_epoch, view.leader_id) == (0, None)
    counts = driven.broker.counts()
    assert (counts.offline_replicas, len(counts.failed_log_dirs), counts.logs) == (1, 1, LogSizes())
    driven.metadata.remove()
    driven.publish()
    assert driven.broker.counts().offline_replicas == 0


def test_a_broker_that_has_stopped_has_no_replicas() -> None:
    driven = Driven()
    driven.metadata.topic()
    driven.start()
    driven.broker._local.fail(LOG_DIR, OSError("broken"))
    driven.step(StopRequested())
    assert driven.broker.counts().offline_replicas == 0
    assert driven.broker.replica(KEY) is None


def test_the_largest_lag_is_that_of_all_fetchers() -> None:
    driven = Driven()
    driven.metadata.topic(partitions=2, replicas=(2, 1), leader=2)
    driven.metadata.topic("b", replicas=(3, 1), leader=3)
    driven.metadata.register(2)
    driven.metadata.register(3)
    driven.start()
    assert driven.broker.counts().replica_lag_max == 0, "no leader has answered"
    states = {
        key: state
        for fetcher in driven.broker._fetchers._fetchers.values()
        for key, state in fetcher._states.items()
    }
    states[A, 0].lag, states[A, 1].lag, states[B, 0].lag = 3, 9, 4
    assert driven.broker.counts().replica_lag_max == 9
    states[B, 0].lag = 10
    assert driven.broker.counts().replica_lag_max == 10


def test_a_partition_that_is_not_hosted_has_no_view() -> None:
    driven = Driven()
    driven.metadata.topic()
    driven.start()
    assert driven.broker.replica((TopicId(B), 0)) is None


def test_counts_of_records_and_requests() -> None:
    pair = replicated()
    leader, follower = pair.leader.broker.counts(), pair.follower.broker.counts()
    assert (leader.counters.messages_in, leader.counters.bytes_in) == (2, BATCH_BYTES)
    assert leader.counters.replication_bytes_out == BATCH_BYTES
    assert follower.counters.replication_bytes_in == BATCH_BYTES
    assert leader.counters.bytes_out == 0
    pair.request(FETCH, 17, fetch())
    pair.replicate()
    counts = pair.leader.broker.counts()
    assert counts.counters.bytes_out == BATCH_BYTES
    assert leader.counters.bytes_out == 0, "the value before does not change"
    assert (counts.requests[PRODUCE, 13], counts.requests[FETCH, 17]) == (1, 1)
    assert counts.connections == {LISTENER: 2}
    assert counts.accepted == {LISTENER: 2}
    assert counts.sessions == SessionCount(open=1, partitions=1, evicted=0), "the follower's"
    assert counts.queued_bytes_max == 64 << 20
    assert counts.logs == LogSizes(logs=(LogSize("a", 0, BATCH_BYTES, 0, 2, 1),))
    assert counts.counters.reassignment_bytes_out == 0
    assert counts.counters.topics == {}, "for another thread"


def test_the_time_in_which_a_connection_waited_for_memory() -> None:
    driven = Driven()
    memory = driven.broker.memory
    assert memory.take(1, memory.size_bytes)
    driven.read_ns = [500, 800]
    assert not memory.take(2, 1)
    counts = driven.broker.counts()
    assert (counts.depleted_ns, counts.queued_bytes) == (300, memory.size_bytes)


def test_requests_that_wait_and_the_bytes_that_they_hold() -> None:
    pair = Pair()
    pair.request(PRODUCE, 13, produce(-1))
    counts = pair.leader.broker.counts()
    assert counts.produce == DelayedCount(watched=1, delayed=1)
    assert counts.fetch == counts.delete_records == DelayedCount(0, 0)
    assert counts.queued_bytes == 0, "its records are in the log"


def test_the_counts_of_a_topic_go_with_it() -> None:
    pair = replicated()
    pair.request(FETCH, 17, fetch())
    pair.replicate()
    (topic,) = pair.leader.broker.counts().topics.told
    assert (topic.topic, topic.counters.bytes_in, topic.counters.bytes_out) == (
        "a", BATCH_BYTES, BATCH_BYTES
    )  # fmt: skip
    assert topic.counters.messages_in == 2
    assert topic.counters.fetch_requests > 1, "those of followers too"
    pair.metadata.remove(A)
    pair.publish()
    assert pair.leader.broker._counters.topics == {}


def test_bytes_of_a_reassignment() -> None:
    pair = Pair()
    pair.metadata.change(replicas=(1, 2), adding_replicas=(2,))
    pair.publish()
    pair.request(PRODUCE, 13, produce(1))
    pair.replicate()
    leader, follower = pair.leader.broker.counts(), pair.follower.broker.counts()
    assert leader.counters.reassignment_bytes_out == BATCH_BYTES
    assert follower.counters.reassignment_bytes_in == BATCH_BYTES
    assert (leader.counters.reassignment_bytes_in, leader.counters.bytes_out) == (0, 0)


def test_connections_are_counted_by_listener() -> None:
    driven = Driven()
    driven.start()
    driven.connect()
    driven.step(ConnectionOpened(2, "OTHER", "127.0.0.1"))
    assert driven.broker.counts().connections == {LISTENER: 1, "OTHER": 1}
    driven.request(LIST_OFFSETS, 7, list_offsets())
    driven.request(LIST_OFFSETS, 7, list_offsets())
    assert driven.broker.counts().requests == {(LIST_OFFSETS, 7): 2}
