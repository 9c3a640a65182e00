"""`simulator/seeds.txt`: seeds that once found something.

A line: seed, options, broken invariants, commit of the mend, what it was. Options are `standard` or
`short` for what a seed drew at first (`--draws 1`), `standard-2` or `short-2` for what it draws
since faults were added, `standard-3` or `short-3` since clients look up, `standard-4` or `short-4`
with the newest faults; `short-4:sync_error,kill` runs with these faults alone. A seed finds its bug
again only while the simulator draws as it did then; the mutants (docs/simulator/mutants.md) show
that the simulator still can.
"""

from importlib import resources
from typing import Final

import msgspec
from msgspec.structs import replace

from simulator.arguments import SHORT
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
        name, _, faults = self.options_name.partition(":")
        return replace(OPTIONS[name], faults=tuple(faults.split(",")) if faults else None)


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
    name, _, faults = words[1].partition(":") if len(words) == FIELDS else ("", "", "")
    are_known = all(fault in FAULT_NAMES for fault in faults.split(",") if faults)
    if name not in OPTIONS or not are_known or not words[0].isdigit():
        allowed = "|".join(OPTIONS)
        raise ValueError(f"seeds.txt:{number}: seed, {allowed}[:FAULTS], invariants, commit, text")
    return Entry(int(words[0]), words[1], tuple(words[2].split(",")), words[3], words[4])
