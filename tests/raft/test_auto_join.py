"""A controller that asks its leader to make it a voter (`controller.quorum.auto.join.enable`)."""

import random
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from raft import error_codes as codes
from raft import events as ev
from raft import messages as m
from raft.config import RaftConfig
from raft.core import RaftCore
from raft.membership.voter_history import VotersAt
from raft.membership.voters import Voter, VoterSet
from raft.roles import Follower
from tests.raft.test_dynamic_voters import (
    DIRECTORIES,
    begin,
    endpoint,
    history,
    key,
    requests,
    voters,
)
from tests.raft.test_update_voter import fetch_answered
from wire.types import NodeId, ReplicaKey

KINDS = m.AddVoterRequest, m.RemoveVoterRequest, m.UpdateVoterRequest
PERIOD_MS = 2_000


def observer(known, **options):
    """Node 4 as a follower of node 1, its first Fetch under way."""
    config = RaftConfig(
        node_id=4, directory_id=DIRECTORIES[4], cluster_id="c", voters=(), evidence=False,
        listeners=(endpoint(4),), kraft_version_max=1, fetch_timeout_ms=PERIOD_MS,
    )  # fmt: skip
    config = replace(config, **({"joins": True} | options))
    made = RaftCore(config, rng=random.Random(1), now_ms=0, voter_history=known)
    made.step(ev.TimeAdvanced(), 0)
    effects, _ = begin(made, 1, 1, (endpoint(1),))
    (sent,) = requests(effects, m.FetchRequest)
    return made, sent


def asked(effects):
    return [each for kind in KINDS for each in requests(effects, kind)]


def answered(made, sent, response, at_ms):
    event = ev.ResponseReceived(
        destination_id=1, correlation_id=sent.correlation_id, response=response
    )
    return made.step(event, at_ms)


def other_disk(*numbers):
    """Voters of which node 4 is one with another directory."""
    old = Voter(ReplicaKey(NodeId(4), b"old-disk-of-four"), (endpoint(4),))
    return VoterSet(voters(*numbers).by_id | {NodeId(4): old})


ADD = m.AddVoterRequest(
    cluster_id="c", voter_id=4, directory_id=DIRECTORIES[4], endpoints=(endpoint(4),),
    ack_when_committed=False,
)  # fmt: skip
REMOVE = m.RemoveVoterRequest(cluster_id="c", voter_id=4, directory_id=b"old-disk-of-four")


@dataclass
class Case:
    known: object
    request: object = None
    options: dict | None = None


CASES = {
    "no voter": Case(history(1, 2, 3), ADD),
    "a voter with another disk": Case(history(1).after(VotersAt(0, other_disk(1))), REMOVE),
    "not asked for": Case(history(1, 2, 3), options={"joins": False}),
    "a voter already": Case(history(1, 4), None, {"kraft_version_max": 0}),
    "of a static quorum": Case(None, options={"voters": ((1, endpoint(1)),)}),
    "without a listener": Case(history(1), options={"listeners": ()}),
    "one that was removed": Case(history(1, 4).after(VotersAt(0, voters(1, 2)))),
    "whose old disk was removed": Case(
        history(1).after(VotersAt(0, other_disk(1))).after(VotersAt(1, voters(1))), ADD
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_who_asks(name):
    case = CASES[name]
    made, sent = observer(case.known, **(case.options or {}))
    effects = fetch_answered(made, sent, PERIOD_MS - 1)
    assert asked(effects) == []
    effects = fetch_answered(made, requests(effects, m.FetchRequest)[0], PERIOD_MS)
    assert [each.request for each in asked(effects)] == [case.request][: case.request is not None]
    assert all(each.destination_id == 1 for each in effects.send)
    assert bool(requests(effects, m.FetchRequest)) == (case.request is None)


@pytest.mark.parametrize(
    ("answer", "code", "is_taken"),
    [
        (m.AddVoterResponse, codes.NONE, True),
        (m.AddVoterResponse, codes.REQUEST_TIMED_OUT, True),
        (m.AddVoterResponse, codes.DUPLICATE_VOTER, True),
        (m.RemoveVoterResponse, codes.VOTER_NOT_FOUND, True),
        (m.RemoveVoterResponse, codes.NOT_LEADER_OR_FOLLOWER, False),
        (m.AddVoterResponse, codes.UNSUPPORTED_VERSION, False),
    ],
)
def test_an_answer_and_the_next_request(answer, code, is_taken):
    made, sent = observer(history(1))
    (sent,) = asked(fetch_answered(made, sent, PERIOD_MS))
    assert made.step(ev.TimeAdvanced(), PERIOD_MS + 1).send == [], "nothing beside it"
    effects = answered(made, sent, answer(error_code=code), PERIOD_MS + 10)
    role = made.role
    assert isinstance(role, Follower)
    assert role.fetch_deadline_ms == (PERIOD_MS + 10 if is_taken else PERIOD_MS) + PERIOD_MS
    assert bool(requests(effects, m.FetchRequest)) == is_taken
    while not (found := requests(effects, m.FetchRequest)):
        effects = made.step(ev.TimeAdvanced(), made.next_deadline_ms())
        assert asked(effects) == [], "once in a period"
    effects = fetch_answered(made, found[0], 2 * PERIOD_MS - 1)
    assert asked(effects) == []
    effects = fetch_answered(made, requests(effects, m.FetchRequest)[0], 2 * PERIOD_MS)
    assert [each.request for each in asked(effects)] == [ADD]


def test_a_fetch_that_is_under_way_ends_first():
    made, sent = observer(history(1))
    assert made.step(ev.TimeAdvanced(), PERIOD_MS - 1).send == []
    made._state.role.update_voter_ms = PERIOD_MS - 1
    assert made.step(ev.TimeAdvanced(), PERIOD_MS - 1).send == []
    assert len(asked(fetch_answered(made, sent, PERIOD_MS - 1))) == 1


def test_one_that_was_removed_stays_out_though_a_snapshot_hides_it():
    made, sent = observer(history(1, 4).after(VotersAt(0, voters(1))))
    effects = fetch_answered(made, sent, PERIOD_MS)
    made._state.log._set_voters(history(1))
    effects = fetch_answered(made, requests(effects, m.FetchRequest)[0], 2 * PERIOD_MS)
    assert asked(effects) == []


def test_a_voter_asks_no_more():
    made, sent = observer(history(1))
    (sent,) = asked(fetch_answered(made, sent, PERIOD_MS))
    effects = answered(made, sent, m.AddVoterResponse(), PERIOD_MS + 1)
    made._state.log._set_voters(history(1, 4))
    assert made._state.is_voter
    effects = fetch_answered(made, requests(effects, m.FetchRequest)[0], 2 * PERIOD_MS)
    assert not {type(each.request) for each in asked(effects)} & {type(ADD), type(REMOVE)}


def test_the_key_that_left():
    known = history(1, 4).after(VotersAt(0, voters(1, 2)))
    assert [known.has_left(key(n)) for n in (1, 2, 3, 4)] == [False, False, False, True]
    assert not known.after(VotersAt(1, voters(1, 4))).has_left(key(4)), "it is back"
    assert not known.has_left(ReplicaKey(NodeId(4), b"another directory"))
