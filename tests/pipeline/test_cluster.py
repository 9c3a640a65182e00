"""Jobs on a standalone cluster whose processes are killed: the result of the undisturbed."""

import json
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from benchmarks.pipeline_history import write_log
from pipeline.cli import main
from pipeline.jobs.publishing import current_version
from tests.pipeline.generated_logs import write_checkpoints
from tests.pipeline.segments import batch
from tests.pipeline.standalone import (
    Cluster,
    Job,
    Worker,
    command_line,
    running_cluster,
    submitted,
    wait_until,
)
from tests.pipeline.test_linearize import write_corpus

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
SMALL = {"spark.executor.memory": "500m", "spark.driver.memory": "500m"}
CONF = [part for key, value in SMALL.items() for part in ("--conf", f"{key}={value}")]
ON_BOTH = SMALL | {
    "spark.cores.max": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "600s",
}
"""No task before both workers, which have a core each, are there: else one may do them all. Two
tasks of a stage then begin on different workers: each core that is free is offered one."""
ON_BOTH_CONF = [part for key, value in ON_BOTH.items() for part in ("--conf", f"{key}={value}")]
SEGMENTS = 12
BATCHES = 60
RECORDS = 100
# Stages of a history job: 0 scan, 1 decode, 2 fold of the partitions, one task per 65,536 records.
DECODE, FOLD = 1, 2

VOLATILE = ("run_id", "seconds", "max_rss")


def write_nodes(folder: Path, *, damaged: bool = True) -> list[str]:
    """Three replicas of a partition of several MB; damaged here and there, if wanted."""
    rng = random.Random(1)
    source = [batch(0, [rng.randbytes(60) for _ in range(RECORDS)]) for _ in range(BATCHES)]
    roots = []
    for node in range(3):
        root = folder / f"n{node}"
        home = root / "orders-0"
        home.mkdir(parents=True)
        (root / "meta.properties").write_text(f"version=1\nnode.id={node}\ncluster.id=c\n")
        for segment in range(SEGMENTS):
            base = segment * BATCHES * RECORDS
            content = bytearray()
            for number, one in enumerate(source):
                content += (base + number * RECORDS).to_bytes(8, "big") + one[8:]
            if damaged and segment % 3 == node:
                content[rng.randrange(100, len(content))] ^= 1
            (home / f"{base:020d}.log").write_bytes(content)
        write_checkpoints(root, SEGMENTS * BATCHES * RECORDS)
        roots.append(str(root))
    return roots


def tables(out: Path) -> dict[str, list[str]]:
    """Every row of every table of a run, in an order that is always the same."""
    found: dict[str, list[str]] = {}
    root = current_version(out)
    for path in sorted(root.rglob("*.parquet")):
        table = pq.ParquetFile(path).read()
        name = path.relative_to(root).parts[0].removesuffix(".parquet")
        rows = found.setdefault(name, [])
        for row in table.to_pylist():
            for column in VOLATILE:
                row.pop(column, None)
            rows.append(json.dumps(row, sort_keys=True, default=str))
    assert found
    return {name: sorted(rows) for name, rows in found.items()}


def files(out: Path) -> list[str]:
    """The names of a run's files, which readers and the manifest know."""
    return sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())


def left_overs(out: Path) -> list[Path]:
    return [path for path in out.rglob("*") if path.name.endswith(".tmp") or "_tmp" in path.parts]


def dies_in(job: Job, worker: Worker, stage: int, ended: int = 0) -> bool:
    """Kill a worker while it runs a task of that stage, or a later one; False if the job ends."""

    def is_there() -> bool:
        found = worker.tasks()
        return found.in_stage(stage) and found.finished >= ended

    return wait_until(job.process, lambda: is_there() and worker.dies_while(is_there))


def test_an_audit_survives_the_loss_of_a_worker(tmp_path: Path) -> None:
    roots = write_nodes(tmp_path / "in")
    audit = ["audit", "--validate", "full", "--input", *roots]
    assert main([*audit, "--output", str(tmp_path / "alone")]) == 1
    expected = tables(tmp_path / "alone")
    assert len(expected["findings"]) > SEGMENTS
    out = tmp_path / "out"
    with running_cluster(tmp_path / "cluster") as cluster:
        command = submitted(
            cluster.url, ON_BOTH, *audit, "--spark", "--verbose", "--output", str(out)
        )
        job = Job(command, tmp_path / "job.log")
        victim, survivor = cluster.workers
        assert dies_in(job, victim, 0, ended=4), job.errors()
        assert job.end() == 1, job.errors()
        assert survivor.tasks().finished > 3 * SEGMENTS  # also what the victim had finished
    assert "Lost executor" in job.errors()
    assert tables(out) == expected
    assert left_overs(out) == []


