"""Transfer of the leadership: what it waits for, when it is given up, by what it is answered."""

import pytest

from raft import effects as fx
from raft import error_codes as codes
from raft import events as ev
from raft import messages as m
from raft.config import TRANSFER_LAG_MAX
from raft.elections.leader_loss import Cause
from raft.roles import Leader, Resigned, Unattached
from tests.raft import test_dynamic_voters as dynamic
from tests.raft import test_reconfig as reconfig
from tests.raft.test_core import ask, begin, core, fetch, leader, vote

ELECTION_TIMEOUT_MS, FETCH_TIMEOUT_MS, REQUEST_TIMEOUT_MS = 1_000, 2_000, 2_000
TOKEN, PARKED = 9, {2: 22, 3: 33}


def asked(made, now, *replicas, timeout_ms=30_000):
    """The effects of a request for a transfer, and its response if that is at once."""
    wanted = replicas or (3, 1, 2)
    request = m.TransferLeadershipRequest(replicas=wanted, timeout_ms=timeout_ms)
    effects = made.step(ev.RequestReceived(reply_token=TOKEN, request=request), now)
    return effects, answer(effects)


def answer(effects):
    found = [e.response for e in effects.send if getattr(e, "reply_token", None) == TOKEN]
    assert all(isinstance(each, m.TransferLeadershipResponse) for each in found)
    return (found[0].error_code, found[0].error_message) if found else None


def fetched(made, offset, now, replica, hw=99):
    request = fetch(1, offset, 1, replica=replica, hw=hw)
    return made.step(ev.RequestReceived(reply_token=PARKED[replica], request=request), now)


def refused(effects):
    """Replicas whose parked fetches are refused."""
    by_token = {token: replica for replica, token in PARKED.items()}
    return [
        by_token[e.reply_token]
        for e in effects.send
        if getattr(e, "reply_token", None) in by_token
        and e.response.error_code == codes.NOT_LEADER_OR_FOLLOWER
    ]


def caught_up():
    """Node 1 leads epoch 1 and may act; the fetches of 2 and 3 at its log end are parked."""
    made, now, _ = leader()
    for replica in (2, 3):
        fetched(made, 1, now, replica)
    assert made.high_watermark == 1
    return made, now


def appended(made, now, *, flushed=True):
    """A record at offset 1, which nobody has fetched."""
    made.step(ev.Propose(epoch=1, values=(b"a",)), now)
    made.step(ev.Appended(end_offset=2, last_epoch=1, generation=0), now)
    if flushed:
        made.step(ev.Flushed(end_offset=2, epoch=1, generation=0), now)


def waiting():
    """The leader waits for 3, which lacks the record that the others have."""
    made, now = caught_up()
    appended(made, now)
    fetched(made, 2, now, 2)
    assert asked(made, now)[1] is None
    assert made.is_handing_over
    return made, now


def resigned():
    made, now = caught_up()
    begun, told = asked(made, now)
    assert told is None
    assert [e.reply_token for e in begun.send] == [PARKED[3]], "whoever lives sends another fetch"
    assert type(made.role) is Leader
    effects = fetched(made, 1, now, 3)
    assert type(made.role) is Resigned
    return made, now, effects


def test_a_target_with_the_whole_log_is_told_at_once_and_first():
    made, _, effects = resigned()
    sent = [e for e in effects.send if isinstance(e, fx.SendRequest)]
    assert [e.destination_id for e in sent] == [2, 3]
    for each in sent:
        assert isinstance(each.request, m.EndQuorumEpochRequest)
        assert [key.id for key in each.request.preferred_candidates] == [3, 2]
    (changed,) = effects.notify
    assert changed.leader.leader_id is None
    assert changed.loss.cause is Cause.OPERATOR
    assert changed.loss.evidence == "its transfer to voter 3 was asked for"
    assert not made.is_handing_over
    assert effects.persist == []


