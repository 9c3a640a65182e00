"""The pipeline: records and bytes per CPU second, in this process and through Spark.

python -m benchmarks.pipeline [--megabytes N] [--spark] [--kafka] [--json]
python -m benchmarks.pipeline --start [--spark] [--json]
python -m benchmarks.pipeline --kafka-source [--connector DIR] [--megabytes N] [--json]

Core figures are the best of three runs of this process's CPU time, page cache warm. Spark figures
count driver, JVM and Python workers on local[2] after three warming runs, sink noop; per CPU second
over all measured runs together, since one run is short against the clock of the kernel. The peak
memory of the Python workers is what one task takes. --kafka also times Kafka's DumpLogSegments
over the same metadata log, its start and its warming up included. --start measures only whole
commands over a small log, each in a process of its own, from its start to its end, by the local
engine (best of three) and with --spark by Spark's (once). --kafka-source measures only
Spark's Kafka source against ours (`benchmarks.pipeline_kafka_source`).
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from benchmarks import pipeline_kafka_source, report
from benchmarks.clusters import kafka_peer
from benchmarks.cpu_meter import CpuMeter, process_ticks
from benchmarks.pipeline_data import write_log, write_metadata_log
from pipeline.cli import CLEAN, FINDINGS
from pipeline.core.audit.check_segment import check_file
from pipeline.core.reading.discovery import discover
from pipeline.core.reading.options import parse_options
from pipeline.core.reading.reader import plan_read, read_splits
from wire.batches.compression import Codec

RUNS: Final = 3
SMALL_RECORDS: Final = 2_000
# job -> flags beside input and output
STARTED: Final[dict[str, tuple[str, ...]]] = {
    "audit": (), "export": (), "compaction": ("--subscribe", "log"), "history": (),
}  # fmt: skip
SPARK_WARMING_RUNS: Final = 3
SPARK_LOGS: Final = ("100B_16K_none", "1KB_16K_none")
# name -> value bytes, batch bytes, codec
LOGS: Final = {
    "100B_16K_none": (100, 16 << 10, Codec.NONE),
    "100B_16K_zstd": (100, 16 << 10, Codec.ZSTD),
    "100B_16K_gzip": (100, 16 << 10, Codec.GZIP),
    "1KB_16K_none": (1000, 16 << 10, Codec.NONE),
    "100B_1rec_none": (100, 1, Codec.NONE),
}
READS: Final = {
    "all columns": {},
    "kafka": {"columns": "kafka"},
    "offset,timestamp": {"columns": "offset,timestamp"},
    "batch rows": {"decode": "metadata"},
}


def main() -> None:
    """Measure and print the figures."""
    parser = report.parser(__doc__)
    parser.add_argument("--megabytes", type=int, default=280, help="plain bytes of each log")
    parser.add_argument("--metadata-records", type=int, default=400_000)
    parser.add_argument("--spark", action="store_true", help="also through Spark, local[2]")
    parser.add_argument("--kafka", action="store_true", help="also Kafka's DumpLogSegments")
    parser.add_argument("--start", action="store_true", help="only commands over a small log")
    parser.add_argument("--kafka-source", action="store_true",
                        help="only beside Spark's own Kafka source, with a broker")  # fmt: skip
    parser.add_argument("--connector", type=Path, metavar="DIR",
                        help="jars of that source; fetched through Maven without it")  # fmt: skip
    arguments = parser.parse_args()
    pa.set_cpu_count(1)
    folder = Path(tempfile.mkdtemp(prefix="pipeline-"))
    try:
        if arguments.kafka_source:
            found = pipeline_kafka_source.measure(folder, arguments.megabytes, arguments.connector)
            report.show("pipeline_kafka_source", found, as_json=arguments.json)
            return
        if arguments.start:
            found = _starts(folder, ("local", "spark") if arguments.spark else ("local",))
            report.show("pipeline_start", found, as_json=arguments.json)
            return
        rows: dict[str, dict[str, Any]] = {}
        size = arguments.megabytes * 1_000_000
        for name, (value, batch, codec) in LOGS.items():
            share = size // 10 if batch == 1 else size
            records = write_log(folder / name / "log-0", share, value, batch, codec)
            rows[name] = _core(folder / name, records)
        metadata = folder / "metadata" / "__cluster_metadata-0"
        records = write_metadata_log(metadata, arguments.metadata_records, 10)
        rows["metadata log"] = _metadata(metadata, records, with_kafka=arguments.kafka)
        if arguments.spark:
            for name, figures in _spark(folder, SPARK_LOGS).items():
                rows[name] |= figures
        report.show("pipeline", rows, as_json=arguments.json)
    finally:
        shutil.rmtree(folder)


def _starts(folder: Path, engines: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Wall and CPU seconds of each job over a small log, children included, by engine."""
    write_metadata_log(folder / "in" / "__cluster_metadata-0", SMALL_RECORDS, 10)
    write_log(folder / "in" / "log-0", SMALL_RECORDS * 120, 100, 16 << 10, Codec.NONE)
    rows: dict[str, dict[str, Any]] = {}
    for job, flags in STARTED.items():
        rows[job] = {}
        for engine in engines:
            command = [sys.executable, "-m", "pipeline.cli", job, *flags, "--engine", engine,
                       "--input", str(folder / "in"), "--output"]  # fmt: skip
            runs = [_command_seconds([*command, str(folder / f"{job}-{engine}-{run}")])
                    for run in range(RUNS if engine == "local" else 1)]  # fmt: skip
            wall, cpu = min(runs)
            rows[job] |= {f"{engine} wall s": round(wall, 2), f"{engine} cpu s": round(cpu, 2)}
    return rows


