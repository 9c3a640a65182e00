"""The KRaft consensus core: `step(event, now_ms) -> Effects` is the only way to change its state.

Contract with the driver:
- Effects are performed in the order of `Effects`: persist, send, notify; a step runs to completion.
- A leader's offsets are assigned in `step(Propose)`: `log_end_offset` moves at once, so several
  batches may be proposed before their `Appended`. A proposal in an epoch that this node does not
  lead has no effect (check `can_propose` first).
- AppendFetched and a last WriteSnapshotChunk are answered by the very next event (INV-APPEND-1).
- After every Appended of a voter a flush follows and ends as Flushed with the generation and epoch
  at which the flush was planned (`log_generation`, `epoch`).
- The log as given at start is durable: the driver flushes what it recovered.

Invariants: docs/invariants.md (INV-EPOCH, INV-LEADER, INV-VOTE, INV-HW, INV-LOG, INV-ACK, ...).
Source: KIP-595, KIP-630, KIP-996; apache/kafka: raft/.../KafkaRaftClient.java, 4.x behaviour.
"""

from raft.config import SHUTDOWN_MS_MAX, RaftConfig
from raft.describe_quorum import describe_quorum
from raft.effects import AppendBatch, Effects
from raft.elections.epoch_messages import on_begin_request, on_end_request
from raft.elections.flush_stall import is_stalled
from raft.elections.initial_role import StoredElection, initial_role
from raft.elections.leader_loss import Cause, LeaderLoss
from raft.elections.proof import note_vote
from raft.elections.transfer import on_transfer_request
from raft.elections.vote import on_disk_full, on_vote_request, resign
from raft.events import (
    Appended,
    DiskFull,
    DiskHasSpace,
    EpochStart,
    Event,
    Flushed,
    LeaderUnreachable,
    Propose,
    QuorumGone,
    RaiseKRaftVersion,
    ReadIndexRequested,
    RequestFailed,
    RequestReceived,
    ResignRequested,
    ResponseReceived,
    ShutdownRequested,
    SnapshotAdded,
    SnapshotInstalled,
    SnapshotRefused,
    TimeAdvanced,
)
from raft.fetching.epoch_cache import NO_EPOCH, LogView
from raft.fetching.fetch_follower import on_appended, on_flushed
from raft.fetching.fetch_leader import on_fetch_request, on_fetch_snapshot_request
from raft.fetching.read_index import on_read_requested
from raft.fetching.snapshot_fetch import (
    on_snapshot_added,
    on_snapshot_installed,
    on_snapshot_refused,
)
from raft.membership.reconfig import on_reconfiguration, raise_level, raise_refusal
from raft.membership.voter_history import Membership, VoterHistory
from raft.membership.voters import VoterSet, static_voters
from raft.messages import (
    ApiVersionsRequest,
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    TransferLeadershipRequest,
    VoteRequest,
)
from raft.poll import next_deadline_ms, poll
from raft.responses import on_request_failed, on_response
from raft.roles import Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached
from raft.state import RaftState
from wire.types import (
    Endpoint,
    LeaderAndEpoch,
    LeaderEpoch,
    NodeId,
    Offset,
    OffsetAndEpoch,
    ReplicaKey,
    Rng,
)

NO_OFFSET = Offset(0)
_ROLES_OF_OBSERVERS = (Unattached, Follower, Resigned)


