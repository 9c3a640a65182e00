"""Every job with an input for it, and all that a run of it leaves."""

import importlib
import shutil
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pipeline.cli import JOBS
from pipeline.jobs.history import run as history
from pipeline.jobs.job import JobConfig, JobResult
from tests.pipeline.segments import batch, write_partition
from tests.pipeline.test_audit import flip_a_bit, sound_log
from tests.pipeline.test_linearize import write_corpus

KAFKAS_LOG = Path(__file__).parent.parent / "golden" / "metadata" / "static-4.3.1"
ENGINE_JOBS = ("audit", "export", "compaction", "history", "linearize")


def write_input(root: Path, job: str) -> list[str]:
    """Write what a job reads below a folder; the flags that it needs beside --input."""
    if job == "audit":  # two replicas that differ
        for node in range(2):
            rng, written = sound_log(root / str(node), 7)
        flip_a_bit(rng, written[0])
        return ["--validate", "full"]
    if job == "history":
        home = root / "__cluster_metadata-0"  # in segments, with snapshots to compare with
        home.mkdir(parents=True)
        for path in KAFKAS_LOG.glob("0*"):
            shutil.copy(path, home)
        return []
    if job == "linearize":
        root.mkdir()
        write_corpus(root, "cas-register", 5)
        return ["--model", "cas-register"]
    for number in range(3):
        keys = [b"a", b"b", None, b"%d" % number]
        batches = [batch(at, [b"v"] * 4, keys=keys) for at in (0, 4)]
        write_partition(root, batches, name=f"orders-{number}")
        write_partition(root, [batch(8)], name=f"orders-{number}", base_offset=8)
    limits = ["--subscribe", "orders", "--now", "1800000000000", "--retention-ms", "1,9"]
    return ["--by", "date"] if job == "export" else limits


def many_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a history of a small log work in several tasks."""
    monkeypatch.setattr(history, "_PACK_BYTES", 1)
    monkeypatch.setattr(history, "_BUCKET_RECORDS", 100)


def run_job(job: str, root: Path, out: Path, flags: Sequence[str], **more: Any) -> JobResult:
    """Run a job with a run id that is always the same."""
    module = importlib.import_module(JOBS[job][0])
    parser = ArgumentParser()
    module.add_arguments(parser)
    config = JobConfig(
        inputs=(str(root),), output=str(out), run_id="r", arguments=parser.parse_args(flags)
    )
    result = module.run(msgspec.structs.replace(config, **more))
    assert isinstance(result, JobResult)
    return result


def written(out: Path) -> dict[str, bytes]:
    """Every file of an output by its path, but the description of the run."""
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in sorted(out.rglob("*")) if path.is_file() and path.name != "run.json"
    }  # fmt: skip
