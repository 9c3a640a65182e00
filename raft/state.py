"""The mutable state of a raft core, with the operations that several requests share.

INV-DURABLE-1 (effects.py): a changed election (epoch, leader, vote) is a PersistElection of the
same step, before everything that is sent. INV-HW-2: the high watermark never decreases.
"""

from collections.abc import Callable

import msgspec

from raft import error_codes
from raft.config import BOOTSTRAP_ID_MAX, RaftConfig
from raft.effects import (
    Effects,
    HighWatermarkAdvanced,
    LeaderChanged,
    PersistElection,
    ReadIndexRefused,
    RemoveUnprovenMark,
    SendRequest,
    SendResponse,
    ShutdownComplete,
)
from raft.elections.evidence import FastElection
from raft.elections.leader_loss import Cause, LeaderLoss, loss_by_epoch, loss_of
from raft.fetching.epoch_cache import LogView
from raft.fetching.progress import ParkedFetch
from raft.fetching.reads import ReadRefusal
from raft.membership.voters import VoterSet
from raft.messages import (
    AddVoterResponse,
    FetchResponse,
    RaftRequest,
    RaftResponse,
    RemoveVoterResponse,
)
from raft.requests import RequestManager
from raft.roles import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    Transfer,
    Unattached,
)
from raft.transitions import transition
from wire.types import Endpoint, LeaderAndEpoch, LeaderEpoch, NodeId, Offset, ReplicaKey, Rng


class RaftInvariantError(Exception):
    """A violated invariant of the quorum (two leaders in an epoch, committed data truncated)."""


class PendingAppend(msgspec.Struct, frozen=True):
    """High watermark of a Fetch response whose records are being appended; -1 if unknown."""

    high_watermark: int


