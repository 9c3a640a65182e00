"""Work of a `kraftline sim` command line: many seeds, one run with trace or page, a schedule."""

import json
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO

from simulator.campaign.arguments import Parsed
from simulator.campaign.campaign import (
    NONDETERMINISTIC,
    Result,
    Totals,
    WorkerDiedError,
    exit_code_of,
    result_of,
    run_campaign,
)
from simulator.campaign.commit_name import commit_name
from simulator.campaign.draw import Options
from simulator.campaign.page import page_of
from simulator.campaign.recording import Recording
from simulator.campaign.report import (
    PLAIN_PERIOD_S,
    LiveLine,
    as_json,
    command_of,
    counted,
    failure_line,
    summary,
)
from simulator.campaign.run import Outcome, prepare
from simulator.campaign.runs import marks_of, run_with
from simulator.campaign.schedule import Schedule, read_schedule, write_schedule
from simulator.campaign.seed_ledger import SeedLedger
from simulator.campaign.shrink import Shrinker, Shrunk
from simulator.cluster.node_states import state_text
from simulator.cluster.scheduler import ENDLESS
from simulator.faults.decision import Decision

MARK_MISSING: Final = 1
INTERRUPTED: Final = 130
WORKER_DIED: Final = 255
TERMINATED: Final = 143


class _Terminated(KeyboardInterrupt):
    """SIGTERM: the seeds so far are summed up, as after Ctrl-C."""


def perform(parsed: Parsed) -> int:
    """Perform a command line; return the exit code.

    Raises:
        ScheduleError: the file is no schedule.
        OSError: a file cannot be read or written.
    """
    _check_folders(parsed)
    if parsed.schedule is not None:
        return _run_schedule(parsed, read_schedule(parsed.schedule))
    return _run_seeds(parsed)


def _check_folders(parsed: Parsed) -> None:
    """Check that the files of the end can be written, before an hour of work."""
    for path in (parsed.html, parsed.ledger):
        if path is not None:
            path.open("ab").close()


# ---- many seeds ---------------------------------------------------------------------------------


def _run_seeds(parsed: Parsed) -> int:
    """Run the seeds of the command line, print the summary; return the exit code."""
    commit = commit_name()
    started = time.monotonic()
    is_watched = parsed.is_traced or parsed.until is not None
    if is_watched:
        return _run_watched(parsed, parsed.seeds[0], parsed.options, None, commit)
    ledger = None
    if parsed.ledger is not None:
        ledger = SeedLedger(parsed.ledger, commit, parsed.options, is_twice=parsed.is_twice)
        ledger.known()
        if ledger.cut_off:
            lines = "a line is" if ledger.cut_off == 1 else f"{ledger.cut_off} lines are"
            sys.stderr.write(f"kraftline sim: {parsed.ledger}: {lines} cut off and left out\n")
    live = LiveLine(sys.stderr, len(parsed.seeds), plain_period_s=PLAIN_PERIOD_S)
    totals = Totals(marks_of(parsed.options))

    def on_result(result: Result, sums: Totals) -> None:
        nonlocal totals
        totals = sums
        if result.invariant is not None:
            live.clear()
            _say_failure(parsed, result, commit)
        live.show(sums)

    interrupted, seconds = 0, None
    try:
        with _stoppable():
            run_campaign(
                parsed.seeds,
                parsed.options,
                is_twice=parsed.is_twice,
                job_count=parsed.job_count,
                ledger=ledger,
                on_result=on_result,
            )
            live.clear()
            seconds = time.monotonic() - started
            _look_closer(parsed, totals, commit, live)
    except _Terminated:
        interrupted = TERMINATED
    except KeyboardInterrupt:
        interrupted = INTERRUPTED
    except WorkerDiedError as error:
        interrupted = WORKER_DIED
        live.clear()
        sys.stderr.write(f"kraftline sim: {error}\n")
    live.clear()
    _say_end(parsed, totals, seconds or time.monotonic() - started, commit, len(parsed.seeds))
    return interrupted if interrupted and not totals.failed else _exit_code(parsed, totals)


