"""Running node as the API reads it: references to immutable values, and bounded reads of files.

Everything here runs on the thread of the driver between two steps of the kernel, so each read is
consistent. Long work on an image (it is immutable) belongs on another thread.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from broker.coordinators.coordinator_views import CoordinatorViews
from broker.records_counts import RecordsCounts
from broker.replicas.replica_views import LocalReplicaView
from inspection.elections import Elections
from inspection.quorum_views import (
    ElectionView,
    QuorumView,
    ReplicaView,
    election_view,
    loss_view,
    replica_view,
    with_causes,
)
from inspection.recorder import Recorder
from inspection.records_side import RecordsSide
from kernel.events import Now
from kernel.kernel import Kernel
from kernel.lifecycle.controller_registration import INSPECTION_ENDPOINT
from metadata.delta import MetadataDelta
from metadata.image import Image
from metadata.json_form import uuid_text
from metadata.node_configs import NodeConfigs
from metadata.time_travel import oldest_offset
from quorum_controller.configs.topic_defaults import partition_defaults
from raft.fetching.reads import ReadRefusal
from raft.membership.voters import replica_order
from raft.messages import ReplicaState
from raft.roles import Follower
from wire.errors import ErrorCode
from wire.messages import codec
from wire.types import (
    METADATA_TOPIC_NAME,
    DirectoryId,
    NodeId,
    Offset,
    OffsetAndEpoch,
    TopicIdPartition,
)

DESCRIBE_QUORUM: Final = 55
ELECTIONS_MAX: Final = 50
ELECTION_READ_BYTES: Final = 64 * 1024

Answer = TypeVar("Answer")
Ask = Callable[[int, Any], Awaitable[Any]]
"""Function that sends one request of an API to the cluster through this node; raises AskError."""


ConfirmRead = Callable[[], Awaitable[ReadRefusal | None]]
"""Function that returns once the image is linearizable, or with the reason why it cannot be."""


class AskError(Exception):
    """No answer of the cluster in time."""


class CommitWatch:
    """Time of the newest commit, and callbacks for the next one."""

    def __init__(self, now: Callable[[], Now]) -> None:
        self._now = now
        self.last_commit_ms: int | None = None
        """Monotonic time; None before the first commit."""
        self._waiting: set[Callable[[], None]] = set()

    def call_next(self, wake: Callable[[], None]) -> None:
        """Call back at the next commit, once."""
        self._waiting.add(wake)

    def forget(self, wake: Callable[[], None]) -> None:
        """Do not call back, if that is still to come."""
        self._waiting.discard(wake)

    def publish(self, before: Image, after: Image, delta: MetadataDelta) -> None:
        """Note the time of a commit and call each waiting callback once."""
        del before, after, delta
        self.last_commit_ms = self._now().monotonic_ms
        waiting, self._waiting = self._waiting, set()
        for wake in waiting:
            wake()


class RunningNode:
    """State of one node for views.

    Args:
        kernel: the node.
        now: both clocks.
        ask: sends a request to the leader; None if the node cannot.
        recorder: measurements of the driver; None: an empty recorder.
        records: of its broker; None if it serves none.
        confirm_read: waits until the image is linearizable; None if the node cannot tell.
    """

    def __init__(
        self,
        kernel: Kernel,
        now: Callable[[], Now],
        ask: Ask | None = None,
        recorder: Recorder | None = None,
        records: RecordsSide | None = None,
        *,
        confirm_read: ConfirmRead | None = None,
    ) -> None:
        self._kernel = kernel
        self._log = kernel.log
        self._snapshots = kernel.snapshot_files
        self._cache = kernel.cache
        self.config = kernel.config
        self.core = kernel.core
        self.state = kernel.state
        self.recorder = Recorder() if recorder is None else recorder
        self.served = kernel.connections.served
        """Requests that the kernel answered."""
        self.expired: Mapping[str, int] = kernel.connections.expired
        """Connections closed because they were idle, by listener."""
        self._records = records
        self.now = now
        self._ask = ask
        self._confirm_read = confirm_read
        self.not_ready: Callable[[], Sequence[str]] = tuple
        """Names of the failed readiness checks; set by the API's service."""
        self.watch = CommitWatch(now)
        self.elections_counted = Elections()
        kernel.publishers.add(self.watch)
        kernel.publishers.add(self.elections_counted)
        self.seen_elections = kernel.elections
        """Elections of the quorum, with their causes."""
        self._elections: dict[tuple[int, int], ElectionView] = {}

    @property
    def image(self) -> Image:
        """The newest committed image of this node."""
        return self._cache.image

    async def confirm_read(self) -> ReadRefusal | None:
        """Wait until the image holds all that was acknowledged before; return why it cannot."""
        confirm = self._confirm_read
        return ReadRefusal.NOT_LEADER if confirm is None else await confirm()

    def inspection_address(self, node_id: NodeId) -> tuple[str, int] | None:
        """Return host and port of a controller's inspection API as it registered them."""
        controller = self.image.controllers.get(node_id)
        endpoints = () if controller is None else controller.endpoints
        named = [each for each in endpoints if each.name == INSPECTION_ENDPOINT]
        return (named[0].host, named[0].port) if named else None

    @property
    def committed_end(self) -> Offset:
        """End offset of the records applied on this node."""
        return self.state.applied_end_offset

    @property
    def is_unfenced(self) -> bool:
        """True if this broker is unfenced; without the broker role, if a leader is known."""
        return self._kernel.is_unfenced

    @property
    def log_start_offset(self) -> Offset:
        """Offset of the oldest record in the log."""
        return Offset(self._log.log_start_offset)

    @property
    def min_insync_default(self) -> int:
        """min.insync.replicas of a topic without its own, by the configs of this node."""
        node = NodeConfigs(self.image, self.config.node_id, dict(self.config.properties))
        return partition_defaults(node).min_insync_replicas

    def read_log(self, offset: int, bytes_max: int, end_offset: int) -> bytes:
        """Read whole batches below `end_offset`, from the one that contains the offset.

        Raises:
            OffsetOutOfRangeError: below the start of the log.
        """
        return self._log.read(offset, bytes_max, end_offset)

    def snapshot_ids(self) -> list[OffsetAndEpoch]:
        """List the snapshots on disk, all of committed records."""
        return self._snapshots.list()

    def read_snapshot(self, snapshot_id: OffsetAndEpoch) -> bytes:
        """Read a whole snapshot; safe on any thread.

        Raises:
            FileNotFoundError: the snapshot has been deleted.
        """
        return self._snapshots.read(snapshot_id)

    def newest_snapshot_bytes(self) -> int:
        """Return the size of the newest snapshot on disk; 0 without one."""
        newest = self._snapshots.latest()
        return 0 if newest is None else self._snapshots.size(newest)

    def oldest_offset(self) -> Offset:
        """Return the lowest offset that time travel reaches."""
        return oldest_offset(self.log_start_offset, self.snapshot_ids())

    # ---- the records -------------------------------------------------------------------------

    async def replica(self, key: TopicIdPartition) -> LocalReplicaView | None:
        """View of this node's replica of a partition; None if it has none.

        Raises:
            RecordsStalledError: the thread of the records does not answer.
        """
        return None if self._records is None else await self._records.replica(key)

    async def records_counts(self) -> RecordsCounts | None:
        """Counts of this node's records; None if it serves none.

        Raises:
            RecordsStalledError: the thread of the records does not answer.
        """
        return None if self._records is None else await self._records.counts()

    async def coordinators(self, question: Callable[[CoordinatorViews], Answer]) -> Answer | None:
        """Answer a question about groups and transactions here; None if this node serves none.

        Raises:
            RecordsStalledError: the thread of the records does not answer.
        """
        return None if self._records is None else await self._records.coordinators(question)

    # ---- the quorum --------------------------------------------------------------------------

    @property
    def role(self) -> str:
        """Role of this node's replica in one word."""
        role = self.core.role
        if not self.core.is_voter and isinstance(role, Follower):
            return "observer"  # a leader that is being removed leads until that is committed
        return type(role).__name__.lower()

    async def quorum(self) -> QuorumView:
        """Describe the quorum by the leader's answer, or by this node's knowledge without one."""
        core = self.core
        voters: list[ReplicaView] | None = None
        observers: list[ReplicaView] = []
        if core.is_leader:
            answer = core.describe_quorum(self.now().wall_ms)
            own_id = self.config.node_id
            voters, observers = self._replicas(answer.voters, answer.observers, own_id)
        elif self._ask is not None and core.leader.leader_id is not None:
            partition = await self._ask_leader(self._ask)
            # NB: the leader may have been lost meanwhile, or be another one now.
            if partition is not None and partition.leader_id == core.leader.leader_id:
                voters, observers = self._replicas(
                    [_state(row) for row in partition.current_voters],
                    [_state(row) for row in partition.observers],
                    partition.leader_id,
                )
        high_watermark = core.high_watermark
        return QuorumView(
            cluster_id=self._kernel.cluster_id,
            node_id=self.config.node_id,
            role=self.role,
            leader_id=core.leader.leader_id,
            leader_epoch=core.leader.epoch,
            high_watermark=high_watermark,
            log_start_offset=self.log_start_offset,
            log_end_offset=core.log_end_offset,
            metadata_offset=self.committed_end,
            told_by="this node" if voters is None else "leader",
            voters=self._voters_known_here() if voters is None else voters,
            observers=observers,
            not_ready=list(self.not_ready()),
            elections=self.elections(),
            leader_loss=loss_view(core.leader_loss, self.now()),
        )

    async def _ask_leader(self, ask: Ask) -> Any | None:
        """Return the partition of a DescribeQuorum response; None without a successful answer."""
        module = codec.newest(DESCRIBE_QUORUM, "request")
        topic = module.TopicData(
            topic_name=METADATA_TOPIC_NAME, partitions=(module.PartitionData(partition_index=0),)
        )
        try:
            answer = await ask(DESCRIBE_QUORUM, module.DescribeQuorumRequest(topics=(topic,)))
        except AskError:
            return None
        partitions = [partition for topic in answer.topics for partition in topic.partitions]
        is_described = answer.error_code is ErrorCode.none and len(partitions) == 1
        if not is_described or partitions[0].error_code is not ErrorCode.none:
            return None
        return partitions[0]

    def _replicas(
        self, voters: Sequence[ReplicaState], observers: Sequence[ReplicaState], leader_id: int
    ) -> tuple[list[ReplicaView], list[ReplicaView]]:
        replicas = (*voters, *observers)  # a leader that is being removed is an observer
        ends = [state.log_end_offset for state in replicas if state.replica_id == leader_id]
        leader_end = ends[0] if ends else -1

        def views(states: Sequence[ReplicaState], *, is_voter: bool) -> list[ReplicaView]:
            shown = [
                replica_view(
                    state,
                    leader_id=leader_id,
                    leader_end=leader_end,
                    is_voter=is_voter,
                    address=self._address(state.replica_id),
                )
                for state in states
            ]
            return sorted(shown, key=lambda view: view.id)

        return views(voters, is_voter=True), views(observers, is_voter=False)

    def _voters_known_here(self) -> list[ReplicaView]:
        """Return the voters with this node's own log end as the only known one."""
        config, core = self.config, self.core
        leader_id, keys = core.leader.leader_id, sorted(core.voter_keys, key=replica_order)
        return [
            ReplicaView(
                id=key.id,
                directory_id=None if key.directory_id is None else uuid_text(key.directory_id),
                status="leader" if key.id == leader_id else "unknown",
                host=address[0],
                port=address[1],
                log_end_offset=core.log_end_offset if key.id == config.node_id else None,
                lag=None,
                last_fetch_ms=None,
                last_caught_up_ms=None,
            )
            for key in keys
            for address in [self._address(key.id) or (None, None)]
        ]

    def _address(self, node_id: int) -> tuple[str, int] | None:
        """Return the endpoint of a controller or broker; None if unknown."""
        address = self.core.address_of(NodeId(node_id))
        if address is not None:
            return address
        broker = next((b for b in self.image.brokers.values() if b.id == node_id), None)
        if broker is None or not broker.endpoints:
            return None
        return broker.endpoints[0].host, broker.endpoints[0].port

    def elections(self) -> list[ElectionView]:
        """Return the newest elections, in the log or seen by this node, oldest first."""
        log = self._log
        kept = [e for e in log.epoch_entries if e.start_offset >= log.log_start_offset]
        known: dict[tuple[int, int], ElectionView] = {}
        for entry in kept[-ELECTIONS_MAX:]:
            key = (entry.epoch, entry.start_offset)
            view = self._elections.get(key)
            if view is None:
                content = log.read(entry.start_offset, ELECTION_READ_BYTES)
                view = election_view(entry.epoch, entry.start_offset, content)
            known[key] = view
        self._elections = known
        return with_causes(list(known.values()), self.seen_elections.newest)[-ELECTIONS_MAX:]


def _state(row: Any) -> ReplicaState:
    """Convert kio's ReplicaState to raft's."""
    directory = row.replica_directory_id
    return ReplicaState(
        replica_id=NodeId(int(row.replica_id)),
        directory_id=None if directory is None else DirectoryId(directory.bytes),
        log_end_offset=int(row.log_end_offset),
        last_fetch_timestamp_ms=int(row.last_fetch_timestamp),
        last_caught_up_timestamp_ms=int(row.last_caught_up_timestamp),
    )
