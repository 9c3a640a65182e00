"""Changes of the voters at a leader, and what a voter tells of itself (KIP-853)."""

import random

import msgspec
import pytest

from raft import effects as fx
from raft import error_codes as codes
from raft import events as ev
from raft import messages as m
from raft.config import CAUGHT_UP_MS_MAX, RaftConfig
from raft.core import RaftCore
from raft.membership.voter_history import KRaftVersionAt, VotersAt
from raft.membership.voters import Voter, VoterSet
from raft.roles import Resigned
from tests.raft.test_dynamic_voters import (
    DIRECTORIES,
    appended,
    begin,
    core,
    elected,
    endpoint,
    fetched,
    flushed,
    history,
    key,
    leader,
    requests,
    voters,
)
from wire.types import Endpoint, ReplicaKey

TOKEN = 7


def ask(made, request, advance_ms=0):
    event = ev.RequestReceived(reply_token=TOKEN, request=request)
    return made.step(event, made._state.now_ms + advance_ms)


def told(effects):
    """The answer to a request about voters, None if there is none yet."""
    found = [e.response for e in effects.send if isinstance(e, fx.SendResponse)]
    found = [each for each in found if not isinstance(each, m.FetchResponse)]
    assert len(found) <= 1
    return found[0] if found else None


def add_request(number=4, **more):
    fields = {
        "cluster_id": "c", "voter_id": number, "directory_id": DIRECTORIES.get(number),
        "endpoints": (endpoint(number),),
    }  # fmt: skip
    return m.AddVoterRequest(**(fields | more))


def remove_request(number, **more):
    fields = {"cluster_id": None, "voter_id": number, "directory_id": DIRECTORIES.get(number)}
    return m.RemoveVoterRequest(**(fields | more))


def update_request(made, number=2, **more):
    fields = {
        "cluster_id": "c", "current_leader_epoch": made.epoch, "voter_id": number,
        "directory_id": DIRECTORIES.get(number), "endpoints": (endpoint(number, port=77),),
        "kraft_version_min": 0, "kraft_version_max": 1,
    }  # fmt: skip
    return m.UpdateVoterRequest(**(fields | more))


def versions(made, sent, error_code=0, kraft_version=(0, 1)):
    event = ev.ResponseReceived(
        destination_id=sent.destination_id,
        correlation_id=sent.correlation_id,
        response=m.ApiVersionsResponse(error_code=error_code, kraft_version=kraft_version),
    )
    return made.step(event, made._state.now_ms)


def record_of(effects):
    (found,) = [e for e in effects.persist if isinstance(e, fx.AppendVoters)]
    return found


def is_written(made, effects):
    """Write the record of the effects; return its offset."""
    record = record_of(effects)
    assert record.base_offset == made.log_end_offset - 1
    assert record.epoch == made.epoch
    assert record.kraft_version is None
    assert effects.notify[-1] == fx.VotersAppended(
        epoch=made.epoch, base_offset=record.base_offset, end_offset=record.base_offset + 1
    )
    appended(made, VotersAt(record.base_offset, record.voters))
    return record.base_offset


def sole_leader():
    """Node 1, the only voter, which needs no vote of others; its record is at offset 2."""
    made = core(1, history(1))
    appended(made, VotersAt(2, made.voters))
    flushed(made)
    assert made.high_watermark == 3
    return made


def caught_up(*numbers, observer=4):
    made = leader(*numbers)
    fetched(made, observer, made.log_end_offset)
    return made


def asked(made, number=4, **more):
    (sent,) = requests(ask(made, add_request(number, **more)), m.ApiVersionsRequest)
    return sent


def test_a_voter_is_added_once_it_answers_and_is_acknowledged_at_the_commit():
    made = caught_up(1, 2)
    sent = asked(made)
    assert (sent.destination_id, sent.endpoint) == (4, endpoint(4))
    effects = versions(made, sent)
    assert told(effects) is None
    four = Voter(key(4), (endpoint(4),), 0, 1)
    assert record_of(effects).voters == VoterSet(voters(1, 2).by_id | {4: four})
    offset = is_written(made, effects)
    flushed(made)
    assert made.has_uncommitted_voters
    assert told(fetched(made, 4, offset)) is None
    assert told(fetched(made, 4, offset + 1)) == m.AddVoterResponse()
    assert made.voters.ids == (1, 2, 4)
    assert not made.has_uncommitted_voters
    assert made.role.voter_change is None