class RaftState:
    """The state of a core, changed only by the functions of this package."""

    def __init__(
        self,
        config: RaftConfig,
        log: LogView,
        rng: Rng,
        role: Role,
        now_ms: int,
        *,
        is_unproven: bool = False,
    ) -> None:
        """Start with the high watermark at the log start, committed by a snapshot (None at 0)."""
        self.config = config
        self.self_key = config.self_key
        self._own_endpoint = _without_listener(config.listeners[0]) if config.listeners else None
        self.begin_epoch_ms = config.begin_epoch_ms
        self.fetch_wait_ms = config.fetch_wait_ms
        self.rng = rng
        self.log = log
        self.now_ms = now_ms
        self.role: Role = role
        self.high_watermark: Offset | None = log.start_offset if log.start_offset > 0 else None
        self.high_watermark_highest = self.high_watermark
        """The highest ever notified; a new leader does not know its `high_watermark` yet."""
        self.request_manager = RequestManager(
            request_timeout_ms=config.request_timeout_ms,
            retry_backoff_ms=config.retry_backoff_ms,
        )
        self.parked: list[ParkedFetch] = []
        self.fast_election = FastElection(config, log, rng)
        self.pending_append: PendingAppend | None = None
        self.is_installing_snapshot = False
        self.fetch_paused_until_ms: int | None = None
        """Earliest time of the next fetch after a full disk or a refused snapshot."""
        self.shutdown_deadline_ms: int | None = None
        self.is_shut_down = False
        self.next_send_ms: int | None = None
        """Earliest time at which a delayed or periodic request is due."""
        self.is_disk_full = False
        """True while the disk refuses appends: from DiskFull until DiskHasSpace."""
        self.is_unproven = is_unproven
        """True while this voter may have forgotten acknowledgements (elections/proof.py)."""
        self.caught_up_offset: Offset | None = None
        """Log end at the first answer without records from the leader followed now."""
        self.proof_end_offset: Offset | None = None
        """High watermark whose flush proves this voter, as that leader sent it."""
        self.voted_epoch: LeaderEpoch | None = None
        """Epoch of the last vote from this disk for another voter, while unproven."""
        self.has_withheld = False
        """True once this process refused a candidate with records, while unproven."""
        self.loss: LeaderLoss | None = None
        """First sign that the leader is lost; None while there is none."""
        self.has_left = False
        """True once this node, an observer, has seen that it was a voter."""
        self.transfer: Transfer | None = None
        """The transfer of the leadership that is under way; it outlives the role."""
        self.effects = Effects()
        self._persisted: tuple[LeaderEpoch, NodeId | None, ReplicaKey | None] | None = None
        self._notified: LeaderAndEpoch | None = None

    @property
    def voters(self) -> VoterSet:
        """The voters now: a VotersRecord changes them, a truncation changes them back."""
        return self.log.voters

    @property
    def is_voter(self) -> bool:
        """True if this node is a voter."""
        return self.config.can_vote and self.log.voters.is_voter(self.self_key)

    @property
    def acknowledges(self) -> bool:
        """True if this node's fetch offset has to be durable: a voter's, or that of one to be.

        A controller of a dynamic quorum may become a voter by a record that it has yet to fetch,
        and what it fetched before counts then (KAFKA-17332).
        """
        return self.is_voter or (self.config.can_vote and self.is_dynamic)

    @property
    def is_voter_set_committed(self) -> bool:
        """True if the record that set the voters is below the high watermark."""
        offset = self.log.voter_history.latest_offset
        return offset is None or offset < (self.high_watermark or 0)

    @property
    def is_only_voter(self) -> bool:
        """True if this node is the only voter of the quorum."""
        return self.is_voter and len(self.log.voters) == 1

    @property
    def others(self) -> tuple[ReplicaKey, ...]:
        """The other voters, ascending by id."""
        return self.log.voters.others(self.config.node_id)

    @property
    def epoch(self) -> LeaderEpoch:
        """The current epoch."""
        return self.role.epoch

    @property
    def leader(self) -> LeaderAndEpoch:
        """The leader as notified outside raft: this node only while it leads.

        A resigned leader, and a Prospective that was one, still names itself to peers and in
        quorum-state, but must not be taken for the active controller (KAFKA-17333).
        """
        leader_id = self.role.leader_id
        if leader_id == self.config.node_id and not isinstance(self.role, Leader):
            leader_id = None
        return LeaderAndEpoch(leader_id, self.role.epoch)

    @property
    def may_become_candidate(self) -> bool:
        """True if this voter may campaign: one that cannot append could only resign.

        An unproven one must not vote for itself, unless the quorum may be new. A sole voter may:
        there is no other voter to lead in its place.
        """
        has_doubt = self.is_unproven and (self.has_withheld or self.log.end_offset > 0)
        return self.is_only_voter or not (self.is_disk_full or has_doubt)

    @property
    def is_handing_over(self) -> bool:
        """True while this leader appends nothing, and waits for its successor to have its log."""
        return self.transfer is not None and isinstance(self.role, Leader)

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """Endpoint of the leader for responses, which carry no listener name."""
        if self.role.leader_id == self.config.node_id:
            return self._own_endpoint
        endpoint = self.other_leader_endpoint
        return None if endpoint is None else _without_listener(endpoint)

    @property
    def other_leader_endpoint(self) -> Endpoint | None:
        """Endpoint of another node that leads: as it named it, else as a voter has it."""
        role = self.role
        named = role.leader_endpoint if isinstance(role, Follower | Prospective) else None
        return named or self.voters.endpoint(role.leader_id, self.config.default_listener)

    @property
    def is_dynamic(self) -> bool:
        """True if addresses are not those of the configuration: level 1, or no voter is known."""
        return self.log.kraft_version > 0 or not self.voters

    def endpoint_of(self, leader_id: NodeId, named: Endpoint | None) -> Endpoint | None:
        """Return the endpoint by which to follow a leader; `named` is that of the message.

        Static voters follow each other by their configuration. A leader that is none of them is of
        a log that they have yet to fetch: the level was raised while this node was behind.
        """
        known = self.voters.endpoint(leader_id, self.config.default_listener)
        return named or known if self.is_dynamic or known is None else known

    def new_election_deadline_ms(self) -> int:
        """Return the expiry of an election timer that starts now."""
        return self.now_ms + self.config.draw_election_timeout_ms(self.rng)

    def is_foreign(self, cluster_id: str | None) -> bool:
        """True if a request names another cluster; one without cluster id is accepted."""
        return cluster_id is not None and cluster_id != self.config.cluster_id

    def send_request(
        self, destination_id: NodeId, request: RaftRequest, endpoint: Endpoint | None = None
    ) -> None:
        """Send to a destination that is ready, by its own endpoint unless another is given."""
        config, now_ms = self.config, self.now_ms
        assert destination_id != config.node_id, f"{request=} to myself"
        correlation_id = self.request_manager.sent(destination_id, request, now_ms)
        self.wake_at(now_ms + config.request_timeout_ms)  # else a lost response stalls this node
        if endpoint is None and (self.is_dynamic or destination_id not in self.voters.by_id):
            endpoint = self._address_of(destination_id)
        self.effects.send.append(
            SendRequest(
                destination_id=destination_id,
                correlation_id=correlation_id,
                request=request,
                endpoint=endpoint,
            )
        )

    def _address_of(self, destination_id: NodeId) -> Endpoint | None:
        if destination_id < 0:
            index, servers = BOOTSTRAP_ID_MAX - destination_id, self.config.bootstrap
            assert 0 <= index < len(servers), f"{destination_id=} {servers=}"
            return servers[index]
        if destination_id == self.role.leader_id:
            return self.other_leader_endpoint
        return self.voters.endpoint(destination_id, self.config.default_listener)

    def wake_at(self, at_ms: int) -> None:
        """Schedule a step at or before `at_ms`, at which a request is due."""
        assert at_ms > self.now_ms, f"a step for the past spins: {at_ms=} {self.now_ms=}"
        if self.next_send_ms is None or at_ms < self.next_send_ms:
            self.next_send_ms = at_ms

    def send_if_ready(self, destination_id: NodeId, request: RaftRequest) -> bool:
        """Send a request if its destination is ready, else schedule a step for that time."""
        ready_ms = self.request_manager.ready_at(destination_id, self.now_ms)
        if ready_ms > self.now_ms:
            self.wake_at(ready_ms)
            return False
        self.send_request(destination_id, request)
        return True

    def answer(self, reply_token: int, response: RaftResponse) -> None:
        """Answer a request without reading the log."""
        self.effects.send.append(SendResponse(reply_token=reply_token, response=response))

    def refuses_cluster(
        self, reply_token: int, cluster_id: str | None, make: Callable[..., RaftResponse]
    ) -> bool:
        """Answer INCONSISTENT_CLUSTER_ID if a request names another cluster; True if it does."""
        if cluster_id == self.config.cluster_id or not self.is_foreign(cluster_id):
            return False
        self.answer(reply_token, make(top_error_code=error_codes.INCONSISTENT_CLUSTER_ID))
        return True

    def answer_voter(
        self, reply_token: int, make: Callable[..., RaftResponse], error_code: int, **more: bool
    ) -> None:
        """Answer Vote, Begin- or EndQuorumEpoch with the current leader and epoch."""
        response = make(
            error_code=error_code,
            leader_id=self.role.leader_id,
            leader_epoch=self.role.epoch,
            leader_endpoint=self.leader_endpoint,
            **more,
        )
        self.answer(reply_token, response)

    def become(self, new: Role) -> None:
        """Change the role: check, persist, notify, reset connections, refuse parked fetches."""
        old = self.role
        if new.epoch > old.epoch and self.loss is None:
            self.loss = loss_by_epoch(old, new, self.now_ms)
        self.role = transition(old, new, is_voter=self.is_voter)
        if isinstance(new, Leader | Resigned):
            self.high_watermark = None
        if new.epoch > old.epoch and not isinstance(new, Candidate):
            self.fast_election.forget()
        if new.epoch > old.epoch or isinstance(new, Follower):
            self.fast_election.end_first_election()
        self.request_manager.reset()
        self.persist_election()
        self.caught_up_offset = self.proof_end_offset = None
        self.prove_by_vote()
        self.notify_leader()
        if self.parked:
            self.refuse_parked(new.refused_late if isinstance(new, Resigned) else frozenset())
        if isinstance(old, Leader):
            self._refuse_voter_change(old)
            self._refuse_reads(old)

    def persist_election(self) -> None:
        """Persist the election (epoch, leader, vote) if it changed."""
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
            persist[-1] = effect  # only the last of one step has to be durable
        else:
            persist.append(effect)

    def prove(self) -> None:
        """Be proven from now on; the mark is removed in this step, before anything is sent."""
        if self.is_unproven:
            assert self.role.epoch > 0, f"INV-PROOF-2 {self.role=}"
            self.is_unproven = False
            self.effects.persist.append(RemoveUnprovenMark())

    def prove_by_vote(self) -> None:
        """Become proven if this voter's vote, to an empty log, elected the leader of the epoch."""
        leader_id, voted_key = self.role.leader_id, self.role.voted_key
        if leader_id is None:
            return
        if leader_id == self.config.node_id or (voted_key and voted_key.id == leader_id):
            self.prove()

    def note_loss(self, cause: Cause, evidence: str) -> None:
        """Note why the leader is lost (elections/leader_loss.py), unless an earlier sign is."""
        if self.loss is None:
            self.loss = loss_of(self.role, cause, evidence, self.now_ms)

    def notify_leader(self) -> None:
        """Notify LeaderChanged if the leader or the epoch changed; a new leader ends the loss."""
        leader, loss = self.leader, self.loss
        if leader == self._notified:
            return
        self._notified = leader
        leaderless_ms: int | None = None
        if leader.leader_id is not None:
            if loss is not None and loss.cause is not Cause.ANNOUNCED:
                leaderless_ms = self.now_ms - loss.noticed_ms
                assert leaderless_ms >= 0, f"{loss=} {self.now_ms=}"
            self.loss = None
        self.effects.notify.append(
            LeaderChanged(leader=leader, loss=loss, leaderless_ms=leaderless_ms)
        )

    def refuse_parked(self, later: frozenset[NodeId] = frozenset()) -> None:
        """Answer parked fetches with NOT_LEADER_OR_FOLLOWER, but for those of replicas `later`."""
        parked = self.parked
        self.parked = [fetch for fetch in parked if fetch.request.replica_id in later]
        for fetch in parked:
            if fetch.request.replica_id not in later:
                refused = self.fetch_refusal(error_codes.NOT_LEADER_OR_FOLLOWER)
                self.answer(fetch.reply_token, refused)

    def _refuse_voter_change(self, old: Leader) -> None:
        """Answer the change of the voters that this node, a leader no more, can not complete.

        Its record may be committed by the next leader all the same.
        """
        change = old.voter_change
        if change is None or change.reply_token is None:
            return
        make = RemoveVoterResponse if change.added is None else AddVoterResponse
        self.answer(change.reply_token, make(error_code=error_codes.NOT_LEADER_OR_FOLLOWER))

    def _refuse_reads(self, old: Leader) -> None:
        tokens, reason = old.reads.tokens, ReadRefusal.LEADERSHIP_LOST
        if tokens:
            self.effects.notify.append(ReadIndexRefused(tokens=tokens, reason=reason))

    def fetch_refusal(self, error_code: int) -> FetchResponse:
        """Make a Fetch response with an error and the current leader."""
        return FetchResponse(
            error_code=error_code,
            leader_id=self.role.leader_id,
            leader_epoch=self.role.epoch,
            leader_endpoint=self.leader_endpoint,
        )

    def advance_high_watermark(self, high_watermark: Offset) -> bool:
        """Advance the high watermark; False if it is not higher than the current one."""
        if self.high_watermark is not None and high_watermark <= self.high_watermark:
            return False
        assert high_watermark <= self.log.end_offset, f"{high_watermark=} {self.log.describe()}"
        self.high_watermark = high_watermark
        highest = self.high_watermark_highest
        if highest is None or high_watermark > highest:
            self.high_watermark_highest = high_watermark
            self.effects.notify.append(HighWatermarkAdvanced(high_watermark=high_watermark))
        return True

    # Role changes that more than one request makes.

    def become_unattached(self, epoch: LeaderEpoch, leader_id: NodeId | None = None) -> None:
        """Become Unattached; entering a higher epoch keeps the time left of an election timer."""
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

    def become_follower(self, epoch: LeaderEpoch, leader_id: NodeId, endpoint: Endpoint) -> None:
        """Follow `leader_id`, another node, by its endpoint; it need not be a voter (KIP-853)."""
        assert leader_id != self.config.node_id, "a node does not follow itself"
        voted_key = self.role.voted_key if epoch == self.role.epoch else None
        self.become(
            Follower(
                epoch=epoch,
                leader_id=leader_id,
                leader_endpoint=endpoint,
                voted_key=voted_key,
                update_voter_ms=self.now_ms + self.config.fetch_timeout_ms,
                fetch_deadline_ms=self.now_ms + self.config.fetch_timeout_ms,
            )
        )

    def observe(
        self, leader_id: NodeId | None, epoch: LeaderEpoch, named: Endpoint | None = None
    ) -> None:
        """Adopt the leader and epoch of a message, by the endpoint `named` there, if it is used.

        A lower epoch is ignored; a leader without a known endpoint is remembered, not followed.
        """
        role = self.role
        if epoch < role.epoch:
            return
        is_known = epoch == role.epoch and leader_id == role.leader_id
        if is_known and type(role) is not Unattached:
            return  # the common case: nothing new
        endpoint: Endpoint | None = None
        if leader_id is not None and leader_id != self.config.node_id:
            endpoint = self.endpoint_of(leader_id, named)
        if epoch > self.role.epoch:
            if endpoint is not None and leader_id is not None:
                self.become_follower(epoch, leader_id, endpoint)
            else:
                known_id = None if leader_id == self.config.node_id else leader_id
                self.become_unattached(epoch, known_id)
            return
        if leader_id is None or endpoint is None:
            return
        known = self.role.leader_id
        if known is not None and known != leader_id:
            raise RaftInvariantError(f"INV-LEADER-1 two leaders in {epoch=}: {known=} {leader_id=}")
        if known is None or isinstance(self.role, Unattached):
            self.become_follower(epoch, leader_id, endpoint)

    def complete_shutdown(self) -> None:
        """Notify, once, that the process may end."""
        if not self.is_shut_down:
            self.is_shut_down = True
            self.effects.notify.append(ShutdownComplete())


def _without_listener(endpoint: Endpoint) -> Endpoint:
    return Endpoint("", endpoint.host, endpoint.port)
