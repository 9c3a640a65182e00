"""A voter's description of itself to its leader, and the controllers that a node asks for one."""

import random

import pytest

from raft import error_codes as codes
from raft import events as ev
from raft import messages as m
from raft.config import RaftConfig
from raft.core import RaftCore
from raft.membership.voter_history import VoterHistory, VotersAt
from raft.membership.voters import Voter, VoterSet
from raft.roles import Follower, Unattached
from tests.raft.test_dynamic_voters import (
    DIRECTORIES,
    appended,
    begin,
    endpoint,
    flushed,
    history,
    key,
    requests,
    voters,
)
from tests.raft.test_reconfig import update_request
from wire.types import Endpoint, OffsetAndEpoch

HERE = (endpoint(2),)


def following(known, *, announces=False, static=(), listeners=HERE, now_ms=0):
    config = RaftConfig(
        node_id=2, directory_id=DIRECTORIES[2], cluster_id="c", listeners=listeners,
        voters=tuple((n, endpoint(n)) for n in static), announces_voter=announces,
        kraft_version_max=1, evidence=False,
    )  # fmt: skip
    made = RaftCore(config, rng=random.Random(1), now_ms=now_ms, voter_history=known)
    made.step(ev.TimeAdvanced(), now_ms)
    effects, _ = begin(made, 1, 1, (endpoint(1),))
    (sent,) = requests(effects, m.FetchRequest)
    return made, sent


def fetch_answered(made, sent, at_ms):
    response = m.FetchResponse(leader_id=1, leader_epoch=1, high_watermark=0)
    event = ev.ResponseReceived(
        destination_id=1, correlation_id=sent.correlation_id, response=response
    )
    return made.step(event, at_ms)


def own(number=2):
    """A history in which node 2 is as it describes itself."""
    two = Voter(key(2), (endpoint(2),), 0, 1)
    by_id = voters(1, 2, 3).by_id | {2: two}
    return (
        VoterHistory(VoterSet({})).after(history(1).levels[0]).after(VotersAt(-1, VoterSet(by_id)))
    )


STATIC = {"known": None, "static": (1, 2)}
UPDATES = [
    ({"known": history(1, 2, 3)}, True),  # the log has it with the range 0 to 0
    ({"known": own()}, False),
    ({"known": own(), "listeners": (endpoint(2, port=1),)}, True),
    ({"known": history(1, 3)}, False),
    ({"known": history(1, 2, 3), "listeners": ()}, False),
    (STATIC, False),
    (STATIC | {"announces": True}, True),
]


@pytest.mark.parametrize(("fields", "is_sent"), UPDATES)
def test_a_voter_describes_itself_when_the_leader_needs_it(fields, is_sent):
    made, sent = following(**fields)
    period_ms = made.config.fetch_timeout_ms
    effects = fetch_answered(made, sent, period_ms - 1)
    (sent,) = requests(effects, m.FetchRequest)
    effects = fetch_answered(made, sent, period_ms)
    found = requests(effects, m.UpdateVoterRequest)
    assert bool(found) == is_sent
    assert bool(requests(effects, m.FetchRequest)) != is_sent, "in the place of a fetch"
    if found:
        request = found[0].request
        listeners = fields.get("listeners", (endpoint(2),))
        assert request == update_request(made, endpoints=listeners)
        assert found[0].destination_id == 1


@pytest.mark.parametrize("code", [0, codes.UNSUPPORTED_VERSION, codes.REQUEST_TIMED_OUT])
def test_a_voter_describes_itself_once_to_a_leader_that_takes_it(code):
    made, sent = following(**STATIC, announces=True)
    period_ms = made.config.fetch_timeout_ms
    (sent,) = requests(fetch_answered(made, sent, period_ms), m.UpdateVoterRequest)
    made.step(ev.TimeAdvanced(), period_ms + 10)
    assert made.role.fetch_deadline_ms == 2 * period_ms
    response = m.UpdateVoterResponse(error_code=code, leader_id=1, leader_epoch=1)
    event = ev.ResponseReceived(
        destination_id=1, correlation_id=sent.correlation_id, response=response
    )
    effects = made.step(event, period_ms + 20)
    is_taken = code != codes.REQUEST_TIMED_OUT
    assert made.role.has_updated_leader == is_taken
    assert made.role.fetch_deadline_ms == period_ms + 20 + period_ms
    found = requests(effects, m.FetchRequest)
    assert [each.destination_id for each in found] == [1], "a leader that is busy leads"
    effects = fetch_answered(made, found[0], 2 * period_ms)
    assert bool(requests(effects, m.UpdateVoterRequest)) != is_taken


