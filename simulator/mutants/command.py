"""`kraftline sim mutate`: seeds and seconds that each mutant needs to die.

Exit code: 0 every mutant died within its budget, at most two of them by I20 only (or the unmutated
tree held), 1 not, 2 bad input, 3 the seconds were spent before a mutant had died or survived, 255 a
mutant does not fit the code or a process of --jobs died. Of several, 1 comes before 255 before 3.
"""

import multiprocessing
import signal
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Final

import msgspec

from simulator.campaign.arguments import Parser
from simulator.campaign.campaign import Totals, WorkerDiedError, results
from simulator.campaign.draw import Options
from simulator.campaign.report import PLAIN_PERIOD_S, LiveLine
from simulator.mutants.arguments import Count
from simulator.mutants.catalogue import MUTANTS, NOT_APPLICABLE
from simulator.mutants.hunt import BASES, Hunt, State, Verdict, hunt, judge, option_sets
from simulator.mutants.registry import MutantError
from simulator.mutants.tally import HELD, SURVIVED, UNJUDGED, Tally

ROW: Final = "{:<4} {:<24} {:>6} {:>6} {:>8}  {}"


def perform(parser: Parser, given: Namespace) -> int:
    """Perform a parsed command line; return the exit code."""
    try:
        numbers = _numbers(parser, given.mutants)
    except SystemExit as stop:
        return int(stop.code or 0)
    if given.unmutated is not None:
        return _control(given.unmutated, numbers, given.jobs, is_json=given.json)
    return _hunt_all(given, numbers)


def _hunt_all(given: Namespace, numbers: list[int]) -> int:
    """Hunt every mutant; print each as soon as its attempts are over, judge all at the end."""
    if not given.json:
        _say(ROW.format("", "mutant", "seeds", "of", "seconds", "killed by"))
    tally = Tally()
    try:
        for found in _verdicts(numbers, BASES[: given.bases], given.budget, given.jobs):
            if isinstance(found, MutantError):
                tally.is_unjudged = True
                _complain(str(found))
                continue
            tally.add(found)
            _say(msgspec.json.encode(found).decode() if given.json else _row(found))
    except WorkerDiedError as error:
        tally.is_unjudged = True
        _complain(str(error))
    if not given.json:
        _say(tally.line)
    if tally.complaint is not None:
        _complain(tally.complaint)
    return tally.exit_code


def _say(text: str) -> None:
    """Print one line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _complain(text: str) -> None:
    """Print one line on standard error."""
    sys.stderr.write(f"kraftline sim mutate: {text}\n")


def _row(verdict: Verdict) -> str:
    """A verdict as a line of the table."""
    killers = ", ".join(dict.fromkeys(verdict.invariants))
    end = {
        State.KILLED: killers,
        State.OTHERWISE: f"{killers} (another invariant than {', '.join(verdict.expected)})",
        State.CRASHED: f"{killers} (I20 only)",
        State.SURVIVED: f"SURVIVED ({killers})",
        State.OVER: f"BUDGET OVER ({killers})",
    }[verdict.state]
    seconds = f"{verdict.seconds:.1f}"
    return ROW.format(verdict.mutant, verdict.name, verdict.seeds, verdict.seeds_max, seconds, end)


def _numbers(parser: Parser, text: str | None) -> list[int]:
    """Numbers of the mutants of `--mutants`; all if none are given."""
    known = {mutant.key: mutant.number for mutant in MUTANTS}
    not_applicable = {f"M{number}": reason for number, (_, reason) in NOT_APPLICABLE.items()}
    if text is None:
        return list(known.values())
    numbers = []
    for key in text.split(","):
        if key in known:
            numbers.append(known[key])
        elif key in not_applicable:
            parser.error(f"{key} does not apply: {not_applicable[key]}")
        else:
            parser.error(f"'{key[:80]}' is no mutant, only {', '.join(known)}")
    return numbers


def _verdicts(
    numbers: list[int], bases: tuple[int, ...], seconds_max: float, job_count: int
) -> Iterator[Verdict | MutantError]:
    """Judge in the order of the numbers, each as soon as its attempts are over.

    Raises:
        WorkerDiedError: one of several processes is gone.
    """
    if job_count == 1:
        for number in numbers:
            yield _verdict(number, (hunt(number, base, seconds_max) for base in bases))
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(job_count, mp_context=context, initializer=_begin_worker) as pool:
        waiting: dict[int, list[Future[Hunt]]] = {
            number: [pool.submit(hunt, number, base, seconds_max) for base in bases]
            for number in numbers
        }
        unjudged = [f"M{number}" for number in numbers]
        try:
            for number, futures in waiting.items():
                found = _verdict(number, (future.result() for future in futures))
                del unjudged[0]
                yield found
        except BrokenProcessPool as error:
            raise WorkerDiedError(
                f"a process of --jobs {job_count} died, killed or out of memory; mutants without"
                f" a verdict: {', '.join(unjudged)}"
            ) from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _begin_worker() -> None:
    """Let Ctrl-C end a process of the pool at once: an attempt may take minutes."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _verdict(number: int, hunts: Iterable[Hunt]) -> Verdict | MutantError:
    """Judge the attempts on a mutant; return the error of one that does not fit the code."""
    try:
        return judge(number, list(hunts))
    except MutantError as error:
        return error


def _control(count: Count, numbers: list[int], job_count: int, *, is_json: bool) -> int:
    """Run the tree as it is, under the options of these mutants."""
    failed = 0
    for options, budget in option_sets(numbers).items():
        seeds = range(BASES[0], BASES[0] + count.of(budget))
        label = f"{_kind(options)}: "
        live = LiveLine(sys.stderr, len(seeds), label=label, plain_period_s=PLAIN_PERIOD_S)
        totals, death = Totals(), None
        try:
            for result in results(seeds, options, is_twice=False, job_count=job_count):
                totals.add(result)
                live.show(totals)
        except WorkerDiedError as error:
            death = error
        live.clear()
        failed += len(totals.failed)
        line = {
            "options": msgspec.to_builtins(options),
            "seeds": totals.seeds,
            "failed": [f"{r.seed} {r.invariant}: {r.text}" for r in totals.failed],
            "seconds": round(totals.cpu_seconds, 1),
        }
        text = f"{label}{line['seeds']} seeds, failed {line['failed']}"
        _say(msgspec.json.encode(line).decode() if is_json else text)
        if death is not None:
            _complain(str(death))
            return SURVIVED if failed else UNJUDGED
    return SURVIVED if failed else HELD


def _kind(options: Options) -> str:
    """Options that seeds share, in a few words."""
    faults = "all" if options.faults is None else ",".join(options.faults) or "none"
    return f"faults {faults}, nodes {options.node_count or 'drawn'}"
