"""Topics and logs of which a scrape tells: some of very many."""

from typing import Any

import pytest

from broker import largest_logs, records_counts
from broker.largest_logs import LargestLogs, LogSizes
from broker.records_counts import topic_counts
from replication.counters import Counters
from simulator.cluster.memory_vfs import MemoryVfs
from storage.logs.log_directory import TopicSettings
from storage.logs.retention import NO_LIMIT, RetentionRules
from tests.broker.metadata_log import MetadataLog
from tests.broker.record_hosts import Host, with_topics
from tests.storage.test_unified_log import NOW, opened, produced


def log_of(records: int, producers: int = 0) -> Any:
    log = opened(MemoryVfs())
    log.assign_epoch(0)
    for number in range(records):
        log.append_as_leader(produced(NOW, producer=5 if number < producers else -1), 0, NOW)
    return log


def settings(topic: str, retention_bytes: int = NO_LIMIT) -> TopicSettings:
    retention = RetentionRules(retention_bytes=retention_bytes)
    return TopicSettings(retention=retention)


def test_the_largest_logs_are_told_with_the_number_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(largest_logs, "LOGS_MAX", 2)
    logs = [(("t", number), log_of(size)) for number, size in enumerate((1, 2, 3))]
    found = LargestLogs().look(logs, dict(logs).get, settings)
    assert [(each.topic, each.partition) for each in found.logs] == [("t", 1), ("t", 2)]
    assert (found.left_out, found.logs[0].log_end_offset) == (1, 2)
    assert found.logs[0].size_bytes < found.logs[1].size_bytes
    assert [
        each.partition for each in LargestLogs().look(logs[:2], dict(logs).get, settings).logs
    ] == [0, 1]


@pytest.mark.parametrize(("share", "percent"), [(1, 100), (2, 50), (3, 33), (0, 0), (-1, 0)])
def test_a_size_is_told_in_per_cent_of_what_retention_leaves(share: int, percent: int) -> None:
    log = log_of(1)
    most = log.log.size_bytes * share if share > 0 else share
    found = LargestLogs().look([(("t", 0), log)], lambda _: log, lambda name: settings(name, most))
    assert found.logs[0].retention_percent == percent


def test_a_pass_over_many_logs_takes_several_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(largest_logs, "LOGS_MAX", 1)
    monkeypatch.setattr(largest_logs, "LOOKS", 2)
    logs = [(("t", number), log_of(size, 1)) for number, size in enumerate((2, 1, 3))]
    largest = LargestLogs()
    first = largest.look(logs, dict(logs).get, settings)
    assert ([each.partition for each in first.logs], first.left_out) == ([0], 1)
    assert first.producer_ids == 2
    logs[0][1].append_as_leader(produced(NOW), 0, NOW)
    second = largest.look([], dict(logs).get, settings)
    assert ([each.partition for each in second.logs], second.left_out) == ([2], 2)
    assert second.producer_ids == 3
    assert largest.look(logs[:1], dict(logs).get, settings).logs[0].partition == 0, (
        "a new pass is over in one look"
    )
    assert largest.look([], dict(logs).get, settings) == LogSizes()


def test_a_log_that_was_moved_or_deleted_in_a_pass_is_told_as_it_is_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(largest_logs, "LOOKS", 2)
    logs = [(("t", number), log_of(1)) for number in range(4)]
    largest = LargestLogs()
    for _ in range(3):
        largest.look(logs, dict(logs).get, settings)
    moved = {("t", 1): log_of(5), ("t", 2): logs[2][1], ("t", 3): logs[3][1]}
    found = largest.look(logs, moved.get, settings)
    assert [(each.partition, each.log_end_offset) for each in found.logs] == [
        (1, 5),
        (2, 1),
        (3, 1),
    ]
    assert found.left_out == 0


def test_topics_with_the_most_bytes_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_counts, "TOPICS_MAX", 2)
    metadata = MetadataLog()
    ids = {name: name.encode() * 16 for name in "abc"}
    for name, topic_id in ids.items():
        metadata.topic(name, topic_id)
    counters = Counters()
    for name, given in (("a", (5, 0)), ("b", (0, 7)), ("c", (3, 3))):
        found = counters.of(ids[name])  # type: ignore[arg-type]
        found.bytes_in, found.bytes_out = given
    counted = topic_counts(counters, metadata.image)
    assert [(each.topic, each.counters.bytes_in) for each in counted.told] == [("b", 0), ("c", 3)]
    assert counted.left_out == 1
    assert counted.told[0].counters is not counters.of(ids["b"])  # type: ignore[arg-type]
    counters.forget([ids["b"]])  # type: ignore[list-item]
    metadata.remove(ids["a"])
    counted = topic_counts(counters, metadata.image)
    assert ([each.topic for each in counted.told], counted.left_out) == (["c"], 0)
    assert counters.topics.keys() == {ids["c"]}
    metadata.topic("a", ids["a"])
    assert [each.topic for each in topic_counts(counters, metadata.image).told] == ["c"]


def test_an_open_log_is_found_by_its_name() -> None:
    host = Host(with_topics("a", partitions=2)).started()
    found = [host.local.open_log(("a", number)) for number in (0, 1, 2)]
    assert found == [host.partition(0).log, host.partition(1).log, None]
    host.log.remove()
    host.update()
    assert host.local.open_log(("a", 0)) is None
