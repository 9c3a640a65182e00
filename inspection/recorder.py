"""Measurements of a driver while it runs: queue times of events, times of turns and commits.

A step costs a few additions; averages, rates and quantiles are computed on demand. No clock is
read here: every time is the caller's, in monotonic nanoseconds of one clock.
Windows: apache/kafka: clients/.../common/metrics/stats/SampledStat.java and Rate.java with the
defaults of MetricConfig (2 samples of 30 s). Quantiles: of the newest `KEPT` values, where Kafka
takes a random 1,028 with a bias to the last five minutes.
"""

import math
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from raft.core import RaftCore
from raft.roles import Candidate, Follower, Leader, Prospective, Role
from wire.types import LeaderAndEpoch, Offset

SAMPLE_NS: Final = 30_000_000_000
KEPT: Final = 1024
PENDING_COMMITS_MAX: Final = 10_000
"""Limit of appends whose commit is awaited; beyond it appends are not measured."""
NS_PER_MS: Final = 1_000_000
NS_PER_S: Final = 1_000_000_000


class _Sample(NamedTuple):
    """Values of one interval that began at `start_ns`."""

    start_ns: int
    values: int
    total: int
    highest: int


class Window:
    """Integers from 0 of the last 30 to 60 s.

    Args:
        start_ns: begin of the first sample.
    """

    __slots__ = ("_count", "_highest", "_previous", "_start_ns", "_total")

    def __init__(self, start_ns: int) -> None:
        self._previous: _Sample | None = None
        self._begin(start_ns)

    def _begin(self, start_ns: int) -> None:
        self._start_ns = start_ns
        self._count = self._total = self._highest = 0

    def add(self, value: int, now_ns: int) -> None:
        """Add one value; `now_ns` never goes back."""
        assert value >= 0, f"{value=}"
        if now_ns - self._start_ns >= SAMPLE_NS:
            self._roll(now_ns)
        self._count += 1
        self._total += value
        if value > self._highest:  # noqa: PLR1730 - once a turn: max() takes twice as long
            self._highest = value

    @property
    def _newest(self) -> _Sample:
        return _Sample(self._start_ns, self._count, self._total, self._highest)

    def _roll(self, now_ns: int) -> None:
        """Begin a new sample; the previous one counts until it is two sample lengths old."""
        is_old = now_ns - self._start_ns >= 2 * SAMPLE_NS
        self._previous = None if is_old else self._newest
        self._begin(now_ns)

    def _samples(self, now_ns: int) -> list[_Sample]:
        if now_ns - self._start_ns >= SAMPLE_NS:
            self._roll(now_ns)
        both = [self._newest] if self._previous is None else [self._previous, self._newest]
        return [sample for sample in both if now_ns - sample.start_ns < 2 * SAMPLE_NS]

    def average(self, now_ns: int) -> float:
        """Return the mean of the values; NaN without any, as Kafka."""
        samples = self._samples(now_ns)
        count = sum(sample.values for sample in samples)
        return sum(sample.total for sample in samples) / count if count else math.nan

    def highest(self, now_ns: int) -> float:
        """Return the largest value; NaN without any, as Kafka."""
        held = [sample.highest for sample in self._samples(now_ns) if sample.values]
        return float(max(held)) if held else math.nan

    def total(self, now_ns: int) -> int:
        """Return the sum of the values."""
        return sum(sample.total for sample in self._samples(now_ns))

    def elapsed_ns(self, now_ns: int) -> int:
        """Return the time since the oldest counted sample began."""
        return now_ns - self._samples(now_ns)[0].start_ns

    def per_second(self, now_ns: int) -> float:
        """Return the sum per second; an unfilled window counts as 30 s longer, as in Kafka."""
        elapsed_ns = self.elapsed_ns(now_ns)
        if elapsed_ns < SAMPLE_NS:
            elapsed_ns += SAMPLE_NS
        return self.total(now_ns) * NS_PER_S / elapsed_ns


class Histogram:
    """Number of values, and the newest of them."""

    __slots__ = ("count", "newest")

    def __init__(self) -> None:
        self.count = 0
        self.newest: deque[int] = deque(maxlen=KEPT)

    def add(self, value: int) -> None:
        """Add one value."""
        self.count += 1
        self.newest.append(value)

    def add_all(self, values: Sequence[int]) -> None:
        """Add values, the newest last."""
        self.count += len(values)
        self.newest.extend(values)

    def quantiles(self, wanted: Sequence[float]) -> list[float]:
        """Return what each share (0 to 1) of the kept values does not exceed."""
        return quantiles(sorted(self.newest), wanted)


def quantiles(ordered: Sequence[float], wanted: Sequence[float]) -> list[float]:
    """Return the interpolated value that each share (0 to 1) does not exceed; 0 without values.

    Source: com.yammer.metrics.stats.Snapshot.getValue.
    """
    return [_quantile(ordered, share) for share in wanted]


