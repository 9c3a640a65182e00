"""A core whose log names its voters (kraft.version 1, KIP-853)."""

import random

import pytest

from raft import effects as fx
from raft import error_codes as codes
from raft import events as ev
from raft import messages as m
from raft.config import RaftConfig
from raft.core import RaftCore
from raft.membership.voter_history import KRaftVersionAt, Membership, VoterHistory, VotersAt
from raft.membership.voters import Voter, VoterSet, voter_set
from raft.roles import Follower, Prospective, Resigned, Unattached
from wire.types import Endpoint, OffsetAndEpoch, ReplicaKey

DIRECTORIES = {number: bytes([number]) * 16 for number in (1, 2, 3, 4, 9)}


def endpoint(number, port=9093):
    return Endpoint("CONTROLLER", f"n{number}", port)


def key(number):
    return ReplicaKey(number, DIRECTORIES[number])


def voters(*numbers):
    return voter_set(tuple(Voter(key(n), (endpoint(n),)) for n in numbers))


def history(*numbers, offset=-1):
    known = VoterHistory(VoterSet({}))
    return known.after(KRaftVersionAt(offset, 1)).after(VotersAt(offset, voters(*numbers)))


def core(node_id=1, known=None, *, evidence=False, **options):
    config = RaftConfig(
        node_id=node_id, directory_id=DIRECTORIES[node_id], cluster_id="c", voters=(),
        listeners=(endpoint(node_id),), evidence=evidence,
    )  # fmt: skip
    made = RaftCore(config, rng=random.Random(1), now_ms=0, voter_history=known, **options)
    made.step(ev.TimeAdvanced(), 0)
    return made


def requests(effects, kind):
    return [
        e for e in effects.send if isinstance(e, fx.SendRequest) and isinstance(e.request, kind)
    ]


def grant(made, sent, now_ms):
    """Grant the first vote of three, or both; return what the core did then."""
    persist, send = [], []
    for each in sent:
        epoch = each.request.replica_epoch
        event = ev.ResponseReceived(
            destination_id=each.destination_id,
            correlation_id=each.correlation_id,
            response=m.VoteResponse(vote_granted=True, leader_epoch=epoch),
        )
        effects = made.step(event, now_ms)
        persist += effects.persist
        send += effects.send
    return fx.Effects(persist=persist, send=send)


def elected(known, **options):
    """Elect node 1; return the core and the effects of its election."""
    made = core(1, known, **options)
    now_ms = made.next_deadline_ms()
    effects = made.step(ev.TimeAdvanced(), now_ms)
    for _ in range(2):
        effects = grant(made, requests(effects, m.VoteRequest), now_ms)
    assert made.is_leader
    return made, effects


def appended(made, *records, end=None):
    end_offset = made.log_end_offset if end is None else end
    epochs = (ev.EpochStart(made.epoch, 0),)
    return made.step(
        ev.Appended(
            end_offset=end_offset, last_epoch=made.epoch, generation=made.log_generation,
            epochs=epochs, voter_records=records,
        ),
        made._state.now_ms,
    )  # fmt: skip


def flushed(made):
    end, generation = made._state.log.written_end_offset, made.log_generation
    event = ev.Flushed(end_offset=end, epoch=made.epoch, generation=generation)
    return made.step(event, made._state.now_ms)


def fetched(made, number, offset, *, directory=None, advance_ms=0):
    request = m.FetchRequest(
        cluster_id="c", replica_id=number,
        replica_directory_id=DIRECTORIES[number] if directory is None else directory,
        current_leader_epoch=made.epoch, fetch_offset=offset,
        last_fetched_epoch=made.epoch if offset else 0, max_wait_ms=0, max_bytes=1,
        high_watermark=-1,
    )  # fmt: skip
    event = ev.RequestReceived(reply_token=9, request=request)
    return made.step(event, made._state.now_ms + advance_ms)


def leader(*numbers):
    """Node 1 leads these voters, whose record is at offset 2 and committed."""
    made, effects = elected(history(*numbers))
    batch = next(e for e in effects.persist if isinstance(e, fx.AppendLeaderChange))
    level, voter_records = KRaftVersionAt(1, 1), VotersAt(2, batch.membership.voters)
    appended(made, level, voter_records)
    flushed(made)
    for number in numbers:
        if number != 1:
            fetched(made, number, 3)
    assert made.high_watermark == 3
    return made


