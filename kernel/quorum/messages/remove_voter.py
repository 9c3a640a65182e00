"""RemoveRaftVoter, sent by tools and forwarded by brokers (KIP-853).

It names no partition, so that none is refused before the core has it.
"""

from typing import TYPE_CHECKING, NoReturn

from kernel.quorum.messages.partition import NO_TIME
from raft import messages as raft
from wire.api_keys import REMOVE_RAFT_VOTER
from wire.errors import ErrorCode
from wire.ids import directory_id_of
from wire.messages import codec

if TYPE_CHECKING:
    from kio.schema.remove_raft_voter.v0.request import RemoveRaftVoterRequest


def request_from_wire(body: "RemoveRaftVoterRequest") -> raft.RemoveVoterRequest:
    """Return the message of a body."""
    return raft.RemoveVoterRequest(
        cluster_id=body.cluster_id,
        voter_id=body.voter_id,
        directory_id=directory_id_of(body.voter_directory_id),
    )


def response_to_wire(message: raft.RemoveVoterResponse) -> codec.Entity:
    """Return the body of a message."""
    return codec.newest(REMOVE_RAFT_VOTER, "response").RemoveRaftVoterResponse(
        throttle_time=NO_TIME,
        error_code=ErrorCode(message.error_code),
        error_message=message.error_message,
    )


def refusal(body: object) -> NoReturn:
    """Never needed: every body has a message."""
    raise AssertionError(f"{body=}")