def test_one_that_does_not_want_to_wait_is_answered_when_the_record_is_appended():
    made = caught_up(1, 2)
    effects = versions(made, asked(made, ack_when_committed=False))
    assert told(effects) == m.AddVoterResponse()
    offset = is_written(made, effects)
    assert told(ask(made, remove_request(2))).error_code == codes.REQUEST_TIMED_OUT
    flushed(made)
    effects = fetched(made, 4, offset + 1)
    assert told(effects) is None, "it has its answer"
    assert made.role.voter_change is None


@pytest.mark.parametrize(
    ("error_code", "supported", "expected", "text"),
    [
        (35, None, codes.REQUEST_TIMED_OUT, "API_VERSIONS returned error 35"),
        (0, None, codes.INVALID_REQUEST, r"(min: 0, max: 0) doesn't support the finalized"),
        (0, (0, 0), codes.INVALID_REQUEST, "(min: 0, max: 0)"),
        (0, (2, 3), codes.INVALID_REQUEST, "(min: 2, max: 3)"),
    ],
)
def test_a_voter_that_does_not_know_the_level_is_not_added(error_code, supported, expected, text):
    made = caught_up(1, 2)
    effects = versions(made, asked(made), error_code, supported)
    answer = told(effects)
    assert answer.error_code == expected
    assert text in answer.error_message
    assert not effects.persist
    assert made.role.voter_change is None


def test_a_voter_that_cannot_be_reached_is_not_added():
    made = caught_up(1, 2)
    sent = asked(made)
    failed = ev.RequestFailed(
        destination_id=4, correlation_id=sent.correlation_id, error_code=codes.BROKER_NOT_AVAILABLE
    )
    assert told(made.step(failed, made._state.now_ms)).error_code == codes.REQUEST_TIMED_OUT
    answer = told(ask(made, add_request()))
    assert answer.error_code == codes.REQUEST_TIMED_OUT
    assert "is not ready to receive requests" in answer.error_message
    assert made.role.voter_change is None


@pytest.mark.parametrize("lag", ["never fetched", "behind", "an hour ago", "in time"])
def test_a_voter_must_have_caught_up(lag):
    made = leader(1, 2)
    end = made.log_end_offset
    if lag != "never fetched":
        fetched(made, 4, end - 1 if lag == "behind" else end)
    if lag in ("an hour ago", "in time"):
        seen = made.role.observers[key(4)]
        at_ms = made._state.now_ms - CAUGHT_UP_MS_MAX + (lag == "in time")
        made.role.observers[key(4)] = msgspec.structs.replace(seen, last_contact_ms=at_ms)
    effects = versions(made, asked(made))
    if lag == "in time":
        assert record_of(effects).voters.ids == (1, 2, 4)
        return
    answer = told(effects)
    assert (answer.error_code, not effects.persist) == (codes.REQUEST_TIMED_OUT, True)
    assert "is lagging behind" in answer.error_message


def test_a_late_or_foreign_answer_adds_nobody():
    made = caught_up(1, 2)
    sent = asked(made)
    deadline_ms = made.role.voter_change.deadline_ms
    assert deadline_ms == made._state.now_ms + made.config.request_timeout_ms
    assert made.next_deadline_ms() <= deadline_ms
    fetched(made, 2, 3, advance_ms=deadline_ms - made._state.now_ms - 1)
    assert made.role.voter_change is not None
    effects = made.step(ev.TimeAdvanced(), deadline_ms)
    assert told(effects) == m.AddVoterResponse(error_code=codes.REQUEST_TIMED_OUT)
    assert not versions(made, sent).persist


def test_a_leader_that_is_deposed_says_so():
    for request in (add_request(), remove_request(2)):
        made = caught_up(1, 2)
        effects = ask(made, request)
        assert told(effects) is None
        if effects.persist:
            is_written(made, effects)
        effects, _ = begin(made, 2, made.epoch + 1, (endpoint(2),))
        codes_told = [
            e.response.error_code
            for e in effects.send
            if isinstance(e, fx.SendResponse) and e.reply_token == TOKEN
        ]
        assert codes_told == [codes.NOT_LEADER_OR_FOLLOWER]


