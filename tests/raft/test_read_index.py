"""Linearizable reads by the voters in force, and limits; the rest: tests/scenarios/raft/read_*."""

from collections import deque

import pytest

from raft import effects as fx
from raft import events as ev
from raft import messages as m
from raft.config import READ_ROUND_MS, READ_TIMEOUT_MS, READS_MAX
from raft.fetching.reads import Read, ReadRefusal, Reads
from raft.membership.voter_history import VotersAt
from tests.raft.test_dynamic_voters import (
    DIRECTORIES,
    appended,
    fetched,
    flushed,
    leader,
    propose,
    voters,
)
from wire.types import ReplicaKey


def read(made, token=7, advance_ms=0):
    return made.step(ev.ReadIndexRequested(token), made._state.now_ms + advance_ms)


def fetch(made, number, *, connection_id, wait_ms=0, directory_id=None):
    """A fetch at the high watermark; it comes on a connection."""
    request = m.FetchRequest(
        cluster_id="c", replica_id=number,
        replica_directory_id=directory_id or DIRECTORIES[number],
        current_leader_epoch=made.epoch, fetch_offset=made.high_watermark,
        last_fetched_epoch=made.epoch, max_wait_ms=wait_ms, max_bytes=1,
        high_watermark=made.high_watermark,
    )  # fmt: skip
    event = ev.RequestReceived(reply_token=number, request=request, connection_id=connection_id)
    return made.step(event, made._state.now_ms)


def twice(made, number):
    """Two fetches on a connection: the second was sent after the answer to the first."""
    fetch(made, number, connection_id=number)
    return fetch(made, number, connection_id=number)


def confirmed(effects):
    return [each for each in effects.notify if isinstance(each, fx.ReadIndexConfirmed)]


def refused(effects):
    return [each for each in effects.notify if isinstance(each, fx.ReadIndexRefused)]


def test_a_fetch_that_came_on_no_connection_confirms_nothing():
    made = leader(1, 2)
    read(made)
    for _ in range(3):
        assert not confirmed(fetch(made, 2, connection_id=None))
    assert confirmed(twice(made, 2)) == [fx.ReadIndexConfirmed(tokens=(7,), offset=3)]


def test_a_voter_that_is_added_counts_from_its_record_on():
    made = leader(1, 2)
    fetched(made, 3, 3)
    propose(made, 1, 2, 3, 4)
    read(made)
    assert not confirmed(twice(made, 2))
    assert confirmed(twice(made, 3))


def test_a_voter_of_a_round_that_is_removed_meanwhile_counts_no_more():
    made = leader(1, 2, 3, 4)
    read(made)
    assert not confirmed(twice(made, 4))
    propose(made, 1, 2, 3)
    assert not confirmed(fetch(made, 4, connection_id=4))
    assert confirmed(twice(made, 2))


def test_a_removal_may_complete_the_majority():
    made = leader(1, 2, 3, 4)
    read(made)
    assert not confirmed(twice(made, 2))
    offset = made.log_end_offset
    made.step(ev.Propose(epoch=made.epoch, values=(b"x",)), made._state.now_ms)
    assert confirmed(appended(made, VotersAt(offset, voters(1, 2, 3))))


def test_a_leader_that_is_being_removed_does_not_count():
    made = leader(1, 2, 3)
    propose(made, 2, 3)
    read(made)
    assert not confirmed(twice(made, 2))
    assert confirmed(twice(made, 3))


def test_a_replica_with_another_directory_is_no_voter():
    made = leader(1, 2)
    read(made)
    for _ in range(2):
        assert not confirmed(fetch(made, 2, connection_id=2, directory_id=DIRECTORIES[9]))
    assert confirmed(twice(made, 2))


def test_parked_fetches_of_voters_alone_are_answered():
    made = leader(1, 2)
    for number in (2, 3):
        effects = fetch(made, number, connection_id=number, wait_ms=500)
        assert not effects.send
    assert [each.reply_token for each in read(made).send] == [2]
    assert made.parked_fetch_count == 1
    assert confirmed(fetch(made, 2, connection_id=2, wait_ms=500))
    assert made.parked_fetch_count == 2


def test_a_diverging_fetch_confirms_too():
    """It is of this epoch, which is all that counts."""
    made = leader(1, 2)
    read(made)
    fetch(made, 2, connection_id=2)
    request = m.FetchRequest(
        cluster_id="c", replica_id=2, replica_directory_id=DIRECTORIES[2],
        current_leader_epoch=made.epoch, fetch_offset=9, last_fetched_epoch=0, max_wait_ms=0,
        max_bytes=1, high_watermark=-1,
    )  # fmt: skip
    event = ev.RequestReceived(reply_token=1, request=request, connection_id=2)
    effects = made.step(event, made._state.now_ms)
    assert effects.send[0].response.diverging_epoch is not None
    assert confirmed(effects)


def test_the_offset_is_the_high_watermark_when_the_round_began():
    made = leader(1, 2)
    read(made, 7)
    read(made, 8)
    made.step(ev.Propose(epoch=made.epoch, values=(b"x",)), made._state.now_ms)
    appended(made)
    flushed(made)
    assert not confirmed(fetched(made, 2, 4))
    assert made.high_watermark == 4
    assert confirmed(twice(made, 2))[0].offset == 3
    made.step(ev.TimeAdvanced(), made._state.now_ms + READ_ROUND_MS)
    assert confirmed(twice(made, 2)) == [fx.ReadIndexConfirmed(tokens=(8,), offset=4)]


def test_ten_thousand_reads_wait_at_most():
    made = leader(1, 2)
    for token in range(READS_MAX):
        assert not refused(read(made, token))
    (too_many,) = refused(read(made, READS_MAX))
    assert too_many == fx.ReadIndexRefused(tokens=(READS_MAX,), reason=ReadRefusal.TOO_MANY)


@pytest.mark.parametrize("waited_ms", [READ_TIMEOUT_MS - 1, READ_TIMEOUT_MS])
def test_a_round_whose_reads_are_refused_is_over(waited_ms):
    made = leader(1, 2)
    read(made)
    fetch(made, 2, connection_id=2)
    made.step(ev.TimeAdvanced(), made._state.now_ms + waited_ms)
    is_over = waited_ms == READ_TIMEOUT_MS
    assert (made._state.role.reads.round is None) is is_over
    assert bool(confirmed(fetch(made, 2, connection_id=2))) is not is_over


def test_fetches_of_no_round_are_not_noted():
    reads = Reads(waiting=deque([Read(1, 9)]))
    reads.note_fetch(ReplicaKey(2, None), 5)
    assert reads.round is None
    assert not reads.awaits(ReplicaKey(2, None))
