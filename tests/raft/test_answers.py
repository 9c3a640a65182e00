"""Answers of a peer that no correct peer gives: nothing in them is taken up, the node lives on."""

import pytest

from raft import effects as fx
from raft import events as ev
from raft import messages as m
from raft.config import RETRY_BACKOFF_MS_MIN
from raft.events import EpochStart
from raft.requests import RequestManager
from raft.roles import Candidate, Follower, Leader, Prospective, Resigned, Unattached
from tests.raft.test_core import begin, core, follower, leader
from wire.types import EPOCH_MAX, OffsetAndEpoch

RETRY_MS = 20


def requests(effects, kind):
    return [
        e for e in effects.send if isinstance(e, fx.SendRequest) and isinstance(e.request, kind)
    ]


def answer(made, sent, response, now_ms):
    event = ev.ResponseReceived(
        destination_id=sent.destination_id, correlation_id=sent.correlation_id, response=response
    )
    return made.step(event, now_ms)


def asking_for_votes():
    made = follower()
    now_ms = 2_000
    effects = made.step(ev.TimeAdvanced(), now_ms)
    assert isinstance(made.role, Prospective)
    return made, requests(effects, m.VoteRequest)[0], now_ms


def following():
    made = core(1)
    event = ev.RequestReceived(reply_token=9, request=begin(2, 5))
    (sent,) = requests(made.step(event, 1), m.FetchRequest)
    return made, sent, 1


def fetching_a_snapshot():
    made, sent, now_ms = following()
    found = m.FetchResponse(
        leader_id=2, leader_epoch=5, high_watermark=9, snapshot_id=OffsetAndEpoch(9, 5)
    )
    (sent,) = requests(answer(made, sent, found, now_ms), m.FetchSnapshotRequest)
    return made, sent, now_ms


def leading():
    made, now_ms, effects = leader()
    return made, requests(effects, m.BeginQuorumEpochRequest)[0], now_ms


def resigning():
    made = core(1, election_epoch=5, election_leader_id=1)
    assert isinstance(made.role, Resigned)
    made.step(ev.RequestFailed(destination_id=2, correlation_id=1, error_code=8), 0)
    effects = made.step(ev.TimeAdvanced(), RETRY_MS)
    return made, requests(effects, m.EndQuorumEpochRequest)[0], RETRY_MS


SITUATIONS = (
    (asking_for_votes, m.VoteResponse),
    (following, m.FetchResponse),
    (fetching_a_snapshot, m.FetchSnapshotResponse),
    (leading, m.BeginQuorumEpochResponse),
    (resigning, m.EndQuorumEpochResponse),
)


@pytest.mark.parametrize(("situation", "response"), SITUATIONS)
@pytest.mark.parametrize("error_code", [0, 6, 74])
@pytest.mark.parametrize("epoch", [EPOCH_MAX + 1, 2**31 - 1])
def test_an_answer_of_an_impossible_epoch_is_a_failure(situation, response, error_code, epoch):
    made, sent, now_ms = situation()
    role, was = made.role, made.epoch
    effects = answer(made, sent, response(leader_epoch=epoch, error_code=error_code), now_ms)
    assert made.role is role
    assert made.epoch == was
    assert effects.persist == []
    assert [e for e in effects.send if getattr(e, "destination_id", 0) == sent.destination_id] == []
    ready_ms = made._state.request_manager.ready_at(sent.destination_id, now_ms)
    assert now_ms < ready_ms <= now_ms + 2 * RETRY_MS, "it asks again after a pause"


@pytest.mark.parametrize(("situation", "response"), SITUATIONS)
def test_the_highest_epoch_of_an_answer_is_taken_up(situation, response):
    made, sent, now_ms = situation()
    answer(made, sent, response(leader_epoch=EPOCH_MAX, error_code=74), now_ms)
    assert made.epoch == EPOCH_MAX


def grant(epoch):
    return m.VoteResponse(leader_epoch=epoch, vote_granted=True)


def standing():
    """A candidate of epoch 6 with its requests to both other voters in flight."""
    made, sent, now_ms = asking_for_votes()
    return made, requests(answer(made, sent, grant(5), now_ms), m.VoteRequest), now_ms


def test_a_vote_of_a_later_epoch_ends_a_pre_vote():
    made, sent, now_ms = asking_for_votes()
    answer(made, sent, grant(7), now_ms)
    assert (type(made.role), made.epoch) == (Unattached, 7)


def test_a_vote_of_a_later_epoch_ends_a_candidacy():
    made, sent, now_ms = standing()
    assert isinstance(made.role, Candidate)
    answer(made, sent[0], grant(7), now_ms)
    assert (type(made.role), made.epoch) == (Unattached, 7)


def test_a_vote_for_an_elected_leader_changes_nothing():
    made, sent, now_ms = standing()
    answer(made, sent[0], grant(6), now_ms)
    role = made.role
    assert isinstance(role, Leader)
    assert answer(made, sent[1], grant(6), now_ms).persist == []
    assert made.role is role


@pytest.mark.parametrize(("epoch", "is_fetched"), [(5, True), (6, False)])
def test_a_snapshot_of_a_later_epoch_than_its_leaders_is_not_fetched(epoch, is_fetched):
    made, sent, now_ms = following()
    found = m.FetchResponse(
        leader_id=2, leader_epoch=5, high_watermark=9, snapshot_id=OffsetAndEpoch(9, epoch)
    )
    assert isinstance(made.role, Follower)
    effects = answer(made, sent, found, now_ms)
    assert bool(requests(effects, m.FetchSnapshotRequest)) is is_fetched
    assert (made.role.download is not None) is is_fetched


