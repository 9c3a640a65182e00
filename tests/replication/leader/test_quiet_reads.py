"""A follower's reads at the end of logs are repeated until something that they tell has changed."""

import msgspec
import pytest

from replication.leader.isr import CommittedPartitionState
from replication.leader.leadership import Changed
from replication.leader.quiet_reads import note_fetch
from replication.partition import Partition
from tests.replication.managers import NONE, T0, T1, Managed, codes, offsets, waiting, want
from tests.replication.partitions import WALL_MS, Broker, from_follower, registration
from tests.storage.test_unified_log import produced
from wire.errors import ErrorCode

BOTH = {"isr": (1, 2), "replicas": (1, 2)}


class Counted(Partition):
    reads = 0

    def fetch(self, *arguments, **named):
        self.reads += 1
        return super().fetch(*arguments, **named)


class Followed:
    """Two partitions of follower 2, which has fetched them up to their ends."""

    def __init__(self, **fields):
        self.managed = Managed()
        self.first, self.second = (self.managed.create(key, **(BOTH | fields)) for key in (T0, T1))
        self.epoch = 12
        for _ in range(2):
            self.fetch()
        self.first.__class__ = self.second.__class__ = Counted

    def fetch(self, offset=0, **row):
        """Rows of both, of a fetch that does not wait."""
        params = waiting(from_follower(replica_epoch=self.epoch), max_wait_ms=0)
        (reads,) = self.managed.fetch(
            want(T0, offset, log_start_offset=0, **row),
            want(T1, 0, log_start_offset=0),
            params=params,
        )
        return reads

    def reads(self):
        """Numbers of reads of either since the last call."""
        found = self.first.reads, self.second.reads
        self.first.reads = self.second.reads = 0
        return found


def test_what_has_not_changed_is_not_read_and_the_follower_is_caught_up_all_the_same():
    followed = Followed()
    before = followed.fetch()
    followed.managed.advance(7)
    after = followed.fetch()
    assert [read.row for read in after] == [read.row for read in before]
    assert codes(after) == [NONE, NONE]
    assert followed.reads() == (0, 0)
    now_ms = followed.managed.clock.now_ms
    for partition in (followed.first, followed.second):
        replica = partition.role.replicas[2]
        assert (replica.last_fetch_ms, replica.last_caught_up_ms) == (now_ms, now_ms)
        assert (replica.log_end.offset, replica.broker_epoch) == (0, 12)


def test_what_is_the_same_for_all_is_asked_for_once_and_kept_within_a_millisecond():
    followed = Followed()
    broker_of, asked = followed.managed.brokers.registered.get, []
    for partition in (followed.first, followed.second):
        local = msgspec.structs.replace(
            partition.role._broker,
            broker_of=lambda node_id: asked.append(node_id) or broker_of(node_id),
        )
        partition.role._broker = local
    before = followed.first.role.replicas[2]
    followed.fetch()
    assert (followed.reads(), asked) == ((0, 0), [2])
    assert followed.first.role.replicas[2] is before
    followed.managed.advance(1)
    followed.fetch()
    assert followed.first.role.replicas[2] is not before


def appended(followed):
    followed.first.append_as_leader(
        produced(followed.managed.clock.wall_ms), required_acks=1,
        wall_ms=followed.managed.clock.wall_ms, now_ms=followed.managed.clock.now_ms,
    )  # fmt: skip


def of_another_epoch(followed):
    followed.managed.register(T0, registration(1, 2, **BOTH))


def of_another_isr(followed):
    followed.managed.register(T0, registration(1, 1, partition_epoch=2, **BOTH))


def registered_anew(followed):
    followed.managed.brokers.registered[2] = Broker(12)
    followed.second.reads -= 1  # it is of the same broker


def fetched_between(followed):
    followed.first.role.record_fetch(
        2, followed.first.role.replicas[2].log_end, 0,
        leader_end_offset=0, broker_epoch=12, now_ms=followed.managed.clock.now_ms,
    )  # fmt: skip