def propose(made, *numbers):
    """Write a VotersRecord in place of the proposed record; return its offset."""
    offset = made.log_end_offset
    made.step(ev.Propose(epoch=made.epoch, values=(b"x",)), made._state.now_ms)
    appended(made, VotersAt(offset, voters(*numbers)))
    return offset


def test_the_first_batch_brings_the_voters_of_the_checkpoint_into_the_log():
    made, effects = elected(history(1, 2, 3))
    batch = effects.persist[-1]
    assert batch.membership == Membership(1, voters(1, 2, 3))
    assert (batch.voters, batch.base_offset, made.log_end_offset) == ((1, 2, 3), 0, 3)


def test_a_log_that_has_its_voters_starts_an_epoch_with_leader_change_alone():
    log = {"log_end_offset": 3, "epoch_entries": (ev.EpochStart(1, 0),), "election_epoch": 1}
    made, effects = elected(history(1, 2, 3, offset=2), **log)
    assert effects.persist[-1].membership is None
    assert made.log_end_offset == 4


def test_a_leader_that_listens_elsewhere_writes_that():
    moved = Voter(key(1), (endpoint(1, port=1),))
    known = VoterHistory(VoterSet({})).after(KRaftVersionAt(1, 1))
    known = known.after(VotersAt(2, VoterSet(voters(1, 2, 3).by_id | {1: moved})))
    log = {"log_end_offset": 3, "epoch_entries": (ev.EpochStart(1, 0),), "election_epoch": 1}
    _, effects = elected(known, **log)
    assert effects.persist[-1].membership == Membership(1, voters(1, 2, 3))


def test_votes_name_the_directory_and_go_to_the_address_of_the_voter():
    made = core(1, history(1, 2))
    sent = requests(made.step(ev.TimeAdvanced(), made.next_deadline_ms()), m.VoteRequest)
    assert [(e.request.voter_id, e.request.voter_directory_id) for e in sent] == [
        (2, DIRECTORIES[2])
    ]
    assert sent[0].endpoint == endpoint(2)


def test_static_voters_have_no_addresses_but_those_configured():
    static = tuple((n, endpoint(n)) for n in (1, 2))
    made = RaftCore(
        RaftConfig(node_id=1, cluster_id="c", voters=static), rng=random.Random(1), now_ms=0
    )
    sent = requests(made.step(ev.TimeAdvanced(), made.next_deadline_ms()), m.VoteRequest)
    assert sent
    assert {(e.endpoint, e.request.voter_directory_id) for e in sent} == {(None, None)}
    _, response = begin(made, 2, 8, (endpoint(2, port=1),))
    assert response.leader_endpoint.port == 9093


def test_a_static_voter_that_missed_the_raise_follows_a_leader_that_was_added_later():
    """It has yet to fetch the records by which 9 is a voter; from 9, for nobody else leads."""
    static = tuple((n, endpoint(n)) for n in (1, 2, 3))
    made = RaftCore(
        RaftConfig(node_id=1, cluster_id="c", voters=static), rng=random.Random(1), now_ms=0
    )
    begin(made, 9, 7)
    assert isinstance(made.role, Unattached), "by no address"
    effects, response = begin(made, 9, 7, (endpoint(9),))
    assert isinstance(made.role, Follower)
    assert response.leader_endpoint == Endpoint("", "n9", 9093)
    sent = requests(effects, m.FetchRequest)
    assert [(e.destination_id, e.endpoint) for e in sent] == [(9, endpoint(9))]


def test_static_voters_write_no_voters():
    static = ((1, endpoint(1)),)
    config = RaftConfig(node_id=1, cluster_id="c", voters=static, listeners=(endpoint(1, 1),))
    made = RaftCore(config, rng=random.Random(1), now_ms=0)
    effects = made.step(ev.TimeAdvanced(), 0)
    assert effects.persist[-1].membership is None
    assert made.log_end_offset == 1


