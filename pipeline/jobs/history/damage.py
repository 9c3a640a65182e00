"""Damage that nothing replaces, in a mode that goes on without it: named, counted, never silent.

PERMISSIVE writes a row per place into the table `damage`, DROPMALFORMED leaves it at the count.
Either way it is a finding, and all later appends and pages of the archive say how much there was.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.core.audit.findings import Finding

TABLE: Final = "damage"
FAILFAST: Final = "FAILFAST"
PERMISSIVE: Final = "PERMISSIVE"
SHOWN: Final = 20
SCHEMA: Final = pa.schema(
    [
        ("path", pa.string()), ("position", pa.int64()), ("length", pa.int64()),
        ("offset", pa.int64()), ("reason", pa.string()), ("detail", pa.string()),
    ]
)  # fmt: skip


def damage_lines(found: Sequence[Finding]) -> tuple[str, ...]:
    """The first places as lines, and how many more there are."""
    lines = tuple(f"{one.line()}: left out" for one in found[:SHOWN])
    left = len(found) - len(lines)
    return (*lines, f"and {left} more damaged places, left out") if left else lines


def show_damage(found: Sequence[Finding]) -> None:
    """Print the first places to stderr."""
    for line in damage_lines(found):
        sys.stderr.write(f"{line}\n")


def write_damage(folder: Path, label: str, found: Sequence[Finding]) -> None:
    """Write the rows of a run, in the order of the log; none without damage."""
    if not found:
        return
    rows = [
        {"path": one.path, "position": one.position, "length": one.length, "offset": one.offset,
         "reason": one.check, "detail": one.detail}
        for one in found
    ]  # fmt: skip
    (folder / TABLE).mkdir()
    path = folder / TABLE / f"{TABLE}-{label}.parquet"
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path, compression="zstd")
