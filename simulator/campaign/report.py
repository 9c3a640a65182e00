"""Output of a campaign: the live line, the failures, the summary, the JSON object."""

import math
import os
import time
from collections.abc import Callable
from typing import Any, Final, TextIO

from simulator.campaign.campaign import Result, Totals
from simulator.campaign.draw import RECORDS_STANDARD, STANDARD, Options

REFRESH_S: Final = 0.25
PLAIN_PERIOD_S: Final = 60.0
"""Seconds between two lines of progress where standard error is no terminal."""
COLUMNS: Final = 80
"""Width of a terminal that reports none."""
TOP: Final = 6
HOUR_US: Final = 3_600_000_000


class LiveLine:
    """One line on a terminal that is rewritten; elsewhere plain lines, if they are asked for.

    Args:
        out: stream to write to.
        seed_count: number of seeds in all.
        label: text in front of the sums.
        plain_period_s: between two plain lines, the first one included; infinite: no lines.
    """

    def __init__(
        self, out: TextIO, seed_count: int, *, label: str = "", plain_period_s: float = math.inf
    ) -> None:
        self._out = out
        self._seed_count = seed_count
        self._label = label
        self._is_terminal = out.isatty()
        self._period_s = REFRESH_S if self._is_terminal else plain_period_s
        self._shown = 0.0 if self._is_terminal else time.monotonic()

    def show(self, totals: Totals) -> None:
        """Show the sums so far, at most four times a second on a terminal."""
        self.say(lambda: self._sums(totals))

    def _sums(self, totals: Totals) -> str:
        faults = " ".join(f"{name} {count}" for name, count in _most(totals.faults))
        return (
            f"{self._label}{totals.seeds:,}/{self._seed_count:,} seeds, "
            f"{len(totals.failed)} failed, "
            f"{totals.events_per_second:,.0f} events/s, "
            f"{_virtual(totals.virtual_us)}, "
            f"{counted(totals.elections, 'election')}, faults: {faults}"
        )

    def say(self, text: Callable[[], str]) -> None:
        """Show another text, as often."""
        now = time.monotonic()
        if now - self._shown < self._period_s:
            return
        self._shown = now
        line = text()
        shown = line[: self._columns() - 1]  # a full line would wrap
        self._out.write(f"\r\x1b[K{shown}" if self._is_terminal else f"{line}\n")
        self._out.flush()

    def _columns(self) -> int:
        """Width of the terminal, which may have changed."""
        try:
            return os.get_terminal_size(self._out.fileno()).columns or COLUMNS
        except (OSError, ValueError):
            return COLUMNS

    def clear(self) -> None:
        """Make room for another line."""
        if self._is_terminal:
            self._out.write("\r\x1b[K")
            self._shown = 0.0


def failure_line(result: Result, commit: str, command: str) -> str:
    """Line of a failed seed; `command` repeats it."""
    return (
        f"SIM-FAIL seed={result.seed:#x} commit={commit} invariant={result.invariant} "
        f"t={result.at_us / 1e6:.6f}s event={result.events} replay: {command}"
    )


def command_of(seed: int, options: Options, *, is_twice: bool = False) -> str:
    """Command line that runs one seed again."""
    words = ["kraftline", "sim", *["records"] * options.has_records, "--seed", f"{seed:#x}"]
    standard = RECORDS_STANDARD if options.has_records else STANDARD
    if options.has_transactions:
        words += ["--transactions"]
    words += ["--groups"] * options.has_groups
    if options.node_count is not None:
        words += ["--nodes", str(options.node_count)]
    if options.observer_count is not None:
        words += ["--observers", str(options.observer_count)]
    if options.faults is not None:
        words += ["--faults", ",".join(options.faults) or "none"]
    if (options.duration_us, options.write_count) != (standard.duration_us, standard.write_count):
        words += ["--short"]
    if options.draws != standard.draws:
        words += ["--draws", str(options.draws)]
    if is_twice:
        words += ["--twice"]
    return " ".join(words)


