"""The job `groups` by Spark's tasks: the same files, row for row, as in this process."""

import tarfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline.cli import main
from tests.archives import unpack
from tests.coordinator.golden import ARCHIVE
from tests.pipeline.test_groups_job import NOW, TABLES, damage, write_cluster

pytestmark = pytest.mark.spark


def tables(out: Path) -> dict[str, list]:
    return {
        str(path.relative_to(out)): pq.read_table(path).to_pylist()
        for path in sorted(out.rglob("*.parquet"))
    }


def both(tmp_path: Path, inputs: list[str], *more: str) -> tuple[int, dict[str, list]]:
    found = []
    for flags in ([], ["--spark"]):
        out = tmp_path / f"out{len(flags)}"
        command = ["groups", "--input", *inputs, "--output", str(out), "--now", NOW, *more]
        found.append((main([*command, *flags]), tables(out)))
    assert found[0] == found[1]
    assert {name.partition("/")[0] for name in found[0][1]} == set(TABLES)
    return found[0]


def test_kafkas_logs_and_a_cluster_with_damage(tmp_path: Path, spark: object) -> None:
    with tarfile.open(ARCHIVE) as archive:
        unpack(archive, tmp_path / "kafka")
    code, rows = both(tmp_path / "one", [str(tmp_path / "kafka")])
    members = [part for name, part in rows.items() if name.startswith("members/")]
    assert (code, sum(map(len, members))) == (0, 49)
    one, two = (write_cluster(tmp_path / name) for name in ("n1", "n2"))
    damage(one / "__consumer_offsets-0" / f"{0:020d}.log")
    code, rows = both(tmp_path / "two", [str(one), str(two)])
    assert (code, len(rows["lag/part-orders-0.parquet"])) == (0, 7)
    code, rows = both(tmp_path / "three", [str(one)], "--mode", "DROPMALFORMED")
    assert (code, len(rows["lag/part-orders-0.parquet"])) == (1, 7)


def test_damage_that_a_task_meets_is_one_line(
    tmp_path: Path, spark: object, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write_cluster(tmp_path / "n1")
    damage(root / "__consumer_offsets-0" / f"{0:020d}.log")
    command = ["groups", "--input", str(root), "--output", str(tmp_path / "out"), "--spark"]
    assert main(command) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"pipeline groups: {root}")
