"""docs/compatibility.md: other software that tests show to work, with the tests' names."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.clusters.kafka_peer import KAFKA_VERSION
from scripts.reference.markdown import code, page, table

ROWS: Final = Path(__file__).with_name("compatibility.toml")
LOCK: Final = Path(__file__).resolve().parents[2] / "requirements-dev.lock"
COLUMNS: Final = ("software", "version", "what is shown", "by")
PINNED: Final = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)$", re.MULTILINE)


def groups() -> list[dict[str, Any]]:
    """Groups with their rows."""
    found: list[dict[str, Any]] = tomllib.loads(ROWS.read_text(encoding="utf-8"))["group"]
    return found


def text() -> str:
    """The page."""
    versions = dict(PINNED.findall(LOCK.read_text(encoding="utf-8")))
    return page(
        "Compatibility",
        "What tests of the repository show, with the versions that they ran with. What is not in "
        "these tables was not tried. Which versions of each API are served: "
        "[API versions](reference/api-versions.md). `scripts/test --all` runs these tests; "
        "one that is run by hand says so.",
        *(part for group in groups() for part in _group(group, versions)),
        "## Not there",
        "Listeners with TLS or SASL, share groups, streams groups, tiered storage, telemetry of "
        "clients, ZooKeeper. [Running](running.md#producing-and-consuming) says what a client sees "
        "of them.",
    )


def _group(group: Mapping[str, Any], versions: Mapping[str, str]) -> tuple[str, ...]:
    rows = (
        (row["who"], version(row, versions), row["what"], ", ".join(map(code, row["tests"])))
        for row in group["row"]
    )
    return (f"## {group['title']}", group["text"], table(COLUMNS, rows))


def version(row: Mapping[str, Any], versions: Mapping[str, str]) -> str:
    """Version of the software of a row."""
    if "package" in row:
        return versions[row["package"]]
    named = [row["version"]] if "version" in row else []
    return ", ".join([*named, KAFKA_VERSION] if row.get("kafka") else named)
