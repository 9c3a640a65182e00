"""Changes of the voters at the leader: AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter (KIP-853).

A change is refused while another is pending or not committed, and before this leader has committed
a record of its own epoch: then no change of an earlier leader can come back. The new voters hold
from the write of their record, so that its commit needs a majority of them; a leader that removes
itself leads until then, and resigns (poll.py).
Source: apache/kafka: raft/.../internals/{Add,Remove,Update}VoterHandler.java, 4.3.
"""

import base64
from typing import Final

import msgspec

from raft import error_codes
from raft.config import CAUGHT_UP_MS_MAX
from raft.fetching.fetch_leader import leader_error
from raft.membership.voter_changes import answer_change, append_level, append_voters, end_change
from raft.membership.voters import Voter, VoterSet, listener_endpoint, replica_order
from raft.messages import (
    AddVoterRequest,
    AddVoterResponse,
    ApiVersionsRequest,
    ApiVersionsResponse,
    RemoveVoterRequest,
    RemoveVoterResponse,
    UpdateVoterRequest,
    UpdateVoterResponse,
)
from raft.roles import Leader, VoterChange
from raft.state import RaftState
from wire.types import ZERO_UUID, NodeId, ReplicaKey

LEVEL_MIN: Final = 1
"""Level of kraft.version from which on the voters can be changed."""

Refusal = tuple[int, str | None]
"""Error code and message."""


def on_reconfiguration(
    state: RaftState,
    reply_token: int,
    request: AddVoterRequest | RemoveVoterRequest | UpdateVoterRequest,
) -> None:
    """Pass on a request that is about the voters."""
    match request:
        case AddVoterRequest():
            on_add_request(state, reply_token, request)
        case RemoveVoterRequest():
            on_remove_request(state, reply_token, request)
        case UpdateVoterRequest():
            on_update_request(state, reply_token, request)


def on_add_request(state: RaftState, reply_token: int, request: AddVoterRequest) -> None:
    """Ask the new voter for its range of kraft.version; the record is appended after its answer."""
    refusal = _add_refusal(state, request)
    if refusal is not None:
        code, text = refusal
        state.answer(reply_token, AddVoterResponse(error_code=code, error_message=text))
        return
    role = state.role
    assert isinstance(role, Leader), f"{role=}"
    key = ReplicaKey(NodeId(request.voter_id), request.directory_id)
    endpoint = listener_endpoint(request.endpoints, state.config.default_listener)
    assert endpoint is not None, f"{request=}"
    requests = state.request_manager
    if not requests.is_ready(key.id, state.now_ms):
        text = f"New voter {key_text(key)} is not ready to receive requests"
        response = AddVoterResponse(error_code=error_codes.REQUEST_TIMED_OUT, error_message=text)
        state.answer(reply_token, response)
        return
    state.send_request(key.id, ApiVersionsRequest(), endpoint)
    role.voter_change = VoterChange(
        reply_token=reply_token,
        added=Voter(key, request.endpoints),
        is_answered_at_append=not request.ack_when_committed,
        deadline_ms=state.now_ms + state.config.request_timeout_ms,
    )


def _error(state: RaftState, cluster_id: str | None) -> int:
    """Return the error of a request of another cluster, or to a node that does not lead."""
    if state.is_foreign(cluster_id):
        return error_codes.INCONSISTENT_CLUSTER_ID
    return leader_error(state, state.epoch)


def _add_refusal(state: RaftState, request: AddVoterRequest) -> Refusal | None:
    """Return why a voter cannot be added, None if it may be; in Kafka's order."""
    error = _error(state, request.cluster_id)
    if error != error_codes.NONE:
        return error, None
    if request.voter_id < 0 or request.directory_id is None:
        return error_codes.INVALID_REQUEST, "Add voter request didn't include a valid voter"
    name = state.config.default_listener
    if listener_endpoint(request.endpoints, name) is None:
        text = "the endpoint for the default listener"
        return (
            error_codes.INVALID_REQUEST,
            f"Add voter request didn't include {text} ListenerName({name})",
        )
    refusal = _pending_refusal(state, "add voter request", "adding")
    if refusal is not None:
        return refusal
    if request.voter_id in state.voters.by_id:
        key = ReplicaKey(NodeId(request.voter_id), request.directory_id)
        text = f"is already part of the set of voters {keys_text(state.voters)}."
        return error_codes.DUPLICATE_VOTER, f"The voter id for {key_text(key)} {text}"
    return None


