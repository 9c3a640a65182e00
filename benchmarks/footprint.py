"""Cost of an idle node: resident memory and its share of a core.

    python -m benchmarks.footprint [--json] [--kafka] [--seconds 10] [--controllers HOST:PORT,...]

With `--controllers` it measures the local processes that listen there, whatever they are; without,
a quorum of three of ours, and with `--kafka` one of Apache Kafka after it. Both figures are those
of the most expensive node.
"""

import time

from benchmarks import report
from benchmarks.clusters import protocol
from benchmarks.clusters.processes import cpu_seconds, listener_pid, resident_mb
from benchmarks.clusters.systems import started_systems

SETTLE_S = 5.0
"""Pause after the start, until its one-time work is over."""


def measure(controllers: list[str], seconds: float) -> dict[str, float]:
    """Figures of the processes behind these addresses."""
    protocol.wait_for_leader(controllers)
    time.sleep(SETTLE_S)
    pids = [listener_pid(address) for address in controllers]
    before = [cpu_seconds(pid) for pid in pids]
    begin = time.monotonic()
    time.sleep(seconds)
    used = [cpu_seconds(pid) - at for pid, at in zip(pids, before, strict=True)]
    wall = time.monotonic() - begin
    return {
        "rss_mb": round(max(map(resident_mb, pids)), 1),
        "idle_cpu_percent": round(100 * max(used) / wall, 2),
    }


def main() -> None:
    """Measure the systems that the flags name."""
    flags = report.parser(__doc__)
    flags.add_argument("--controllers", help="measure these local nodes: host:port,...")
    flags.add_argument("--kafka", action="store_true", help="measure Apache Kafka in the same run")
    flags.add_argument("--seconds", type=float, default=10.0)
    flags.add_argument("--base-port", type=int, default=25400)
    args = flags.parse_args()
    rows: dict[str, dict[str, float]] = {}
    if args.controllers:
        rows["given"] = measure(args.controllers.split(","), args.seconds)
        report.show("footprint", rows, as_json=args.json)
        return
    with started_systems(args.base_port, with_kafka=args.kafka) as systems:
        for system, cluster in systems:
            rows[system] = measure(cluster.controllers, args.seconds)
        report.show("footprint", rows, as_json=args.json)


if __name__ == "__main__":
    main()