ADD_REFUSALS = [
    ({"cluster_id": "other"}, codes.INCONSISTENT_CLUSTER_ID, None),
    ({"voter_id": -1}, codes.INVALID_REQUEST, "didn't include a valid voter"),
    ({"directory_id": None}, codes.INVALID_REQUEST, "didn't include a valid voter"),
    ({"endpoints": ()}, codes.INVALID_REQUEST, "ListenerName(CONTROLLER)"),
    ({"endpoints": (Endpoint("OTHER", "h", 1),)}, codes.INVALID_REQUEST, "default listener"),
    ({"voter_id": 2}, codes.DUPLICATE_VOTER, "is already part of the set of voters [ReplicaKey("),
    ({"voter_id": 0}, None, None),
    ({"cluster_id": None}, None, None),
]


@pytest.mark.parametrize(("fields", "code", "text"), ADD_REFUSALS)
def test_who_can_be_added(fields, code, text):
    made = leader(1, 2)
    effects = ask(made, add_request(**fields))
    if code is None:
        assert requests(effects, m.ApiVersionsRequest)
        return
    answer = told(effects)
    assert answer.error_code == code
    assert (text or "") in (answer.error_message or "")
    assert made.role.voter_change is None


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"cluster_id": "other"}, codes.INCONSISTENT_CLUSTER_ID),
        ({"voter_id": -1}, codes.INVALID_REQUEST),
        ({"directory_id": None}, codes.INVALID_REQUEST),
        ({"voter_id": 9}, codes.VOTER_NOT_FOUND),
        ({"directory_id": DIRECTORIES[9]}, codes.VOTER_NOT_FOUND),
    ],
)
def test_who_cannot_be_removed(fields, code):
    made = leader(1, 2)
    effects = ask(made, remove_request(2, **fields))
    assert told(effects).error_code == code
    assert not effects.persist
    assert told(ask(sole_leader(), remove_request(1))).error_code == codes.VOTER_NOT_FOUND


@pytest.mark.parametrize("request_of", [add_request, lambda: remove_request(2), update_request])
def test_only_a_leader_changes_voters(request_of):
    made = core(2, history(1, 2, 3))
    request = update_request(made) if request_of is update_request else request_of()
    assert told(ask(made, request)).error_code == codes.NOT_LEADER_OR_FOLLOWER


def new_leader(known):
    """Node 1 just elected: nothing of its epoch is committed."""
    made, effects = elected(known)
    batch = effects.persist[-1]
    records = () if batch.membership is None else (VotersAt(2, batch.membership.voters),)
    appended(made, *records)
    return made


@pytest.mark.parametrize("request_of", [add_request, lambda: remove_request(2), update_request])
def test_nothing_is_changed_before_the_start_of_the_epoch_is_committed(request_of):
    made = new_leader(history(1, 2))
    request = update_request(made) if request_of is update_request else request_of()
    answer = told(ask(made, request))
    assert answer.error_code == codes.REQUEST_TIMED_OUT
    if request_of is not update_request:
        assert "establish HWM" in answer.error_message


def test_one_change_at_a_time():
    """INV-VOTERS-2: neither while one is pending nor while its record is not committed."""
    made = caught_up(1, 2, 3)
    sent = asked(made)
    for request in (add_request(9), remove_request(2), update_request(made)):
        answer = told(ask(made, request))
        assert answer.error_code == codes.REQUEST_TIMED_OUT
        assert "previous add" in getattr(answer, "error_message", "previous add")
    offset = is_written(made, versions(made, sent))
    effects = made.step(ev.TimeAdvanced(), made.role.voter_change.deadline_ms)
    assert told(effects).error_code == codes.REQUEST_TIMED_OUT
    assert made.is_leader
    for request in (add_request(9), remove_request(2), update_request(made)):
        answer = told(ask(made, request))
        assert answer.error_code == codes.REQUEST_TIMED_OUT
        assert "latest voter change at 3" in getattr(
            answer, "error_message", "latest voter change at 3"
        )
    flushed(made)
    for number in (2, 3):
        fetched(made, number, offset + 1)
    assert told(ask(made, remove_request(2))) is None, "the first change is committed by others"