def _look_closer(parsed: Parsed, totals: Totals, commit: str, live: LiveLine) -> None:
    """Shrink the first failure and draw its page; draw the first seed's where none failed."""
    failed = [result for result in totals.failed if result.invariant != NONDETERMINISTIC]
    if failed:
        _shrink_first(parsed, failed[0], commit, live)
    if parsed.html is not None:
        _draw(parsed, failed[0].seed if failed else parsed.seeds[0])


@contextmanager
def _stoppable() -> Iterator[None]:
    """Raise _Terminated at SIGTERM."""

    def stop(_number: int, _frame: object) -> None:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _say_failure(parsed: Parsed, result: Result, commit: str) -> None:
    is_twice = result.invariant == NONDETERMINISTIC
    command = command_of(result.seed, parsed.options, is_twice=is_twice)
    out = sys.stderr if parsed.is_json else sys.stdout
    out.write(f"{failure_line(result, commit, command)}\n  {result.text}\n")
    if result.invariant == "linearizability":
        _write_history(run_with(result.seed, parsed.options), out)
    out.flush()


def _write_history(outcome: Outcome, out: TextIO) -> None:
    """Write the history that is not linearizable to a file in the current folder."""
    if outcome.refuted is None:
        return
    path = _free(f"sim-{outcome.seed:#x}-history")
    path.write_bytes(outcome.refuted.lines)
    command = f"kraftline jepsen verify --model {outcome.refuted.model} --explain {path}"
    out.write(f"  the history of the clients: {command}\n")


def _say_end(parsed: Parsed, totals: Totals, seconds: float, commit: str, asked: int) -> None:
    """Print the summary or the object, of those of the asked seeds that ended."""
    lines = summary(totals, seconds, requires_marks=parsed.requires_marks)
    if parsed.is_json:
        lines = [json.dumps(as_json(totals, seconds, commit, asked=asked))]
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.flush()


def _exit_code(parsed: Parsed, totals: Totals) -> int:
    if totals.failed:
        invariant = totals.failed[0].invariant
        assert invariant is not None
        return exit_code_of(invariant)
    return MARK_MISSING if parsed.requires_marks and totals.missing_marks else 0


# ---- one run ------------------------------------------------------------------------------------


def _run_schedule(parsed: Parsed, schedule: Schedule) -> int:
    return _run_watched(parsed, schedule.seed, schedule.options, schedule.plan, commit_name())


def _run_watched(
    parsed: Parsed, seed: int, options: Options, plan: list[Decision] | None, commit: str
) -> int:
    """Run once, with a trace or a stop or from a schedule."""
    if parsed.is_traced:
        settings, _, _ = prepare(seed, options)
        _print_line(0, " ".join(f"{n}={getattr(settings, n)}" for n in settings.__struct_fields__))
    recording = None if parsed.html is None else Recording()
    started, cpu_started = time.monotonic(), time.process_time()
    outcome = run_with(
        seed,
        options,
        plan=plan,
        trace=_print_line if parsed.is_traced else None,
        recording=recording,
        until=parsed.until,
    )
    result = result_of(outcome, time.process_time() - cpu_started)
    totals = Totals(marks_of(options))
    totals.add(result)
    command = command_of(seed, options)
    if parsed.schedule is not None:
        command = f"kraftline sim --schedule {shlex.quote(str(parsed.schedule))}"
    if result.invariant is not None:
        out = sys.stderr if parsed.is_json else sys.stdout
        out.write(f"{failure_line(result, commit, command)}\n  {result.text}\n")
        _write_history(outcome, out)
    elif parsed.until is not None:
        _say_where(outcome, sys.stderr if parsed.is_json else sys.stdout)
    if recording is not None:
        again = command if outcome.is_complete else f"{command} --until {outcome.event_count}"
        _write_page(parsed, outcome, recording, again)
    _say_end(parsed, totals, time.monotonic() - started, commit, asked=1)
    return _exit_code(parsed, totals)


