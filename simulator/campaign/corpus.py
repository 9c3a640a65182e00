"""`simulator/campaign/seeds.txt`: seeds that once found a bug.

A line: seed, options, broken invariants, commit of the fix, description. Options are `standard` or
`short` for the first draws (`--draws 1`), `standard-2` or `short-2` for draws with more faults,
`-3` with lookups of clients, `-4` with lost messages, `-5` with broken connections of clients, `-6`
with bodies kept in memory, `-7` with disks that are quick also after something was sent;
`short-4:sync_error,kill` runs with these faults alone, `short-4:4` with four voters.
A seed finds its bug again only while the simulator draws as it did then; the mutants
(docs/simulator/mutants.md) show that the simulator still can.
"""

from importlib import resources
from typing import Final

import msgspec
from msgspec.structs import replace

from simulator.campaign.arguments import VOTERS_MAX
from simulator.campaign.draw import NAMES, SHORT, Options

OPTIONS: Final = {
    "standard": Options(draws=1),
    "short": replace(SHORT, draws=1),
    "standard-2": Options(draws=2),
    "short-2": replace(SHORT, draws=2),
    "standard-3": Options(draws=3),
    "short-3": replace(SHORT, draws=3),
    "standard-4": Options(draws=4),
    "short-4": replace(SHORT, draws=4),
    "standard-5": Options(draws=5),
    "short-5": replace(SHORT, draws=5),
    "standard-6": Options(draws=6),
    "short-6": replace(SHORT, draws=6),
    "standard-7": Options(draws=7),
    "short-7": replace(SHORT, draws=7),
    "standard-8": Options(draws=8),
    "short-8": replace(SHORT, draws=8),
    "standard-9": Options(draws=9),
    "short-9": replace(SHORT, draws=9),
    "standard-10": Options(draws=10),
    "short-10": replace(SHORT, draws=10),
}
FIELDS: Final = 5
_VOTERS: Final = tuple(map(str, range(1, VOTERS_MAX + 1)))


class Entry(msgspec.Struct, frozen=True):
    """One line of the corpus."""

    seed: int
    options_name: str
    invariants: tuple[str, ...]
    commit: str
    """Commit that fixed it."""
    text: str

    @property
    def options(self) -> Options:
        """Options that it runs with."""
        return options_of(self.options_name)


def corpus() -> list[Entry]:
    """Read all lines.

    Raises:
        ValueError: names a malformed line.
    """
    content = (
        resources.files("simulator.campaign").joinpath("seeds.txt").read_text(encoding="utf-8")
    )
    return [
        entry_of(number, line)
        for number, line in enumerate(content.splitlines(), 1)
        if line.strip() and not line.startswith("#")
    ]


def entry_of(number: int, line: str) -> Entry:
    """Read one line.

    Raises:
        ValueError: it is malformed.
    """
    words = line.split(maxsplit=FIELDS - 1)
    try:
        seed, options_name, invariants, commit, text = words
        options_of(options_name)
        if not seed.isdecimal():
            raise ValueError(seed)  # noqa: TRY301 - one text for all that is wrong with a line
        return Entry(int(seed), options_name, tuple(invariants.split(",")), commit, text)
    except ValueError as error:
        allowed = f"{'|'.join(OPTIONS)}[:FAULTS|VOTERS]"
        form = f"seeds.txt:{number}: seed, {allowed}, invariants, commit, text"
        raise ValueError(form) from error


def options_of(name: str) -> Options:
    """Options of a name such as `short-4:kill`.

    Raises:
        ValueError: no options have this name.
    """
    base, colon, fixed = name.partition(":")
    words = fixed.split(",") if colon else []
    faults = tuple(word for word in words if word in NAMES)
    voters = [int(word) for word in words if word in _VOTERS]
    if base not in OPTIONS or len(faults) + len(voters) < len(words) or len(voters) > 1:
        raise ValueError(name)
    return replace(OPTIONS[base], faults=faults or None, node_count=voters[0] if voters else None)