@pytest.mark.parametrize(
    "change", [of_another_epoch, of_another_isr, registered_anew, fetched_between]
)
def test_what_a_read_depends_on_lets_it_be_read_again_once(change):
    followed = Followed()
    change(followed)
    assert codes(followed.fetch()) == [NONE, NONE]
    assert followed.reads() == (1, 0)
    followed.fetch()
    assert followed.reads() == (0, 0)


def test_records_are_read_and_what_becomes_of_the_watermark_told():
    followed = Followed()
    appended(followed)
    first, _ = followed.fetch()
    assert offsets(first) == [0]
    assert followed.reads() == (1, 0)
    assert [read.row.high_watermark for read in followed.fetch(1)] == [0, 0]
    assert [read.row.high_watermark for read in followed.fetch(1)] == [1, 0], "it acknowledged"
    assert followed.reads() == (2, 0)
    assert [read.row.high_watermark for read in followed.fetch(1)] == [1, 0]
    assert followed.reads() == (0, 0)


def test_another_log_start_is_told():
    followed = Followed()
    appended(followed)
    for offset in (0, 1, 1):
        first, _ = followed.fetch(offset)
        offsets(first)
    followed.reads()
    followed.first.delete_records_on_leader(1)
    assert [read.row.log_start_offset for read in followed.fetch(1)] == [1, 0]
    assert followed.reads() == (1, 0)


@pytest.mark.parametrize("row", [{"current_leader_epoch": 1}, {"max_bytes": 5}])
def test_another_request_is_read(row):
    followed = Followed()
    followed.fetch(**row)
    assert followed.reads() == (1, 0)
    followed.fetch(**row)
    assert followed.reads() == (0, 0)


def test_an_older_registration_of_the_follower_is_refused():
    followed = Followed()
    followed.epoch = 11
    assert codes(followed.fetch()) == [ErrorCode.not_leader_or_follower] * 2


def test_who_is_no_member_of_the_isr_is_read_for_each_time():
    followed = Followed(isr=(1,))
    followed.fetch()
    followed.fetch()
    assert followed.reads() == (2, 2)
    assert followed.managed.manager.next_proposal(11) is not None, "it asks to be one"


def test_a_pending_isr_is_no_member_yet():
    followed = Followed()
    followed.managed.manager.took(T0, Changed())
    followed.first.role.state = msgspec.structs.replace(followed.first.role.state)
    assert followed.fetch()
    assert followed.reads() == (1, 0)


def test_a_follower_that_diverges_is_not_caught_up():
    """Its fetch offset is the end of the log, of which its own is no part."""
    followed = Followed()
    appended(followed)
    offsets(followed.fetch()[0])
    followed.fetch(1)
    followed.managed.register(T0, registration(1, 3, **BOTH))
    before = followed.first.role.replicas[2]
    for _ in range(2):
        followed.managed.advance(7)
        first, _ = followed.fetch(1, last_fetched_epoch=2)
        assert first.row.diverging_epoch == (1, 1)
    assert followed.first.role.replicas[2] == before
    assert followed.reads()[0] >= 2


def test_nothing_is_kept_of_a_log_that_another_replaces():
    followed = Followed()
    assert followed.first.role.quiet_reads.keys() == {2}
    followed.first.replace_log(followed.first.log)
    assert followed.first.role.quiet_reads == {}


def test_nothing_is_kept_for_who_is_no_replica_any_more():
    followed = Followed()
    assert followed.first.role.quiet_reads.keys() == {2}
    followed.managed.register(T0, registration(1, 1, partition_epoch=2, isr=(1,), replicas=(1, 3)))
    assert followed.first.role.quiet_reads.keys() == set()


def test_a_topic_that_is_asked_for_by_its_name_is_told_by_its_name():
    followed = Followed()
    wanted = [msgspec.structs.replace(want(T0, 0, log_start_offset=0), topic="named")]
    params = waiting(from_follower(replica_epoch=12), max_wait_ms=0)
    (reads,) = followed.managed.fetch(*wanted, params=params)
    assert [read.row.topic for read in reads] == ["named"]


