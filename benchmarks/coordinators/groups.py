"""Groups: first joins, rebalances of 100 members, commits, idle groups, a coordinator that moves.

    python -m benchmarks.coordinators.groups [--json] [--kafka] [--only rebalance,commits]
    python -m benchmarks.coordinators.groups --bootstrap HOST:PORT,... [--only rebalance,commits]

One node, and two for the coordinator that moves (`loaded`, which a cluster elsewhere is not asked
for: its one partition of offsets must be on two brokers). Groups of 100 members, 1,000 idle groups,
64 clients that commit, 100,000 offsets; `x` is ours in Kafka's, of times and CPU as of rates. The
delay of a group's first rebalance is 300 ms and KIP-848 assigns at once, both in either system.
"""

import asyncio
import time
from typing import Any, Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource

from benchmarks import records_load as load
from benchmarks import report
from benchmarks.clusters.protocol import wait_until_writable
from benchmarks.clusters.systems import started_systems
from benchmarks.coordinators import idle_groups, offset_commits, offsets_loaded, rebalances
from benchmarks.coordinators.ratios import with_ratios
from benchmarks.records import SETTLE_S, Servers

SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "300",
    "group.consumer.assignment.interval.ms": "0",
    "offsets.topic.replication.factor": "1",
}
MOVED: Final = {
    **SETTINGS,
    "offsets.topic.replication.factor": "2",
    "offsets.topic.num.partitions": "1",
}
ONE_NODE: Final = ("join", "rebalance", "commits", "idle")
LOADED: Final = "loaded"
INITIAL_DELAY: Final = "group.initial.rebalance.delay.ms"
OFFSETS_PER_GROUP: Final = 1_000


def initial_delay_ms(bootstrap: str) -> int:
    """The delay of a group's first rebalance, as a broker says."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": load.LOG_LEVEL})
    broker = min(admin.list_topics(timeout=load.TIMEOUT_S).brokers)
    resource = ConfigResource(ConfigResource.Type.BROKER, str(broker))
    configs = admin.describe_configs([resource])[resource].result(load.TIMEOUT_S)
    return int(configs[INITIAL_DELAY].value)


def measure(addresses: list[str], only: list[str], args: Any) -> dict[str, Any]:
    """The figures of a running cluster that are asked for."""
    bootstrap, servers, figures = ",".join(addresses), Servers(addresses), dict[str, Any]()
    address, members = addresses[0], args.members
    with (
        load.topic(bootstrap, members, 1) as topic,
        load.topic(bootstrap, offset_commits.PARTITIONS, 1) as committed,
    ):
        if "join" in only:
            delay_ms = initial_delay_ms(bootstrap)
            figures |= asyncio.run(rebalances.first_joins(address, topic, delay_ms))
        if "rebalance" in only:
            for each in (rebalances.classic, rebalances.consumer):
                figures |= asyncio.run(each(address, servers, topic, members, args.rounds))
        if "commits" in only:
            figures |= asyncio.run(
                offset_commits.commits(address, servers, committed, args.seconds)
            )
        if "idle" in only:
            figures |= asyncio.run(
                idle_groups.idle(address, servers, topic, args.groups, 3 * args.seconds)
            )
    return figures


def measure_moves(addresses: list[str], offsets: int, rounds: int) -> dict[str, Any]:
    """The figures of a coordinator that moves between two nodes."""
    groups, partitions = -(-offsets // OFFSETS_PER_GROUP), min(offsets, OFFSETS_PER_GROUP)
    with load.topic(",".join(addresses), partitions, 1) as topic:
        figures: dict[str, Any] = asyncio.run(
            offsets_loaded.loaded(addresses[0], topic, groups, partitions, rounds)
        )
    return figures


def main() -> None:
    """Measure the systems that the flags name."""
    flags = report.parser(__doc__)
    flags.add_argument("--kafka", action="store_true", help="measure Apache Kafka in the same run")
    flags.add_argument("--bootstrap", help="measure the cluster of these brokers: host:port,...")
    flags.add_argument("--only", default=",".join((*ONE_NODE, LOADED)), help="which figures")
    flags.add_argument("--seconds", type=float, default=5.0, help="of commits; three times idle")
    flags.add_argument("--members", type=int, default=100, help="of the group that rebalances")
    flags.add_argument("--rounds", type=int, default=10, help="of rebalances and of moves")
    flags.add_argument("--groups", type=int, default=1_000, help="that are idle")
    flags.add_argument("--offsets", type=int, default=100_000, help="of the coordinator that moves")
    flags.add_argument("--base-port", type=int, default=26100)
    args = flags.parse_args()
    only = args.only.split(",")
    if args.bootstrap:
        figures = measure(args.bootstrap.split(","), only, args)
        report.show("groups", {"given": figures}, as_json=args.json)
        return
    for nodes, settings in ((1, SETTINGS), (2, MOVED)):
        if not set(only) & set(ONE_NODE if nodes == 1 else (LOADED,)):
            continue
        rows: dict[str, dict[str, Any]] = {}
        with started_systems(
            args.base_port, with_kafka=args.kafka, nodes=nodes, settings=settings
        ) as systems:
            for system, cluster in systems:
                wait_until_writable(cluster.controllers)
                time.sleep(SETTLE_S)
                rows[system] = (
                    measure(cluster.brokers, only, args)
                    if nodes == 1
                    else measure_moves(cluster.brokers, args.offsets, args.rounds)
                )
            name = "groups" if nodes == 1 else "groups, a coordinator that moves"
            report.show(name, with_ratios(rows), as_json=args.json)


if __name__ == "__main__":
    main()
