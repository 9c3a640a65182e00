"""Transfer of the leadership to the voter that an operator names. Not in Kafka.

It is asked for by AlterPartitionReassignments of the metadata partition, which Kafka's controllers
refuse. The leader hands over by EndQuorumEpoch, which Kafka's voters obey too: the target is the
first of the preferred successors, and campaigns at once.

INV-TRANSFER-1: from the request until it hands over or gives up, the leader appends nothing. Its
driver holds proposals back (`RaftCore.is_handing_over`); changes of the voters are refused.
INV-TRANSFER-2: it hands over when the target, which is alive, has the whole log durably, and all of
it is committed. The request answers the target's parked fetch; one that lives sends the next.
So whoever proposed before the request is answered by this leader, and what was held back is in no
log: no client is refused for a record that the next leader commits.

INV-TRANSFER-3: it waits no longer than the election time-out, nor than the time of the request.
A leader that gives up leads on, and takes the proposals held back. Once it has resigned it is a
voter like others: it does not know whom they elect until a leader of a later epoch is named to it,
or the time is over, and answers by that. The election itself is that of any resignation.
"""

from typing import Final

from msgspec.structs import replace

from raft import error_codes
from raft.config import TRANSFER_LAG_MAX
from raft.elections.leader_loss import Cause
from raft.elections.vote import resign
from raft.messages import TransferLeadershipRequest, TransferLeadershipResponse
from raft.roles import Leader, Transfer
from raft.state import RaftState
from wire.types import NodeId, ReplicaKey

Refusal = tuple[int, str | None]

NOT_CONTROLLER: Final[Refusal] = (error_codes.NOT_CONTROLLER, None)


def on_transfer_request(
    state: RaftState, reply_token: int, request: TransferLeadershipRequest
) -> None:
    """Begin a transfer, or refuse it; the response to one that begins comes at its end.

    Errors: NOT_CONTROLLER without leadership; INVALID_REPLICA_ASSIGNMENT if the replicas are not
    the voters; REASSIGNMENT_IN_PROGRESS during a transfer or a change of the voters;
    PREFERRED_LEADER_NOT_AVAILABLE if the target is down, too far behind, or not the one elected;
    REQUEST_TIMED_OUT if this leader gives up, or no leader is known in time.
    """
    refusal = _refusal(state, request)
    if refusal is not None:
        code, text = refusal
        state.answer(reply_token, TransferLeadershipResponse(error_code=code, error_message=text))
        return
    role, target_id = state.role, NodeId(request.replicas[0])
    assert isinstance(role, Leader), f"{role=}"
    if target_id == role.leader_id:
        text = f"node {target_id} leads epoch {role.epoch} already"
        _answer(state, reply_token, error_codes.NONE, text)
        return
    wait_ms = max(1, min(request.timeout_ms, state.config.election_timeout_ms))
    assert state.transfer is None, "one at a time"
    assert role.voter_change is None, f"INV-TRANSFER-1 {role=}"
    target = state.voters.by_id[target_id].key
    state.transfer = Transfer(
        reply_token=reply_token,
        target=target,
        epoch=role.epoch,
        end_offset=state.log.end_offset,
        deadline_ms=state.now_ms + wait_ms,
    )
    _answer_fetches(state, target)


def _refusal(state: RaftState, request: TransferLeadershipRequest) -> Refusal | None:
    """Return why there can be no transfer to the first replica now, None if it may begin."""
    role = state.role
    if not isinstance(role, Leader) or not role.is_claimed:
        return NOT_CONTROLLER
    ids, replicas = state.voters.ids, request.replicas
    if not replicas or replicas[0] not in ids:
        text = f"node {replicas[0] if replicas else '-'} is none of the voters {list(ids)}"
        return error_codes.INVALID_REPLICA_ASSIGNMENT, text
    if sorted(replicas) != list(ids):
        text = f"the replicas are not the voters {list(ids)}, each once"
        return error_codes.INVALID_REPLICA_ASSIGNMENT, text
    busy = error_codes.REASSIGNMENT_IN_PROGRESS
    if state.transfer is not None:
        return busy, f"a transfer to voter {state.transfer.target.id} is under way"
    if role.voter_change is not None or not state.is_voter_set_committed:
        return busy, "a change of the voters is not committed"
    return _unavailable(state, role, NodeId(replicas[0]))