def _say_where(outcome: Outcome, out: TextIO) -> None:
    """Print where a run was stopped or ended, and its nodes with it."""
    stopped = "the run ended" if outcome.is_complete else "stopped"
    out.write(f"{stopped} at event {outcome.event_count:,}, t={outcome.at_us / 1e6:.6f}s\n")
    out.writelines(f"  {state_text(state)}\n" for state in outcome.nodes)


def _print_line(now_us: int, text: str) -> None:
    sys.stdout.write(f"{now_us / 1e6:12.6f}  {text}\n")


def _draw(parsed: Parsed, seed: int) -> None:
    recording = Recording()
    outcome = run_with(seed, parsed.options, recording=recording)
    _write_page(parsed, outcome, recording, command_of(seed, parsed.options))


def _write_page(parsed: Parsed, outcome: Outcome, recording: Recording, command: str) -> None:
    """Write the page of a run; `command` repeats it."""
    assert parsed.html is not None
    page = page_of(outcome, recording, commit_name(), command)
    parsed.html.write_text(page, encoding="utf-8")


def _free(name: str) -> Path:
    """Name of a file that is not there yet: those of earlier failures are kept."""
    path, number = Path(f"{name}.jsonl"), 1
    while path.exists():
        number += 1
        path = Path(f"{name}-{number}.jsonl")
    return path


def _shrink_first(parsed: Parsed, result: Result, commit: str, live: LiveLine) -> None:
    """Shrink the first failure and write it as a schedule in the current folder."""
    if parsed.shrink_seconds == 0:
        return
    out = sys.stderr if parsed.is_json else sys.stdout
    if result.text.endswith(ENDLESS):
        out.write("  not made smaller: every run would take as long\n")
        return
    out.write(f"  making it smaller, up to {parsed.shrink_seconds:g} s, Ctrl-C keeps the best\n")
    out.flush()
    deadline = time.monotonic() + parsed.shrink_seconds
    seed = result.seed
    outcome = run_with(seed, parsed.options)
    if outcome.invariant != result.invariant:
        out.write(f"  seed {seed:#x} did not fail again: it depends on more than its seed\n")
        return

    def run_again(options: Options, plan: list[Decision]) -> Outcome:
        live.say(lambda: _search_text(shrinker, deadline - time.monotonic()))
        return run_with(seed, options, plan=plan)

    shrinker = Shrinker(outcome, parsed.options, run_again, lambda: time.monotonic() >= deadline)
    try:
        shrinker.shrink()
    finally:  # after Ctrl-C too
        live.clear()
        _write_shrunk(seed, shrinker.best, len(outcome.plan), commit, out)


def _search_text(shrinker: Shrinker, seconds: float) -> str:
    return (
        f"making it smaller: run {shrinker.run_count}, {counted(len(shrinker.plan), 'fault')} and "
        f"{counted(shrinker.options.write_count, 'write')} left, {seconds:.0f} s to go"
    )


def _write_shrunk(seed: int, shrunk: Shrunk, fault_count: int, commit: str, out: TextIO) -> None:
    """Write what is left of a failure as a schedule; it had `fault_count` faults at first."""
    path = _free(f"sim-{seed:#x}")
    assert shrunk.outcome.invariant is not None
    write_schedule(
        path,
        Schedule(
            seed=seed,
            options=shrunk.options,
            plan=shrunk.plan,
            commit=commit,
            invariant=shrunk.outcome.invariant,
            text=shrunk.outcome.text,
        ),
    )
    out.write(
        f"  shrunk in {counted(shrunk.run_count, 'run')} from {fault_count:,} to "
        f"{counted(len(shrunk.plan), 'fault')}, {counted(shrunk.options.write_count, 'write')}, "
        f"{counted(shrunk.outcome.event_count, 'event')}: "
        f"kraftline sim --schedule {path}\n"
    )
