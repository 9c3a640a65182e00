"""Many seeds: run in this process or in several, remembered in a file, summed up.

Seeds are independent of each other, so several processes share nothing but the list of them.
"""

import gc
import multiprocessing
import signal
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Final, Protocol

import msgspec

from jepsen.linearizability import UNKNOWN
from simulator.campaign.draw import Options
from simulator.campaign.probes import MARKS
from simulator.campaign.run import Outcome
from simulator.campaign.runs import marks_of, run_with

SAFETY, LIVENESS, CRASH, NONDETERMINISM = 10, 11, 12, 13
"""Exit codes by the kind of a failure."""

NONDETERMINISTIC: Final = "nondeterminism"


class WorkerDiedError(Exception):
    """A process of the pool is gone; the text names the seeds that were under way."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """Results that are kept of one seed."""

    seed: int
    invariant: str | None
    text: str
    at_us: int
    events: int
    cpu_seconds: float
    virtual_us: int
    elections: int
    acknowledged: int
    operations: int
    definite: int
    verdict: str | None
    """Verdict on the clients' history; see `Outcome`."""
    messages: int
    digest: int
    events_by_kind: dict[str, int]
    faults: dict[str, int]
    effective_faults: dict[str, int] = {}
    """Absent in ledgers of older code, of which no line counts."""
    marks: dict[str, int]
    skips: dict[str, int] = {}
    """Checks that could not be made."""
    is_complete: bool = True
    """False when the run was stopped before its end."""


def run_one(seed: int, options: Options, *, is_twice: bool) -> Result:
    """Run a seed; twice: the second run has to give the same digest."""
    started = time.process_time()
    outcome = run_with(seed, options)
    cpu_seconds = time.process_time() - started
    result = result_of(outcome, cpu_seconds)
    if not is_twice or result.invariant is not None:
        return result
    again = run_with(seed, options)
    if again.digest == outcome.digest:
        return result
    return msgspec.structs.replace(
        result,
        invariant=NONDETERMINISTIC,
        text=f"digests {outcome.digest:08x} and {again.digest:08x} of one seed",
    )


def result_of(outcome: Outcome, cpu_seconds: float) -> Result:
    """Results that are kept of a run."""
    return Result(
        seed=outcome.seed,
        invariant=outcome.invariant,
        text=outcome.text,
        at_us=outcome.at_us,
        events=outcome.event_count,
        cpu_seconds=cpu_seconds,
        virtual_us=outcome.virtual_us,
        elections=outcome.elections,
        acknowledged=outcome.acknowledged,
        operations=outcome.operations,
        definite=outcome.definite,
        verdict=outcome.verdict,
        messages=outcome.messages,
        digest=outcome.digest,
        events_by_kind=outcome.events_by_kind,
        faults=outcome.faults,
        effective_faults=outcome.effective_faults,
        marks={name: count for name, count in outcome.marks.items() if count},
        skips=outcome.skips,
        is_complete=outcome.is_complete,
    )


def exit_code_of(invariant: str) -> int:
    """Exit code of a failure."""
    codes = {"liveness": LIVENESS, "I20": CRASH, NONDETERMINISTIC: NONDETERMINISM}
    return codes.get(invariant, SAFETY)


