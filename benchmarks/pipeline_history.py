"""The history job: metadata records per second, end to end, local or by Spark on local[2].

python -m benchmarks.pipeline_history [--records N] [--engine local|spark] [--json]

A log of N records in batches of 10: 100 topics with 50 partitions each, then changes of leader and
ISR. Wall and CPU seconds of driver, JVM and Python workers together, start of the session included;
the largest resident size of one Python worker (a task may take 512 MiB), or, by the local engine,
of one of its processes; and what 10 million
records would take at that rate, the start included, so run it with many.
"""

import os
import random
import shutil
import tempfile
import threading
from argparse import ArgumentParser
from pathlib import Path
from typing import Any, Final

from benchmarks import report
from benchmarks.cpu_meter import CpuMeter
from metadata import record_codec
from metadata.records import PartitionChangeRecord, PartitionRecord, TopicRecord
from metadata.schema import Record
from pipeline.core.stage import LOCAL, SPARK
from pipeline.jobs.history import run as history
from pipeline.jobs.job import JobConfig
from wire.batches.batch import encode_batch
from wire.types import LeaderEpoch, NodeId, PartitionEpoch, TopicId

TOPICS: Final = 100
PARTITIONS: Final = 50
PER_BATCH: Final = 10
SEGMENT_BYTES: Final = 64 << 20
_TIME_MS: Final = 1_700_000_000_000
TARGET: Final = 10_000_000
WORKERS: Final = (b"pyspark.daemon", b"multiprocessing.spawn")  # in their command lines


def main() -> None:
    """Measure and print the figures."""
    parser = report.parser(__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--engine", choices=(LOCAL, SPARK), default=SPARK)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="history-"))
    try:
        size = write_log(folder / "in" / "__cluster_metadata-0", arguments.records)
        row = measure(folder, arguments.records, size, arguments.engine)
        report.show("pipeline_history", {"history": row}, as_json=arguments.json)
    finally:
        shutil.rmtree(folder)


def write_log(folder: Path, count: int) -> int:
    """Write a legal metadata log of `count` records; returns its bytes."""
    folder.mkdir(parents=True)
    rng = random.Random(1)
    offset = size = start = 0
    parts: list[bytes] = []
    held = 0
    for values in _batches(rng, count):
        parts.append(encode_batch(values, offset, 5, _TIME_MS + offset))
        offset += len(values)
        held += len(parts[-1])
        if held >= SEGMENT_BYTES or offset >= count:
            (folder / f"{start:020d}.log").write_bytes(b"".join(parts))
            size, start, parts, held = size + held, offset, [], 0
    return size


def _batches(rng: random.Random, count: int) -> Any:
    values: list[bytes] = []
    for number, record in enumerate(_records(rng, count)):
        values.append(record_codec.encode(record, 0))
        if len(values) == PER_BATCH or number == count - 1:
            yield values
            values = []


def _records(rng: random.Random, count: int) -> Any:
    made = 0
    ids = [TopicId(rng.randbytes(16)) for _ in range(TOPICS)]
    first: list[Record] = [TopicRecord(name=f"topic-{i}", topic_id=t) for i, t in enumerate(ids)]
    replicas = (NodeId(1), NodeId(2), NodeId(3))
    first += [
        PartitionRecord(
            partition_id=number, topic_id=topic, replicas=replicas, isr=replicas, leader=NodeId(1),
            leader_epoch=LeaderEpoch(0), partition_epoch=PartitionEpoch(0),
        )
        for topic in ids for number in range(PARTITIONS)
    ]  # fmt: skip
    yield from first[:count]
    for made in range(len(first), count):
        isr = replicas if made % 2 else (NodeId(1), NodeId(2 + made % 2))
        yield PartitionChangeRecord(
            partition_id=rng.randrange(PARTITIONS), topic_id=rng.choice(ids), isr=isr,
            leader=NodeId(1 + rng.randrange(3)),
        )  # fmt: skip


def measure(folder: Path, count: int, size: int, engine: str) -> dict[str, Any]:
    """Measure one run in this process with its children."""
    parser = ArgumentParser()
    history.add_arguments(parser)
    config = JobConfig(
        inputs=(str(folder / "in"),), output=str(folder / "out"), run_id="r", engine=engine,
        master="local[2]" if engine == SPARK else None,
        arguments=parser.parse_args([]),
    )  # fmt: skip
    peak = _Peak()
    with CpuMeter() as meter:
        result = history.build(config)
    wall, cpu = meter.wall, meter.cpu
    assert result.tables["records"] == count, result
    return {
        "records": count,
        "MB": round(size / 1e6),
        "intervals": result.tables["partitions"],
        "wall s": round(wall, 1),
        "cpu s": round(cpu, 1),
        "records/s wall": round(count / wall),
        "records/s cpu": round(count / cpu),
        "largest worker MiB": peak.stop(),
        "10M on two idle cores s (cpu/2)": round(cpu / 2 * TARGET / count),
    }


class _Peak:
    """Largest resident size of any of Spark's Python workers, or local ones, on this machine."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._largest = 0
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> int:
        """Stop watching; returns MiB."""
        self._over.set()
        self._thread.join()
        return self._largest >> 20

    def _watch(self) -> None:
        page = os.sysconf("SC_PAGE_SIZE")
        while not self._over.wait(0.5):
            for entry in Path("/proc").iterdir():
                if not entry.name.isdigit() or int(entry.name) == os.getpid():
                    continue
                try:
                    command = (entry / "cmdline").read_bytes()
                    if any(name in command for name in WORKERS):
                        pages = int((entry / "statm").read_text().split()[1])
                        self._largest = max(self._largest, pages * page)
                except OSError:
                    continue  # the process ended


if __name__ == "__main__":
    main()
