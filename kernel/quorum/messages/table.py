"""The table of raft messages by API key and by type.

A request that is not about exactly partition 0 of `__cluster_metadata` never reaches the core:
`request_from_wire` returns None and `refusal` is the response (KIP-595).
"""

from collections.abc import Callable
from typing import Any, Final, Protocol

from kernel.quorum.messages import (
    add_voter,
    begin_epoch,
    describe_quorum,
    end_epoch,
    fetch,
    fetch_snapshot,
    remove_voter,
    transfer,
    update_voter,
    vote,
    voter_versions,
)
from raft import messages as raft
from wire.api_keys import (
    ADD_RAFT_VOTER,
    API_VERSIONS,
    BEGIN_QUORUM_EPOCH,
    DESCRIBE_QUORUM,
    END_QUORUM_EPOCH,
    FETCH,
    FETCH_SNAPSHOT,
    REMOVE_RAFT_VOTER,
    UPDATE_RAFT_VOTER,
    VOTE,
)


class Served(Protocol):
    """The module of a message that this node serves."""

    @property
    def request_from_wire(self) -> Callable[[Any], raft.RaftRequest | None]:
        """Return the message of a request body; None unless about the metadata partition."""
        ...

    @property
    def response_to_wire(self) -> Callable[[Any], object]:
        """Return the response body of a message."""
        ...

    @property
    def refusal(self) -> Callable[[Any], object]:
        """Return the response to a request without message."""
        ...


class Sent(Protocol):
    """The module of a message that is sent to peers."""

    @property
    def request_to_wire(self) -> Callable[[Any], object]:
        """Return the request body of a message."""
        ...

    @property
    def response_from_wire(self) -> Callable[[Any], raft.RaftResponse | None]:
        """Return the message of a response body; None unless about the metadata partition."""
        ...


SENT: Final[dict[int, Sent]] = {
    VOTE: vote,
    BEGIN_QUORUM_EPOCH: begin_epoch,
    END_QUORUM_EPOCH: end_epoch,
    FETCH: fetch,
    FETCH_SNAPSHOT: fetch_snapshot,
    ADD_RAFT_VOTER: add_voter,
    REMOVE_RAFT_VOTER: remove_voter,
    UPDATE_RAFT_VOTER: update_voter,
    API_VERSIONS: voter_versions,
}
SERVED: Final[dict[int, Served]] = {
    VOTE: vote,
    BEGIN_QUORUM_EPOCH: begin_epoch,
    END_QUORUM_EPOCH: end_epoch,
    FETCH: fetch,
    FETCH_SNAPSHOT: fetch_snapshot,
    DESCRIBE_QUORUM: describe_quorum,
    ADD_RAFT_VOTER: add_voter,
    REMOVE_RAFT_VOTER: remove_voter,
    UPDATE_RAFT_VOTER: update_voter,
}
RAFT_API_KEYS: Final = frozenset(SERVED)

KEY_OF_REQUEST: Final[dict[type, int]] = {
    raft.VoteRequest: VOTE,
    raft.BeginQuorumEpochRequest: BEGIN_QUORUM_EPOCH,
    raft.EndQuorumEpochRequest: END_QUORUM_EPOCH,
    raft.FetchRequest: FETCH,
    raft.FetchSnapshotRequest: FETCH_SNAPSHOT,
    raft.AddVoterRequest: ADD_RAFT_VOTER,
    raft.RemoveVoterRequest: REMOVE_RAFT_VOTER,
    raft.UpdateVoterRequest: UPDATE_RAFT_VOTER,
    raft.ApiVersionsRequest: API_VERSIONS,
}
"""API keys of the requests that the core sends."""

KEY_OF_RESPONSE: Final[dict[type, int]] = {
    raft.VoteResponse: VOTE,
    raft.BeginQuorumEpochResponse: BEGIN_QUORUM_EPOCH,
    raft.EndQuorumEpochResponse: END_QUORUM_EPOCH,
    raft.FetchResponse: FETCH,
    raft.FetchSnapshotResponse: FETCH_SNAPSHOT,
    raft.DescribeQuorumResponse: DESCRIBE_QUORUM,
    raft.AddVoterResponse: ADD_RAFT_VOTER,
    raft.RemoveVoterResponse: REMOVE_RAFT_VOTER,
    raft.UpdateVoterResponse: UPDATE_RAFT_VOTER,
}


def request_from_wire(api_key: int, body: object) -> raft.RaftRequest | None:
    """Return the message of a request body; None unless it is about the metadata partition."""
    return SERVED[api_key].request_from_wire(body)


def refusal(api_key: int, body: object) -> object:
    """Return the response to a request that is not about exactly the metadata partition."""
    return SERVED[api_key].refusal(body)


def request_to_wire(message: raft.RaftRequest) -> tuple[int, object]:
    """Return the API key and the body of a request that the core sends."""
    api_key = KEY_OF_REQUEST[type(message)]
    return api_key, SENT[api_key].request_to_wire(message)


def response_to_wire(message: raft.RaftResponse) -> object:
    """Return the body of a response that the core sends."""
    if type(message) is raft.TransferLeadershipResponse:  # its API is the controller's otherwise
        return transfer.response_to_wire(message)
    return SERVED[KEY_OF_RESPONSE[type(message)]].response_to_wire(message)


def response_from_wire(api_key: int, body: object) -> raft.RaftResponse | None:
    """Return the message of a response body; None unless it is about the metadata partition."""
    return SENT[api_key].response_from_wire(body)
