"""The mutable state of a raft core and the moves that several message families share.

INV-DURABLE-1 (effects.py): a changed election (epoch, leader, vote) is a PersistElection of the
same step, before everything that is sent. INV-HW-2: the high watermark never decreases.
"""

from collections.abc import Callable

import msgspec

from raft import error_codes
from raft.config import RaftConfig
from raft.effects import (
    Effects,
    HighWatermarkAdvanced,
    LeaderChanged,
    PersistElection,
    SendRequest,
    SendResponse,
    ShutdownComplete,
)
from raft.epoch_cache import LogView
from raft.evidence import FastElection
from raft.messages import FetchRequest, FetchResponse, RaftRequest, RaftResponse
from raft.requests import RequestManager
from raft.roles import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    Unattached,
)
from raft.transitions import transition
from raft.voters import VoterSet
from wire.types import (
    Endpoint,
    LeaderAndEpoch,
    LeaderEpoch,
    NodeId,
    Offset,
    ReplicaKey,
    Rng,
)


class RaftInvariantError(Exception):
    """The quorum broke its own rules (two leaders in one epoch, truncation of committed data)."""


class ParkedFetch(msgspec.Struct, frozen=True, kw_only=True):
    """A fetch that waits for data, for the high watermark or for its time."""

    reply_token: int
    request: FetchRequest
    deadline_ms: int
    wall_ms: int
    response: FetchResponse


class PendingAppend(msgspec.Struct, frozen=True):
    """What a fetch response said, to be taken up when the log answers Appended."""

    high_watermark: int