def test_it_waits_until_the_target_has_the_log_end():
    made, now = waiting()
    effects = fetched(made, 1, now + 1, 3)
    assert type(made.role) is Leader
    effects = fetched(made, 2, now + 2, 3)
    assert type(made.role) is Resigned
    assert answer(effects) is None
    assert made.role.preferred_candidates[0].id == 3


def test_it_waits_until_all_is_committed():
    made, now = caught_up()
    appended(made, now, flushed=False)
    assert asked(made, now)[1] is None
    fetched(made, 2, now, 3)
    assert type(made.role) is Leader
    effects = made.step(ev.Flushed(end_offset=2, epoch=1, generation=0), now + 1)
    assert [type(e) for e in effects.notify] == [fx.HighWatermarkAdvanced, fx.LeaderChanged]
    assert type(made.role) is Resigned


def test_nothing_is_appended_while_it_waits():
    made, now = waiting()
    with pytest.raises(AssertionError, match="INV-TRANSFER-1"):
        made.step(ev.Propose(epoch=1, values=(b"b",)), now)


@pytest.mark.parametrize(("timeout_ms", "wait_ms"), [(30_000, ELECTION_TIMEOUT_MS), (7, 7), (0, 1)])
def test_a_leader_that_gives_up_leads_on(timeout_ms, wait_ms):
    made, now = caught_up()
    appended(made, now)
    fetched(made, 2, now, 2)
    asked(made, now, timeout_ms=timeout_ms)
    assert made.next_deadline_ms() <= now + wait_ms
    assert answer(made.step(ev.TimeAdvanced(), now + wait_ms - 1)) is None
    assert made.is_handing_over
    told = answer(made.step(ev.TimeAdvanced(), now + wait_ms))
    text = "voter 3 has fetched up to 1 of 2: node 1 goes on leading epoch 1"
    assert told == (codes.REQUEST_TIMED_OUT, text)
    assert not made.is_handing_over
    effects = made.step(ev.Propose(epoch=1, values=(b"b",)), now + wait_ms)
    assert [type(e) for e in effects.persist] == [fx.AppendBatch]
    made.step(ev.Appended(end_offset=3, last_epoch=1, generation=0), now + wait_ms)
    fetched(made, 3, now + wait_ms, 3)
    assert type(made.role) is Leader, "what was given up is over"


def test_it_gives_up_what_is_not_committed_in_time():
    made, now = caught_up()
    appended(made, now, flushed=False)
    asked(made, now)
    fetched(made, 2, now, 3)
    told = answer(made.step(ev.TimeAdvanced(), now + ELECTION_TIMEOUT_MS))
    text = "offsets [1, 2) are not committed: node 1 goes on leading epoch 1"
    assert told == (codes.REQUEST_TIMED_OUT, text)


OTHERS = (
    codes.INVALID_REPLICA_ASSIGNMENT,
    "the replicas are not the voters [1, 2, 3], each once",
)


@pytest.mark.parametrize(("replicas", "told"), [
    ((1, 2, 3), (codes.NONE, "node 1 leads epoch 1 already")),
    ((4, 1, 2), (codes.INVALID_REPLICA_ASSIGNMENT, "node 4 is none of the voters [1, 2, 3]")),
    ((3, 1), OTHERS),
    ((3, 1, 1), OTHERS),
    ((3, 1, 2, 2), OTHERS),
    ((3, 1, 2, 4), OTHERS),
])  # fmt: skip
def test_replicas_that_are_refused_or_lead(replicas, told):
    made, now = caught_up()
    assert asked(made, now, *replicas)[1] == told
    assert type(made.role) is Leader


def test_no_replicas_are_none_of_the_voters():
    made, now = caught_up()
    request = m.TransferLeadershipRequest(replicas=(), timeout_ms=1)
    effects = made.step(ev.RequestReceived(reply_token=TOKEN, request=request), now)
    assert answer(effects) == (
        codes.INVALID_REPLICA_ASSIGNMENT,
        "node - is none of the voters [1, 2, 3]",
    )