def test_the_right_id_in_another_directory_is_an_observer():
    assert not core(1, history(2, 3)).is_voter
    other = RaftConfig(node_id=1, directory_id=b"x" * 16, cluster_id="c", voters=())
    made = RaftCore(other, rng=random.Random(1), now_ms=0, voter_history=history(1, 2))
    assert not made.is_voter
    led = leader(1, 2, 3)
    propose(led, 1, 2, 3)
    flushed(led)
    fetched(led, 2, 4, directory=b"y" * 16)
    assert led.high_watermark == 3
    assert led.observer_count == 1
    fetched(led, 2, 4)
    assert led.high_watermark == 4


def test_a_new_voter_counts_from_the_record_on_and_keeps_its_progress():
    made = leader(1, 2, 3)
    fetched(made, 4, 3)
    propose(made, 1, 2, 3, 4)
    progress = made.role.progress
    assert list(progress) == [key(2), key(3), key(4)]
    assert progress[key(4)].end_offset == 3
    assert made.observer_count == 0
    flushed(made)
    fetched(made, 2, 4)
    assert made.high_watermark == 3, "two of four are no majority"
    fetched(made, 4, 4)
    assert made.high_watermark == 4
    assert made.membership_before(3) == Membership(1, voters(1, 2, 3))
    assert made.membership_before(4) == Membership(1, voters(1, 2, 3, 4))


def test_a_removed_voter_is_an_observer_and_commits_nothing():
    made = leader(1, 2, 3)
    made.role.fetched_voters.add(key(3))
    propose(made, 1, 2)
    assert made.role.observers[key(3)].end_offset == 3
    assert made.role.fetched_voters == set()
    flushed(made)
    fetched(made, 3, 4)
    assert made.high_watermark == 3
    fetched(made, 2, 4)
    assert made.high_watermark == 4


def test_fewer_voters_may_commit_at_once_what_the_removed_one_lacked():
    made = leader(1, 2)
    propose(made, 1, 2)
    flushed(made)
    assert made.high_watermark == 3
    propose(made, 1)
    assert made.high_watermark == 4, "what is flushed, at once"
    flushed(made)
    assert made.high_watermark == 5
    assert made.is_only_voter


def test_a_removed_leader_leads_on_uncounted_until_that_is_committed():
    made = leader(1, 2, 3)
    propose(made, 2, 3)
    flushed(made)
    assert (made.is_leader, made.is_voter) == (True, False)
    fetched(made, 2, 4)
    assert made.high_watermark == 3, "one of two, without the leader, is no majority"
    assert made.is_leader
    effects = fetched(made, 3, 4)
    assert isinstance(made.role, Resigned)
    assert made.role.preferred_candidates == (key(2), key(3))
    ended = requests(effects, m.EndQuorumEpochRequest)
    assert [e.destination_id for e in ended] == [2, 3]
    made.step(ev.TimeAdvanced(), made.role.election_deadline_ms)
    assert isinstance(made.role, Unattached)
    assert made.role.election_deadline_ms is None, "it is an observer"


def test_check_quorum_of_a_removed_leader_needs_a_majority_of_the_others():
    made = leader(1, 2, 3)
    propose(made, 2, 3)
    deadline_ms = made.role.check_quorum_deadline_ms
    fetched(made, 2, 3, advance_ms=1)
    assert made.role.check_quorum_deadline_ms == deadline_ms
    fetched(made, 3, 3, advance_ms=1)
    assert made.role.check_quorum_deadline_ms > deadline_ms


def begin(made, number, epoch, endpoints=()):
    request = m.BeginQuorumEpochRequest(
        cluster_id="c", voter_id=None, voter_directory_id=None, leader_id=number,
        leader_epoch=epoch, leader_endpoints=endpoints,
    )  # fmt: skip
    event = ev.RequestReceived(reply_token=9, request=request)
    effects = made.step(event, made._state.now_ms)
    return effects, next(e.response for e in effects.send if isinstance(e, fx.SendResponse))


def test_a_leader_that_is_no_voter_is_followed_by_the_endpoint_it_names():
    made = core(2, history(2, 3))
    named = endpoint(9, port=99)
    effects, response = begin(made, 9, 7, (named, endpoint(9)))
    assert isinstance(made.role, Follower)
    assert response.leader_endpoint == Endpoint("", "n9", 99)
    sent = requests(effects, m.FetchRequest)
    assert [(e.destination_id, e.endpoint) for e in sent] == [(9, named)]
    made.step(ev.TimeAdvanced(), made.role.fetch_deadline_ms)
    assert isinstance(made.role, Prospective)
    made.step(ev.TimeAdvanced(), made.role.election_deadline_ms)
    assert isinstance(made.role, Follower), "it follows the leader again"
    assert made.role.leader_endpoint == named


