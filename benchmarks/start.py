"""From the command to a quorum that serves, formatting included.

    python -m benchmarks.start [--json] [--kafka] [--rounds 5]
    python -m benchmarks.start --command 'docker compose up -d' --controllers HOST:PORT,...

Ours: `scripts/quorum up` from the command to its end, when every broker is unfenced. Kafka: three
times `kafka-storage format`, then three processes until there is a leader. Any other cluster: from
the start of the command until it has a leader.
"""

import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.clusters import protocol
from benchmarks.clusters.kafka_peer import KafkaCluster
from benchmarks.clusters.our_quorum import OurCluster


def measure_ours(folder: Path, rounds: int, base_port: int) -> dict[str, Any]:
    """Measure rounds in fresh folders, so that formatting counts."""
    took: list[float] = []
    for number in range(rounds):
        cluster = OurCluster(folder / f"q{number}", base_port)
        begin = time.perf_counter()
        try:
            cluster.up()
            took.append(time.perf_counter() - begin)
        finally:
            cluster.down()
    summary = report.summary_ms(took)
    return {"up_p50_ms": summary["p50_ms"], "up_max_ms": summary["max_ms"]}


def measure_kafka(folder: Path, base_port: int) -> dict[str, Any]:
    """Measure one round: formatting three times, and the time until there is a leader."""
    cluster = KafkaCluster(folder / "kafka", base_port)
    begin = time.perf_counter()
    try:
        cluster.format()
        formatted = time.perf_counter()
        cluster.launch()
        ended = time.perf_counter()
    finally:
        cluster.down()
    return {
        "up_p50_ms": round(1000 * (ended - begin)),
        "of_which_format_ms": round(1000 * (formatted - begin)),
    }


def measure_command(command: str, controllers: list[str]) -> dict[str, Any]:
    """Run a shell command that starts some cluster, and wait for its leader."""
    begin = time.perf_counter()
    with subprocess.Popen(command, shell=True):
        protocol.wait_for_leader(controllers, 120)
        return {"up_p50_ms": round(1000 * (time.perf_counter() - begin))}


def main() -> None:
    """Measure the systems that the flags name."""
    flags = report.parser(__doc__)
    flags.add_argument("--kafka", action="store_true", help="measure Apache Kafka in the same run")
    flags.add_argument("--command", help="a shell command that starts another cluster")
    flags.add_argument("--controllers", help="where that cluster's leader is: host:port,...")
    flags.add_argument("--rounds", type=int, default=5)
    flags.add_argument("--base-port", type=int, default=25300)
    args = flags.parse_args()
    if (args.command is None) != (args.controllers is None):
        flags.error("--command and --controllers belong together")
    rows: dict[str, dict[str, Any]] = {}
    if args.command:
        rows["given"] = measure_command(args.command, args.controllers.split(","))
        report.show("start", rows, as_json=args.json)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows["kraftline"] = measure_ours(folder, args.rounds, args.base_port)
        if args.kafka:
            rows["kafka"] = measure_kafka(folder, args.base_port + 10)
    report.show("start", rows, as_json=args.json)


if __name__ == "__main__":
    main()
