"""Both engines write the same files, byte for byte."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.pipeline.job_inputs import ENGINE_JOBS, many_tasks, run_job, write_input, written
from tests.pipeline.metadata_histories import RandomLog, write_metadata_log
from tests.pipeline.segments import batch, write_partition

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def described(out: Path) -> dict[str, Any]:
    run: dict[str, Any] = json.loads((out / "run.json").read_text())
    run["counters"].pop("task_peak_bytes", None)
    return {name: value for name, value in run.items() if name not in ("seconds", "engine")}


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("job", [name for name in ENGINE_JOBS if name != "linearize"])
def test_the_same_bytes(tmp_path: Path, job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    many_tasks(monkeypatch)
    flags = write_input(tmp_path / "in", job)
    local = run_job(job, tmp_path / "in", tmp_path / "local", flags, engine="local")
    spark = run_job(
        job, tmp_path / "in", tmp_path / "spark", flags, engine="spark", master="local[2]"
    )
    assert written(tmp_path / "spark") == written(tmp_path / "local")
    assert described(tmp_path / "spark") == described(tmp_path / "local")
    assert (local.engine.name, spark.engine.name) == ("local", "spark")
    assert len(written(tmp_path / "local")) >= 4


@pytest.mark.usefixtures("spark")
def test_an_archive_goes_on_with_the_other_engine(tmp_path: Path) -> None:
    content = RandomLog(21, 60).content
    outs = tmp_path / "both", tmp_path / "local"
    for number, end in enumerate((len(content) // 2, len(content))):
        for out in outs:
            write_metadata_log(tmp_path / "in", content[: batch_end(content, end)])
            engine = "spark" if out == outs[0] and number else "local"
            run_job("history", tmp_path / "in", out, ["--append"], engine=engine,
                    run_id=f"r{number}")  # fmt: skip
    assert written(outs[0]) == written(outs[1])


@pytest.mark.usefixtures("spark")
def test_export_and_audit_go_on_with_either_engine(tmp_path: Path) -> None:
    outs = tmp_path / "both", tmp_path / "local"
    flags = ["--append", "--target-file-size", "1m", "--sort", "key"]
    for number in range(2):
        for name in ("orders-0", "other-0"):
            write_partition(tmp_path / "in", [batch(at) for at in range(3 + 3 * number)], name=name)
        for out in outs:
            engine = "spark" if out == outs[0] and number else "local"
            run_job("export", tmp_path / "in", out, flags, engine=engine, run_id=f"r{number}")
            audited = tmp_path / f"audit-{out.name}"
            run_job(
                "audit", tmp_path / "in", audited, ["--append"], engine=engine, run_id=f"r{number}"
            )
    audits = [written(tmp_path / f"audit-{out.name}") for out in outs]
    assert audits[0] == audits[1]
    assert data_of(outs[0]) == data_of(outs[1])
    assert len(data_of(outs[0])) == 4
    assert pq.read_table(outs[0] / "manifest") == pq.read_table(outs[1] / "manifest")


def data_of(out: Path) -> dict[str, bytes]:
    """The data files: a manifest says how long its run took."""
    return {name: content for name, content in written(out).items() if name.startswith("data/")}


def batch_end(content: bytes, at_most: int) -> int:
    position = 0
    while position < len(content):
        following = position + 12 + int.from_bytes(content[position + 8 : position + 12], "big")
        if following > at_most:
            break
        position = following
    return position