def test_no_fetch_goes_elsewhere_while_the_description_is_under_way():
    made, sent = following(own(), listeners=(endpoint(2, port=1),))
    period_ms = made.config.fetch_timeout_ms
    fetch_answered(made, sent, period_ms)
    effects = made.step(ev.TimeAdvanced(), period_ms + 1)
    assert not effects.send
    assert made.next_deadline_ms() > period_ms + 1


def test_a_node_without_voters_asks_the_bootstrap_controllers():
    servers = (Endpoint("CONTROLLER", "a", 1), Endpoint("CONTROLLER", "b", 2))
    config = RaftConfig(
        node_id=4, directory_id=DIRECTORIES[4], cluster_id="c", voters=(), bootstrap=servers
    )
    made = RaftCore(config, rng=random.Random(1), now_ms=0, voter_history=None)
    seen = {}
    effects = made.step(ev.TimeAdvanced(), 0)
    for _ in range(20):
        for sent in requests(effects, m.FetchRequest):
            seen[sent.destination_id] = sent.endpoint
            refusal = m.FetchResponse(error_code=codes.NOT_LEADER_OR_FOLLOWER)
            event = ev.ResponseReceived(
                destination_id=sent.destination_id,
                correlation_id=sent.correlation_id,
                response=refusal,
            )
            made.step(event, made._state.now_ms)
        effects = made.step(ev.TimeAdvanced(), made.next_deadline_ms())
    assert seen == {-2: servers[0], -3: servers[1]}
    assert isinstance(made.role, Unattached)
    while not (found := requests(effects, m.FetchRequest)):
        effects = made.step(ev.TimeAdvanced(), made.next_deadline_ms())
    response = m.FetchResponse(
        error_code=codes.NOT_LEADER_OR_FOLLOWER, leader_id=1, leader_epoch=3,
        leader_endpoint=Endpoint("", "n1", 9093),
    )  # fmt: skip
    event = ev.ResponseReceived(
        destination_id=found[0].destination_id,
        correlation_id=found[0].correlation_id,
        response=response,
    )
    (sent,) = requests(made.step(event, made._state.now_ms), m.FetchRequest)
    assert isinstance(made.role, Follower)
    assert (sent.destination_id, sent.endpoint) == (1, Endpoint("", "n1", 9093))


def test_an_observer_with_static_voters_follows_one_that_became_a_voter_later():
    config = RaftConfig(
        node_id=4, cluster_id="c", voters=((2, endpoint(2)),), can_vote=False, evidence=False
    )
    made = RaftCore(config, rng=random.Random(1), now_ms=0)
    made.step(ev.TimeAdvanced(), 0)
    effects, _ = begin(made, 9, 7, (endpoint(9),))
    (sent,) = requests(effects, m.FetchRequest)
    assert (sent.destination_id, sent.endpoint) == (9, endpoint(9))
    effects, _ = begin(made, 2, 8, (endpoint(2, port=1),))
    (sent,) = requests(effects, m.FetchRequest)
    assert (sent.destination_id, sent.endpoint) == (2, None), "as it is configured"


def test_a_leader_that_names_another_endpoint_within_its_epoch_is_reached_there():
    made, _ = following(history(1, 2, 3))
    effects, _ = begin(made, 1, 1, (endpoint(1),))
    assert not requests(effects, m.FetchRequest), "it is reached there already"
    effects, _ = begin(made, 1, 1)
    assert not requests(effects, m.FetchRequest)
    effects, response = begin(made, 1, 1, (endpoint(1, port=5),))
    (sent,) = requests(effects, m.FetchRequest)
    assert (sent.destination_id, sent.endpoint) == (1, endpoint(1, port=5))
    assert response.leader_endpoint.port == 5
    static, _ = following(None, static=(1, 2))
    effects, response = begin(static, 1, 1, (endpoint(1, port=5),))
    assert not requests(effects, m.FetchRequest)
    assert response.leader_endpoint.port == 9093