def on_api_versions(state: RaftState, source_id: NodeId, response: ApiVersionsResponse) -> bool:
    """Append the record of the voter that answers, if it can vote now; False = back off."""
    role = state.role
    change = role.voter_change if isinstance(role, Leader) else None
    if change is None or change.added is None or change.record_offset is not None:
        return True
    voter = change.added
    if voter.key.id != source_id:
        return True
    assert isinstance(role, Leader), f"{role=}"
    if response.error_code != error_codes.NONE:
        on_api_versions_failed(state, source_id, response.error_code)
        return False
    level, supported = state.log.kraft_version, response.kraft_version
    low, high = supported or (0, 0)
    if supported is None or not low <= level <= high:
        text = (
            f"Aborted add voter operation for {key_text(voter.key)} since the kraft.version range "
            f"(min: {low}, max: {high}) doesn't support the finalized version {level}"
        )
        end_change(state, error_codes.INVALID_REQUEST, text)
    elif not _is_caught_up(state, role, voter.key):
        text = f"Aborted add voter operation for {key_text(voter.key)} since it is lagging behind"
        end_change(state, error_codes.REQUEST_TIMED_OUT, text)
    else:
        _append_added(state, role, change, Voter(voter.key, voter.endpoints, low, high))
    return True


def on_api_versions_failed(state: RaftState, source_id: NodeId, error_code: int) -> None:
    """End the change that waits for the answer of this node."""
    role = state.role
    change = role.voter_change if isinstance(role, Leader) else None
    if change is None or change.added is None or change.record_offset is not None:
        return
    if change.added.key.id == source_id:
        text = f"Aborted add voter operation since API_VERSIONS returned error {error_code}"
        end_change(state, error_codes.REQUEST_TIMED_OUT, text)


def _is_caught_up(state: RaftState, role: Leader, key: ReplicaKey) -> bool:
    """True if the replica was at the log end, and has fetched within the hour."""
    seen = role.observers.get(key)
    if seen is None or seen.last_contact_ms is None or seen.last_caught_up_wall_ms < 0:
        return False
    return seen.last_contact_ms > state.now_ms - CAUGHT_UP_MS_MAX


def _append_added(state: RaftState, role: Leader, change: VoterChange, voter: Voter) -> None:
    """Append the record; without `ack_when_committed` the request is answered now."""
    assert change.record_offset is None, f"appended once {change=}"
    assert voter.key.id not in state.voters.by_id, f"INV-VOTERS-2 {change=}"
    voters = VoterSet(state.voters.by_id | {voter.key.id: voter})
    offset = append_voters(state, voters)
    token = change.reply_token
    if change.is_answered_at_append:
        answer_change(state, change, error_codes.NONE)
        token = None
    role.voter_change = msgspec.structs.replace(change, record_offset=offset, reply_token=token)


def on_remove_request(state: RaftState, reply_token: int, request: RemoveVoterRequest) -> None:
    """Append the record without the voter; the request is answered when it is committed."""
    refusal = _remove_refusal(state, request)
    if refusal is not None:
        code, text = refusal
        state.answer(reply_token, RemoveVoterResponse(error_code=code, error_message=text))
        return
    role = state.role
    assert isinstance(role, Leader), f"{role=}"
    assert role.voter_change is None, f"INV-VOTERS-2 {role=}"
    by_id = state.voters.by_id
    left = {voter_id: by_id[voter_id] for voter_id in by_id if voter_id != request.voter_id}
    role.voter_change = VoterChange(
        reply_token=reply_token,
        record_offset=append_voters(state, VoterSet(left)),
        deadline_ms=state.now_ms + state.config.request_timeout_ms,
    )


def _remove_refusal(state: RaftState, request: RemoveVoterRequest) -> Refusal | None:
    """Return why a voter cannot be removed, None if it may be; in Kafka's order."""
    error = _error(state, request.cluster_id)
    if error != error_codes.NONE:
        return error, None
    if request.voter_id < 0 or request.directory_id is None:
        return error_codes.INVALID_REQUEST, "Remove voter request didn't include a valid voter"
    refusal = _pending_refusal(state, "add or remove voter request", "removing")
    if refusal is not None:
        return refusal
    key = ReplicaKey(NodeId(request.voter_id), request.directory_id)
    voter = state.voters.by_id.get(key.id)
    if voter is None or voter.key != key or len(state.voters) == 1:
        return (
            error_codes.VOTER_NOT_FOUND,
            f"Cannot remove voter {key_text(key)} from the set of voters {keys_text(state.voters)}",
        )
    return None


def on_update_request(state: RaftState, reply_token: int, request: UpdateVoterRequest) -> None:
    """Append the record with the new listeners and range of a voter; answered at once.

    At kraft.version 0 there is no record: what the voter says is remembered for the time in which
    this node leads, as the level can be raised when every voter has said it.
    """
    if state.is_foreign(request.cluster_id):
        error = error_codes.INCONSISTENT_CLUSTER_ID
    else:
        error = _update_error(state, request)
        if error == error_codes.NONE:
            _update(state, request)
    state.answer(
        reply_token,
        UpdateVoterResponse(
            error_code=error,
            leader_id=state.role.leader_id,
            leader_epoch=state.epoch,
            leader_endpoint=state.leader_endpoint,
        ),
    )


