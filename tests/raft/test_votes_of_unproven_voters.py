"""Votes of its own that an unproven voter remembers, and for whom it votes because of them."""

import random

import pytest

from raft import effects as fx
from raft import events as ev
from raft import messages as m
from raft.config import RaftConfig
from raft.core import RaftCore
from tests.raft.test_dynamic_voters import endpoint
from wire.types import ReplicaKey

UNASKED, OWN, OTHER = None, ReplicaKey(2, None), ReplicaKey(1, None)


def unproven(voter_count=3, voted=UNASKED, epoch=1):
    """Node 2 of static voters, on a disk that knows of an epoch and of its vote there."""
    config = RaftConfig(
        node_id=2, cluster_id="c", listeners=(endpoint(2),), evidence=False,
        voters=tuple((n, endpoint(n)) for n in range(1, voter_count + 1)),
    )  # fmt: skip
    made = RaftCore(
        config, rng=random.Random(1), now_ms=0, is_unproven=True,
        election_epoch=epoch, election_voted_key=voted,
    )  # fmt: skip
    made.step(ev.TimeAdvanced(), 0)
    return made


def grants(made, epoch, last_epoch, end_offset, candidate=1):
    request = m.VoteRequest(
        cluster_id="c", voter_id=None, voter_directory_id=None, replica_epoch=epoch,
        replica_id=candidate, replica_directory_id=None, last_epoch=last_epoch,
        last_end_offset=end_offset, pre_vote=False,
    )  # fmt: skip
    effects = made.step(ev.RequestReceived(reply_token=1, request=request), 1)
    (answer,) = [e.response for e in effects.send if isinstance(e, fx.SendResponse)]
    return answer.vote_granted


@pytest.mark.parametrize(
    ("voter_count", "voted", "last_epoch", "is_granted"),
    [
        (3, OTHER, 1, True),  # the leader of epoch 1 is back, whom it had elected
        (3, OTHER, 2, False),  # records of an epoch in which it elected nobody
        (3, OWN, 1, False),  # it had campaigned itself
        (3, UNASKED, 1, False),
        (4, OTHER, 1, False),  # its vote alone elected nobody
        (5, OTHER, 1, False),
    ],
)
def test_a_log_of_an_epoch_that_it_had_voted_in(voter_count, voted, last_epoch, is_granted):
    made = unproven(voter_count, voted)
    assert grants(made, 3, last_epoch, 1) == is_granted


def test_a_vote_is_remembered_in_later_epochs():
    made = unproven(epoch=0)
    assert grants(made, 1, 0, 0)
    assert grants(made, 2, 1, 1), "it is the log of the leader that it elected"


def test_records_of_others_are_no_new_quorum():
    made = unproven(epoch=0)
    assert not grants(made, 2, 1, 1)
    assert not grants(made, 3, 0, 0, candidate=3), "one with records has asked"
