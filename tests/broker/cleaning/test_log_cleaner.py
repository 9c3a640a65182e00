"""The log cleaner of a broker: looks, rounds, swaps, and what happens to a log meanwhile."""

import errno
from typing import Any

import pytest

from broker.effects import Lane
from storage.cleaner.cleaner_manager import CleaningState
from tests.broker.cleaning.cleaner_hosts import (
    BACKOFF_MS,
    NAME,
    CleanerHost,
    filled,
    leftovers,
    offsets,
    state,
    values,
)
from tests.broker.metadata_log import D2, A, B
from tests.broker.record_hosts import with_topics
from tests.storage.golden import put


def test_a_dirty_log_is_cleaned_at_once_and_its_offset_recorded() -> None:
    host = filled()
    before = values(host)
    assert len(host.unified().log.segments) == 4
    host.look()
    assert state(host) is CleaningState.IN_PROGRESS
    assert [(each[0], each[1]) for each in host.works] == [(Lane.CLEANER, "0")]
    host.work()
    assert state(host) is None
    assert offsets(host) == [4, 5, 6, 7]
    assert values(host) == before
    assert host.recorded() == {NAME: 6}
    assert leftovers(host) == []
    (fields,) = host.logged("log_cleaned")
    assert (fields["log"], fields["first_dirty"], fields["next_first_dirty"]) == ("a-0", 0, 6)
    assert fields["messages_read"] == 6
    assert host.sessions[0].is_closed


def test_a_look_follows_a_round_at_once_and_else_a_pause() -> None:
    host = filled()
    host.look()
    assert host.cleaner.next_ms() is None, "its only cleaner is busy"
    host.work()
    assert host.cleaner.next_ms() == host.clock.now_ms
    host.look()
    assert host.works == []
    assert host.cleaner.next_ms() == host.clock.now_ms + BACKOFF_MS
    assert len(host.sessions) == 1


def test_without_threads_no_look_is_due() -> None:
    host = filled()
    assert host.cleaner.next_ms() is not None
    host.log.broker_config("log.cleaner.threads", "0")
    host.publish()
    assert host.cleaner.next_ms() is None


def test_the_dirtiest_log_is_the_first() -> None:
    fields: dict[str, Any] = {
        "cleanup_policy": "compact",
        "internal_segment_bytes": "80",
        "min_cleanable_dirty_ratio": "0.1",
    }
    host = CleanerHost(with_topics("a", partitions=3, **fields), log_cleaner_threads="2")
    host.started()
    for number, count in ((0, 4), (1, 4), (2, 4)):
        for _ in range(count):
            host.write((b"k", b"v"), number=number)
    host.cleaner.states.set_offset("/1", ("a", 0), 2)
    host.cleaner.states.set_offset("/1", ("a", 2), 1)
    host.look()
    assert [(each.thread, each.job.partition) for each in host.sessions] == [
        ("0", "a-1"),
        ("1", "a-2"),
    ]
    host.work()
    host.look()
    assert host.sessions[-1].job.partition == "a-0"


def test_logs_that_are_not_dirty_enough_or_not_compacted_are_left() -> None:
    host = filled(min_cleanable_dirty_ratio="0.5")
    host.cleaner.states.set_offset("/1", NAME, 4)
    host.look()
    assert host.works == []
    assert host.cleaner.figures().dirty_percent_max == 33
    other = filled(cleanup_policy="delete")
    other.look()
    assert (other.works, other.cleaner.figures().dirty_percent_max) == ([], 0)


def test_a_cleaner_that_is_not_enabled_looks_at_nothing() -> None:
    for off in ({"log_cleaner_enable": "false"}, {"log_cleaner_threads": "0"}):
        host = filled(8, **off)
        assert host.cleaner.next_ms() is None
        host.pass_ms(100_000)
        assert host.sessions == []


def test_a_look_takes_some_logs_in_a_turn() -> None:
    host = CleanerHost(with_topics("a", partitions=30, cleanup_policy="compact")).started()
    assert isinstance(host, CleanerHost)
    host.budget.units_max = 20
    host.budget.begin()
    host.cleaner.tick()
    assert host.cleaner.next_ms() is None
    host.cleaner.go_on()
    assert host.cleaner.is_busy
    assert len(host.cleaner._left) == 20
    while host.cleaner.is_busy:
        host.budget.begin()
        host.cleaner.go_on()
    assert host.cleaner.next_ms() == host.clock.now_ms + BACKOFF_MS


# -- settings -------------------------------------------------------------------------------------


