"""Views of the metadata quorum."""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from inspection.views import View
from kernel.events import Now
from kernel.quorum.elections import Election
from metadata.control_records import LEADER_CHANGE, LeaderChange, control_type, decode_control
from metadata.json_form import uuid_text
from raft.elections.leader_loss import LeaderLoss
from raft.messages import ReplicaState
from wire.batches.batch import iterate_batches


class ReplicaView(View, frozen=True, kw_only=True):
    """A replica of the metadata log; fields that only the leader knows are None elsewhere."""

    id: int
    directory_id: str | None
    status: Literal["leader", "follower", "observer", "unknown"]
    host: str | None
    port: int | None
    log_end_offset: int | None
    lag: int | None
    """Offsets behind the leader's log end."""
    last_fetch_ms: int | None
    last_caught_up_ms: int | None


class LossView(View, frozen=True, kw_only=True):
    """The loss of a leader as this node saw it: a local observation, not the quorum's."""

    cause: str
    """One word, for example time_out, evidence, resignation or stalled_flush."""
    evidence: str
    """The first sign of the loss, in words."""
    role: str
    """Role of this node when it noticed the loss; only a leader knows why it resigned."""
    lost_epoch: int
    lost_leader_id: int | None


class SeenView(LossView, frozen=True, kw_only=True):
    """An election as this node saw it."""

    known_ms: int
    """Time when this node knew the new leader."""
    leaderless_ms: int | None
    """From the noticed loss to the new leader; None if this node noticed nothing before."""


class OngoingLossView(LossView, frozen=True, kw_only=True):
    """The loss of a leader that has no successor yet."""

    noticed_ms: int


class ElectionView(View, frozen=True, kw_only=True):
    """A leader that wrote its first record, as recorded in the log, or that this node followed."""

    epoch: int
    leader_id: int | None
    offset: int | None
    """Offset of the LeaderChange record; None if this log has none."""
    timestamp_ms: int | None
    """Time of that record."""
    seen: SeenView | None
    """As this node saw it, if it ran then: the newest 50 since its start."""


class QuorumView(View, frozen=True, kw_only=True):
    """The metadata quorum as one node sees it."""

    cluster_id: str
    node_id: int
    role: str
    """Role here: leader, follower, candidate, prospective, resigned, unattached, observer."""
    leader_id: int | None
    leader_epoch: int
    high_watermark: int | None
    log_start_offset: int
    log_end_offset: int
    metadata_offset: int
    """End offset of the records that this node has applied."""
    told_by: Literal["leader", "this node"]
    """Source of the replicas; without the leader's answer their ends and lags are unknown."""
    voters: list[ReplicaView]
    observers: list[ReplicaView]
    not_ready: list[str]
    """Failed checks of this node's /readyz; empty when ready."""
    elections: list[ElectionView]
    """The newest elections, oldest first."""
    leader_loss: OngoingLossView | None
    """The sign that the leader is lost, until another one is known."""


def replica_view(
    state: ReplicaState,
    *,
    leader_id: int,
    leader_end: int,
    is_voter: bool,
    address: tuple[str, int] | None,
) -> ReplicaView:
    """One replica of a DescribeQuorum answer."""
    end, directory = state.log_end_offset, state.directory_id
    status: Literal["leader", "follower", "observer"] = "follower" if is_voter else "observer"
    if state.replica_id == leader_id:
        status = "leader"
    return ReplicaView(
        id=state.replica_id,
        directory_id=uuid_text(directory) if directory is not None and any(directory) else None,
        status=status,
        host=None if address is None else address[0],
        port=None if address is None else address[1],
        log_end_offset=_known(end),
        lag=max(0, leader_end - end) if end >= 0 and leader_end >= 0 else None,
        last_fetch_ms=_known(state.last_fetch_timestamp_ms),
        last_caught_up_ms=_known(state.last_caught_up_timestamp_ms),
    )


def _known(number: int) -> int | None:
    """None for the protocol's -1."""
    return number if number >= 0 else None


def election_view(epoch: int, start_offset: int, content: bytes) -> ElectionView:
    """Election recorded by the LeaderChange batch at the start of an epoch."""
    for batch in iterate_batches(content):
        if not batch.header.is_control:
            break
        for record in batch.records():
            number = control_type(record.key)
            if number != LEADER_CHANGE:
                continue
            change = decode_control(number, record.value)
            assert isinstance(change, LeaderChange), f"{change=}"
            return ElectionView(
                epoch=epoch,
                leader_id=change.leader_id,
                offset=start_offset,
                timestamp_ms=record.timestamp_ms,
                seen=None,
            )
        break
    return ElectionView(
        epoch=epoch, leader_id=None, offset=start_offset, timestamp_ms=None, seen=None
    )


def with_causes(logged: Sequence[ElectionView], seen: Iterable[Election]) -> list[ElectionView]:
    """Join the elections in the log with those that this node saw, by epoch, ascending."""
    found = {view.epoch: view for view in logged}
    for election in seen:
        view = found.get(election.epoch)
        if view is None:
            view = ElectionView(
                epoch=election.epoch,
                leader_id=election.leader_id,
                offset=None,
                timestamp_ms=None,
                seen=None,
            )
        found[election.epoch] = msgspec.structs.replace(view, seen=_seen_view(election))
    return [found[epoch] for epoch in sorted(found)]


def _seen_view(election: Election) -> SeenView:
    return SeenView(
        cause=election.cause,
        evidence=election.evidence,
        role=election.role,
        lost_epoch=election.lost_epoch,
        lost_leader_id=election.lost_leader_id,
        known_ms=election.known_ms,
        leaderless_ms=election.leaderless_ms,
    )


def loss_view(loss: LeaderLoss | None, now: Now) -> OngoingLossView | None:
    """The loss that has no successor yet, at this time; None without."""
    if loss is None:
        return None
    return OngoingLossView(
        cause=loss.cause,
        evidence=loss.evidence,
        role=loss.role,
        lost_epoch=loss.lost_epoch,
        lost_leader_id=loss.lost_leader_id,
        noticed_ms=now.wall_ms - (now.monotonic_ms - loss.noticed_ms),
    )