def _command_seconds(command: Sequence[str]) -> tuple[float, float]:
    before = os.times()
    with CpuMeter() as meter:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (CLEAN, FINDINGS), done.stderr
    after = os.times()
    waited_for = (
        after.children_user + after.children_system - before.children_user - before.children_system
    )
    return meter.wall, max(waited_for, meter.cpu)  # nobody waits for the JVM; the meter saw it


def _core(folder: Path, records: int) -> dict[str, Any]:
    size = sum(path.stat().st_size for path in folder.rglob("*.log"))
    figures: dict[str, Any] = {"records": records, "MB": round(size / 1e6)}
    seconds = _cpu_seconds(lambda: _audit(folder))
    figures["core audit GB/s"] = round(size / seconds / 1e9, 2)
    for name, options in READS.items():
        seconds = _cpu_seconds(partial(_read, folder, options))
        figures[f"core {name} Mrec/s"] = round(records / seconds / 1e6, 2)
    return figures


def _metadata(folder: Path, records: int, *, with_kafka: bool) -> dict[str, Any]:
    size = sum(path.stat().st_size for path in folder.rglob("*.log"))
    read = {"decode": "json", "columns": "offset,json,apiKey"}
    seconds = _cpu_seconds(lambda: _read(folder, read))
    headers = _cpu_seconds(lambda: _read(folder, {"decode": "metadata"}))
    figures: dict[str, Any] = {
        "records": records,
        "MB": round(size / 1e6),
        "core json Mrec/s": round(records / seconds / 1e6, 3),
        "core batch rows Mrec/s": round(records / headers / 1e6, 2),
    }
    if with_kafka:
        figures["kafka dump Mrec/s"] = round(records / _kafka_dump(folder) / 1e6, 3)
    return figures


def _audit(folder: Path) -> int:
    """Check each segment by itself: checksums, headers, order, epochs, producers."""
    batches = 0
    for file in discover([str(folder)]).files:
        report = check_file(file)
        assert not report.findings
        batches += len(report.digest)
    return batches


def _read(folder: Path, options: dict[str, str]) -> int:
    chosen = parse_options({"path": str(folder)} | options)
    packs = plan_read(chosen).packs
    return sum(rows.num_rows for pack in packs for rows in read_splits(pack, chosen))


def _cpu_seconds(work: Callable[[], int]) -> float:
    best = float("inf")
    for _ in range(RUNS):
        started = time.process_time()
        assert work() > 0
        best = min(best, time.process_time() - started)
    return best


def _kafka_dump(folder: Path) -> float:
    """CPU seconds of Kafka's tool, its start and warming included."""
    command = kafka_peer.java(
        "org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder",
        "--skip-record-metadata", "--files", str(next(folder.glob("*.log"))), heap="512m",
    )  # fmt: skip
    before = os.times()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    after = os.times()
    return (
        after.children_user + after.children_system - before.children_user - before.children_system
    )


def _spark(folder: Path, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    import pipeline  # noqa: PLC0415  # needs the extra

    spark = pipeline.session("benchmark", "local[2]")
    rows: dict[str, dict[str, Any]] = {}
    try:
        for name in names:
            count = _records(folder / name)
            figures: dict[str, Any] = {}
            for read, options in READS.items():
                if read == "batch rows":
                    continue
                frame = spark.read.format("kraft-log").options(**options).load(str(folder / name))
                cpu, wall = _spark_seconds(frame)
                figures[f"spark {read} Mrec/s cpu"] = round(count / cpu / 1e6, 2)
                figures[f"spark {read} Mrec/s wall"] = round(count / wall / 1e6, 2)
            figures["spark task peak MB"] = _worker_peak_megabytes()
            rows[name] = figures
    finally:
        spark.stop()
    return rows


def _spark_seconds(frame: Any) -> tuple[float, float]:
    """CPU and wall seconds of one run, the mean of some after warming."""
    for _ in range(SPARK_WARMING_RUNS):
        frame.write.format("noop").mode("overwrite").save()
    with CpuMeter() as meter:
        for _ in range(RUNS):
            frame.write.format("noop").mode("overwrite").save()
    return meter.cpu / RUNS, meter.wall / RUNS


def _worker_peak_megabytes() -> int:
    """Largest resident size so far of a Python worker below this process."""
    peak = 0
    for process in process_ticks():
        try:
            is_python = "pyspark" in Path(f"/proc/{process}/cmdline").read_text()
            status = Path(f"/proc/{process}/status").read_text()
        except OSError:
            continue  # the process ended
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        if found and is_python and process != os.getpid() and "java" not in status[:40]:
            peak = max(peak, int(found[1]))
    return peak // 1000


def _records(folder: Path) -> int:
    return _read(folder, {"columns": "offset"})


if __name__ == "__main__":
    main()