def test_of_the_listeners_that_a_leader_names_the_default_one_is_used():
    made = core(2, history(2, 3))
    begin(made, 9, 7, (Endpoint("OTHER", "n9", 5), endpoint(9)))
    assert made.role.leader_endpoint == endpoint(9), "Kafka's order is that of a hash map"


def test_a_leader_without_any_endpoint_is_remembered_and_not_followed():
    made = core(2, history(2, 3))
    begin(made, 9, 7)
    assert isinstance(made.role, Unattached)
    assert made.role.leader_id == 9
    made.step(ev.TimeAdvanced(), made.role.election_deadline_ms)
    assert isinstance(made.role, Prospective)
    made.step(ev.TimeAdvanced(), made.role.election_deadline_ms)
    assert isinstance(made.role, Unattached)
    _, response = begin(made, 3, 8)
    assert isinstance(made.role, Follower)
    assert response.leader_endpoint == Endpoint("", "n3", 9093)


def test_a_node_without_voters_follows_whom_it_is_told():
    made = core(4, VoterHistory(VoterSet({})))
    assert not made.is_voter
    _, response = begin(made, 9, 7, (endpoint(9),))
    assert isinstance(made.role, Follower)
    assert response.error_code == codes.NONE


def follower_that_appended(*records, end):
    made = core(2, history(1, 2, 3))
    effects, _ = begin(made, 1, 1)
    sent = requests(effects, m.FetchRequest)[0]
    answer(made, sent, records=b"batches", high_watermark=-1)
    send = [*appended(made, *records, end=end).send, *flushed(made).send]
    return made, requests(fx.Effects(send=send), m.FetchRequest)[0]


def answer(made, sent, **fields):
    response = m.FetchResponse(leader_id=1, leader_epoch=1, **fields)
    return made.step(
        ev.ResponseReceived(
            destination_id=1, correlation_id=sent.correlation_id, response=response
        ),
        made._state.now_ms,
    )


def test_a_fetched_record_holds_at_once_and_a_truncation_takes_it_back():
    made, sent = follower_that_appended(VotersAt(4, voters(1, 3)), end=5)
    assert not made.is_voter
    effects = answer(made, sent, diverging_epoch=OffsetAndEpoch(4, 1), high_watermark=-1)
    assert [type(e) for e in effects.persist] == [fx.TruncateLog]
    assert made.is_voter


def test_a_snapshot_brings_its_voters():
    made, sent = follower_that_appended(end=2)
    snapshot_id = OffsetAndEpoch(9, 1)
    sent = requests(answer(made, sent, snapshot_id=snapshot_id), m.FetchSnapshotRequest)[0]
    chunk = m.FetchSnapshotResponse(
        leader_id=1, leader_epoch=1, snapshot_id=snapshot_id, size_bytes=1, chunk=b"x"
    )
    made.step(
        ev.ResponseReceived(destination_id=1, correlation_id=sent.correlation_id, response=chunk),
        made._state.now_ms,
    )
    membership = Membership(1, voters(1, 2, 4))
    installed = ev.SnapshotInstalled(
        snapshot_id=snapshot_id, generation=made.log_generation, membership=membership
    )
    made.step(installed, made._state.now_ms)
    assert made.membership_before(9) == membership
    assert made.kraft_version == 1


