"""Output of every benchmark: a table for people, one JSON object a run for machines."""

import argparse
import json
import os
import statistics
import sys
from typing import Any


def percentile(values: list[float], percent: int) -> float:
    """Smallest value that at least `percent` (1..100) of all values do not exceed: nearest rank."""
    rank = -(-percent * len(values) // 100)  # in whole numbers: 0.07 * 100 is above 7
    return sorted(values)[rank - 1]


def summary_ms(seconds: list[float]) -> dict[str, float]:
    """p50, p99 and maximum in milliseconds."""
    return {
        "p50_ms": round(1000 * statistics.median(seconds), 3),
        "p99_ms": round(1000 * percentile(seconds, 99), 3),
        "max_ms": round(1000 * max(seconds), 3),
    }


def environment() -> dict[str, Any]:
    """Context of the figures: cores and load."""
    return {"cores": os.cpu_count(), "load": [round(x, 2) for x in os.getloadavg()]}


def parser(description: str | None) -> argparse.ArgumentParser:
    """Parser with the common flags of all benchmarks."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--json", action="store_true", help="print one JSON object")
    return made


def measured(system: str, row: dict[str, Any]) -> None:
    """Say on stderr what one system showed: a failure of the next loses nothing."""
    print(f"{system}: {json.dumps(row)}", file=sys.stderr, flush=True)


def show(name: str, rows: dict[str, dict[str, Any]], *, as_json: bool) -> None:
    """Print figures: `rows` is system -> figure -> value."""
    if as_json:
        print(json.dumps({"benchmark": name, "env": environment(), "systems": rows}))
        return
    figures = list(dict.fromkeys(key for row in rows.values() for key in row))
    width = max(map(len, figures), default=0)
    print(f"{name}  ({environment()})")
    print(" " * width + "".join(f"{system:>18}" for system in rows))
    for figure in figures:
        print(
            f"{figure:<{width}}" + "".join(f"{row.get(figure, '')!s:>18}" for row in rows.values())
        )
