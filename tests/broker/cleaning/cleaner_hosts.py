"""A broker's local replicas with one compacted topic, its lanes run when the test says so."""

from typing import Any

from typing_extensions import override

from broker.effects import Lane
from simulator.cluster.memory_vfs import MemoryVfs
from storage.checkpoints.checkpoint_files import decode_offsets
from storage.cleaner.clean_job import CleanJob, GroupCleaned, RoundEnded
from storage.cleaner.cleaner_manager import CleaningState
from storage.cleaner.session import InlineSession
from storage.logs.produced_records import parse_produced
from storage.logs.unified_log import UnifiedLog
from tests.broker.metadata_log import MetadataLog
from tests.broker.record_hosts import Host, with_topics
from tests.storage.cleaner.compacted import newest, records_of
from tests.storage.cleaner.rounds import batch, record

SEGMENT_BYTES = 160
"""Two batches of these tests."""
NAME = ("a", 0)
BACKOFF_MS = 15_000


class Session(InlineSession):
    """An inline session that notes what is asked of it, and may be told to fail."""

    made: list["Session"]
    fails: list[BaseException]

    def __init__(self, vfs: Any, thread: str, job: CleanJob) -> None:
        super().__init__(vfs, job)
        self.thread, self.job = thread, job
        self.rates: list[float] = []
        self.is_aborted = self.is_closed = False

    @override
    def step(self, bytes_per_second: float) -> GroupCleaned | RoundEnded:
        self.rates.append(bytes_per_second)
        if self.fails:
            raise self.fails.pop(0)
        return super().step(bytes_per_second)

    @override
    def abort(self) -> None:
        self.is_aborted = True
        super().abort()

    @override
    def close(self) -> None:
        self.is_closed = True
        super().close()


class CleanerHost(Host):
    """A host whose cleaner is enabled."""

    def __init__(self, log: MetadataLog, vfs: Any = None, **properties: Any) -> None:
        self.sessions: list[Session] = []
        self.fails: list[BaseException] = []
        properties.setdefault("log_cleaner_enable", "true")
        super().__init__(log, vfs or MemoryVfs(), **properties)
        self.cleaner = self.local.upkeep.cleaner
        self.cleaner._open_session = self._open

    def _open(self, thread: str, job: CleanJob) -> Session:
        session = Session(self.vfs, thread, job)
        session.fails = self.fails
        self.sessions.append(session)
        return session

    def write(self, *records: tuple[bytes, bytes | None], number: int = 0) -> None:
        """A batch of a client, committed."""
        content = batch(
            *[record(n, key, value, self.clock.wall_ms) for n, (key, value) in enumerate(records)]
        )
        self.partition(number).append_as_leader(
            parse_produced(memoryview(bytearray(content)), 9),
            required_acks=1,
            wall_ms=self.clock.wall_ms,
            now_ms=self.clock.now_ms,
        )
        self.local.appended((self.topic_id, number))
        self.work()

    @property
    def topic_id(self) -> Any:
        return self.log.image.topic_id_by_name["a"]

    def logged_names(self) -> list[str]:
        return [each.event for each in self.effects if hasattr(each, "event")]

    def recorded(self, path: str = "/1") -> dict[tuple[str, int], int]:
        name = f"{path}/cleaner-offset-checkpoint"
        return decode_offsets(self.vfs.read(name), name) if self.vfs.exists(name) else {}

    def unified(self, number: int = 0) -> UnifiedLog:
        log = self.local.manager.get("a", number)
        assert log is not None
        return log

    def run_lane(self, lane: Lane) -> bool:
        """Run the first work of a lane; False without one."""
        for number, each in enumerate(self.works):
            if each[0] is lane:
                self.work_one(number)
                return True
        return False

    def look(self) -> None:
        """Let a look begin and end, with the rounds that it begins, whose work is left."""
        self.budget.units_max = 1 << 30
        self.budget.begin()
        due = self.cleaner.next_ms()
        assert due is not None, "no look is due"
        self._set(max(due, self.clock.now_ms))
        self.cleaner.tick()
        while self.cleaner.is_busy:
            self.cleaner.go_on()


def filled(count: int = 8, **configs: str) -> CleanerHost:
    """A host with a compacted log of keys a and b, in segments of two batches."""
    properties = {k: configs.pop(k) for k in list(configs) if k.startswith("log_")}
    fields = {
        "cleanup_policy": "compact",
        "internal_segment_bytes": str(SEGMENT_BYTES),
        "min_cleanable_dirty_ratio": "0.1",
        **configs,
    }
    host = CleanerHost(with_topics("a", **fields), **properties)
    host.started()
    for number in range(count):
        host.write((b"ab"[number % 2 : number % 2 + 1], b"%04d" % number))
    return host


def values(host: CleanerHost, number: int = 0) -> dict[bytes | None, bytes | None]:
    return newest(records_of(host.unified(number)))


def offsets(host: CleanerHost) -> list[int]:
    return [each.offset for each in records_of(host.unified())]


def leftovers(host: CleanerHost) -> list[str]:
    """Files of a round that was not finished."""
    names = host.vfs.list("/1/a-0")
    return [name for name in names if name.endswith((".cleaned", ".swap"))]


def state(host: CleanerHost) -> CleaningState | None:
    return host.cleaner.states.state(NAME)