@pytest.mark.parametrize("own", [OffsetAndEpoch(10, 1), OffsetAndEpoch(50, 1)])
def test_an_own_snapshot_reported_behind_a_fetched_one_changes_nothing(own):
    """Its report may stand in the queue behind the last chunk of what replaced the log."""
    made = core(1, log_end_offset=10, epoch_entries=(EpochStart(1, 0),), election_epoch=1)
    event = ev.RequestReceived(reply_token=9, request=begin(2, 1))
    (sent,) = requests(made.step(event, 1), m.FetchRequest)
    found = m.FetchResponse(
        leader_id=2, leader_epoch=1, high_watermark=50, snapshot_id=OffsetAndEpoch(50, 1)
    )
    (sent,) = requests(answer(made, sent, found, 2), m.FetchSnapshotRequest)
    whole = m.FetchSnapshotResponse(
        leader_id=2, leader_epoch=1, snapshot_id=OffsetAndEpoch(50, 1), size_bytes=1, chunk=b"s"
    )
    (chunk,) = answer(made, sent, whole, 3).persist
    installed = ev.SnapshotInstalled(snapshot_id=found.snapshot_id, generation=chunk.generation)
    made.step(installed, 3)
    made.step(ev.SnapshotAdded(snapshot_id=own, log_start_offset=0), 3)
    log = made._state.log
    assert log.start_offset == log.end_offset == 50
    assert log.earliest_snapshot == log.latest_snapshot == OffsetAndEpoch(50, 1)
    with pytest.raises(AssertionError):
        made.step(ev.SnapshotAdded(snapshot_id=OffsetAndEpoch(51, 1), log_start_offset=0), 3)


FOUND = OffsetAndEpoch(50, 1)


def last_chunk(node_id=1, **timing):
    """A replica that fetched one record, which is written, and the only chunk of a snapshot."""
    made = core(node_id, timing=timing)
    (sent,) = requests(
        made.step(ev.RequestReceived(reply_token=9, request=begin(2, 1)), 1), m.FetchRequest
    )
    fields = {"leader_id": 2, "leader_epoch": 1, "high_watermark": 50}
    answer(made, sent, m.FetchResponse(records=b"r", **fields), 2)
    written = ev.Appended(end_offset=1, last_epoch=1, generation=0, epochs=(EpochStart(1, 0),))
    effects = made.step(written, 2)
    flushed = ev.Flushed(end_offset=1, epoch=1, generation=0)
    if made.is_voter:
        effects = made.step(flushed, 2)
    (sent,) = requests(effects, m.FetchRequest)
    (sent,) = requests(
        answer(made, sent, m.FetchResponse(snapshot_id=FOUND, **fields), 3), m.FetchSnapshotRequest
    )
    whole = m.FetchSnapshotResponse(
        leader_id=2, leader_epoch=1, snapshot_id=FOUND, size_bytes=1, chunk=b"s"
    )
    answer(made, sent, whole, 4)
    return made, flushed


def test_a_refused_snapshot_leaves_a_flush_of_before_valid():
    """Of an observer: it fetches what it has written, flushed or not."""
    made, flushed = last_chunk(9)
    made.step(ev.SnapshotRefused(snapshot_id=FOUND), 4)
    assert made.flushed_end_offset == 0
    made.step(flushed, 5)
    assert made.flushed_end_offset == 1


@pytest.mark.parametrize("is_disk_full", [False, True])
@pytest.mark.parametrize("is_installed", [False, True])
def test_a_voter_whose_snapshot_met_a_full_disk_does_not_stand(is_installed, is_disk_full):
    made, _ = last_chunk()
    answered = ev.SnapshotRefused(snapshot_id=FOUND, is_disk_full=is_disk_full)
    if is_installed:
        answered = ev.SnapshotInstalled(snapshot_id=FOUND, generation=1, is_disk_full=is_disk_full)
    made.step(answered, 4)
    made.step(ev.TimeAdvanced(), made.role.fetch_deadline_ms)
    assert isinstance(made.role, Unattached if is_disk_full else Prospective)


@pytest.mark.parametrize(("fetch_timeout_ms", "pause_ms"), [(60_000, 1_000), (1_000, 500)])
def test_after_a_refused_snapshot_it_fetches_again_after_a_pause(fetch_timeout_ms, pause_ms):
    made, _ = last_chunk(fetch_timeout_ms=fetch_timeout_ms)
    assert made.step(ev.SnapshotRefused(snapshot_id=FOUND), 4).send == []
    assert made.next_deadline_ms() == 4 + pause_ms
    assert made.step(ev.TimeAdvanced(), 4 + pause_ms - 1).send == []
    assert requests(made.step(ev.TimeAdvanced(), 4 + pause_ms), m.FetchRequest)


def test_a_retry_without_back_off_waits_a_little_and_then_longer():
    connections = RequestManager(request_timeout_ms=2_000, retry_backoff_ms=0)
    pauses_ms = []
    for _ in range(5):
        connections.failed(2, 100)
        pauses_ms.append(connections.ready_at(2, 100) - 100)
    assert pauses_ms == [n * RETRY_BACKOFF_MS_MIN for n in (1, 2, 4, 8, 8)]