def test_who_does_not_lead_or_may_not_act_yet_refuses():
    follower = core(2)
    ask(follower, begin(1, 1), 0)
    assert asked(follower, 1)[1] == (codes.NOT_CONTROLLER, None)
    made, now, _ = leader()
    assert asked(made, now)[1] == (codes.NOT_CONTROLLER, None)


def test_a_second_transfer_is_refused_and_the_first_goes_on():
    made, now = waiting()
    told = (codes.REASSIGNMENT_IN_PROGRESS, "a transfer to voter 3 is under way")
    for replicas in ((2, 1, 3), (3, 1, 2), (1, 2, 3)):
        assert asked(made, now, *replicas)[1] == told
    fetched(made, 2, now, 3)
    assert made.role.preferred_candidates[0].id == 3


@pytest.mark.parametrize(("silent_ms", "is_down"), [
    (FETCH_TIMEOUT_MS - 1, False), (FETCH_TIMEOUT_MS, True),
])  # fmt: skip
def test_a_target_that_is_down(silent_ms, is_down):
    made, now = caught_up()
    later = now + silent_ms
    fetched(made, 1, later, 2)
    told = asked(made, later)[1]
    if is_down:
        text = f"voter 3 has not fetched for {silent_ms} ms"
        assert told == (codes.PREFERRED_LEADER_NOT_AVAILABLE, text)
        assert type(made.role) is Leader
        return
    assert told is None, "it may be alive"
    fetched(made, 1, later + 1, 2)
    assert type(made.role) is Leader, "that was another voter"
    told = answer(made.step(ev.TimeAdvanced(), later + ELECTION_TIMEOUT_MS))
    text = "voter 3 does not fetch any more: node 1 goes on leading epoch 1"
    assert told == (codes.REQUEST_TIMED_OUT, text)


def test_a_target_that_never_fetched():
    made, now, _ = leader()
    fetched(made, 1, now, 2)
    text = "voter 3 has not fetched from this leader"
    assert asked(made, now)[1] == (codes.PREFERRED_LEADER_NOT_AVAILABLE, text)


@pytest.mark.parametrize("over", [0, 1])
def test_a_target_that_is_far_behind(over):
    made, now = caught_up()
    end = 1 + TRANSFER_LAG_MAX + over
    made.step(ev.Propose(epoch=1, values=(b"a",) * (end - 1)), now)
    made.step(ev.Appended(end_offset=end, last_epoch=1, generation=0), now)
    told = asked(made, now)[1]
    if over:
        lag = TRANSFER_LAG_MAX + 1
        text = f"voter 3 is {lag} records behind, {TRANSFER_LAG_MAX} are allowed"
        assert told == (codes.PREFERRED_LEADER_NOT_AVAILABLE, text)
    else:
        assert told is None
        assert made.is_handing_over


@pytest.mark.parametrize(("elected", "told"), [
    (3, (codes.NONE, "node 3 leads epoch 2")),
    (2, (codes.PREFERRED_LEADER_NOT_AVAILABLE,
         "node 2 leads epoch 2, it was elected before node 3")),
])  # fmt: skip
def test_the_answer_is_the_leader_of_a_later_epoch(elected, told):
    made, now, _ = resigned()
    effects, granted = ask(made, vote(2, replica=elected, last_epoch=1, end=1), now + 1)
    assert granted.vote_granted
    assert type(made.role) is Unattached
    request = begin(elected, 2)
    effects = made.step(ev.RequestReceived(reply_token=1, request=request), now + 2)
    assert answer(effects) == told
    request = begin(elected, 3)
    assert answer(made.step(ev.RequestReceived(reply_token=1, request=request), now + 3)) is None


def test_a_leader_that_is_deposed_while_it_waits_answers_so_too():
    made, now = waiting()
    effects = made.step(ev.RequestReceived(reply_token=1, request=begin(2, 5)), now + 1)
    text = "node 2 leads epoch 5, it was elected before node 3"
    assert answer(effects) == (codes.PREFERRED_LEADER_NOT_AVAILABLE, text)
    assert not made.is_handing_over