def _update_error(state: RaftState, request: UpdateVoterRequest) -> int:  # noqa: PLR0911
    """Return the error of an update, in Kafka's order: one return for each check."""
    error = leader_error(state, request.current_leader_epoch)
    if error != error_codes.NONE:
        return error
    role, level = state.role, state.log.kraft_version
    assert isinstance(role, Leader), f"{role=}"
    low, high = request.kraft_version_min, request.kraft_version_max
    if request.voter_id < 0 or request.directory_id is None or not 0 <= low <= high:
        return error_codes.INVALID_REQUEST
    if listener_endpoint(request.endpoints, state.config.default_listener) is None:
        return error_codes.INVALID_REQUEST
    if role.voter_change is not None or state.high_watermark is None:
        return error_codes.REQUEST_TIMED_OUT
    if not state.is_voter_set_committed or state.is_handing_over:
        return error_codes.REQUEST_TIMED_OUT
    if not low <= level <= high:
        return error_codes.INVALID_REQUEST
    key = ReplicaKey(NodeId(request.voter_id), request.directory_id)
    return error_codes.NONE if state.voters.is_voter(key) else error_codes.VOTER_NOT_FOUND


def _update(state: RaftState, request: UpdateVoterRequest) -> None:
    role = state.role
    assert isinstance(role, Leader), f"{role=}"
    key = ReplicaKey(NodeId(request.voter_id), request.directory_id)
    low, high = request.kraft_version_min, request.kraft_version_max
    voter = Voter(key, request.endpoints, low, high)
    if state.log.kraft_version < LEVEL_MIN:
        role.announced[key.id] = voter
    elif state.voters.by_id[key.id] != voter:
        append_voters(state, VoterSet(state.voters.by_id | {key.id: voter}))


def raise_refusal(state: RaftState) -> str | None:
    """Return why the level cannot be raised now, None if it can (KIP-853, Kafka since 4.1).

    Every static voter must have described itself to this leader, with a directory and a range that
    has the level; and no change of the voters may be pending.
    """
    role = state.role
    if not isinstance(role, Leader) or state.high_watermark is None:
        return "Invalid upgrade of kraft.version because the leader has not fenced earlier ones"
    text = f"Invalid upgrade of kraft.version to KRAFT_VERSION_{LEVEL_MIN} because"
    described = _described(state, role)
    for voter_id in state.voters.ids:
        voter = described.get(voter_id)
        if voter is None or not voter.kraft_version_min <= LEVEL_MIN <= voter.kraft_version_max:
            return f"{text} not all of the voters support it"
        if voter.key.directory_id is None:
            return f"{text} the directory id of voter {voter_id} is not known"
    return None


def raise_level(state: RaftState, level: int) -> None:
    """Append the level and the voters as they described themselves."""
    role = state.role
    assert isinstance(role, Leader), f"{role=}"
    assert raise_refusal(state) is None, f"{role=}"
    assert level > state.log.kraft_version, f"{level=}"
    described = _described(state, role)
    voters = VoterSet({voter_id: described[voter_id] for voter_id in state.voters.ids})
    append_level(state, voters, level)


def _described(state: RaftState, role: Leader) -> dict[NodeId, Voter]:
    """Return the voters that described themselves, and this node."""
    config = state.config
    me = Voter(state.self_key, config.listeners, 0, config.kraft_version_max)
    return role.announced | {config.node_id: me}


def _pending_refusal(state: RaftState, what: str, doing: str) -> Refusal | None:
    """Return why the voters cannot be changed now, None if they can (INV-VOTERS-2)."""
    role, history = state.role, state.log.voter_history
    assert isinstance(role, Leader), f"{role=}"
    timed_out = error_codes.REQUEST_TIMED_OUT
    if role.voter_change is not None:
        return timed_out, f"Request timed out waiting for leader to handle previous {what}"
    if state.is_handing_over or state.is_disk_full:
        # With a full disk a record may wait to be written: it is in no history yet.
        disk = f"space on the disk for previous {what}"
        text = "the transfer of the leadership" if state.is_handing_over else disk
        return timed_out, f"Request timed out waiting for {text}"
    watermark = state.high_watermark
    if watermark is None:
        text = "waiting for leader to establish HWM and fence previous voter changes"
        return timed_out, f"Request timed out {text}"
    if state.log.kraft_version < LEVEL_MIN:
        text = f"the kraft.version feature is {state.log.kraft_version}"
        return (
            error_codes.UNSUPPORTED_VERSION,
            f"Cluster doesn't support {doing} voter because {text}",
        )
    if history.latest_offset is None or not state.is_voter_set_committed:
        text = f"the latest voter change at {history.latest_offset} with HWM {watermark}"
        return timed_out, f"Request timed out waiting for voters to commit {text}"
    return None


def key_text(key: ReplicaKey) -> str:
    """Return Kafka's text of a replica key."""
    encoded = base64.urlsafe_b64encode(key.directory_id or ZERO_UUID)[:22].decode()
    return f"ReplicaKey(id={key.id}, directoryId={encoded})"


def keys_text(voters: VoterSet) -> str:
    """Return Kafka's text of the keys of a voter set, ascending."""
    return f"[{', '.join(map(key_text, sorted(voters.keys, key=replica_order)))}]"
