"""AddRaftVoter, sent by tools and controllers, and forwarded by brokers (KIP-853).

It names no partition, so that none is refused before the core has it.
"""

from typing import TYPE_CHECKING, NoReturn

from kernel.quorum.messages.partition import NO_TIME, listeners_of
from raft import messages as raft
from wire.api_keys import ADD_RAFT_VOTER
from wire.errors import ErrorCode
from wire.ids import directory_id_of, directory_uuid
from wire.messages import codec

if TYPE_CHECKING:
    from kio.schema.add_raft_voter.v1.request import AddRaftVoterRequest
    from kio.schema.add_raft_voter.v1.response import AddRaftVoterResponse


def request_from_wire(body: "AddRaftVoterRequest") -> raft.AddVoterRequest:
    """Return the message of a body."""
    return raft.AddVoterRequest(
        cluster_id=body.cluster_id,
        voter_id=body.voter_id,
        directory_id=directory_id_of(body.voter_directory_id),
        endpoints=listeners_of(body.listeners),
        ack_when_committed=body.ack_when_committed,
    )


def request_to_wire(message: raft.AddVoterRequest) -> codec.Entity:
    """Return the body of a message; no leader uses its time-out."""
    new = codec.newest(ADD_RAFT_VOTER, "request")
    return new.AddRaftVoterRequest(
        cluster_id=message.cluster_id,
        timeout=NO_TIME,
        voter_id=message.voter_id,
        voter_directory_id=directory_uuid(message.directory_id),
        listeners=tuple(
            new.Listener(name=each.listener, host=each.host, port=each.port)
            for each in message.endpoints
        ),
        ack_when_committed=message.ack_when_committed,
    )


def response_from_wire(body: "AddRaftVoterResponse") -> raft.AddVoterResponse:
    """Return the message of a body."""
    return raft.AddVoterResponse(error_code=body.error_code.value, error_message=body.error_message)


def response_to_wire(message: raft.AddVoterResponse) -> codec.Entity:
    """Return the body of a message."""
    return codec.newest(ADD_RAFT_VOTER, "response").AddRaftVoterResponse(
        throttle_time=NO_TIME,
        error_code=ErrorCode(message.error_code),
        error_message=message.error_message,
    )


def refusal(body: object) -> NoReturn:
    """Never needed: every body has a message."""
    raise AssertionError(f"{body=}")
