"""A ReplicaManager of broker 1 over partitions in memory whose open files are counted."""

import msgspec

from metadata.image import EMPTY, Topic
from network.clock import Clock, Now
from network.sampled_rate import QuotaWindow
from network.turn_budget import TurnBudget
from replication.counters import Counters
from replication.leader.alter_partition import AlterPartitions
from replication.leader.fetch_params import FetchParams
from replication.leader.fetch_session import FetchPartition
from replication.leader.fetching import ReadRules, WantedPartition
from replication.leader.replica_selector import ReplicaSelector, select_in_rack
from replication.replica_manager import ReplicaListener, ReplicaManager
from replication.throttle import ReplicationQuota
from simulator.cluster.memory_vfs import MemoryFile, MemoryVfs
from tests.replication.partitions import CONSUMER, LAG_MS, WALL_MS, Brokers, registration
from tests.storage.test_unified_log import opened, produced
from wire.batches.batch import iterate_batches
from wire.errors import ErrorCode

TOPIC = bytes(15) + b"\7"
T0, T1 = (TOPIC, 0), (TOPIC, 1)
OTHER = (bytes(15) + b"\x08", 0)


class CountedFile(MemoryFile):
    def share(self):
        return self._vfs.counted(self._path, self._node)

    def close(self):
        if self._is_open:
            self._vfs.open_count -= 1
        super().close()


class CountingVfs(MemoryVfs):
    """A file system that knows how many handles are open."""

    def __init__(self):
        super().__init__()
        self.open_count = 0

    def open(self, path, *, create=False):
        file = super().open(path, create=create)
        return self.counted(path, file._node)

    def counted(self, path, node):
        self.open_count += 1
        return CountedFile(self, path, node)


class Managed:
    """Broker 1 with its manager; what it answers is in `answers`, in order."""

    def __init__(self, *, reads_in_rack=False):
        self.brokers = Brokers()
        self.clock = Clock(Now(1_000, WALL_MS))
        self.image = EMPTY
        self.counters = Counters()
        self.proposals = AlterPartitions(1)
        self.failed = []
        self.appended = []
        self.waits = []
        """Functions by which the flush that an append asks for is waited for."""
        self.answers = []
        self.vfs = {}
        self.quota = ReplicationQuota(QuotaWindow(), self.clock)
        self.checked = []
        self.budget = TurnBudget()
        self.manager = ReplicaManager(
            self.clock,
            self.budget,
            self.proposals,
            image=lambda: self.image,
            lag_ms_max=LAG_MS,
            listener=ReplicaListener(
                failed=lambda key, error: self.failed.append((key, error)),
                appended=self.on_appended,
                checked=self.checked.append,
            ),
            counters=self.counters,
            rules=ReadRules(
                self.quota,
                ReplicaSelector(1, lambda: self.image, select_in_rack) if reads_in_rack else None,
            ),
        )

    def on_appended(self, key, wait):
        self.appended.append(key)
        self.waits.append(wait)

    def create(self, key=T0, *, minimum=1, deletes=True, rules=None, settings=None, **fields):
        """A partition that broker 1 leads unless its fields say another leader."""
        self.vfs[key] = CountingVfs()
        partition = self.brokers.partition(minimum=minimum, deletes=deletes)
        partition.open_log(opened(self.vfs[key], rules, **(settings or {})), self.clock.now_ms)
        self.manager.host(key, partition)
        self.register(key, registration(**fields))
        return partition

    def register(self, key, metadata):
        """Publish metadata of a partition, also to the hosted one."""
        topic = self.image.topics.get(key[0]) or Topic(key[0], f"topic-{key[0][-1]}")
        topic = msgspec.structs.replace(topic, partitions=topic.partitions.set(key[1], metadata))
        self.image = msgspec.structs.replace(
            self.image,
            topics=self.image.topics.set(key[0], topic),
            topic_id_by_name=self.image.topic_id_by_name.set(topic.name, key[0]),
        )
        partition = self.manager.partitions.get(key)
        if partition is not None:
            make = partition.make_leader if metadata.leader == 1 else partition.make_follower
            changed = make(metadata, self.clock.now_ms).changed
            self.manager.took(key, changed)
            self.manager.check(key)

    def forget(self, key):
        """Delete the topic of a partition from the metadata."""
        name = self.image.topics[key[0]].name
        self.image = msgspec.structs.replace(
            self.image,
            topics=self.image.topics.delete(key[0]),
            topic_id_by_name=self.image.topic_id_by_name.delete(name),
        )

    def advance(self, ms):
        self.clock.set(Now(self.clock.now_ms + ms, self.clock.wall_ms + ms))
        self.manager.tick()
        self.go_on()

    def go_on(self):
        """Let all that waits be done, in a turn of its own."""
        self.budget.begin()
        while self.manager.is_busy:
            self.manager.go_on()
            self.budget.resume()

    def append(self, batches=None, *, acks=1, timeout_ms=50):
        """Append; the answers so far."""
        if batches is None:
            batches = {T0: produced(WALL_MS)}
        elif not isinstance(batches, dict):
            batches = {key: produced(WALL_MS) for key in batches}
        self.manager.append(
            batches,
            required_acks=acks,
            timeout_ms=timeout_ms,
            answer=self.answers.append,
        )
        return self.taken()

    def fetch(self, *wanted, params=CONSUMER, max_bytes=1 << 20):
        """Fetch (key, offset) pairs, or rows by key; the answers so far."""
        start = {} if params.replica_id is None else {"log_start_offset": 0}
        self.manager.fetch(
            params,
            [
                each if isinstance(each, WantedPartition) else want(*each, **start)
                for each in wanted
            ],
            max_bytes=max_bytes,
            answer=self.answers.append,
        )
        return self.taken()

    def taken(self):
        """The answers since the last call."""
        self.go_on()
        answers = list(self.answers)
        self.answers.clear()
        return answers

    def handles(self, key=T0):
        return self.vfs[key].open_count


def want(key, offset, *, max_bytes=1 << 20, **row):
    request = FetchPartition(fetch_offset=offset, max_bytes=max_bytes, **row)
    return WantedPartition(key, key[0], request)


def waiting(params: FetchParams = CONSUMER, *, min_bytes=1, max_wait_ms=500):
    """Parameters of a Fetch that waits."""
    return msgspec.structs.replace(params, min_bytes=min_bytes, max_wait_ms=max_wait_ms)


def codes(reads):
    return [read.row.code for read in reads]


def offsets(read):
    """Base offsets of the batches of a read, whose handle is closed."""
    if read.records is None:
        return []
    content = read.records.read()
    read.records.close()
    return [batch.header.base_offset for batch in iterate_batches(content)]


NONE = ErrorCode.none