class RaftState:
    """Everything a core remembers; changed only by the functions of this package."""

    def __init__(
        self,
        config: RaftConfig,
        voters: VoterSet,
        log: LogView,
        rng: Rng,
        role: Role,
        now_ms: int,
    ) -> None:
        """Hold the parts; a log that starts behind a snapshot is committed up to there."""
        self.config = config
        self.voters = voters
        self.is_voter = config.can_vote and voters.is_voter(config.node_id)
        """Whether this node votes."""
        self.is_only_voter = self.is_voter and len(voters.ids) == 1
        """Whether this node is the whole quorum."""
        self.begin_epoch_ms = config.begin_epoch_ms
        self.fetch_wait_ms = config.fetch_wait_ms
        self.others = voters.others(config.node_id)
        """The other voters, ascending."""
        self.rng = rng
        self.log = log
        self.now_ms = now_ms
        self.role: Role = role
        self.high_watermark: Offset | None = log.start_offset if log.start_offset > 0 else None
        self.high_watermark_highest = self.high_watermark
        """The largest ever notified; `high_watermark` is unknown again to a new leader."""
        self.request_manager = RequestManager(
            request_timeout_ms=config.request_timeout_ms,
            retry_backoff_ms=config.retry_backoff_ms,
        )
        self.parked: list[ParkedFetch] = []
        self.fast_election = FastElection(config, voters, rng, is_voter=self.is_voter)
        self.pending_append: PendingAppend | None = None
        self.is_installing_snapshot = False
        self.fetch_paused_until_ms: int | None = None
        """A snapshot could not be kept: no fetch before this time."""
        self.shutdown_deadline_ms: int | None = None
        self.is_shut_down = False
        self.next_send_ms: int | None = None
        """When a request that could not leave yet may leave, or the next one is due."""
        self.is_disk_full = False
        """Whether appends are refused: since DiskFull, until DiskHasSpace."""
        self.effects = Effects()
        self._persisted: tuple[LeaderEpoch, NodeId | None, ReplicaKey | None] | None = None
        self._notified: LeaderAndEpoch | None = None

    @property
    def epoch(self) -> LeaderEpoch:
        """The current epoch."""
        return self.role.epoch

    @property
    def leader(self) -> LeaderAndEpoch:
        """The leader as the node's other parts see it: this node only while it leads.

        A resigned leader, and a nominee that was one, still names itself to peers and in its
        file, but must not be taken for active (KAFKA-17333).
        """
        leader_id = self.role.leader_id
        if leader_id == self.config.node_id and not isinstance(self.role, Leader):
            leader_id = None
        return LeaderAndEpoch(leader_id, self.role.epoch)

    @property
    def can_stand(self) -> bool:
        """Whether this voter may be elected: one that cannot append could only resign.

        A sole voter may: there is nobody to lead in its place.
        """
        return not self.is_disk_full or self.is_only_voter

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """Endpoint of the leader that responses name; they do not name its listener."""
        endpoint = self.voters.endpoint(self.role.leader_id)
        return None if endpoint is None else Endpoint("", endpoint.host, endpoint.port)

    def new_election_deadline_ms(self) -> int:
        """When an election timer that starts now expires."""
        return self.now_ms + self.config.draw_election_timeout_ms(self.rng)

    def is_foreign(self, cluster_id: str | None) -> bool:
        """Whether a request names another cluster; one that names none is accepted."""
        return cluster_id is not None and cluster_id != self.config.cluster_id

    def send_request(self, destination_id: NodeId, request: RaftRequest) -> None:
        """Send to a destination that is ready."""
        config, now_ms = self.config, self.now_ms
        assert destination_id != config.node_id, f"{request=} to myself"
        correlation_id = self.request_manager.sent(destination_id, request, now_ms)
        self.wake_at(now_ms + config.request_timeout_ms)  # else a lost answer stalls us
        self.effects.send.append(
            SendRequest(
                destination_id=destination_id, correlation_id=correlation_id, request=request
            )
        )

    def wake_at(self, at_ms: int) -> None:
        """Ask to be stepped at a time because a request waits for it or is due then."""
        if self.next_send_ms is None or at_ms < self.next_send_ms:
            self.next_send_ms = at_ms

    def send_if_ready(self, destination_id: NodeId, request: RaftRequest) -> bool:
        """Send now, or note when the destination will be ready."""
        ready_ms = self.request_manager.ready_at(destination_id, self.now_ms)
        if ready_ms > self.now_ms:
            self.wake_at(ready_ms)
            return False
        self.send_request(destination_id, request)
        return True

    def answer(self, reply_token: int, response: RaftResponse) -> None:
        """Answer a request with a value that needs no read of the log."""
        self.effects.send.append(SendResponse(reply_token=reply_token, response=response))

    def refuses_cluster(
        self, reply_token: int, cluster_id: str | None, make: Callable[..., RaftResponse]
    ) -> bool:
        """Answer INCONSISTENT_CLUSTER_ID when a request names another cluster."""
        if cluster_id == self.config.cluster_id or not self.is_foreign(cluster_id):
            return False
        self.answer(reply_token, make(top_error_code=error_codes.INCONSISTENT_CLUSTER_ID))
        return True

    def answer_voter(
        self, reply_token: int, make: Callable[..., RaftResponse], error_code: int, **more: bool
    ) -> None:
        """Answer Vote, Begin- or EndQuorumEpoch with the leader and epoch as they are now."""
        response = make(
            error_code=error_code,
            leader_id=self.role.leader_id,
            leader_epoch=self.role.epoch,
            leader_endpoint=self.leader_endpoint,
            **more,
        )
        self.answer(reply_token, response)

    def become(self, new: Role) -> None:
        """Change the role: check, persist, notify, forget connections, refuse parked fetches."""
        old = self.role
        self.role = transition(old, new, is_voter=self.is_voter)
        if isinstance(new, Leader | Resigned):
            self.high_watermark = None
        if new.epoch > old.epoch and not isinstance(new, Candidate):
            self.fast_election.forget()
        if new.epoch > old.epoch or isinstance(new, Follower):
            self.fast_election.end_first_election()
        self.request_manager.reset()
        self.persist_election()
        self.notify_leader()
        if isinstance(old, Leader):
            self.refuse_parked()

    def persist_election(self) -> None:
        """Ask for a durable quorum-state when what it holds changed."""
        role = self.role
        current = (role.epoch, role.leader_id, role.voted_key)
        if current == self._persisted:
            return
        if self._persisted is not None:
            assert role.epoch >= self._persisted[0], f"INV-EPOCH-1 {role=} {self._persisted=}"
        self._persisted = current
        effect = PersistElection(
            epoch=role.epoch, leader_id=role.leader_id, voted_key=role.voted_key
        )
        persist = self.effects.persist
        if persist and isinstance(persist[-1], PersistElection):
            persist[-1] = effect  # only the last of one step has to reach the disk
        else:
            persist.append(effect)

    def notify_leader(self) -> None:
        """Tell the node's other parts when leader or epoch changed."""
        leader = self.leader
        if leader != self._notified:
            self._notified = leader
            self.effects.notify.append(LeaderChanged(leader=leader))

    def refuse_parked(self) -> None:
        """Answer every parked fetch: this node leads no more."""
        parked, self.parked = self.parked, []
        for fetch in parked:
            self.answer(fetch.reply_token, self.fetch_refusal(error_codes.NOT_LEADER_OR_FOLLOWER))

    def fetch_refusal(self, error_code: int) -> FetchResponse:
        """A Fetch answer with an error and the current leader."""
        return FetchResponse(
            error_code=error_code,
            leader_id=self.role.leader_id,
            leader_epoch=self.role.epoch,
            leader_endpoint=self.leader_endpoint,
        )

    def advance_high_watermark(self, high_watermark: Offset) -> bool:
        """Move the high watermark forward; False when it would not move."""
        if self.high_watermark is not None and high_watermark <= self.high_watermark:
            return False
        assert high_watermark <= self.log.end_offset, f"{high_watermark=} {self.log!r}"
        self.high_watermark = high_watermark
        highest = self.high_watermark_highest
        if highest is None or high_watermark > highest:
            self.high_watermark_highest = high_watermark
            self.effects.notify.append(HighWatermarkAdvanced(high_watermark=high_watermark))
        return True

    # Moves between roles that more than one message family makes.

    def become_unattached(self, epoch: LeaderEpoch, leader_id: NodeId | None = None) -> None:
        """No usable leader in `epoch`; a nominee or waiting voter keeps its remaining time."""
        old = self.role
        assert epoch >= old.epoch, f"{epoch=} {old=}"
        deadline: int | None = None
        if self.is_voter:
            deadline = self.new_election_deadline_ms()
            if isinstance(old, Unattached | Candidate | Prospective | Resigned):
                old_deadline_ms = old.election_deadline_ms
                if old_deadline_ms is not None and epoch > old.epoch:
                    deadline = max(self.now_ms, old_deadline_ms)
        same = epoch == old.epoch
        known = old.leader_id if same else leader_id
        self.become(
            Unattached(
                epoch=epoch,
                leader_id=known,
                voted_key=old.voted_key if same else None,
                election_deadline_ms=deadline,
            )
        )

    def become_follower(self, epoch: LeaderEpoch, leader_id: NodeId) -> None:
        """Follow `leader_id`, who must be another voter."""
        assert leader_id != self.config.node_id, "a node does not follow itself"
        assert self.voters.is_voter(leader_id), f"{leader_id=} has no endpoint"
        voted_key = self.role.voted_key if epoch == self.role.epoch else None
        self.become(
            Follower(
                epoch=epoch,
                leader_id=leader_id,
                voted_key=voted_key,
                fetch_deadline_ms=self.now_ms + self.config.fetch_timeout_ms,
            )
        )

    def observe(self, leader_id: NodeId | None, epoch: LeaderEpoch) -> None:
        """Take up what a message says about (leader, epoch); older news changes nothing."""
        role = self.role
        if epoch < role.epoch:
            return
        is_known = epoch == role.epoch and leader_id == role.leader_id
        if is_known and type(role) is not Unattached:
            return  # the common case: nothing new
        usable = (
            leader_id is not None
            and leader_id != self.config.node_id
            and self.voters.is_voter(leader_id)
        )
        if epoch > self.role.epoch:
            if usable and leader_id is not None:
                self.become_follower(epoch, leader_id)
            else:
                named = None if leader_id == self.config.node_id else leader_id
                self.become_unattached(epoch, named)
            return
        if leader_id is None or not usable:
            return
        known = self.role.leader_id
        if known is not None and known != leader_id:
            raise RaftInvariantError(f"INV-LEADER-1 two leaders in {epoch=}: {known=} {leader_id=}")
        if known is None or isinstance(self.role, Unattached):
            self.become_follower(epoch, leader_id)

    def complete_shutdown(self) -> None:
        """Say once that the process may end."""
        if not self.is_shut_down:
            self.is_shut_down = True
            self.effects.notify.append(ShutdownComplete())
