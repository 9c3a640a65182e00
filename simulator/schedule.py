"""A run as a file: one JSON object a line, first what it ran with, then its faults in order.

    {"schedule":1,"seed":23,"commit":"4380c4f","invariant":"I4","text":"...","options":{...}}
    {"at_us":1523400,"kind":"kill","targets":[2],"length_us":4000,"amount":7}

Seeds die when the simulator draws differently; a schedule keeps the faults as they were.
"""

from pathlib import Path
from typing import Any, Final

import msgspec

from simulator.draw import FAULT_NAMES, Options
from simulator.lost_messages import MESSAGES
from simulator.plan import Decision
from simulator.run import settings_of
from simulator.world import machine_ids

FORM = 1


class ScheduleError(Exception):
    """A file is no schedule; the text names the line."""


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """Faults of a run, and what else is needed to run it again."""

    seed: int
    options: Options
    plan: list[Decision]
    commit: str = "unknown"
    """Where it failed."""
    invariant: str | None = None
    """What it broke there."""
    text: str = ""


class _Header(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
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
}
"""Of options in a file: what is outside runs for ever or not at all."""


def read_schedule(path: Path) -> Schedule:
    """Read a file.

    Raises:
        ScheduleError: it is no schedule; OSError: it cannot be read.
    """
    lines = path.read_bytes().splitlines()
    header = _decoded(path, 1, lines[0] if lines else b"", _Header)
    if header.schedule != FORM:
        raise ScheduleError(f"{path}:1: schedule {header.schedule}, only {FORM} is known")
    for name, (least, most) in _LIMITS.items():
        value = getattr(header.options, name)
        if value is not None and not least <= value <= most:
            raise ScheduleError(f"{path}:1: {name} is {value}, allowed: {least} to {most}")
    settings, _ = settings_of(header.seed, header.options)
    known = set(machine_ids(settings))
    plan = []
    for number, line in enumerate(lines[1:], 2):
        decision = _decoded(path, number, line, Decision)
        if decision.kind not in FAULT_NAMES:
            allowed = ", ".join(FAULT_NAMES)
            raise ScheduleError(f"{path}:{number}: unknown fault '{decision.kind}': {allowed}")
        strangers = [target for target in decision.targets if target not in known]
        if strangers:
            raise ScheduleError(f"{path}:{number}: no nodes {strangers}, only {sorted(known)}")
        if decision.kind == "lost_messages" and decision.messages not in MESSAGES:
            allowed = ", ".join(MESSAGES)
            raise ScheduleError(f"{path}:{number}: no messages '{decision.messages}': {allowed}")
        if decision.at_us < 0 or decision.length_us < 0:
            raise ScheduleError(f"{path}:{number}: times are not negative")
        plan.append(decision)
    return Schedule(
        seed=header.seed,
        options=header.options,
        plan=plan,
        commit=header.commit,
        invariant=header.invariant,
        text=header.text,
    )


def _decoded(path: Path, number: int, line: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(line, type=kind)
    except (ValueError, RecursionError) as error:
        raise ScheduleError(f"{path}:{number}: {error}") from error
