"""Transactions: how long one takes, how many a second of many producers.

    python -m benchmarks.coordinators.transactions [--json] [--kafka] [--only tv2,tv1] [--nodes 1]
    python -m benchmarks.coordinators.transactions --bootstrap HOST:PORT,... [--replicas 3]

A transaction is one record of 100 B in one partition, and its commit. tv2 is transaction.version 2
as Java's clients speak it since Kafka 4.0 (Produce 12 adds the partition, EndTxn 5 gives the next
epoch), tv1 what librdkafka and older clients do (AddPartitionsToTxn 3, Produce 11, EndTxn 4).
First one producer alone, then 16 at once, each with a partition of its own. Who begins while the
markers of his last transaction are not written (CONCURRENT_TRANSACTIONS) asks again after 2 ms;
the time of a transaction has that in it. `x` is ours in Kafka's.
"""

import asyncio
import os
import time
from typing import Any, Final, NamedTuple

from confluent_kafka.admin import AdminClient

from benchmarks import records_load as load
from benchmarks import report
from benchmarks.clusters.protocol import wait_until_writable
from benchmarks.clusters.systems import started_systems
from benchmarks.coordinators.ratios import with_ratios
from benchmarks.coordinators.session import TRANSACTION_KEY, all_connected, close_all, coordinators
from benchmarks.coordinators.transactional_producer import PROTOCOLS, TransactionalProducer
from benchmarks.records import SETTLE_S, Servers, cpu_ms

PRODUCERS: Final = 16
VALUE: Final = os.urandom(100)


class Measured(NamedTuple):
    """Transactions that went through."""

    took_s: list[float]
    """Of each."""
    wall_s: float
    early_count: int
    """Requests that came before the transaction before was complete."""
    cpu_ms: float | None
    """Of the brokers, for each."""


async def run(
    addresses: list[str], leaders: list[str], topic: str, *, protocol: str, seconds: float
) -> dict[str, Any]:
    """Transactions of producers, a partition each: at first all, to warm up, then one, then all."""
    servers = Servers(addresses)
    ids = [f"txn-{time.time_ns()}-{number}" for number in range(len(leaders))]
    homes = await coordinators(addresses[0], ids, TRANSACTION_KEY)
    to_coordinators, to_leaders = await all_connected(homes), await all_connected(leaders)
    producers = [
        TransactionalProducer(sessions, ids[number], (topic, number), PROTOCOLS[protocol], VALUE)
        for number, sessions in enumerate(zip(to_coordinators, to_leaders, strict=True))
    ]
    await asyncio.gather(*(producer.init() for producer in producers))
    await _measured(servers, producers, 2 * seconds)
    alone = await _measured(servers, producers[:1], seconds)
    together = await _measured(servers, producers, seconds)
    close_all((*to_coordinators, *to_leaders))
    one, all_ = report.summary_ms(alone.took_s), report.summary_ms(together.took_s)
    figures = {
        "p50_ms": one["p50_ms"],
        "p99_ms": one["p99_ms"],
        "cpu_ms_each": alone.cpu_ms,
        "early_each": round(alone.early_count / len(alone.took_s), 2),
        "per_s_of_16": round(len(together.took_s) / together.wall_s),
        "p50_ms_of_16": all_["p50_ms"],
        "cpu_ms_each_of_16": together.cpu_ms,
        "early_each_of_16": round(together.early_count / len(together.took_s), 2),
    }
    return {f"{protocol}_{name}": figure for name, figure in figures.items()}


async def _measured(
    servers: Servers, producers: list[TransactionalProducer], seconds: float
) -> Measured:
    early = sum(producer.early_count for producer in producers)
    before, begin = servers.cpu_s, time.perf_counter()
    took = await asyncio.gather(*(producer.commit_until(begin + seconds) for producer in producers))
    wall, took_s = time.perf_counter() - begin, [each for some in took for each in some]
    early = sum(producer.early_count for producer in producers) - early
    return Measured(took_s, wall, early, cpu_ms(servers, before, len(took_s)))


def leaders_of(bootstrap: str, topic: str) -> list[str]:
    """Address of the leader of each partition."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": load.LOG_LEVEL})
    found = admin.list_topics(topic, timeout=load.TIMEOUT_S)
    partitions = found.topics[topic].partitions
    brokers = [found.brokers[partitions[number].leader] for number in sorted(partitions)]
    return [f"{broker.host}:{broker.port}" for broker in brokers]


def measure(addresses: list[str], replicas: int, protocols: list[str], seconds: float) -> Any:
    """The figures of a running cluster."""
    bootstrap, figures = ",".join(addresses), dict[str, Any]()
    with load.topic(bootstrap, PRODUCERS, replicas) as topic:
        leaders = leaders_of(bootstrap, topic)
        for protocol in protocols:
            figures |= asyncio.run(
                run(addresses, leaders, topic, protocol=protocol, seconds=seconds)
            )
    return figures


def main() -> None:
    """Measure the systems that the flags name."""
    flags = report.parser(__doc__)
    flags.add_argument("--kafka", action="store_true", help="measure Apache Kafka in the same run")
    flags.add_argument("--bootstrap", help="measure the cluster of these brokers: host:port,...")
    flags.add_argument("--replicas", type=int, default=1, help="of its topic")
    flags.add_argument("--only", default=",".join(PROTOCOLS), help="which protocols")
    flags.add_argument("--nodes", type=int, default=1, help="of each cluster that is started")
    flags.add_argument("--seconds", type=float, default=5.0, help="for each figure")
    flags.add_argument("--base-port", type=int, default=26300)
    args = flags.parse_args()
    protocols = args.only.split(",")
    if args.bootstrap:
        addresses = args.bootstrap.split(",")
        figures = measure(addresses, args.replicas, protocols, args.seconds)
        report.show("transactions", {"given": figures}, as_json=args.json)
        return
    rows: dict[str, dict[str, Any]] = {}
    settings = {
        "transaction.state.log.replication.factor": str(args.nodes),
        "transaction.state.log.min.isr": "1",
        "offsets.topic.replication.factor": str(args.nodes),
    }
    with started_systems(
        args.base_port, with_kafka=args.kafka, nodes=args.nodes, settings=settings
    ) as systems:
        for system, cluster in systems:
            wait_until_writable(cluster.controllers)
            time.sleep(SETTLE_S)
            rows[system] = measure(cluster.brokers, args.nodes, protocols, args.seconds)
        report.show("transactions", with_ratios(rows), as_json=args.json)


if __name__ == "__main__":
    main()
