"""Tables of Markdown that are readable as text and in a browser."""

from collections.abc import Iterable, Sequence
from typing import Final

UNITS: Final = (
    (".ms", ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))),
    (".bytes", ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))),
    (".size", ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))),
)
"""Larger units by the end of a key."""
WRITTEN_BY: Final = (
    "<!-- Written by `python -m scripts.reference`; a test compares it with the code. -->"
)


def page(title: str, *parts: str) -> str:
    """A whole page: its parts are blocks, with an empty line between two."""
    return "\n\n".join([f"# {title}", WRITTEN_BY, *parts]) + "\n"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; a bar inside a cell would begin the next one, so it is escaped."""
    lines = [_row(columns), "|" + "---|" * len(columns)]
    for row in rows:
        assert len(row) == len(columns), f"{row=}"
        lines.append(_row([cell.replace("|", "\\|") for cell in row]))
    return "\n".join(lines)


def code(text: str) -> str:
    """A text in a code span; nothing for nothing."""
    return f"`{text}`" if text else ""


def with_unit(key: str, value: str) -> str:
    """A value of a config as it is written, and in the largest unit that divides it."""
    if not value.isascii() or not value.isdecimal() or int(value) == 0:
        return code(value)
    number = int(value)
    for end, units in UNITS:
        if key.endswith(end):
            for size, unit in units:
                if number % size == 0:
                    return f"{code(value)} ({number // size} {unit})"
    return code(value)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