class RaftCore:
    """One replica of the metadata quorum as a deterministic machine.

    Args:
        config: identity, voters and time-outs.
        election_epoch: epoch of the stored quorum-state, 0 when there is no file.
        election_leader_id: its leader, None when unknown.
        election_voted_key: its vote, None when none was given.
        log_start_offset: first offset the log holds.
        log_end_offset: end (exclusive) of the recovered and flushed log.
        epoch_entries: epoch starts of the log, ascending; the last one is the last record's.
        earliest_snapshot: id of the oldest snapshot; None when there is none.
        latest_snapshot: id of the newest snapshot; None when there is none (0-0 counts as none).
        voter_history: voters and level of the recovered log; None = the static ones alone.
        is_unproven: True if the folder has the mark of an unproven voter (elections/proof.py).
        rng: the only source of randomness.
        now_ms: monotonic time at start.
    """

    def __init__(  # noqa: PLR0913 - what a node remembers, each by keyword
        self,
        config: RaftConfig,
        *,
        election_epoch: LeaderEpoch = NO_EPOCH,
        election_leader_id: NodeId | None = None,
        election_voted_key: ReplicaKey | None = None,
        log_start_offset: Offset = NO_OFFSET,
        log_end_offset: Offset = NO_OFFSET,
        epoch_entries: tuple[EpochStart, ...] = (),
        earliest_snapshot: OffsetAndEpoch | None = None,
        latest_snapshot: OffsetAndEpoch | None = None,
        voter_history: VoterHistory | None = None,
        is_unproven: bool = False,
        rng: Rng,
        now_ms: int,
    ) -> None:
        """Compute the initial role (elections/initial_role.py); the first `step` acts on it."""
        log = LogView(
            start_offset=log_start_offset,
            end_offset=log_end_offset,
            epochs=epoch_entries,
            earliest_snapshot=earliest_snapshot,
            latest_snapshot=latest_snapshot,
            voter_history=voter_history or VoterHistory(static_voters(config.voters)),
        )
        assert log_end_offset == log_start_offset or epoch_entries, (
            f"{log.describe()} without epochs"
        )
        stored = StoredElection(
            epoch=election_epoch, leader_id=election_leader_id, voted_key=election_voted_key
        )
        role = initial_role(config, log, stored, rng, now_ms)
        self._state = RaftState(config, log, rng, role, now_ms, is_unproven=is_unproven)
        note_vote(self._state)
        self._is_started = False

    @property
    def config(self) -> RaftConfig:
        """The settings given at start."""
        return self._state.config

    @property
    def role(self) -> Role:
        """The current role; read only."""
        return self._state.role

    @property
    def leader(self) -> LeaderAndEpoch:
        """Leader and epoch; the leader is None while unknown and after this node resigned."""
        return self._state.leader

    @property
    def epoch(self) -> LeaderEpoch:
        """The current epoch."""
        return self._state.epoch

    @property
    def leader_loss(self) -> LeaderLoss | None:
        """First sign that the leader is lost, until another one is known; None without."""
        return self._state.loss

    @property
    def high_watermark(self) -> Offset | None:
        """The high watermark (exclusive); None while unknown."""
        return self._state.high_watermark

    @property
    def log_end_offset(self) -> Offset:
        """End of the log (exclusive), including offsets assigned but not yet written."""
        return self._state.log.end_offset

    @property
    def flushed_end_offset(self) -> Offset:
        """End (exclusive) of the records known to be durable."""
        return self._state.log.flushed_end_offset

    @property
    def log_start_offset(self) -> Offset:
        """Start of the log."""
        return self._state.log.start_offset

    @property
    def last_epoch(self) -> LeaderEpoch:
        """Epoch of the last record."""
        return self._state.log.last_epoch

    @property
    def log_generation(self) -> int:
        """The truncation generation that Appended and Flushed carry."""
        return self._state.log.generation

    @property
    def is_leader(self) -> bool:
        """True if this node leads its epoch (it may act only after Claimed)."""
        return isinstance(self._state.role, Leader)

    @property
    def is_voter(self) -> bool:
        """True if this node is a voter."""
        return self._state.is_voter

    @property
    def is_unproven(self) -> bool:
        """True while this voter votes for empty logs only (elections/proof.py)."""
        return self._state.is_unproven

    @property
    def is_only_voter(self) -> bool:
        """True if this node is the only voter."""
        return self._state.is_only_voter

    @property
    def kraft_version(self) -> int:
        """The level of kraft.version; 0 = the voters are those of the configuration."""
        return self._state.log.kraft_version

    @property
    def voters(self) -> VoterSet:
        """The voters now, committed or not."""
        return self._state.voters

    @property
    def has_uncommitted_voters(self) -> bool:
        """True if this leader has written a change of the voters that is not committed."""
        return self.is_leader and not self._state.is_voter_set_committed

    @property
    def raise_refusal(self) -> str | None:
        """The reason why this leader cannot raise kraft.version now, None if it can."""
        return raise_refusal(self._state)

    @property
    def voter_ids(self) -> tuple[NodeId, ...]:
        """Ids of the voters, ascending."""
        return self._state.voters.ids

    @property
    def voter_keys(self) -> tuple[ReplicaKey, ...]:
        """Ids and directory ids of the voters, ascending."""
        return self._state.voters.keys

    def address_of(self, voter_id: NodeId) -> tuple[str, int] | None:
        """Return host and port of a voter's controller listener; None if they are unknown."""
        return _address(self.voters.endpoint(voter_id, self.config.default_listener))

    @property
    def leader_address(self) -> tuple[str, int] | None:
        """Host and port of the leader's controller listener; None if they are unknown."""
        return _address(self._state.leader_endpoint)

    def membership_before(self, end_offset: Offset) -> Membership:
        """Return level and voters for a snapshot that ends at `end_offset`."""
        return self._state.log.voter_history.before(end_offset)

    @property
    def is_handing_over(self) -> bool:
        """True while this leader takes no proposal: it waits for its successor, or gives up."""
        return self._state.is_handing_over

    @property
    def observer_count(self) -> int | None:
        """Number of observers that fetch from this leader; None if this node does not lead."""
        role = self._state.role
        return len(role.observers) if isinstance(role, Leader) else None

    @property
    def parked_fetch_count(self) -> int:
        """Number of parked fetches."""
        return len(self._state.parked)

    def can_propose(self, epoch: LeaderEpoch) -> bool:
        """True if a Propose in `epoch` would be appended."""
        return self.is_leader and self._state.epoch == epoch

    def describe_quorum(self, wall_ms: int) -> DescribeQuorumResponse:
        """Return the current DescribeQuorum response, for the node's own use."""
        return describe_quorum(self._state, wall_ms)

    def next_deadline_ms(self) -> int | None:
        """Return the latest time of the next TimeAdvanced; None if nothing is timed."""
        return next_deadline_ms(self._state)

    def step(self, event: Event, now_ms: int) -> Effects:
        """Handle one event and return its effects, in the order to perform them."""
        state = self._state
        assert now_ms >= state.now_ms, f"time ran backwards: {now_ms=} {state.now_ms=}"
        assert not state.effects.persist, "the previous step left effects"
        if state.pending_append is not None:
            assert type(event) is Appended, f"INV-APPEND-1 {event=}"
        if state.is_installing_snapshot:
            is_answer = isinstance(event, SnapshotInstalled | SnapshotRefused)
            assert is_answer, f"INV-APPEND-1 {event=}"
        state.now_ms = now_ms
        epoch, highest = state.role.epoch, state.high_watermark_highest
        if not self._is_started:
            self._is_started = True
            _note_restart(state)
            state.persist_election()
            state.prove_by_vote()  # a crash may have come before the mark was removed
            state.notify_leader()
        self._dispatch(event)
        if state.pending_append is None and not state.is_installing_snapshot:
            poll(state)
        self._check(epoch, highest)
        effects = state.effects
        state.effects = Effects()
        return effects

    def _dispatch(self, event: Event) -> None:
        """Pass the event to its handler."""
        state = self._state
        if type(event) is RequestReceived:  # exact types: a `match` tests each class in turn
            self._on_request(event)
        elif type(event) is ResponseReceived:
            on_response(state, event)
        elif type(event) is Appended:
            on_appended(state, event)
        elif type(event) is Flushed:
            on_flushed(state, event)
        elif type(event) is TimeAdvanced:
            pass
        elif type(event) is Propose or type(event) is RaiseKRaftVersion:
            self._on_propose(event)
        elif type(event) is RequestFailed:
            on_request_failed(state, event)
        elif type(event) is ReadIndexRequested:
            on_read_requested(state, event)
        else:
            self._on_rare(event)

    def _on_rare(
        self,
        event: LeaderUnreachable
        | SnapshotAdded
        | SnapshotInstalled
        | SnapshotRefused
        | ResignRequested
        | DiskFull
        | DiskHasSpace
        | ShutdownRequested
        | QuorumGone,
    ) -> None:
        """Pass on the events that do not occur with every record."""
        state = self._state
        match event:
            case LeaderUnreachable():
                self._on_leader_unreachable(event)
            case SnapshotAdded():
                on_snapshot_added(state, event)
            case SnapshotInstalled():
                on_snapshot_installed(state, event)
            case SnapshotRefused():
                on_snapshot_refused(state, event)
            case ResignRequested():
                self._on_resign_requested(event.epoch)
            case DiskFull():
                on_disk_full(state)
            case DiskHasSpace():
                state.is_disk_full = False
            case ShutdownRequested():
                self._on_shutdown()
            case QuorumGone():
                self._on_quorum_gone()

    def _on_request(self, event: RequestReceived) -> None:
        """Answer or park a peer's request."""
        state, token, request = self._state, event.reply_token, event.request
        if type(request) is FetchRequest:
            on_fetch_request(state, token, request, event.wall_ms, event.connection_id)
            return
        match request:
            case VoteRequest() as request:
                on_vote_request(state, token, request)
            case BeginQuorumEpochRequest() as request:
                on_begin_request(state, token, request)
            case EndQuorumEpochRequest() as request:
                on_end_request(state, token, request)
            case FetchSnapshotRequest() as request:
                on_fetch_snapshot_request(state, token, request)
            case TransferLeadershipRequest() as request:
                on_transfer_request(state, token, request)
            case DescribeQuorumRequest():
                state.answer(token, describe_quorum(state, event.wall_ms))
            case _:
                assert not isinstance(request, ApiVersionsRequest), f"not for a core {request=}"
                on_reconfiguration(state, token, request)

    def _on_propose(self, event: Propose | RaiseKRaftVersion) -> None:
        """Assign offsets at the log end; ignored unless this node leads the proposal's epoch."""
        if not self.can_propose(event.epoch):
            return
        if type(event) is RaiseKRaftVersion:
            raise_level(self._state, event.level)
            return
        assert event.values, "a batch has records"
        log = self._state.log
        base_offset = log.end_offset
        log.extend(Offset(base_offset + len(event.values)))
        effect = AppendBatch(base_offset=base_offset, epoch=event.epoch, values=event.values)
        self._state.effects.persist.append(effect)

    def _on_leader_unreachable(self, event: LeaderUnreachable) -> None:
        """Note evidence of failure if it concerns the leader and epoch followed now."""
        state = self._state
        role = state.role
        is_current = isinstance(role, Follower) and state.leader == LeaderAndEpoch(
            event.leader_id, event.epoch
        )
        if not is_current:
            return
        state.note_loss(Cause.EVIDENCE, f"leader {event.leader_id} refuses connections")
        state.fast_election.note_lost(role, event.leader_id, state.now_ms)

    def _on_resign_requested(self, epoch: LeaderEpoch) -> None:
        assert epoch <= self.epoch, f"{epoch=} {self.epoch=}"
        if self.can_propose(epoch):
            self._state.note_loss(Cause.FAULT, "the controller of this node asked to resign")
            resign(self._state)

    def _on_shutdown(self) -> None:
        """Resign if leader; a node that neither leads nor has resigned is done."""
        state = self._state
        if state.shutdown_deadline_ms is not None:
            return
        state.shutdown_deadline_ms = state.now_ms + SHUTDOWN_MS_MAX
        if isinstance(state.role, Leader):
            state.note_loss(Cause.OPERATOR, "this node is asked to shut down")
            resign(state)
        elif not isinstance(state.role, Resigned):
            state.complete_shutdown()

    def _on_quorum_gone(self) -> None:
        """End a shutdown that waits for a successor: none can be elected."""
        if self._state.shutdown_deadline_ms is not None:
            self._state.complete_shutdown()

    def _check(self, epoch: LeaderEpoch, highest: Offset | None) -> None:
        """Assert the invariants after a step; `epoch` and `highest` are the values before it."""
        state = self._state
        role, log, high_watermark = state.role, state.log, state.high_watermark
        assert role.epoch >= epoch, f"INV-EPOCH-1 {role=}"
        highest_now = state.high_watermark_highest
        if highest_now is not highest and highest is not None:
            assert highest_now is not None, "INV-HW-2"
            assert highest_now >= highest, "INV-HW-2"
        if high_watermark is not None:
            assert high_watermark <= log.end_offset, "INV-HW-1"
        if state.parked:
            is_late = type(role) is Resigned and role.refused_late
            assert type(role) is Leader or is_late, f"only a leader parks fetches {role=}"
        if state.transfer is not None and state.is_handing_over:
            assert log.end_offset == state.transfer.end_offset, f"INV-TRANSFER-1 {log.describe()}"
            assert state.transfer.deadline_ms > state.now_ms, f"INV-TRANSFER-3 {state.transfer=}"
        if not state.is_voter and not (state.log.kraft_version > 0 and type(role) is Leader):
            assert isinstance(role, _ROLES_OF_OBSERVERS), f"{role=}"
        if not state.may_become_candidate and state.shutdown_deadline_ms is None:
            assert not isinstance(role, Prospective | Candidate | Leader), (
                f"INV-DISK-1 INV-PROOF-1 {role=}"
            )
        if type(role) is Leader:
            assert not is_stalled(state, role), f"INV-FLUSH-1 {log.describe()} {role=}"
        assert log.last_epoch <= role.epoch, f"{log.describe()} {role=}"


def _note_restart(state: RaftState) -> None:
    """Note the loss of a leader that the process before knew: itself, or none."""
    role = state.role
    if type(role) is Resigned:
        state.note_loss(Cause.RESTART, f"this node led epoch {role.epoch} before its restart")
    elif type(role) is Candidate:
        text = f"this node was a candidate of epoch {role.epoch} before its restart"
        state.note_loss(Cause.NO_LEADER, text)


def _address(endpoint: Endpoint | None) -> tuple[str, int] | None:
    return None if endpoint is None else (endpoint.host, endpoint.port)