class Totals:
    """Sums over the results of many seeds.

    Args:
        marks: that they can meet.
    """

    def __init__(self, marks: Sequence[str] = MARKS) -> None:
        self.seeds = 0
        self.failed: list[Result] = []
        self.is_complete = True
        """False when a run was stopped before its end."""
        self.events = 0
        self.cpu_seconds = 0.0
        self.virtual_us = 0
        self.elections = 0
        self.acknowledged = 0
        self.messages = 0
        self.operations = 0
        self.definite = 0
        self.unknown: list[int] = []
        """Seeds whose history was too hard to judge."""
        self._digests: dict[int, int] = {}
        self.events_by_kind: dict[str, int] = {}
        self.faults: dict[str, int] = {}
        self.effective_faults: dict[str, int] = {}
        self.marks: dict[str, int] = dict.fromkeys(marks, 0)
        self.skips: dict[str, int] = {}

    def add(self, result: Result) -> None:
        """Add one more seed."""
        self.seeds += 1
        if result.invariant is not None:
            self.failed.append(result)
        self.is_complete = self.is_complete and result.is_complete
        self.events += result.events
        self.cpu_seconds += result.cpu_seconds
        self.virtual_us += result.virtual_us
        self.elections += result.elections
        self.acknowledged += result.acknowledged
        self.messages += result.messages
        self.operations += result.operations
        self.definite += result.definite
        if result.verdict == UNKNOWN:
            self.unknown.append(result.seed)
        self._digests[result.seed] = result.digest
        for sums, counts in (
            (self.events_by_kind, result.events_by_kind),
            (self.faults, result.faults),
            (self.effective_faults, result.effective_faults),
            (self.marks, result.marks),
            (self.skips, result.skips),
        ):
            for name, count in counts.items():
                sums[name] = sums.get(name, 0) + count

    @property
    def digest(self) -> str:
        """Digest of one seed, or the CRC-32 of those of many, in the order of the seeds."""
        digests = [self._digests[seed] for seed in sorted(self._digests)]
        if len(digests) == 1:
            return f"{digests[0]:08x}"
        return f"{zlib.crc32(b''.join(each.to_bytes(4, 'big') for each in digests)):08x}"

    @property
    def events_per_second(self) -> float:
        """Steps of nodes per second of one core's time."""
        return self.events / self.cpu_seconds if self.cpu_seconds > 0 else 0.0

    @property
    def missing_marks(self) -> list[str]:
        """Marks that were never met."""
        return [name for name, count in self.marks.items() if not count]


NODE_COLLECTIONS: Final = (100_000, 20, 50)
"""Thresholds at which a node's process looks for cycles (node/process.py)."""


@contextmanager
def collecting_as_a_node() -> Iterator[None]:
    """Look for cycles in memory as seldom as the process of a node does."""
    before = gc.get_threshold()
    gc.set_threshold(*NODE_COLLECTIONS)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _begin_worker() -> None:
    """Begin a process of the pool; signals are handled by the first process alone."""
    gc.set_threshold(*NODE_COLLECTIONS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all of them


def results(
    seeds: Iterable[int], options: Options, *, is_twice: bool, job_count: int
) -> Iterator[Result]:
    """Run seeds and give results as they come; with one job in the order of the seeds.

    Raises:
        WorkerDiedError: one of several processes is gone.
    """
    if job_count == 1:
        with collecting_as_a_node():
            for seed in seeds:
                yield run_one(seed, options, is_twice=is_twice)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(job_count, mp_context=context, initializer=_begin_worker) as pool:
        waiting: set[Future[Result]] = set()
        seed_of: dict[Future[Result], int] = {}
        left = iter(seeds)
        try:
            while True:
                while len(waiting) < 2 * job_count:
                    following = next(left, None)
                    if following is None:
                        break
                    future = pool.submit(run_one, following, options, is_twice=is_twice)
                    waiting.add(future)
                    seed_of[future] = following
                if not waiting:
                    return
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
                    del seed_of[future]
        except BrokenProcessPool as error:
            under_way = ", ".join(map(str, sorted(seed_of.values())))
            raise WorkerDiedError(
                f"a process of --jobs {job_count} died, killed or out of memory; seeds that were"
                f" under way and are not counted: {under_way}"
            ) from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


class Remembering(Protocol):
    """Memory of finished seeds (simulator/campaign/seed_ledger.py)."""

    def known(self) -> dict[int, Result]:
        """Return the results that need no run."""
        ...

    def add(self, result: Result) -> None:
        """Add one result."""
        ...


def run_campaign(
    seeds: Sequence[int],
    options: Options,
    *,
    is_twice: bool,
    job_count: int,
    ledger: Remembering | None,
    on_result: Callable[[Result, Totals], None],
) -> Totals:
    """Run seeds that the ledger does not know, and sum up all of them.

    Args:
        seeds: to run.
        options: the same for all.
        is_twice: each twice, to compare digests.
        job_count: processes.
        ledger: of finished seeds.
        on_result: called with each, those of the ledger included.
    """
    totals = Totals(marks_of(options))
    known = {} if ledger is None else ledger.known()
    for seed in sorted(seed for seed in known if seed in seeds):
        totals.add(known[seed])
        on_result(known[seed], totals)
    left = (seed for seed in seeds if seed not in known)  # not a list: there may be a billion
    for result in results(left, options, is_twice=is_twice, job_count=job_count):
        totals.add(result)
        if ledger is not None:
            ledger.add(result)
        on_result(result, totals)
    return totals
