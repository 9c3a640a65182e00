"""Speed of the simulator on one core, in CPU time: events that step a node, and standard seeds.

python -m benchmarks.simulator [--seeds N] [--json]

A standard seed has 5 voters, 60 virtual seconds, 200 writes and faults. `events_per_s` counts only
events that step a kernel, with the crashing disk and all invariants on; the shares of the kinds of
events are printed beside it. Every seed runs three times, the quickest counts: CPU time too is
longer while other work shares the caches.
"""

import time
from typing import Any

from benchmarks import report
from simulator.campaign.campaign import collecting_as_a_node
from simulator.campaign.draw import Options
from simulator.campaign.run import Outcome, run_seed

STANDARD = Options(node_count=5)
REPEATS = 3
KINDS_SHOWN = 6


def timed(seed: int, options: Options) -> tuple[Outcome, float]:
    """One run and its CPU seconds."""
    started = time.process_time()
    outcome = run_seed(seed, options)
    return outcome, time.process_time() - started


def measured(options: Options, seeds: range) -> dict[str, Any]:
    """Figures of some seeds."""
    events, seconds, virtual_us = 0, 0.0, 0
    kinds: dict[str, int] = {}
    for seed in seeds:
        outcome, quickest = timed(seed, options)
        for _ in range(REPEATS - 1):
            quickest = min(quickest, timed(seed, options)[1])
        assert outcome.invariant is None, f"seed {seed}: {outcome.text}"
        events += outcome.event_count
        seconds += quickest
        virtual_us += outcome.virtual_us
        for kind, count in outcome.events_by_kind.items():
            kinds[kind] = kinds.get(kind, 0) + count
    row: dict[str, Any] = {
        "seeds": len(seeds),
        "events": events,
        "events_per_s": round(events / seconds),
        "us_per_event": round(1e6 * seconds / events, 1),
        "seeds_per_minute": round(60 * len(seeds) / seconds, 1),
        "virtual_s_per_s": round(virtual_us / 1e6 / seconds, 1),
    }
    ordered = sorted(kinds.items(), key=lambda item: -item[1])
    return row | {
        f"{kind} %": round(100 * count / events, 1) for kind, count in ordered[:KINDS_SHOWN]
    }


def main() -> None:
    """Run everything and print the figures."""
    parser = report.parser(__doc__)
    parser.add_argument("--seeds", type=int, default=8, help="standard seeds, from 1 on (8)")
    options = parser.parse_args()
    short = Options(duration_us=10_000_000, write_count=30)
    quiet = Options(node_count=5, observer_count=0, faults=())
    with collecting_as_a_node():  # as `kraftline sim` does
        rows = {
            "standard": measured(STANDARD, range(1, options.seeds + 1)),
            "short": measured(short, range(1, 2 * options.seeds + 1)),
            "no faults": measured(quiet, range(1, 1 + max(1, options.seeds // 4))),
        }
    report.show("simulator", rows, as_json=options.json)


if __name__ == "__main__":
    main()
