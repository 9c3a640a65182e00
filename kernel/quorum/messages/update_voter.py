"""UpdateRaftVoter: a voter describes itself to the leader (KIP-853); it names no partition."""

from typing import TYPE_CHECKING, NoReturn

from kernel.quorum.messages.partition import NO_TIME, listeners_of
from raft import messages as raft
from wire.api_keys import UPDATE_RAFT_VOTER
from wire.errors import ErrorCode
from wire.ids import directory_id_of, directory_uuid, node_id_of, node_number
from wire.messages import codec
from wire.types import Endpoint, LeaderEpoch

if TYPE_CHECKING:
    from kio.schema.update_raft_voter.v0.request import UpdateRaftVoterRequest
    from kio.schema.update_raft_voter.v0.response import UpdateRaftVoterResponse


def request_from_wire(body: "UpdateRaftVoterRequest") -> raft.UpdateVoterRequest:
    """Return the message of a body."""
    supported = body.k_raft_version_feature
    return raft.UpdateVoterRequest(
        cluster_id=body.cluster_id,
        current_leader_epoch=LeaderEpoch(body.current_leader_epoch),
        voter_id=body.voter_id,
        directory_id=directory_id_of(body.voter_directory_id),
        endpoints=listeners_of(body.listeners),
        kraft_version_min=supported.min_supported_version,
        kraft_version_max=supported.max_supported_version,
    )


def request_to_wire(message: raft.UpdateVoterRequest) -> codec.Entity:
    """Return the body of a message."""
    new = codec.newest(UPDATE_RAFT_VOTER, "request")
    return new.UpdateRaftVoterRequest(
        cluster_id=message.cluster_id,
        current_leader_epoch=message.current_leader_epoch,
        voter_id=message.voter_id,
        voter_directory_id=directory_uuid(message.directory_id),
        listeners=tuple(
            new.Listener(name=each.listener, host=each.host, port=each.port)
            for each in message.endpoints
        ),
        k_raft_version_feature=new.KRaftVersionFeature(
            min_supported_version=message.kraft_version_min,
            max_supported_version=message.kraft_version_max,
        ),
    )


def response_from_wire(body: "UpdateRaftVoterResponse") -> raft.UpdateVoterResponse:
    """Return the message of a body."""
    leader = body.current_leader
    leader_id = node_id_of(leader.leader_id)
    is_reachable = leader_id is not None and bool(leader.host)
    return raft.UpdateVoterResponse(
        error_code=body.error_code.value,
        leader_id=leader_id,
        leader_epoch=LeaderEpoch(leader.leader_epoch),
        leader_endpoint=Endpoint("", leader.host, leader.port) if is_reachable else None,
    )


def response_to_wire(message: raft.UpdateVoterResponse) -> codec.Entity:
    """Return the body of a message."""
    new = codec.newest(UPDATE_RAFT_VOTER, "response")
    endpoint = message.leader_endpoint
    return new.UpdateRaftVoterResponse(
        throttle_time=NO_TIME,
        error_code=ErrorCode(message.error_code),
        current_leader=new.CurrentLeader(
            leader_id=node_number(message.leader_id),
            leader_epoch=message.leader_epoch,
            host="" if endpoint is None else endpoint.host,
            port=0 if endpoint is None else endpoint.port,
        ),
    )


def refusal(body: object) -> NoReturn:
    """Never needed: every body has a message."""
    raise AssertionError(f"{body=}")