def test_settings_are_those_in_force_when_a_round_or_step_begins() -> None:
    host = filled(log_cleaner_dedupe_buffer_size="2400000", log_cleaner_threads="1")
    assert host.cleaner._settings.limits.keys_max == 90_000
    host.log.broker_config("log.cleaner.io.max.bytes.per.second", "1000")
    host.log.broker_config("log.cleaner.io.buffer.load.factor", "0.5")
    host.log.broker_config("log.cleaner.io.buffer.size", "100000")
    host.update()
    host.look()
    (session,) = host.sessions
    assert session.job.keys_max == 50_000
    assert session.job.slots == 100_000
    assert session.job.read_bytes == 50_000
    host.log.broker_config("log.cleaner.threads", "2")
    host.update()
    assert (session.rates[0], session.rates[-1]) == (1000.0, 500.0)
    assert host.cleaner._settings.limits.keys_max == 25_000


def test_a_shorter_pause_holds_at_once() -> None:
    host = filled(count=1)
    host.look()
    assert host.cleaner.next_ms() == host.clock.now_ms + BACKOFF_MS
    host.log.broker_config("log.cleaner.backoff.ms", "100")
    host.update()
    assert host.cleaner.next_ms() == host.clock.now_ms + 100


def test_settings_are_computed_anew_only_for_an_image_with_other_configs() -> None:
    host = filled(count=1)
    host.log.broker_config("log.cleaner.backoff.ms", "100")
    host.update()
    before = host.cleaner._settings
    host.log.topic("b", B)
    host.update()
    assert host.cleaner._settings is before
    host.log.broker_config("log.cleaner.backoff.ms", "200")
    host.update()
    assert host.cleaner._settings.backoff_ms == 200


# -- what happens to a log meanwhile --------------------------------------------------------------


@pytest.mark.parametrize("works", range(8))
def test_a_truncation_at_any_time_ends_the_round(works: int) -> None:
    host = filled()
    host.look()
    for _ in range(works):
        host.work_one()
    host.unified().truncate_to(3, host.clock.wall_ms)
    host.write((b"a", b"new"), (b"b", b"new"))
    host.work()
    assert state(host) is None
    assert leftovers(host) == []
    assert values(host) == {b"a": b"new", b"b": b"new"}
    host.look()
    first_dirty = host.cleaner.states.offset("/1", NAME) or 0
    assert first_dirty <= 3, "what was appended since is dirty"
    host.work()


def test_a_truncation_lowers_what_is_clean_to_a_segment() -> None:
    host = filled()
    host.look()
    host.work()
    assert host.recorded() == {NAME: 6}
    host.unified().truncate_to(5, host.clock.wall_ms)
    base = host.unified().log.segments[-1].base_offset
    host.look()
    host.work()
    assert host.recorded() == {NAME: base}
    host.look()
    assert host.cleaner.states.offset("/1", NAME) == base


@pytest.mark.parametrize("works", range(9))
def test_a_deletion_at_any_time_leaves_nothing(works: int) -> None:
    host = filled()
    host.look()
    for _ in range(works):
        if host.works:
            host.work_one()
    host.log.remove()
    host.publish()
    host.work()
    assert host.cleaner.states.state(NAME) is None
    assert host.recorded() == {}
    host.pass_ms(100_000)
    assert not any(name.startswith("a-0") for name in host.vfs.list("/1"))


@pytest.mark.parametrize("works", [0, 1, 2, 3])
def test_a_topic_that_is_not_compacted_any_more_ends_the_round(works: int) -> None:
    host = filled()
    before = values(host)
    host.look()
    for _ in range(works):
        host.work_one()
    host.log.config("a", cleanup_policy="delete", internal_segment_bytes="160")
    host.publish()
    assert state(host) is CleaningState.ABORTED
    assert host.sessions[0].is_aborted
    assert not host.cleaner.is_free(NAME), "retention waits for the end of the round"
    host.work()
    assert state(host) is None
    assert host.cleaner.is_free(NAME)
    assert leftovers(host) == []
    assert values(host) == before
    assert host.recorded() == {}


def test_a_log_directory_that_fails_ends_the_round() -> None:
    for works in range(6):
        host = filled()
        host.look()
        for _ in range(works):
            host.work_one()
        host.local.fail("/1", OSError(errno.EIO, "broken"))
        host.work()
        assert host.cleaner.states.state(NAME) is None
        assert host.cleaner.states.paths == ("/2",)
        assert len(host.logged("log_directory_failed")) == 1


