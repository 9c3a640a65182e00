"""Three replicas of a partition that replicate by fetches, and a controller that elects leaders."""

import msgspec

from metadata.image import LEADER_RECOVERED, NO_LEADER
from metadata.image import Partition as PartitionRegistration
from replication.follower.following import FetchedFromLeader
from replication.leader.fetch_session import FetchPartition
from replication.leader.isr import LeaderAndIsr
from replication.leader.leadership import Leadership
from replication.reading import Fetched
from simulator.cluster.memory_vfs import MemoryVfs
from tests.replication.partitions import WALL_MS, Brokers, append, from_follower
from tests.storage.test_unified_log import content, opened
from wire.errors import ErrorCode

NODES = (1, 2, 3)


class Cluster:
    """Brokers 1 to 3; the controller's metadata reach each that is up when `publish` is called."""

    def __init__(self):
        self.brokers = Brokers()
        self.now_ms = 0
        self.logs = {node: opened(MemoryVfs()) for node in NODES}
        self.partitions = {}
        self.metadata = PartitionRegistration(
            replicas=NODES, isr=NODES, leader=NO_LEADER, leader_epoch=0, partition_epoch=0
        )
        self.proposals = {}
        for node in NODES:
            self.start(node)

    # -- controller

    def elect(self, leader, isr=None, told=NODES):
        """Elect a leader; without an ISR it stays. Some brokers may be told later."""
        self._change(leader=leader, leader_epoch=self.metadata.leader_epoch + 1, isr=isr)
        for node in self.partitions:
            if node in told:
                self.publish(node)

    def _change(self, isr=None, **fields):
        self.metadata = msgspec.structs.replace(
            self.metadata,
            isr=self.metadata.isr if isr is None else isr,
            partition_epoch=self.metadata.partition_epoch + 1,
            **fields,
        )

    def publish(self, node):
        partition, metadata = self.partitions[node], self.metadata
        if metadata.leader == node:
            partition.make_leader(metadata, self.now_ms)
        else:
            partition.make_follower(metadata, self.now_ms)

    def answer(self, node):
        """Decide on the proposal of a node as the controller does; its answer arrives."""
        proposed, metadata = self.proposals.pop(node), self.metadata
        isr = tuple(member for member, _ in proposed.isr)
        answer = ErrorCode.fenced_leader_epoch
        if proposed.leader_epoch == metadata.leader_epoch:
            answer = ErrorCode.invalid_update_version
            if proposed.partition_epoch == metadata.partition_epoch:
                answer = ErrorCode.ineligible_replica
                if not any(
                    self.brokers.registered[member].fenced
                    or epoch not in (None, self.brokers.registered[member].epoch)
                    for member, epoch in proposed.isr
                ):
                    self._change(isr=isr)
                    answer = LeaderAndIsr(
                        leader_id=node,
                        leader_epoch=self.metadata.leader_epoch,
                        partition_epoch=self.metadata.partition_epoch,
                        isr=isr,
                        leader_recovery_state=LEADER_RECOVERED,
                    )
        if node in self.partitions:
            answered = self.partitions[node].on_answer(proposed, answer, self.now_ms)
            self.note(node, answered.changed)

    # -- brokers

    def start(self, node):
        """Start a broker with the log it has, under a new registration."""
        if self.metadata.leader == node:
            self._change(leader_epoch=self.metadata.leader_epoch + 1)
        self.brokers.registered[node].epoch += 10
        self.brokers.registered[node].fenced = False
        self.partitions[node] = self.brokers.partition(node)
        self.partitions[node].open_log(self.logs[node], self.now_ms)
        self.publish(node)

    def stop(self, node, high_watermark=None):
        """Kill a broker; its log begins again with a high watermark that was recorded before."""
        del self.partitions[node]
        self.proposals.pop(node, None)
        self.brokers.registered[node].fenced = True
        if high_watermark is not None:
            self.logs[node].set_high_watermark(min(high_watermark, self.logs[node].high_watermark))

    def note(self, node, changed):
        if changed.proposal is not None:
            self.proposals[node] = changed.proposal

    def append(self, node, acks=-1):
        appended = append(self.partitions[node], self.now_ms, acks=acks)
        if isinstance(appended, ErrorCode):
            return appended
        self.note(node, appended.changed)
        return appended.append.end_offset

    def fetch(self, follower):
        """Send one Fetch to the leader that the follower knows; what the leader answered."""
        partition = self.partitions[follower]
        leader_id, log = partition.role.leader_id, partition.log
        if leader_id not in self.partitions:
            return None
        params = from_follower(follower, self.brokers.registered[follower].epoch)
        request = FetchPartition(
            fetch_offset=log.end_offset,
            max_bytes=1 << 20,
            current_leader_epoch=partition.leader_epoch,
            last_fetched_epoch=log.last_epoch,
            log_start_offset=log.log_start_offset,
        )
        fetched = self.partitions[leader_id].fetch(
            params, request, max_bytes=1 << 20, at_least_one=True, now_ms=self.now_ms
        )
        if isinstance(fetched, Fetched):
            self.note(leader_id, fetched.changed)
        return fetched

    def take(self, follower, fetched, leader_epoch):
        """Let a follower take the answer to a fetch of an epoch."""
        partition = self.partitions[follower]
        if fetched.diverging_epoch is not None:
            return partition.truncate_to_leader(fetched.diverging_epoch, leader_epoch, WALL_MS)
        records = b"" if fetched.records is None else fetched.records.read()
        row = FetchedFromLeader(
            records=memoryview(records),
            high_watermark=fetched.high_watermark,
            log_start_offset=fetched.log_start_offset,
        )
        return partition.append_as_follower(row, leader_epoch, WALL_MS)

    def replicate(self, *followers, rounds=2):
        """Let followers fetch, each round one after the other."""
        for _ in range(rounds):
            for follower in followers:
                fetched = self.fetch(follower)
                assert isinstance(fetched, Fetched), f"{fetched=}"
                self.take(follower, fetched, self.partitions[follower].leader_epoch)

    # -- what is seen

    def leaders(self):
        return [n for n, each in self.partitions.items() if isinstance(each.role, Leadership)]

    def committed(self, node):
        """The bytes below the high watermark, which consumers of a node may read."""
        log = self.logs[node]
        return (
            b"" if log.end_offset == 0 else content(log, 0)[: log.place_of(log.high_watermark)[1]]
        )

    def bytes_of(self, node):
        return content(self.logs[node], 0)

    def epochs(self, node):
        return [(each.epoch, each.start_offset) for each in self.logs[node].epoch_entries]