def test_without_a_leader_it_is_answered_in_the_end():
    made, now, _ = resigned()
    over = now + REQUEST_TIMEOUT_MS
    assert answer(made.step(ev.TimeAdvanced(), over - 1)) is None
    assert made.next_deadline_ms() <= over
    told = answer(made.step(ev.TimeAdvanced(), over))
    text = "epoch 1 is over, no leader of a later one is known yet"
    assert told == (codes.REQUEST_TIMED_OUT, text)


def test_the_fetch_of_the_target_is_answered_and_others_are_refused_behind_the_end_of_the_epoch():
    made, now, effects = resigned()
    assert refused(effects) == []
    (granted,) = [e.response for e in effects.send if getattr(e, "reply_token", None) == PARKED[3]]
    assert (granted.error_code, granted.leader_id, granted.high_watermark) == (0, 1, 1)
    assert made.parked_fetch_count == 1
    (sent,) = [e for e in effects.send if getattr(e, "destination_id", None) == 2]
    response = m.EndQuorumEpochResponse(leader_id=1, leader_epoch=1)
    answered = ev.ResponseReceived(
        destination_id=2, correlation_id=sent.correlation_id, response=response
    )
    assert refused(made.step(answered, now + 3)) == [2]
    assert made.parked_fetch_count == 0


@pytest.mark.parametrize("by", ["expiry", "a later epoch"])
def test_what_was_not_refused_then_is_refused_later(by):
    made, now, _ = resigned()
    if by == "expiry":
        assert refused(made.step(ev.TimeAdvanced(), now + 499)) == []
        effects = made.step(ev.TimeAdvanced(), now + 500)
    else:
        effects, _ = ask(made, vote(2, replica=3, last_epoch=1, end=1), now + 1)
    assert refused(effects) == [2]


def test_any_other_resignation_refuses_them_all_at_once():
    made, now = caught_up()
    assert refused(made.step(ev.ResignRequested(epoch=1), now)) == [2, 3]


def dynamic_waiting():
    """Node 1 leads voters 1, 2 and 3 of its log, and waits until 3 has a record."""
    made = dynamic.leader(1, 2, 3)
    made.step(ev.Propose(epoch=1, values=(b"a",)), made._state.now_ms)
    dynamic.appended(made)
    dynamic.flushed(made)
    dynamic.fetched(made, 2, 4)
    return made


def test_a_change_of_the_voters_waits_for_a_transfer():
    made = dynamic_waiting()
    assert asked(made, made._state.now_ms)[1] is None
    said = "Request timed out waiting for the transfer of the leadership"
    refused_add = reconfig.told(reconfig.ask(made, reconfig.add_request()))
    assert refused_add.error_code == codes.REQUEST_TIMED_OUT
    assert refused_add.error_message == said
    refused_removal = reconfig.told(reconfig.ask(made, reconfig.remove_request(2)))
    assert refused_removal.error_message == said
    update = reconfig.update_request(made, 2)
    assert reconfig.told(reconfig.ask(made, update)).error_code == codes.REQUEST_TIMED_OUT
    dynamic.fetched(made, 3, 4)
    assert made.role.preferred_candidates[0] == dynamic.key(3)
    assert made.role.refused_late == {2}


@pytest.mark.parametrize("what", ["pending", "written"])
def test_a_transfer_waits_for_a_change_of_the_voters(what):
    made = dynamic.leader(1, 2, 3)
    if what == "pending":
        dynamic.fetched(made, 4, 3)
        assert reconfig.told(reconfig.ask(made, reconfig.add_request())) is None
    else:
        dynamic.propose(made, 1, 2, 3)
    told = (codes.REASSIGNMENT_IN_PROGRESS, "a change of the voters is not committed")
    assert asked(made, made._state.now_ms)[1] == told
