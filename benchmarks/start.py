"""Start of three nodes, formatting included, and what an idle node costs.

    python -m benchmarks.start [--json] [--kafka] [--rounds 5] [--idle-seconds 10]

`up` runs from the command to its end, when every broker is unfenced; memory is the resident set,
CPU the share of one core over the idle seconds, both per node.
"""

import os
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.kafka_peer import KafkaCluster
from benchmarks.our_quorum import OurCluster

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """Resident set of a process in MB (10^6 bytes)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise ProcessLookupError(pid)


def cpu_seconds(pid: int) -> float:
    """User and system time a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


def idle(pids: list[int], seconds: float) -> dict[str, float]:
    """Largest resident set and largest share of a core among idle processes."""
    time.sleep(2.0)  # start-up work ends
    before = [cpu_seconds(pid) for pid in pids]
    time.sleep(seconds)
    used = [cpu_seconds(pid) - b for pid, b in zip(pids, before, strict=True)]
    return {
        "rss_mb": round(max(map(resident_mb, pids)), 1),
        "idle_cpu_percent": round(100 * max(used) / seconds, 2),
    }


def measure_ours(folder: Path, rounds: int, seconds: float, base_port: int) -> dict[str, Any]:
    """Each round in a fresh folder, so that formatting counts."""
    took: list[float] = []
    figures: dict[str, float] = {}
    for number in range(rounds):
        cluster = OurCluster(folder / f"q{number}", base_port)
        begin = time.perf_counter()
        cluster.up()
        took.append(time.perf_counter() - begin)
        try:
            if number == rounds - 1:
                pids = [node["pid"] for node in cluster.status()["nodes"]]
                figures = idle(pids, seconds)
        finally:
            cluster.down()
    summary = report.summary_ms(took)
    return {"up_p50_ms": summary["p50_ms"], "up_max_ms": summary["max_ms"], **figures}


def measure_kafka(folder: Path, seconds: float, base_port: int) -> dict[str, Any]:
    """One round: formatting three times and until there is a leader."""
    cluster = KafkaCluster(folder / "kafka", base_port)
    begin = time.perf_counter()
    try:
        cluster.up()
        took = time.perf_counter() - begin
        figures = idle([cluster.pid(node_id) for node_id in (1, 2, 3)], seconds)
    finally:
        cluster.down()
    return {"up_p50_ms": round(1000 * took), **figures}


def main() -> None:
    """Measure ours, and Kafka when asked."""
    flags = report.parser(__doc__)
    flags.add_argument("--kafka", action="store_true", help="measure Apache Kafka in the same run")
    flags.add_argument("--rounds", type=int, default=5)
    flags.add_argument("--idle-seconds", type=float, default=10.0)
    flags.add_argument("--base-port", type=int, default=25300)
    args = flags.parse_args()
    rows: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows["kraftline"] = measure_ours(folder, args.rounds, args.idle_seconds, args.base_port)
        if args.kafka:
            rows["kafka"] = measure_kafka(folder, args.idle_seconds, args.base_port + 10)
    report.show("start", rows, as_json=args.json)


if __name__ == "__main__":
    main()
