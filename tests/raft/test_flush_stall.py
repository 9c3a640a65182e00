"""A leader whose flush stalls resigns, if another voter has the records durably (INV-FLUSH-1)."""

import pytest

from raft import events as ev
from raft.elections.leader_loss import Cause
from raft.roles import Leader, Resigned
from tests.raft.test_core import ask, core, fetch, leader
from tests.raft.test_dynamic_voters import core as dynamic_core
from tests.raft.test_dynamic_voters import history

FETCH_TIMEOUT_MS = 2_000


def waiting_leader():
    """Leader of epoch 1 with a record at 1 that is written since `now` and not flushed."""
    made, now, _ = leader()
    now += 7
    made.step(ev.Propose(epoch=1, values=(b"a",)), now)
    made.step(ev.Appended(end_offset=2, last_epoch=1, generation=0), now)
    return made, now


def acknowledge(made, end_offset, now, replica=2):
    ask(made, fetch(1, end_offset, 1, replica=replica), now)


def test_a_stalled_flush_ends_the_leadership_at_the_fetch_timeout():
    made, now = waiting_leader()
    acknowledge(made, 2, now + 500)
    made.step(ev.TimeAdvanced(), now + FETCH_TIMEOUT_MS - 1)
    assert type(made.role) is Leader
    assert made.next_deadline_ms() == now + FETCH_TIMEOUT_MS
    effects = made.step(ev.TimeAdvanced(), now + FETCH_TIMEOUT_MS)
    assert type(made.role) is Resigned
    assert effects.persist == []
    (changed,) = effects.notify
    assert changed.loss.cause is Cause.STALLED_FLUSH
    assert changed.loss.evidence == (
        "offsets [1, 2) are not flushed after 2000 ms, voter 2 has flushed more"
    )
    assert [key.id for key in made.role.preferred_candidates] == [2, 3]


@pytest.mark.parametrize("offset", [0, 1])
def test_it_leads_on_while_no_voter_has_more(offset):
    made, now = waiting_leader()
    acknowledge(made, offset, now + FETCH_TIMEOUT_MS)
    assert type(made.role) is Leader
    assert made.next_deadline_ms() > now + FETCH_TIMEOUT_MS, "no busy loop"
    acknowledge(made, 2, now + FETCH_TIMEOUT_MS + 1, replica=3)
    assert type(made.role) is Resigned
    assert "voter 3 has flushed more" in made.leader_loss.evidence


def test_the_first_of_those_that_have_more_is_named():
    made, now = waiting_leader()
    acknowledge(made, 2, now, replica=3)
    acknowledge(made, 2, now, replica=2)
    made.step(ev.TimeAdvanced(), now + FETCH_TIMEOUT_MS)
    assert "voter 2 has flushed more" in made.leader_loss.evidence


def test_a_flush_in_time_ends_the_wait():
    made, now = waiting_leader()
    acknowledge(made, 2, now + 500)
    made.step(ev.Flushed(end_offset=2, epoch=1, generation=0), now + FETCH_TIMEOUT_MS - 1)
    acknowledge(made, 2, now + FETCH_TIMEOUT_MS)
    assert type(made.role) is Leader
    assert made.role.unflushed_since_ms is None


def test_a_slow_flush_is_none_that_stalls_the_rest_begins_anew():
    made, now = waiting_leader()
    made.step(ev.Propose(epoch=1, values=(b"b",)), now + 900)
    made.step(ev.Appended(end_offset=3, last_epoch=1, generation=0), now + 900)
    acknowledge(made, 3, now + 1_000)
    flushed_ms = now + FETCH_TIMEOUT_MS - 1
    made.step(ev.Flushed(end_offset=2, epoch=1, generation=0), flushed_ms)
    acknowledge(made, 3, flushed_ms + FETCH_TIMEOUT_MS - 1)
    assert type(made.role) is Leader
    acknowledge(made, 3, flushed_ms + FETCH_TIMEOUT_MS)
    assert type(made.role) is Resigned


def test_records_that_come_later_do_not_prolong_the_wait():
    made, now = waiting_leader()
    made.step(ev.Propose(epoch=1, values=(b"b",)), now + 1_500)
    made.step(ev.Appended(end_offset=3, last_epoch=1, generation=0), now + 1_500)
    acknowledge(made, 2, now + FETCH_TIMEOUT_MS)
    assert type(made.role) is Resigned


def test_a_flush_that_an_older_epoch_planned_ends_no_wait():
    made, now = waiting_leader()
    acknowledge(made, 2, now + 500)
    made.step(ev.Flushed(end_offset=2, epoch=0, generation=0), now + 600)
    made.step(ev.TimeAdvanced(), now + FETCH_TIMEOUT_MS)
    assert type(made.role) is Resigned


def test_a_sole_voter_waits_for_its_disk():
    made = core(1, (1,))
    made.step(ev.Appended(end_offset=1, last_epoch=1, generation=0), 1)
    assert made.next_deadline_ms() is None
    made.step(ev.TimeAdvanced(), 10 * FETCH_TIMEOUT_MS)
    assert type(made.role) is Leader


def test_a_resigned_leader_asks_for_no_vote_before_its_flush():
    made, now = waiting_leader()
    acknowledge(made, 2, now + 500)
    now += FETCH_TIMEOUT_MS
    made.step(ev.TimeAdvanced(), now)
    sent = []
    for _ in range(50):
        now = made.next_deadline_ms()
        sent += made.step(ev.TimeAdvanced(), now).send
    assert made.epoch == 2
    assert {type(effect.request).__name__ for effect in sent} <= {
        "EndQuorumEpochRequest",
        "FetchRequest",
    }
    assert made.step(ev.Flushed(end_offset=2, epoch=1, generation=0), now).send


def test_a_sole_voter_may_flush_before_it_wrote_the_record_of_its_epoch():
    """It resigned and leads again; the disk is full, and an older record was not flushed yet."""
    made = dynamic_core(1, history(1))
    made.step(ev.DiskFull(), 0)
    effects = made.step(ev.Flushed(end_offset=0, epoch=made.epoch, generation=0), 0)
    assert type(made.role) is Leader
    assert effects.notify == []
