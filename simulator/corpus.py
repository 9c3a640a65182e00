"""`simulator/seeds.txt`: seeds that once found something.

A line: seed, options, broken invariants, commit of the mend, what it was. Options are `standard` or
`short` for what a seed drew at first (`--draws 1`), `standard-2` or `short-2` for what it draws
since faults were added, `standard-3` or `short-3` since clients look up, `standard-4` or `short-4`
with the newest faults; `short-4:sync_error,kill` runs with these faults alone, `short-4:4` with
four voters. A seed finds its bug again only while the simulator draws as it did then; the mutants
(docs/simulator/mutants.md) show that the simulator still can.
"""

from importlib import resources
from typing import Final

import msgspec
from msgspec.structs import replace

from simulator.arguments import SHORT, VOTERS_MAX
from simulator.draw import FAULT_NAMES, Options

OPTIONS: Final = {
    "standard": Options(draws=1),
    "short": replace(SHORT, draws=1),
    "standard-2": Options(draws=2),
    "short-2": replace(SHORT, draws=2),
    "standard-3": Options(draws=3),
    "short-3": replace(SHORT, draws=3),
    "standard-4": Options(draws=4),
    "short-4": replace(SHORT, draws=4),
}
FIELDS: Final = 5
_VOTERS: Final = tuple(map(str, range(1, VOTERS_MAX + 1)))


class Entry(msgspec.Struct, frozen=True):
    """One line of the corpus."""

    seed: int
    options_name: str
    invariants: tuple[str, ...]
    commit: str
    """That mended it."""
    text: str

    @property
    def options(self) -> Options:
        """What it runs with."""
        name, fixed = _parts(self.options_name)
        faults = tuple(word for word in fixed if word not in _VOTERS)
        voters = next((int(word) for word in fixed if word in _VOTERS), None)
        return replace(OPTIONS[name], faults=faults or None, node_count=voters)


def corpus() -> list[Entry]:
    """All lines.

    Raises:
        ValueError: names the line that is none.
    """
    content = resources.files("simulator").joinpath("seeds.txt").read_text(encoding="utf-8")
    return [
        entry_of(number, line)
        for number, line in enumerate(content.splitlines(), 1)
        if line.strip() and not line.startswith("#")
    ]


def entry_of(number: int, line: str) -> Entry:
    """Read one line.

    Raises:
        ValueError: it is none.
    """
    words = line.split(maxsplit=FIELDS - 1)
    name, fixed = _parts(words[1]) if len(words) == FIELDS else ("", ())
    are_known = all(word in (*FAULT_NAMES, *_VOTERS) for word in fixed)
    are_known = are_known and len([word for word in fixed if word in _VOTERS]) <= 1
    if name not in OPTIONS or not are_known or not words[0].isdigit():
        allowed = f"{'|'.join(OPTIONS)}[:FAULTS|VOTERS]"
        raise ValueError(f"seeds.txt:{number}: seed, {allowed}, invariants, commit, text")
    return Entry(int(words[0]), words[1], tuple(words[2].split(",")), words[3], words[4])


def _parts(options_name: str) -> tuple[str, tuple[str, ...]]:
    name, _, fixed = options_name.partition(":")
    return name, tuple(fixed.split(",")) if ":" in options_name else ()
