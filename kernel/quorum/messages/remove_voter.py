"""RemoveRaftVoter, sent by tools and controllers, and forwarded by brokers (KIP-853).

It names no partition, so that none is refused before the core has it.
"""

from typing import TYPE_CHECKING, NoReturn

from kernel.quorum.messages.partition import NO_TIME
from raft import messages as raft
from wire.api_keys import REMOVE_RAFT_VOTER
from wire.errors import ErrorCode
from wire.ids import directory_id_of, directory_uuid
from wire.messages import codec

if TYPE_CHECKING:
    from kio.schema.remove_raft_voter.v0.request import RemoveRaftVoterRequest
    from kio.schema.remove_raft_voter.v0.response import RemoveRaftVoterResponse


def request_from_wire(body: "RemoveRaftVoterRequest") -> raft.RemoveVoterRequest:
    """Return the message of a body."""
    return raft.RemoveVoterRequest(
        cluster_id=body.cluster_id,
        voter_id=body.voter_id,
        directory_id=directory_id_of(body.voter_directory_id),
    )


def request_to_wire(message: raft.RemoveVoterRequest) -> codec.Entity:
    """Return the body of a message; no leader uses its time-out."""
    new = codec.newest(REMOVE_RAFT_VOTER, "request")
    return new.RemoveRaftVoterRequest(
        cluster_id=message.cluster_id,
        voter_id=message.voter_id,
        voter_directory_id=directory_uuid(message.directory_id),
    )


def response_from_wire(body: "RemoveRaftVoterResponse") -> raft.RemoveVoterResponse:
    """Return the message of a body."""
    return raft.RemoveVoterResponse(
        error_code=body.error_code.value, error_message=body.error_message
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
