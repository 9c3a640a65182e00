"""Runs of a target: generated and mutated inputs, and the checks of every one of them.

P1: a value or a declared refusal, nothing else; CPU time and memory within limits. What else must
hold (round trips, equal ways of reading, checksums) is the target's `verify`.

Memory is bounded by 4 times the input and 1 MiB: a claimed length allocates nothing. The 1 MiB
hides what Python objects cost in inputs up to 16 KiB: a body of many tiny entities takes up to 64
times its bytes (`LARGE_FACTOR`, of which test_fuzz.py makes the worst), whatever the decoder does,
since an int of four bytes is an object of 28 in a slot of 8. Frames are limited for that reason
(`socket.request.max.bytes`).
"""

import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.fuzz.mutation import mutated

CPU_SECONDS_MAX = 0.1
MEMORY_FACTOR = 4
LARGE_FACTOR = 64
MEMORY_BYTES_MAX = 1 << 20
MEMORY_EVERY = 64
POOL_MAX = 4000
STRUCTURED = 0.1
PROGRESS_EVERY = 500

Decode = Callable[[bytes], Any]
Verify = Callable[[Any, bytes, Random], None]
Generate = Callable[[Random], bytes]


@dataclass(frozen=True)
class Target:
    """One decoder.

    `decode` gives a value or raises one of `refusals`; `verify(value, data, rng)` asserts more
    about an accepted input; `generate(rng)` makes an input that must be accepted.
    """

    name: str
    seeds: Sequence[bytes]
    decode: Decode
    refusals: tuple[type[Exception], ...]
    verify: Verify | None = None
    generate: Generate | None = None
    cpu_seconds_max: float = CPU_SECONDS_MAX
    weight: float = 1.0
    """Share of the cases of a run over all targets."""


@dataclass
class Report:
    """Counts and times of a run."""

    target: str
    cases: int = 0
    accepted: int = 0
    seconds: float = 0.0
    slowest_s: float = 0.0
    kinds: dict[str, int] = field(default_factory=dict)
    """Refusals by type."""


class FoundError(AssertionError):
    """An input that breaks a property."""

    def __init__(self, target: str, data: bytes, reason: str) -> None:
        super().__init__(
            f"{target}: {reason}\nrepeat: python -m tests.fuzz --target {target} --input "
            f"{data.hex() or '-'}"
        )
        self.target = target
        self.data = data


def check_one(target: Target, data: bytes, rng: Random, report: Report) -> bool:
    """One input; whether it was accepted."""
    started = time.thread_time()
    try:
        value = target.decode(data)
    except target.refusals as error:
        value, refused = None, type(error).__name__
    except Exception as error:
        raise FoundError(target.name, data, f"{type(error).__name__}: {error}") from error
    else:
        refused = None
    seconds = time.thread_time() - started
    report.slowest_s = max(report.slowest_s, seconds)
    if seconds > target.cpu_seconds_max:
        _check_time(target, data)
    if refused is not None:
        report.kinds[refused] = report.kinds.get(refused, 0) + 1
        return False
    if target.verify is not None:
        try:
            target.verify(value, data, rng)
        except Exception as error:
            reason = f"accepted, then {type(error).__name__}: {error}"
            raise FoundError(target.name, data, reason) from error
    report.accepted += 1
    return True


def run(
    target: Target,
    cases: int,
    seed: int,
    on_progress: Callable[[Report], None] | None = None,
) -> Report:
    """Run a number of inputs; raise FoundError for the first that breaks a property."""
    rng = Random(f"{seed}/{target.name}")
    report = Report(target.name)
    started = time.perf_counter()
    pool = [*target.seeds]
    if target.generate is not None:
        pool += [target.generate(rng) for _ in range(min(64, cases))]
    first = len(pool)
    largest = 0
    for number in range(cases):
        is_fresh = target.generate is not None and rng.random() < STRUCTURED
        if number < len(target.seeds):
            data, is_fresh = target.seeds[number], False
        elif is_fresh:
            assert target.generate is not None
            data = target.generate(rng)
            if len(pool) < POOL_MAX:
                pool.append(data)
            else:
                pool[first + rng.randrange(POOL_MAX - first)] = data
        else:
            data = mutated(rng.choice(pool), pool, rng)
        is_accepted = check_one(target, data, rng, report)
        if is_fresh and not is_accepted:
            raise FoundError(target.name, data, "a generated input was refused")
        if number % MEMORY_EVERY == 0 or len(data) > largest:
            check_memory(target, data)
            largest = max(largest, len(data))
        report.cases += 1
        report.seconds = time.perf_counter() - started
        if on_progress is not None and number % PROGRESS_EVERY == 0:
            on_progress(report)
    return report


def _check_time(target: Target, data: bytes) -> None:
    """Slow once may be an import or the collector; slow three times in a row is the input."""
    fastest = min(_timed(target, data) for _ in range(3))
    if fastest > target.cpu_seconds_max:
        raise FoundError(target.name, data, f"{fastest:.3f} s of CPU")


def _timed(target: Target, data: bytes) -> float:
    started = time.thread_time()
    _decode_quietly(target, data)
    return time.thread_time() - started


def peak_bytes(target: Target, data: bytes) -> int:
    """Most memory that decoding holds at one time."""
    tracemalloc.start()
    try:
        _decode_quietly(target, data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def check_memory(target: Target, data: bytes) -> None:
    """One input may take memory in proportion to its length.

    Raises:
        FoundError: it takes more.
    """
    limit = MEMORY_FACTOR * len(data) + MEMORY_BYTES_MAX
    for _ in range(2):  # once for caches that the first use fills
        peak = peak_bytes(target, data)
        if peak <= limit:
            return
    raise FoundError(target.name, data, f"{peak} bytes of memory for {len(data)} of input")


def _decode_quietly(target: Target, data: bytes) -> None:
    try:
        target.decode(data)
    except target.refusals:
        return