def test_a_replica_that_moves_is_not_cleaned_and_takes_its_offset_along() -> None:
    host = filled()
    host.look()
    host.work()
    host.write((b"a", b"x"))
    host.write((b"a", b"y"))
    host.write((b"a", b"z"))
    started: list[bool] = []
    host.local.moves.start((A, 0), NAME, host.partition(), "/2", started.append)
    host.work()
    assert state(host) is CleaningState.PAUSED
    host.look()
    assert len(host.sessions) == 1
    host.log.change(directories=(D2,))
    host.publish()
    host.work()
    assert host.local.log_dir_of((A, 0)) == "/2"
    assert state(host) is None
    assert host.recorded("/2") == {NAME: 6}
    assert host.recorded("/1") == {}
    host.look()
    host.work()
    assert len(host.sessions) == 2
    assert host.recorded("/2") == {NAME: host.unified().log.segments[-1].base_offset}


def test_a_move_that_is_given_up_lets_the_log_be_cleaned_again() -> None:
    host = filled()
    host.look()
    host.run_lane(Lane.CLEANER)
    host.local.moves.start((A, 0), NAME, host.partition(), "/2", lambda _: None)
    while host.run_lane(Lane.FILES):
        pass
    assert state(host) is CleaningState.ABORTED
    host.work()
    assert state(host) is CleaningState.PAUSED
    host.local.end_move((A, 0))
    host.work()
    assert state(host) is None
    assert values(host)


def test_a_broker_that_stops_waits_for_the_step_and_not_for_the_round() -> None:
    host = filled()
    host.look()
    host.leave()
    assert host.sessions[0].is_aborted
    host.work()
    assert host.vfs.exists("/1/a-0")
    assert len(host.sessions[0].rates) == 1
    assert host.cleaner.next_ms() is None


# -- retention ------------------------------------------------------------------------------------


def test_old_segments_of_compacted_logs_go_behind_a_look() -> None:
    host = filled(
        cleanup_policy="compact,delete", retention_bytes="0", min_cleanable_dirty_ratio="1"
    )
    host.pass_ms(10)
    assert len(host.unified().log.segments) == 1
    only = filled(retention_bytes="0", min_cleanable_dirty_ratio="1")
    only.unified().raise_log_start_to(2)
    only.look()
    assert [each.base_offset for each in only.unified().log.segments] == [2, 4, 6]
    held = filled(cleanup_policy="compact,delete", retention_bytes="0")
    held.look()
    assert len(held.unified().log.segments) == 4, "a round has it"
    held.work()


def test_retention_of_other_logs_is_not_that_of_the_cleaner() -> None:
    host = filled(cleanup_policy="delete", retention_bytes="0")
    host.look()
    assert len(host.unified().log.segments) == 4
    host.pass_ms(40_000)
    assert len(host.unified().log.segments) == 1
    off = filled(cleanup_policy="compact,delete", retention_bytes="0", log_cleaner_enable="false")
    off.pass_ms(40_000)
    assert len(off.unified().log.segments) == 4, "as Kafka without its cleaner"


# -- figures --------------------------------------------------------------------------------------


def test_figures_are_of_the_last_round_of_each_thread() -> None:
    host = filled()
    assert host.cleaner.figures().rounds == 0
    host.look()
    host._set(host.clock.now_ms + 3_500)
    host.work()
    figures = host.cleaner.figures()
    assert figures.rounds == 1
    assert figures.clean_time_seconds_max == 3
    assert figures.since_last_run_ms == 3_500
    assert figures.dirty_percent_max == 100
    assert 0 < figures.recopy_percent < 100
    assert figures.buffer_utilization_percent_max == 0
    assert figures.compaction_delay_seconds_max == 0


def test_the_delay_of_a_late_round_is_told() -> None:
    host = filled(max_compaction_lag_ms="1000", min_cleanable_dirty_ratio="1")
    host._set(host.clock.now_ms + 6_000)
    host.look()
    assert host.cleaner.figures().compaction_delay_seconds_max == 5
    host.work()
    assert host.recorded() == {NAME: 6}


def test_corrupt_indexes_of_a_selection_leave_the_partition_alone() -> None:
    host = filled(min_compaction_lag_ms="1")
    segment = host.unified().log.segments[0]
    segment._indexes = None
    host.vfs.damage(segment.path, 8, b"\xff\xff\xff\xff")
    for suffix in ("index", "timeindex"):
        put(host.vfs, f"/1/a-0/{0:020d}.{suffix}", b"x")
    host.look()
    assert len(host.logged("partition_uncleanable")) == 1