def test_a_snapshot_at_offset_0_is_never_fetched():
    """0-0 has the first voters of a node; a leader that offers it would replace them."""
    made, sent = following(history(1, 2, 3))
    response = m.FetchResponse(leader_id=1, leader_epoch=1, snapshot_id=OffsetAndEpoch(0, 0))
    event = ev.ResponseReceived(
        destination_id=1, correlation_id=sent.correlation_id, response=response
    )
    assert not requests(made.step(event, 1), m.FetchSnapshotRequest)
    assert made.role.download is None


def test_a_bootstrap_controller_is_no_voter_of_the_first_election():
    """It may be this very node, or one that another answer has been counted for."""
    config = RaftConfig(
        node_id=2, directory_id=DIRECTORIES[2], cluster_id="c", voters=(),
        bootstrap=(endpoint(2), endpoint(3)),
    )  # fmt: skip
    made = RaftCore(config, rng=random.Random(1), now_ms=0, voter_history=history(1, 2, 3))
    seen = set()
    effects = made.step(ev.TimeAdvanced(), 0)
    for _ in range(12):
        for sent in requests(effects, m.FetchRequest):
            seen.add(sent.destination_id)
            if sent.destination_id > 0:
                continue
            response = m.FetchResponse(error_code=codes.NOT_LEADER_OR_FOLLOWER)
            event = ev.ResponseReceived(
                destination_id=sent.destination_id,
                correlation_id=sent.correlation_id,
                response=response,
            )
            made.step(event, made._state.now_ms)
            assert made._state.fast_election.evidence is None
        effects = made.step(ev.TimeAdvanced(), made.next_deadline_ms())
    assert seen & {-2, -3}


def fetching_after_append(can_vote):
    config = RaftConfig(
        node_id=4, directory_id=DIRECTORIES[4], cluster_id="c", voters=(), can_vote=can_vote
    )
    made = RaftCore(config, rng=random.Random(1), now_ms=0, voter_history=history(1, 2, 3))
    made.step(ev.TimeAdvanced(), 0)
    effects, _ = begin(made, 1, 1, (endpoint(1),))
    (sent,) = requests(effects, m.FetchRequest)
    response = m.FetchResponse(leader_id=1, leader_epoch=1, records=b"r", high_watermark=0)
    event = ev.ResponseReceived(
        destination_id=1, correlation_id=sent.correlation_id, response=response
    )
    (append,) = made.step(event, 1).persist
    effects = appended(made, end=1)
    return (
        append.flush,
        bool(requests(effects, m.FetchRequest)),
        requests(flushed(made), m.FetchRequest),
    )


def test_a_controller_that_may_become_a_voter_acknowledges_what_it_has_flushed():
    """KAFKA-17332: its fetch offset counts from the record on that adds it."""
    flush, is_early, after = fetching_after_append(can_vote=True)
    assert (flush, is_early, len(after)) == (True, False, 1)
    flush, is_early, after = fetching_after_append(can_vote=False)
    assert (flush, is_early, len(after)) == (False, True, 0)


def test_a_voter_that_was_heard_fetches_the_record_and_does_not_repeat_itself():
    made, sent = following(own(), listeners=(endpoint(2, port=1),))
    period_ms = made.config.fetch_timeout_ms
    (sent,) = requests(fetch_answered(made, sent, period_ms), m.UpdateVoterRequest)
    response = m.UpdateVoterResponse(leader_id=1, leader_epoch=1)
    event = ev.ResponseReceived(
        destination_id=1, correlation_id=sent.correlation_id, response=response
    )
    effects = made.step(event, period_ms + 1)
    assert not requests(effects, m.UpdateVoterRequest)
    (sent,) = requests(effects, m.FetchRequest)
    effects = fetch_answered(made, sent, 2 * period_ms)
    assert requests(effects, m.UpdateVoterRequest), "the record has not come"
