"""`simulator/seeds.txt`: seeds that once found something.

A line: seed, options (`standard` or `short`), broken invariants, commit of the mend, what it was.
A seed finds its bug again only while the simulator draws as it did then; the mutants
(docs/simulator/mutants.md) show that the simulator still can.
"""

from importlib import resources
from typing import Final

import msgspec

from simulator.arguments import SHORT
from simulator.draw import Options

OPTIONS: Final = {"standard": Options(), "short": SHORT}
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
        return OPTIONS[self.options_name]


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
    if len(words) != FIELDS or words[1] not in OPTIONS or not words[0].isdigit():
        raise ValueError(f"seeds.txt:{number}: seed, standard|short, invariants, commit, text")
    return Entry(int(words[0]), words[1], tuple(words[2].split(",")), words[3], words[4])
