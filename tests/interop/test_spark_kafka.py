"""Spark's own Kafka source and sink at three nodes of ours, in batches and in streams."""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.interop.quorum import Quorum
from tests.interop.test_records import create
from tests.peers import is_missing

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[2]
COUNT = 90


def in_order(rows: list[list[Any]], first: int = 0) -> list[str]:
    """The values of rows, of which each partition has every offset from `first` on."""
    for partition in {row[0] for row in rows}:
        offsets = [row[1] for row in rows if row[0] == partition]
        assert offsets == list(range(first, first + len(offsets)))
    return sorted(row[4] for row in rows)


def test_source_and_sink_of_spark(quorum: Quorum, tmp_path: Path) -> None:
    for missing in ("java", "mvn"):
        if shutil.which(missing) is None:
            is_missing(missing)
    if importlib.util.find_spec("pyspark") is None:
        is_missing("the extra spark")
    source, target = (create(quorum, 3, 3, min_insync_replicas="2") for _ in range(2))
    words = quorum.bootstrap, str(tmp_path), source, target, str(COUNT)
    done = subprocess.run(
        [sys.executable, "-m", "tests.interop.spark_steps", *words],
        cwd=ROOT, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stderr[-5000:]}{quorum.logs()}"
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    found = json.loads(lines[-1])  # Spark may have the last word

    whole = found["whole"]
    written = sorted(f"v{i}" for i in range(COUNT))
    assert in_order(whole) == written
    for partition, _, _, key, value, headers in whole:
        number = int(value[1:])
        assert (partition, key, headers) == (number % 3, f"k{number}", [["h", str(number)]])
    without_headers = [[*row[:5], []] for row in whole]
    assert found["divided"] == found["by pattern"] == without_headers
    assert found["range"] == [row for row in without_headers if row[0] == 1 and 5 <= row[1] < 8]
    # from the first record of a partition at or after the time on, whatever follows it
    firsts = {p: min(r[1] for r in whole if r[0] == p and r[2] >= found["since"])
              for p in {row[0] for row in found["later"]}}  # fmt: skip
    assert found["later"] == [
        row for row in without_headers if row[0] in firsts and row[1] >= firsts[row[0]]
    ]
    assert found["later"]

    assert (found["copied"], found["continued"], found["nothing new"]) == (COUNT, 30, 0)
    assert in_order(found["target"]) == sorted(f"v{i}" for i in range(COUNT + 30))