def static_leader(**more):
    static = tuple((n, endpoint(n)) for n in (1, 2))
    config = RaftConfig(
        node_id=1, directory_id=DIRECTORIES[1], cluster_id="c", voters=static, evidence=False,
        listeners=(endpoint(1),), **more,
    )  # fmt: skip
    made = RaftCore(config, rng=random.Random(1), now_ms=0)
    made.step(ev.TimeAdvanced(), 0)
    effects = made.step(ev.TimeAdvanced(), made.next_deadline_ms())
    for _ in range(2):
        (sent,) = requests(effects, m.VoteRequest)
        epoch = sent.request.replica_epoch
        response = m.VoteResponse(vote_granted=True, leader_epoch=epoch)
        event = ev.ResponseReceived(
            destination_id=2, correlation_id=sent.correlation_id, response=response
        )
        effects = made.step(event, made._state.now_ms)
    appended(made)
    flushed(made)
    fetched(made, 2, 1)
    assert made.high_watermark == 1
    return made


def test_static_voters_are_not_changed_but_described():
    made = static_leader()
    for request, what in ((add_request(), "adding"), (remove_request(2), "removing")):
        answer = told(ask(made, request))
        assert answer == type(answer)(
            error_code=codes.UNSUPPORTED_VERSION,
            error_message=f"Cluster doesn't support {what} voter because the kraft.version "
            "feature is 0",
        )
    effects = ask(made, update_request(made))
    assert told(effects) == m.UpdateVoterResponse(
        leader_id=1, leader_epoch=made.epoch, leader_endpoint=Endpoint("", "n1", 9093)
    )
    assert not effects.persist


def test_a_removed_voter_is_acknowledged_by_those_that_stay():
    made = leader(1, 2, 3)
    effects = ask(made, remove_request(3))
    assert told(effects) is None
    offset = is_written(made, effects)
    assert made.voters.ids == (1, 2)
    flushed(made)
    assert told(fetched(made, 3, offset + 1)) is None
    assert told(fetched(made, 2, offset + 1)) == m.RemoveVoterResponse()


def test_a_leader_that_removes_itself_answers_and_resigns():
    made = leader(1, 2, 3)
    offset = is_written(made, ask(made, remove_request(1)))
    flushed(made)
    fetched(made, 2, offset + 1)
    assert made.is_leader
    effects = fetched(made, 3, offset + 1)
    assert told(effects) == m.RemoveVoterResponse()
    assert isinstance(made.role, Resigned)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"cluster_id": "other"}, codes.INCONSISTENT_CLUSTER_ID),
        ({"current_leader_epoch": 0}, codes.FENCED_LEADER_EPOCH),
        ({"current_leader_epoch": 99}, codes.UNKNOWN_LEADER_EPOCH),
        ({"voter_id": -1}, codes.INVALID_REQUEST),
        ({"directory_id": None}, codes.INVALID_REQUEST),
        ({"endpoints": (Endpoint("OTHER", "h", 1),)}, codes.INVALID_REQUEST),
        ({"kraft_version_min": -1}, codes.INVALID_REQUEST),
        ({"kraft_version_min": 2, "kraft_version_max": 1}, codes.INVALID_REQUEST),
        ({"kraft_version_max": 0}, codes.INVALID_REQUEST),
        ({"kraft_version_min": 2, "kraft_version_max": 2}, codes.INVALID_REQUEST),
        ({"directory_id": DIRECTORIES[9]}, codes.VOTER_NOT_FOUND),
        ({"voter_id": 9}, codes.VOTER_NOT_FOUND),
    ],
)
def test_updates_that_are_refused(fields, code):
    made = leader(1, 2)
    effects = ask(made, update_request(made, **fields))
    assert told(effects).error_code == code
    assert told(effects).leader_id == 1
    assert not effects.persist