def test_evidence_ends_with_the_snapshot_that_removes_this_voter():
    """It came while the last chunk was on its way; nobody is to wait for a rank that is none."""
    made = core(2, history(1, 2, 3), evidence=True)
    effects, _ = begin(made, 1, 1)
    snapshot_id = OffsetAndEpoch(50, 1)
    effects = answer(made, requests(effects, m.FetchRequest)[0], snapshot_id=snapshot_id)
    sent = requests(effects, m.FetchSnapshotRequest)[0]
    ended = m.EndQuorumEpochRequest(
        cluster_id="c", leader_id=1, leader_epoch=1, preferred_candidates=(key(3), key(2))
    )
    made.step(ev.RequestReceived(reply_token=1, request=ended), 0)
    chunk = m.FetchSnapshotResponse(
        leader_id=1, leader_epoch=1, snapshot_id=snapshot_id, size_bytes=1, chunk=b"x"
    )
    made.step(
        ev.ResponseReceived(destination_id=1, correlation_id=sent.correlation_id, response=chunk), 0
    )
    installed = ev.SnapshotInstalled(
        snapshot_id=snapshot_id, generation=made.log_generation,
        membership=Membership(1, voters(1, 3)),
    )  # fmt: skip
    made.step(installed, 0)
    assert not made.is_voter
    asked = m.VoteRequest(
        cluster_id="c", voter_id=2, voter_directory_id=DIRECTORIES[2], replica_id=3,
        replica_directory_id=DIRECTORIES[3], replica_epoch=1, last_epoch=1, last_end_offset=10,
        pre_vote=True,
    )  # fmt: skip
    made.step(ev.RequestReceived(reply_token=2, request=asked), 0)
    for _ in range(5):
        due_ms = made.next_deadline_ms()
        made.step(ev.TimeAdvanced(), due_ms)
        assert made.next_deadline_ms() > due_ms, "a busy loop"


def test_a_leader_that_is_being_removed_describes_itself_as_an_observer():
    made = leader(1, 2, 3)
    propose(made, 2, 3)
    described = made.describe_quorum(5)
    assert [row.replica_id for row in described.voters] == [2, 3]
    (row,) = described.observers
    assert (row.replica_id, row.directory_id) == (1, DIRECTORIES[1])
    assert (row.log_end_offset, row.last_caught_up_timestamp_ms) == (4, 5)


def test_describe_quorum_names_directories():
    made = leader(1, 2)
    described = made.describe_quorum(5)
    assert [(v.replica_id, v.directory_id) for v in described.voters] == [
        (n, DIRECTORIES[n]) for n in (1, 2)
    ]
    assert described.nodes == ((1, endpoint(1)), (2, endpoint(2)))


@pytest.mark.parametrize(("directory", "place"), [(DIRECTORIES[2], 1), (b"z" * 16, None)])
def test_a_place_among_the_successors_is_that_of_the_directory(directory, place):
    made = core(2, history(1, 2, 3))
    begin(made, 1, 1)
    request = m.EndQuorumEpochRequest(
        cluster_id="c", leader_id=1, leader_epoch=1,
        preferred_candidates=(key(3), ReplicaKey(2, directory)),
    )  # fmt: skip
    made.step(ev.RequestReceived(reply_token=9, request=request), 0)
    assert made.role.fetch_deadline_ms == (1000 if place is None else 500)


def test_a_stored_leader_without_endpoint_is_not_followed_at_a_start():
    made = core(2, history(2, 3), election_epoch=4, election_leader_id=9)
    assert isinstance(made.role, Unattached)
    assert made.role.leader_id == 9
    assert isinstance(core(2, history(2, 3), election_epoch=4, election_leader_id=3).role, Follower)


def test_an_observer_has_no_fast_election():
    made = core(4, history(1, 2, 3), evidence=True)
    for _ in range(20):
        effects = made.step(ev.TimeAdvanced(), made.next_deadline_ms())
        for sent in requests(effects, m.FetchRequest):
            refusal = m.FetchResponse(error_code=codes.NOT_LEADER_OR_FOLLOWER)
            made.step(
                ev.ResponseReceived(
                    destination_id=sent.destination_id,
                    correlation_id=sent.correlation_id,
                    response=refusal,
                ),
                made._state.now_ms,
            )
    assert made._state.fast_election.evidence is None


def test_records_below_the_log_start_are_forgotten_but_the_last():
    made = leader(1, 2)
    propose(made, 1, 2)
    propose(made, 1)
    flushed(made)
    assert made.high_watermark == 5
    snapshot_id = OffsetAndEpoch(4, made.epoch)
    made.step(ev.SnapshotAdded(snapshot_id=snapshot_id, log_start_offset=4), made._state.now_ms)
    assert [each.offset for each in made._state.log.voter_history.sets] == [3, 4]