def _quantile(ordered: Sequence[float], share: float) -> float:
    if not ordered:
        return 0.0
    position = share * (len(ordered) + 1)
    if position < 1:
        return float(ordered[0])
    if position >= len(ordered):
        return float(ordered[-1])
    index = int(position)
    lower, upper = ordered[index - 1], ordered[index]
    return lower + (position - index) * (upper - lower)


class Recorder:
    """Measurements of one node.

    Args:
        now_ns: begin of the measurements.
    """

    def __init__(self, now_ns: int = 0) -> None:
        self.queue_ns = Histogram()
        """From posting an event to taking it."""
        self.turn_ns = Histogram()
        """Duration of a turn: all waiting events stepped and their effects performed."""
        self.batch_ns = Histogram()
        """Time to apply a committed batch that was read from the log."""
        self.batch_records = Histogram()
        """Number of records of each such batch."""
        self.busy_ns = Window(now_ns)
        self.commit_ns = Window(now_ns)
        """From appending to committing, on a leader."""
        self.election_ns = Window(now_ns)
        """From becoming a candidate to a known leader."""
        self.appended_records = Window(now_ns)
        self.fetched_records = Window(now_ns)
        self.snapshot_ns = now_ns
        """Time of the newest snapshot written here, or of the begin of the measurements."""
        self.leaders_seen = 0
        """Changes of the leader, except those to no leader."""
        self._role: Role | None = None
        self._leader: LeaderAndEpoch | None = None
        self._end_offset: Offset | None = None
        self._generation = -1
        self._candidate_ns: int | None = None
        self._uncommitted: deque[tuple[Offset, int]] = deque()

    def taken(self, posted_ns: Sequence[int], now_ns: int) -> None:
        """Record the queue times of events that were posted at these times and are stepped now."""
        self.queue_ns.add_all([now_ns - at_ns for at_ns in posted_ns])

    def applied(self, records: int, took_ns: int) -> None:
        """Record a committed batch that was read from the log and applied to the image."""
        self.batch_ns.add(took_ns)
        self.batch_records.add(records)

    def worked(self, core: RaftCore, started_ns: int, now_ns: int) -> None:
        """Record the time of a turn, and its effects on the replica."""
        took_ns = now_ns - started_ns
        self.turn_ns.add(took_ns)
        self.busy_ns.add(took_ns, now_ns)
        self.observe(core, started_ns, now_ns)

    def idle_ratio(self, now_ns: int) -> float:
        """Return the share of the window in which the driver was idle, 0 to 1."""
        elapsed_ns = self.busy_ns.elapsed_ns(now_ns)
        if elapsed_ns <= 0:
            return 1.0
        return min(1.0, max(0.0, 1.0 - self.busy_ns.total(now_ns) / elapsed_ns))

    def observe(self, core: RaftCore, started_ns: int, now_ns: int) -> None:
        """Record the effects on the replica of a turn that began at `started_ns`."""
        if core.role is not self._role:  # every transition replaces the role
            self._on_role(core, started_ns, now_ns)
        if core.log_end_offset != self._end_offset:
            self._on_log_end(core, started_ns, now_ns)
        uncommitted = self._uncommitted
        if not uncommitted:
            return
        high_watermark = core.high_watermark
        while uncommitted and high_watermark is not None and uncommitted[0][0] <= high_watermark:
            self.commit_ns.add(max(0, now_ns - uncommitted.popleft()[1]), now_ns)

    def _on_role(self, core: RaftCore, started_ns: int, now_ns: int) -> None:
        self._role = core.role
        if core.leader != self._leader:
            self._on_leader(core, started_ns, now_ns)
        self._note_candidacy(core, now_ns)

    def _on_leader(self, core: RaftCore, started_ns: int, now_ns: int) -> None:
        if core.leader.leader_id is not None:
            self.leaders_seen += 1
        if core.is_leader and self._candidate_ns is None:  # a sole voter is elected in one step
            self.election_ns.add(now_ns - started_ns, now_ns)
        self._uncommitted.clear()
        self._leader = core.leader

    def _note_candidacy(self, core: RaftCore, now_ns: int) -> None:
        role = type(core.role)
        if self._candidate_ns is None:
            if role is Prospective or role is Candidate:
                self._candidate_ns = now_ns
        elif role is Leader or role is Follower:
            self.election_ns.add(now_ns - self._candidate_ns, now_ns)
            self._candidate_ns = None

    def _on_log_end(self, core: RaftCore, started_ns: int, now_ns: int) -> None:
        end_offset, known = core.log_end_offset, self._end_offset
        is_same_log = known is not None and core.log_generation == self._generation
        self._end_offset, self._generation = end_offset, core.log_generation
        if not is_same_log or known is None or end_offset < known:
            return  # opened, truncated or restarted from a snapshot: no append
        appended = self.appended_records if core.is_leader else self.fetched_records
        appended.add(end_offset - known, now_ns)
        if core.is_leader and len(self._uncommitted) < PENDING_COMMITS_MAX:
            self._uncommitted.append((end_offset, started_ns))