def test_an_update_is_written_if_it_says_something_new():
    made = leader(1, 2, 3)
    effects = ask(made, update_request(made))
    assert told(effects).error_code == 0
    two = Voter(key(2), (endpoint(2, port=77),), 0, 1)
    assert record_of(effects).voters == VoterSet(voters(1, 2, 3).by_id | {2: two})
    offset = is_written(made, effects)
    flushed(made)
    fetched(made, 3, offset + 1)
    effects = ask(made, update_request(made))
    assert told(effects).error_code == 0
    assert not effects.persist


def test_a_sole_voter_that_gets_a_second_one_waits_for_its_fetches_from_then_on():
    made = sole_leader()
    fetched(made, 4, 3, advance_ms=100_000)
    is_written(made, versions(made, asked(made)))
    assert made.role.check_quorum_deadline_ms == 100_000 + made.config.check_quorum_ms
    made.step(ev.TimeAdvanced(), 100_001)
    assert made.is_leader


def test_a_static_quorum_is_raised_by_what_its_voters_say_of_themselves():
    made = static_leader(kraft_version_max=1)
    assert made.raise_refusal.endswith("because not all of the voters support it")
    ask(made, update_request(made, kraft_version_max=0))
    assert made.raise_refusal.endswith("because not all of the voters support it")
    ask(made, update_request(made))
    assert made.raise_refusal is None
    base = made.log_end_offset
    raised = ev.RaiseKRaftVersion(epoch=made.epoch, level=1)
    assert not made.step(ev.RaiseKRaftVersion(epoch=9, level=1), made._state.now_ms).persist
    effects = made.step(raised, made._state.now_ms)
    record = record_of(effects)
    assert (record.base_offset, record.kraft_version) == (base, 1)
    assert record.voters.keys == (key(1), key(2))
    assert record.voters.endpoint(2) == endpoint(2, port=77)
    assert not [each for each in effects.notify if isinstance(each, fx.VotersAppended)]
    assert made.log_end_offset == base + 2
    assert made.kraft_version == 0
    appended(made, KRaftVersionAt(base, 1), VotersAt(base + 1, record.voters))
    flushed(made)
    assert (made.kraft_version, made.is_voter, made.observer_count) == (1, True, 0)
    fetched(made, 2, base + 2)
    assert made.high_watermark == base + 2


def test_a_voter_without_a_directory_id_stops_a_raise():
    made = static_leader(kraft_version_max=1)
    ask(made, update_request(made))
    made._state.self_key = ReplicaKey(1)
    assert made.raise_refusal.endswith("the directory id of voter 1 is not known")
    assert "has not fenced" in core(2, history(1, 2, 3)).raise_refusal


def test_a_change_ends_when_its_record_is_committed_not_when_the_one_before_is():
    made = leader(1, 2)
    made.step(ev.Propose(epoch=made.epoch, values=(b"v",)), made._state.now_ms)
    appended(made)
    assert is_written(made, ask(made, remove_request(2))) == 4
    flushed_to = ev.Flushed(end_offset=4, epoch=made.epoch, generation=made.log_generation)
    assert told(made.step(flushed_to, made._state.now_ms)) is None
    assert (made.high_watermark, made.role.voter_change is None) == (4, False)
    assert told(flushed(made)) == m.RemoveVoterResponse()


def test_a_sole_leader_wakes_when_the_time_of_a_change_is_over():
    made = sole_leader()
    fetched(made, 4, 3)
    asked(made)
    deadline_ms = made.role.voter_change.deadline_ms
    made.step(ev.TimeAdvanced(), made._state.now_ms + 1)
    assert made.next_deadline_ms() == deadline_ms


def test_no_second_change_while_the_disk_of_a_sole_voter_is_full():
    """The record of the first may wait to be written, long after its request has timed out."""
    made = core(1, history(1))
    appended(made, KRaftVersionAt(1, 1), VotersAt(2, voters(1)))
    flushed(made)
    made.step(ev.DiskFull(), made._state.now_ms)
    assert (made.is_leader, made.high_watermark) == (True, 3)
    answer = told(ask(made, add_request(4)))
    assert answer.error_code == codes.REQUEST_TIMED_OUT
    assert "space on the disk" in answer.error_message
