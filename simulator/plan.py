"""Faults: a plan drawn before the run, so that a part of it can be run again.

A plan is a list of decisions with times and targets; nothing else brings faults in. Shrinking a
failure is leaving decisions out (simulator/shrink.py).
"""

from random import Random
from typing import Final

import msgspec

from simulator.draw import APART, LATER_FAULTS, Settings

QUIET_START_US: Final = 1_000_000
OPERATIONS_AHEAD_MAX: Final = 40


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One fault."""

    at_us: int
    kind: str
    targets: tuple[int, ...]
    length_us: int
    """Until it ends by itself: restart, resume, heal."""
    amount: int = 0
    """Of the kind: disk operations until the crash, milliseconds of a jump."""


def draw_plan(settings: Settings, rng: Random, machine_ids: tuple[int, ...]) -> list[Decision]:
    """The decisions of a run, in time order; they end with the fault phase."""
    plan = []
    at_us = QUIET_START_US
    kinds = tuple(kind for kind in settings.faults if kind not in (*APART, *LATER_FAULTS))
    while kinds:
        at_us += 1 + int(rng.expovariate(1.0) * settings.fault_interval_us)
        if at_us >= settings.duration_us:
            break
        kind = rng.choice(kinds)
        targets = list(machine_ids)
        rng.shuffle(targets)
        if kind in ("partition", "one_way"):
            count = rng.choice((1, 1, rng.randrange(1, len(targets) + 1)))
        elif kind == "all_down":
            count = len(targets)
        elif kind in ("clog", "reset"):
            count = min(2, len(targets))
        else:
            count = 1
        plan.append(
            Decision(
                at_us=at_us,
                kind=kind,
                targets=tuple(targets[:count]),
                length_us=1_000 + int(rng.expovariate(1.0) * settings.fault_length_us),
                amount=1 + rng.randrange(OPERATIONS_AHEAD_MAX),
            )
        )
    return plan


def draw_apart(settings: Settings, rng: Random, machine_ids: tuple[int, ...]) -> list[Decision]:
    """Those of `APART`, half as often, from a stream of their own."""
    kinds = tuple(kind for kind in settings.faults if kind in APART)
    return _draw_seldom(settings, rng, kinds, machine_ids)


def draw_later(settings: Settings, rng: Random, machine_ids: tuple[int, ...]) -> list[Decision]:
    """Those of `LATER_FAULTS`, each with the machines that it may strike."""
    plan = []
    for kind in LATER_FAULTS:
        if kind not in settings.faults:
            continue
        observers = tuple(n for n in machine_ids if n > settings.voter_count)
        targets = observers if kind == "empty_disk" else machine_ids
        drawn = _draw_seldom(settings, rng, (kind,), targets) if targets else []
        if kind == "swizzle":
            drawn = [_with_more_targets(decision, rng, machine_ids) for decision in drawn]
        plan += drawn
    return plan


def _with_more_targets(decision: Decision, rng: Random, machine_ids: tuple[int, ...]) -> Decision:
    """Two nodes or more, in the order in which they are struck."""
    targets = rng.sample(machine_ids, rng.randrange(min(2, len(machine_ids)), len(machine_ids) + 1))
    return msgspec.structs.replace(decision, targets=tuple(targets))


def _draw_seldom(
    settings: Settings, rng: Random, kinds: tuple[str, ...], machine_ids: tuple[int, ...]
) -> list[Decision]:
    """Faults of one machine each, half as often as the usual ones."""
    plan = []
    at_us = QUIET_START_US
    while kinds:
        at_us += 1 + int(rng.expovariate(0.5) * settings.fault_interval_us)
        if at_us >= settings.duration_us:
            break
        plan.append(
            Decision(
                at_us=at_us,
                kind=rng.choice(kinds),
                targets=(rng.choice(machine_ids),),
                length_us=1_000 + int(rng.expovariate(1.0) * settings.fault_length_us),
                amount=1 + rng.randrange(OPERATIONS_AHEAD_MAX),
            )
        )
    return plan
