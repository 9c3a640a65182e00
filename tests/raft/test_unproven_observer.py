"""A voter whose emptied log does not say that it votes: its directory id is still the voter's."""

import pytest

from raft import events as ev
from raft import messages as m
from raft.membership.voter_history import VoterHistory
from raft.membership.voters import VoterSet
from raft.roles import Follower
from tests.raft.test_dynamic_voters import DIRECTORIES, core, endpoint, history, requests


def began(made, leader_id=1, epoch=3):
    """The leader names itself; what the replica fetches then."""
    request = m.BeginQuorumEpochRequest(
        cluster_id="c", voter_id=2, voter_directory_id=DIRECTORIES[2], leader_id=leader_id,
        leader_epoch=epoch, leader_endpoints=(endpoint(leader_id),),
    )  # fmt: skip
    effects = made.step(ev.RequestReceived(reply_token=1, request=request), 1)
    assert type(made.role) is Follower
    (sent,) = requests(effects, m.FetchRequest)
    return sent


def answered(made, sent, **more):
    response = m.FetchResponse(leader_id=1, leader_epoch=3, high_watermark=9, **more)
    event = ev.ResponseReceived(
        destination_id=sent.destination_id, correlation_id=sent.correlation_id, response=response
    )
    return made.step(event, 2)


@pytest.mark.parametrize("known", [VoterHistory(VoterSet({})), history(1, 2)])
def test_it_names_no_replica_before_it_has_the_log_of_the_leader(known):
    """INV-PROOF-1: it may have voted in a later epoch, and would confirm a read of this one."""
    made = core(2, known, is_unproven=True)
    sent = began(made)
    assert sent.request.replica_id is None
    (sent,) = requests(answered(made, sent), m.FetchRequest)
    assert sent.request.replica_id == 2


@pytest.mark.parametrize("is_unproven", [False, True])
def test_only_an_unproven_one_is_nameless(is_unproven):
    made = core(2, VoterHistory(VoterSet({})), is_unproven=is_unproven)
    assert (began(made).request.replica_id is None) is is_unproven