def test_a_history_survives_the_loss_of_every_worker(tmp_path: Path, spark: object) -> None:
    """One while records are decoded, the other while they are folded; then another one joins."""
    source = str(tmp_path / "in")
    write_log(Path(source) / "__cluster_metadata-0", 150_000)
    history = ["history", "--input", source]
    assert main([*history, "--master", "local[2]", "--output", str(tmp_path / "alone")]) == 0
    expected = tables(tmp_path / "alone")
    out = tmp_path / "out"
    with running_cluster(tmp_path / "cluster") as cluster:
        master = ["--master", cluster.url, *ON_BOTH_CONF]
        job = Job(
            command_line(*history, *master, "--verbose", "--output", str(out)), tmp_path / "job.log"
        )
        for victim, stage in zip(cluster.workers, (DECODE, FOLD), strict=True):
            assert dies_in(job, victim, stage), job.errors()
        cluster.add_worker()
        assert job.end() == 0, job.errors()
        assert cluster.workers[2].tasks().finished
    assert job.errors().count("Lost executor") == 2
    assert tables(out) == expected
    assert left_overs(out) == []


@pytest.fixture(scope="module")
def idle_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two workers that stay alive, for one job after the other."""
    with running_cluster(tmp_path_factory.mktemp("spark") / "cluster") as cluster:
        yield cluster


def sources_of(job: str, folder: Path) -> list[str]:
    """Input and flags of a job, enough for tasks on both workers."""
    if job == "linearize":
        write_corpus(folder, "cas-register", 60)
        return ["--model", "cas-register", "--explain", "--input", str(folder)]
    roots = write_nodes(folder, damaged=False)
    if job == "export":
        return ["--by", "date", "--input", *roots]
    plan = ["--subscribe", "orders", "--now", "1800000000000", "--retention-ms", "1000"]
    return [*plan, "--input", *roots[:2]]


@pytest.mark.parametrize("job", ["export", "compaction", "linearize"])
def test_a_job_gives_on_a_cluster_what_it_gives_on_one_machine(
    tmp_path: Path, spark: object, idle_cluster: Cluster, job: str
) -> None:
    command = [job, *sources_of(job, tmp_path / "in"), "--spark"]
    alone, out = tmp_path / "alone", tmp_path / "out"
    code = main([*command, "--master", "local[*]", "--output", str(alone)])
    assert code == (1 if job == "linearize" else 0)  # half of the histories were changed
    before = [worker.tasks().finished for worker in idle_cluster.workers]
    master = ["--master", idle_cluster.url, *ON_BOTH_CONF]
    process = Job(command_line(*command, *master, "--output", str(out)), tmp_path / "job.log")
    assert process.end() == code, process.errors()
    assert tables(out) == tables(alone)
    assert files(out) == files(alone)
    after = [worker.tasks().finished for worker in idle_cluster.workers]
    assert all(now > was for now, was in zip(after, before, strict=True))


def writers_of(folder: Path) -> set[int]:
    """The Python workers that are writing below a folder: a file's name says the process."""
    return {int(path.name.split(".")[-2]) for path in folder.rglob(".*.tmp")}


def a_writer_dies(folder: Path) -> bool:
    """Kill a Python worker while it writes below a folder; False if there is none."""
    for pid in writers_of(folder):
        os.kill(pid, signal.SIGSTOP)
        is_writing = pid in writers_of(folder)
        os.kill(pid, signal.SIGKILL if is_writing else signal.SIGCONT)
        if is_writing:
            return True
    return False


@pytest.mark.parametrize("job", ["history", "export"])
def test_a_python_worker_that_is_killed_costs_an_attempt(
    tmp_path: Path, spark: object, job: str
) -> None:
    source = str(tmp_path / "in")
    write_log(Path(source) / "__cluster_metadata-0", 200_000)
    command = [job, "--input", source, "--spark", "--master", "local[2]"]
    assert main([*command, "--output", str(tmp_path / "alone")]) == 0
    expected = tables(tmp_path / "alone")
    out = tmp_path / "out"
    process = Job(
        command_line(*command, *CONF, "--verbose", "--output", str(out)), tmp_path / "job.log"
    )
    assert wait_until(process.process, lambda: a_writer_dies(out)), process.errors()
    assert process.end() == 0, process.errors()
    assert "Python worker exited unexpectedly" in process.errors()
    assert tables(out) == expected
    assert left_overs(out) == []
