"""A run as a file: one JSON object a line, first its header, then its faults in order.

    {"schedule":1,"seed":23,"commit":"4380c4f","invariant":"I4","text":"...","options":{...}}
    {"at_us":1523400,"kind":"kill","targets":[2],"length_us":4000,"amount":7}

A seed is lost when the simulator draws differently; a schedule keeps the faults as they were.
"""

from pathlib import Path
from typing import Any, Final

import msgspec

from simulator.campaign.arguments import SEED_MAX
from simulator.campaign.draw import (
    FAULT_NAMES,
    GROUPS_FAULTS,
    NAMES,
    NEWEST_DRAWS,
    RECORDS_FAULTS,
    Options,
)
from simulator.campaign.run import settings_of
from simulator.cluster.members import machine_ids
from simulator.faults.decision import Decision
from simulator.faults.kinds import GROUPS_KINDS, RECORDS_KINDS
from simulator.faults.lost_messages import MESSAGES

FORM = 1


class ScheduleError(Exception):
    """A file is no schedule; the text names the line."""


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """Faults of a run, and whatever else is needed to run it again."""

    seed: int
    options: Options
    plan: list[Decision]
    commit: str = "unknown"
    """Commit at which it failed."""
    invariant: str | None = None
    """Invariant that it broke there."""
    text: str = ""


class _Header(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """First line of a schedule file."""

    schedule: int
    seed: int
    commit: str = "unknown"
    invariant: str | None = None
    text: str = ""
    options: Options = Options()


def write_schedule(path: Path, schedule: Schedule) -> None:
    """Write a file that `read_schedule` takes."""
    header = _Header(
        schedule=FORM,
        seed=schedule.seed,
        commit=schedule.commit,
        invariant=schedule.invariant,
        text=schedule.text,
        options=schedule.options,
    )
    lines = [msgspec.json.encode(item) for item in (header, *schedule.plan)]
    path.write_bytes(b"\n".join(lines) + b"\n")


_LIMITS: Final = {
    "node_count": (1, 1_000),
    "observer_count": (0, 1_000),
    "duration_us": (1, 10**12),
    "write_count": (0, 10**9),
    "think_us": (0, 10**12),
    "partition_count": (1, 10**6),
    "draws": (1, NEWEST_DRAWS),
}
"""Limits of options in a file: what is outside runs for ever or not at all."""
_LIMITS_OF_FAULTS: Final = {
    "at_us": (0, 10**12),
    "length_us": (0, 10**12),
    "amount": (0, 10**6),
}
WITHOUT_TARGETS: Final = ("depose_leader",)
"""Faults that choose their targets when they come."""


def read_schedule(path: Path) -> Schedule:
    """Read a schedule.

    Raises:
        ScheduleError: it is no schedule; OSError: it cannot be read.
    """
    lines = path.read_bytes().splitlines()
    header = _decoded(path, 1, lines[0] if lines else b"", _Header)
    _check_header(f"{path}:1", header)
    settings, _ = settings_of(header.seed, header.options)
    known = set(machine_ids(settings))
    names = (*FAULT_NAMES, *RECORDS_KINDS) if header.options.has_records else FAULT_NAMES
    names += tuple(GROUPS_KINDS) * header.options.has_groups
    plan = []
    for number, line in enumerate(lines[1:], 2):
        decision = _decoded(path, number, line, Decision)
        _check_fault(f"{path}:{number}", decision, known, names)
        plan.append(decision)
    return Schedule(
        seed=header.seed,
        options=header.options,
        plan=plan,
        commit=header.commit,
        invariant=header.invariant,
        text=header.text,
    )


def _check_header(where: str, header: _Header) -> None:
    if header.schedule != FORM:
        raise ScheduleError(f"{where}: schedule {header.schedule}, only {FORM} is known")
    if not 0 <= header.seed <= SEED_MAX:
        raise ScheduleError(f"{where}: seed is {header.seed}, allowed: 0 to {SEED_MAX}")
    _check_limits(where, header.options, _LIMITS)
    for kind in header.options.faults or ():
        _check_kind(where, kind, _faults_of(header.options))


def _faults_of(options: Options) -> tuple[str, ...]:
    if options.has_groups:
        return GROUPS_FAULTS
    return RECORDS_FAULTS if options.has_records else NAMES


def _check_fault(where: str, decision: Decision, known: set[int], names: tuple[str, ...]) -> None:
    _check_kind(where, decision.kind, names)
    unknown = [target for target in decision.targets if target not in known]
    if unknown:
        raise ScheduleError(f"{where}: no nodes {unknown}, only {sorted(known)}")
    if len(set(decision.targets)) < len(decision.targets):
        raise ScheduleError(f"{where}: targets {list(decision.targets)} name a node twice")
    if not decision.targets and decision.kind not in WITHOUT_TARGETS:
        raise ScheduleError(f"{where}: '{decision.kind}' without targets, of {sorted(known)}")
    if decision.kind == "lost_messages" and decision.messages not in MESSAGES:
        allowed = ", ".join(MESSAGES)
        raise ScheduleError(f"{where}: no messages '{decision.messages}': {allowed}")
    _check_limits(where, decision, _LIMITS_OF_FAULTS)


def _check_kind(where: str, kind: str, known: tuple[str, ...]) -> None:
    if kind not in known:
        raise ScheduleError(f"{where}: unknown fault '{kind}': {', '.join(known)}")


def _check_limits(where: str, given: object, limits: dict[str, tuple[int, int]]) -> None:
    for name, (least, most) in limits.items():
        value = getattr(given, name)
        if value is not None and not least <= value <= most:
            raise ScheduleError(f"{where}: {name} is {value}, allowed: {least} to {most}")


def _decoded(path: Path, number: int, line: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(line, type=kind)
    except (ValueError, RecursionError) as error:
        raise ScheduleError(f"{path}:{number}: {error}") from error
