"""The jobs through Spark give what they give in this process."""

import json
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pipeline.cli import main
from pipeline.jobs.job import Progress
from tests.pipeline.segments import batch, write_partition
from tests.pipeline.test_audit import flip_a_bit, sound_log
from tests.pipeline.test_linearize import write_corpus

pytestmark = [
    pytest.mark.spark,
    pytest.mark.usefixtures("spark"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def both(command: list[str], tmp_path: Path, table: str) -> list[list[dict[str, object]]]:
    """The rows of a table, and the exit code, by the process and by Spark's tasks."""
    found = []
    for flags in ([], ["--spark"]):
        out = tmp_path / f"out{len(flags)}"
        code = main([*command, *flags, "--output", str(out)])
        rows = pq.read_table(out / f"{table}.parquet").to_pylist()
        for row in rows:
            for name in ("run_id", "seconds", "max_rss"):
                row.pop(name, None)
        found.append([{"code": code}, *sorted(rows, key=lambda row: json.dumps(row, default=str))])
    return found


def test_audit(tmp_path: Path) -> None:
    roots = []
    for seed in range(6):
        rng, written = sound_log(tmp_path / str(seed), seed)
        roots.append(str(tmp_path / str(seed)))
        if seed % 2:
            flip_a_bit(rng, rng.choice(written))
    command = ["audit", "--validate", "full", "--input", *roots]
    one, two = both(command, tmp_path, "findings")
    assert one == two
    assert one[0] == {"code": 1}
    assert {"bad_crc"} < {row["check"] for row in one[1:]}
    for table in ("segments", "replica_diff"):
        one, two = (pq.read_table(tmp_path / f"out{n}" / f"{table}.parquet") for n in (0, 1))
        assert one.num_rows == two.num_rows > 0
        key = "segment" if table == "segments" else "base_offset"
        assert sorted(one[key].to_pylist()) == sorted(two[key].to_pylist())


def test_progress_never_falls_from_stage_to_stage(spark: Any) -> None:
    context = spark.sparkContext
    context.parallelize(range(5), 5).count()  # not of this run
    told = Progress(1000, tasks=8, spark=spark)
    assert told.figures() == (0, 8, 0)
    context.parallelize(range(4), 4).count()
    assert until(told, 4) == (4, 8, 500)
    context.parallelize(range(6), 3).groupBy(lambda n: n % 2, 3).count()
    assert until(told, 10) == (10, 10, 1000)
    context.parallelize(range(2), 2).count()
    assert until(told, 12) == (12, 12, 1000)


def until(told: Progress, done: int) -> tuple[int, int, int]:
    """The figures when so many tasks are known as done: Spark's listeners lag behind."""
    end = time.monotonic() + 20
    while told.figures()[0] < done and time.monotonic() < end:
        pass
    return told.figures()


def test_linearize(tmp_path: Path) -> None:
    write_corpus(tmp_path / "in", "cas-register", 200)
    command = ["linearize", "--model", "cas-register", "--input", str(tmp_path / "in")]
    one, two = both(command, tmp_path, "verdicts")
    assert one == two
    assert sum(row.get("key") == "*" for row in one) == 200


def test_export_by_date(tmp_path: Path) -> None:
    times = [19_000 * 86_400_000 + hour * 3_600_000 for hour in range(60)]
    batches = [batch(n, [b"v"], time_ms=time) for n, time in enumerate(times)]
    source = write_partition(tmp_path / "in", batches).parent
    command = ["export", "--by", "date", "--input", str(source)]
    one, two = both(command, tmp_path, "manifest")
    assert one == two
    assert len(one) == 1 + 3