def _unavailable(state: RaftState, role: Leader, target_id: NodeId) -> Refusal | None:
    """Return why the target cannot lead soon, None if it may; this node may."""
    if target_id == role.leader_id:
        return None
    seen = role.progress[state.voters.by_id[target_id].key]
    lag = state.log.end_offset - (seen.end_offset or 0)
    if seen.last_contact_ms is None:
        text = f"voter {target_id} has not fetched from this leader"
    elif state.now_ms - seen.last_contact_ms >= state.config.fetch_timeout_ms:
        silent_ms = state.now_ms - seen.last_contact_ms
        text = f"voter {target_id} has not fetched for {silent_ms} ms"
    elif lag > TRANSFER_LAG_MAX:
        text = f"voter {target_id} is {lag} records behind, {TRANSFER_LAG_MAX} are allowed"
    else:
        return None
    return error_codes.PREFERRED_LEADER_NOT_AVAILABLE, text


def note_target(state: RaftState, voter: ReplicaKey) -> None:
    """Note a Fetch of a voter during a transfer: is its target alive?"""
    transfer = state.transfer
    assert transfer is not None, f"{voter=}"
    if voter == transfer.target:
        state.transfer = replace(transfer, has_fetched=True)


def has_successor(state: RaftState, role: Leader) -> bool:
    """True if this leader is to hand over now (INV-TRANSFER-2)."""
    transfer, end_offset = state.transfer, state.log.end_offset
    if transfer is None or not state.is_handing_over:
        return False
    reached = role.progress[transfer.target].end_offset
    return transfer.has_fetched and reached == end_offset == state.high_watermark


def hand_over(state: RaftState) -> None:
    """Resign in favour of the target."""
    transfer = state.transfer
    assert transfer is not None, "nothing is handed over unasked"
    assert state.is_handing_over, f"{transfer=} {state.role=}"
    state.note_loss(Cause.OPERATOR, f"its transfer to voter {transfer.target.id} was asked for")
    deadline_ms = state.now_ms + state.config.request_timeout_ms
    state.transfer = replace(transfer, deadline_ms=deadline_ms)
    _answer_fetches(state, transfer.target)
    resign(state, transfer.target)


def _answer_fetches(state: RaftState, target: ReplicaKey) -> None:
    """Answer the parked fetch of the target as if its wait were over.

    A refusal, were it there before EndQuorumEpoch, would have it count this node as one that does
    not vote for it; and left alone it would hold up what the target asks next.
    """
    for fetch in list(state.parked):
        request = fetch.request
        if state.voters.key_of(request.replica_id, request.replica_directory_id) == target:
            state.parked.remove(fetch)
            state.answer(fetch.reply_token, fetch.response)


def settle_transfer(state: RaftState, transfer: Transfer) -> None:
    """Answer a transfer that is over; else wake when it is to be given up."""
    leader, target_id = state.leader, transfer.target.id
    assert transfer.epoch <= state.epoch, f"INV-EPOCH-1 {transfer=}"
    code = error_codes.REQUEST_TIMED_OUT
    if leader.leader_id is not None and leader.epoch > transfer.epoch:
        is_elected = leader.leader_id == target_id
        code = error_codes.NONE if is_elected else error_codes.PREFERRED_LEADER_NOT_AVAILABLE
        text = f"node {leader.leader_id} leads epoch {leader.epoch}"
        if not is_elected:
            text = f"{text}, it was elected before node {target_id}"
    elif transfer.deadline_ms > state.now_ms:
        state.wake_at(transfer.deadline_ms)
        return
    elif state.is_handing_over:
        role = state.role
        assert isinstance(role, Leader), f"{role=}"
        text = _given_up(state, role, transfer)
    else:
        text = f"epoch {transfer.epoch} is over, no leader of a later one is known yet"
    state.transfer = None
    _answer(state, transfer.reply_token, code, text)


def _given_up(state: RaftState, role: Leader, transfer: Transfer) -> str:
    """Say what the target, or the commit, lacked in time."""
    end_offset, target_id = transfer.end_offset, transfer.target.id
    reached = role.progress[transfer.target].end_offset
    if reached == end_offset and not transfer.has_fetched:
        missing = f"voter {target_id} does not fetch any more"
    elif reached == end_offset:
        missing = f"offsets [{state.high_watermark}, {end_offset}) are not committed"
    else:
        missing = f"voter {target_id} has fetched up to {reached or 0} of {end_offset}"
    return f"{missing}: node {role.leader_id} goes on leading epoch {role.epoch}"


def _answer(state: RaftState, reply_token: int, code: int, text: str) -> None:
    state.answer(reply_token, TransferLeadershipResponse(error_code=code, error_message=text))
