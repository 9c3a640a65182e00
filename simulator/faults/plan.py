"""Plan of the faults, drawn before the run, so that a part of it can be run again.

A plan is a list of decisions with times and targets; there are no other faults. Shrinking a
failure means leaving out decisions (simulator/campaign/shrink.py).
"""

from collections.abc import Callable
from random import Random
from typing import Final

import msgspec

from simulator.campaign.draw import (
    APART,
    EARLIER_FAULTS,
    FSYNC_LIE,
    LATER_FAULTS,
    OWN_STREAM_FAULTS,
    Settings,
)
from simulator.faults.decision import OPERATIONS_AHEAD_MAX, Decision
from simulator.faults.kinds import GROUPS_KINDS, RECORDS_KINDS
from simulator.faults.lost_messages import MESSAGES

QUIET_START_US: Final = 1_000_000
CHORES_US: Final = (400_000, 1_500_000)
"""Half of the mean time between two pieces of work of a kind."""
LOST_US_MIN: Final = 500_000
FARTHEST: Final = 20
"""Largest factor of a link of `uneven_links`."""
LIE_ENDS_BEFORE_US: Final = 500_000
"""Time before the end of all faults at which the power of lying disks fails."""


def draw_plan(settings: Settings, rng: Random, machine_ids: tuple[int, ...]) -> list[Decision]:
    """Draw the decisions of a run, in time order; they end with the fault phase."""
    plan = []
    at_us = QUIET_START_US
    kinds = tuple(kind for kind in settings.faults if kind in EARLIER_FAULTS and kind not in APART)
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
    """Draw the faults of `APART`, half as often, from a stream of their own."""
    kinds = tuple(kind for kind in settings.faults if kind in APART)
    return _draw_seldom(settings, rng, kinds, machine_ids)


def draw_later(settings: Settings, rng: Random, machine_ids: tuple[int, ...]) -> list[Decision]:
    """Draw the faults of `LATER_FAULTS`, each with the machines that it may strike."""
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


def draw_by_kind(
    settings: Settings, stream: Callable[[str], Random], machine_ids: tuple[int, ...]
) -> list[Decision]:
    """Draw the faults of `OWN_STREAM_FAULTS`, each from the stream of its name; and lying disks."""
    plan = []
    for kind in OWN_STREAM_FAULTS:
        if kind in settings.faults:
            plan += _draw_kind(settings, kind, stream(kind), machine_ids)
    if FSYNC_LIE in settings.faults:
        plan.append(_draw_lie(settings, stream(FSYNC_LIE)))
    return plan


def draw_chores(
    settings: Settings, stream: Callable[[str], Random], machine_ids: tuple[int, ...]
) -> list[Decision]:
    """Draw what administrators do with records, each kind from a stream of its own."""
    brokers = machine_ids if settings.is_combined else machine_ids[settings.voter_count :]
    plan = []
    for kind in (*RECORDS_KINDS, *GROUPS_KINDS):
        if kind in settings.faults:
            rng = stream(f"chores/{kind}")
            often = msgspec.structs.replace(settings, fault_interval_us=rng.choice(CHORES_US))
            plan += _draw_seldom(often, rng, (kind,), brokers)
    return plan


def _draw_kind(
    settings: Settings, kind: str, rng: Random, machine_ids: tuple[int, ...]
) -> list[Decision]:
    if kind == "uneven_links":
        return [_draw_uneven_links(settings, rng, machine_ids)]
    if kind == "client_links" and not settings.is_combined:  # clients know brokers only
        machine_ids = machine_ids[settings.voter_count :]
    if kind == "wiped_voter":
        machine_ids = machine_ids[: settings.voter_count]
    drawn = _draw_seldom(settings, rng, (kind,), machine_ids)
    if kind == "lost_messages":
        drawn = [_with_messages(decision, rng, machine_ids) for decision in drawn]
    return drawn


def _draw_uneven_links(settings: Settings, rng: Random, machine_ids: tuple[int, ...]) -> Decision:
    """Draw a fault from the beginning to the end: one node is far away, or all links differ."""
    at_us = rng.randrange(min(QUIET_START_US, settings.duration_us))
    targets = (rng.choice(machine_ids),) if rng.random() < 0.7 else machine_ids
    return Decision(
        at_us=at_us,
        kind="uneven_links",
        targets=targets,
        length_us=settings.duration_us - at_us,
        amount=rng.choice((3, 8, FARTHEST)),
    )


def _with_messages(decision: Decision, rng: Random, machine_ids: tuple[int, ...]) -> Decision:
    """Choose messages on all links from one node, or between two; mostly Fetch, then those of raft.

    Longer than other faults: an idle cluster sends a message of a kind about twice a second.
    """
    count = min(len(machine_ids), rng.choice((1, 1, 2)))
    fetches, of_raft = MESSAGES[:2], MESSAGES[:8]
    return msgspec.structs.replace(
        decision,
        targets=tuple(rng.sample(machine_ids, count)),
        messages=rng.choice(rng.choice((fetches, of_raft, MESSAGES))),
        length_us=LOST_US_MIN + 2 * decision.length_us,
    )


def _draw_lie(settings: Settings, rng: Random) -> Decision:
    """Draw a lie of a majority of the voters, from early on until shortly before faults stop."""
    at_us = QUIET_START_US + rng.randrange(max(1, settings.duration_us // 4))
    majority = settings.voter_count // 2 + 1
    return Decision(
        at_us=at_us,
        kind=FSYNC_LIE,
        targets=tuple(rng.sample(range(1, settings.voter_count + 1), majority)),
        length_us=max(1, settings.duration_us - LIE_ENDS_BEFORE_US - at_us),
    )


def _with_more_targets(decision: Decision, rng: Random, machine_ids: tuple[int, ...]) -> Decision:
    """Choose two nodes or more, in the order in which they are struck."""
    targets = rng.sample(machine_ids, rng.randrange(min(2, len(machine_ids)), len(machine_ids) + 1))
    return msgspec.structs.replace(decision, targets=tuple(targets))


def _draw_seldom(
    settings: Settings, rng: Random, kinds: tuple[str, ...], machine_ids: tuple[int, ...]
) -> list[Decision]:
    """Draw faults of one machine each, half as often as the usual ones."""
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