def summary(totals: Totals, seconds: float, *, requires_marks: bool = False) -> list[str]:
    """Summary for people; of a single run the marks that it met, not the many others.

    Args:
        totals: of the seeds.
        seconds: duration.
        requires_marks: a mark that was never met is a failure.
    """
    verdict = f"{len(totals.failed)} failed" if totals.is_complete else "not finished"
    first = (
        f"{counted(totals.seeds, 'seed')}, {verdict}; {counted(totals.events, 'event')}, "
        f"{totals.events_per_second:,.0f} per second of a core; "
        f"{_virtual(totals.virtual_us)} in {seconds:.1f} s"
    )
    second = (
        f"{counted(totals.elections, 'election')}; "
        f"{counted(totals.operations, 'operation')} of clients, {totals.definite:,} answered "
        f"definitely, {counted(totals.acknowledged, 'write')} acknowledged; "
        f"{counted(totals.messages, 'message')}; digest {totals.digest}"
    )
    lines = [first, second, "events: " + _shares(totals.events_by_kind, totals.events)]
    if totals.faults:
        counts = ", ".join(
            f"{name} {totals.effective_faults.get(name, 0):,}/{count:,}"
            for name, count in _most(totals.faults, 100)
        )
        lines.append(f"faults felt/fired: {counts}")
    if totals.unknown:
        lines.append(
            f"histories too hard to judge: {len(totals.unknown)}, {_named(totals.unknown)}"
        )
    if totals.seeds == 1 and not requires_marks:
        met = [name for name, count in totals.marks.items() if count]
        lines.append(f"marks met: {len(met)} of {len(totals.marks)}: {', '.join(met) or 'none'}")
    elif totals.missing_marks:
        lines.append("marks never met: " + ", ".join(totals.missing_marks))
    return lines


def as_json(totals: Totals, seconds: float, commit: str, *, asked: int) -> dict[str, Any]:
    """Object of `--json`; `asked`: number of seeds that should have run."""
    return {
        "seeds": totals.seeds,
        "complete": totals.is_complete and totals.seeds == asked,
        "failed": len(totals.failed),
        "events": totals.events,
        "events_per_second": round(totals.events_per_second, 1),
        "virtual_seconds": round(totals.virtual_us / 1e6, 3),
        "marks": totals.marks,
        "skipped_checks": totals.skips,
        "seconds": round(seconds, 3),
        "cpu_seconds": round(totals.cpu_seconds, 3),
        "events_by_kind": dict(sorted(totals.events_by_kind.items())),
        "faults": dict(sorted(totals.faults.items())),
        "effective_faults": dict(sorted(totals.effective_faults.items())),
        "elections": totals.elections,
        "acknowledged": totals.acknowledged,
        "operations": totals.operations,
        "definite": totals.definite,
        "messages": totals.messages,
        "digest": totals.digest,
        "unknown": len(totals.unknown),
        "unknown_seeds": sorted(totals.unknown),
        "commit": commit,
        "failures": [
            {"seed": f.seed, "invariant": f.invariant, "text": f.text, "at_us": f.at_us}
            for f in totals.failed
        ],
    }


def counted(count: int, noun: str) -> str:
    """Count with its noun: `1 seed`, `2,000 seeds`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _virtual(time_us: int) -> str:
    """Text of a virtual time; below an hour in seconds."""
    hours = time_us / HOUR_US
    return f"{time_us / 1e6:,.3f} virtual seconds" if hours < 1 else f"{hours:,.2f} virtual hours"


def _most(counts: dict[str, int], limit: int = TOP) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:limit]


def _named(seeds: list[int]) -> str:
    shown = ", ".join(f"{seed:#x}" for seed in sorted(seeds)[:TOP])
    return f"seeds {shown}{', ...' if len(seeds) > TOP else ''}"


def _shares(counts: dict[str, int], whole: int) -> str:
    return ", ".join(f"{name} {100 * count / max(1, whole):.0f} %" for name, count in _most(counts))