def test_a_follower_that_cannot_join_the_isr_is_read_for_each_time():
    followed = Followed(isr=(1,))
    followed.managed.brokers.registered[2].fenced = True
    for partition in (followed.first, followed.second):
        partition.role.state = CommittedPartitionState((1,))
    for _ in range(2):
        followed.fetch()
    assert followed.reads() == (2, 2)


def test_a_watermark_that_another_follower_raised_is_told():
    followed = Followed(isr=(1, 2, 3), replicas=(1, 2, 3))
    appended(followed)
    offsets(followed.fetch()[0])
    for _ in range(2):
        assert followed.fetch(1)[0].row.high_watermark == 0
    params = waiting(from_follower(3), max_wait_ms=0)
    followed.managed.fetch(want(T0, 1, log_start_offset=0), params=params)
    followed.reads()
    assert followed.fetch(1)[0].row.high_watermark == 1
    assert followed.reads() == (1, 0)


def test_the_end_of_a_log_on_another_segment_is_looked_up():
    """All records were deleted, and then their segment: the end is where it was, elsewhere."""
    followed = Followed()
    appended(followed)
    offsets(followed.fetch()[0])
    followed.fetch(1)
    followed.first.delete_records_on_leader(1)
    for _ in range(2):
        followed.fetch(1)
    followed.reads()
    log = followed.first.log
    before = log.log.segments[-1]
    log.log.roll(1, WALL_MS)
    assert log.log.segments[-1] is not before
    assert followed.fetch(1)[0].start.place == (1, 0)
    assert followed.reads() == (1, 0)


def test_what_found_no_room_in_a_response_is_in_the_next():
    followed = Followed()
    for partition in (followed.first, followed.second):
        partition.append_as_leader(
            produced(WALL_MS),
            required_acks=1,
            wall_ms=WALL_MS,
            now_ms=followed.managed.clock.now_ms,
        )
    wanted = [want(key, 0, log_start_offset=0) for key in (T0, T1)]
    params = waiting(from_follower(replica_epoch=12), max_wait_ms=0)
    for _ in range(2):
        (reads,) = followed.managed.fetch(*wanted, params=params, max_bytes=1)
        assert [offsets(read) for read in reads] == [[0], []]
    (reads,) = followed.managed.fetch(*wanted, params=params)
    assert [offsets(read) for read in reads] == [[0], [0]]


def test_a_fetch_in_pieces_is_followed_too():
    followed = Followed()
    appended(followed)
    offsets(followed.fetch()[0])
    followed.managed.checked.clear()
    steps = followed.managed.manager.fetch_in_steps(
        waiting(from_follower(replica_epoch=12)),
        [want(T0, 1, log_start_offset=0), want(T1, 0, log_start_offset=0)],
        max_bytes=1 << 20,
        park=lambda _withdraw: None,
        resume=lambda _steps: None,
    )
    assert len(list(steps)) == 1
    assert followed.managed.checked == [T0]


def noted(followed):
    replica = followed.first.role.replicas[2]
    return replica.last_fetch_ms, replica.last_caught_up_ms


def test_a_fetch_that_passed_a_partition_by_is_noted_with_what_its_read_depends_on():
    followed = Followed()
    leader, now_ms = followed.first.role, followed.managed.clock.now_ms
    note_fetch(leader, 2, now_ms + 5)
    assert noted(followed) == (now_ms + 5, now_ms + 5)
    note_fetch(leader, 2, now_ms + 4)
    assert noted(followed) == (now_ms + 5, now_ms + 5)
    followed.fetch()
    assert followed.reads() == (0, 0), "the read holds"
    note_fetch(leader, 3, now_ms + 6)
    assert 3 not in leader.replicas


def test_a_fetch_is_not_noted_where_another_was_taken_since():
    followed = Followed()
    now_ms = followed.managed.clock.now_ms
    fetched_between(followed)
    note_fetch(followed.first.role, 2, now_ms + 5)
    assert noted(followed) == (now_ms, now_ms)
