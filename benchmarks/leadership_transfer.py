"""Transfers of the leadership: the time without a leader, idle and under full create load.

    python -m benchmarks.leadership_transfer [--json] [--rounds 20] [--depth 64]

Three combined nodes. In each round the leader is asked to hand over to one of the others, by
AlterPartitionReassignments as `kraftline quorum transfer-leader` does.

- leaderless: from the resignation until the former leader knows the new one, as it says itself
- asked: from the request to its answer
- window: longest time without an answered create, of `--depth` connections with one request in
  flight each, sent to a broker that forwards them; requests wait there, none fails
"""

import argparse
import itertools
import selectors
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

import msgspec
from typing_extensions import override

from benchmarks import report
from benchmarks.clusters import protocol
from benchmarks.clusters.our_quorum import OurCluster
from benchmarks.clusters.systems import started_systems
from benchmarks.clusters.typed_client import TypedClient, request
from cli.admin.elections import Answer
from cli.offline.metadata_sources import fetched

ALTER_REASSIGNMENTS: Final = 45
PAUSE_S: Final = 0.5
"""Between two transfers: the new leader has activated, and creates go on."""
ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024


class Creators(threading.Thread):
    """Connections to one broker, each with one create in flight; keeps the times of answers."""

    def __init__(self, address: str, depth: int) -> None:
        super().__init__(daemon=True)
        self._address = address
        self._depth = depth
        self._numbers = itertools.count()
        self._is_over = threading.Event()
        self.answered: list[float] = []
        self.errors: list[str] = []

    @override
    def run(self) -> None:
        """Create until stopped."""
        with selectors.DefaultSelector() as selector:
            for _ in range(self._depth):
                connection = protocol.Connection(self._address)
                selector.register(connection.socket, selectors.EVENT_READ, connection)
                self._send(connection)
            while not self._is_over.is_set():
                for key, _ in selector.select(0.1):
                    try:
                        protocol.check_created(key.data.receive())
                    except protocol.ProtocolError as error:
                        self.errors.append(str(error))
                    self.answered.append(time.perf_counter())
                    self._send(key.data)
            for key in list(selector.get_map().values()):
                key.data.close()

    def _send(self, connection: protocol.Connection) -> None:
        body = protocol.create_topics_frame([f"t-{id(self)}-{next(self._numbers)}"])
        connection.socket.sendall(connection.frame(protocol.CREATE_TOPICS, 7, body))

    def stop(self) -> None:
        """Stop, and wait until that is done."""
        self._is_over.set()
        self.join()

    def longest_s(self, begin: float, end: float) -> float:
        """Longest time without an answer that overlaps an interval."""
        pairs = itertools.pairwise(list(self.answered))
        return max([b - a for a, b in pairs if b > begin and a < end], default=0.0)


def transfer(address: str, target: int, voters: list[int]) -> float:
    """Ask a controller to hand over; seconds until its answer, which must be a success."""
    new = request(ALTER_REASSIGNMENTS)
    replicas = (target, *[voter for voter in voters if voter != target])
    partition = new.ReassignablePartition(partition_index=0, replicas=replicas)
    body = new.AlterPartitionReassignmentsRequest(
        timeout=timedelta(seconds=30),
        allow_replication_factor_change=False,
        topics=(new.ReassignableTopic(name="__cluster_metadata", partitions=(partition,)),),
    )
    client = TypedClient(address)
    begin = time.perf_counter()
    answer = client.ask(ALTER_REASSIGNMENTS, body)
    took = time.perf_counter() - begin
    client.close()
    row = answer.responses[0].partitions[0]
    assert not row.error_code.value, f"{row}"
    return took


def leaderless_s(address: str) -> float:
    """Time without a leader in the newest election that a node saw, which it had asked for."""
    answer = msgspec.json.decode(fetched(f"{address}/v1/quorum", ANSWER_BYTES_MAX), type=Answer)
    seen = max(
        [each.seen for each in answer.elections if each.seen is not None],
        key=lambda each: (each.known_ms, each.lost_epoch),
    )
    assert seen.cause == "operator", f"{seen}"
    assert seen.leaderless_ms is not None, f"{seen}"
    return seen.leaderless_ms / 1_000


@contextmanager
def creating(address: str, depth: int) -> Iterator[Creators | None]:
    """Creators while the block runs; none of depth 0."""
    creators = Creators(address, depth) if depth else None
    if creators is not None:
        creators.start()
        time.sleep(2 * PAUSE_S)
    try:
        yield creators
    finally:
        if creators is not None:
            creators.stop()


def measure(cluster: OurCluster, rounds: int, depth: int, name: str) -> dict[str, Any]:
    """Figures of some transfers beside creates of a depth."""
    voters = list(range(1, len(cluster.controllers) + 1))
    protocol.wait_until_writable(cluster.controllers)
    asked, leaderless, windows = [], [], []
    with creating(cluster.brokers[0], depth) as creators:
        for number in range(rounds):
            leader = protocol.wait_for_leader(cluster.controllers)
            leader_id = cluster.controllers.index(leader) + 1
            target = [voter for voter in voters if voter != leader_id][number % 2]
            begin = time.perf_counter()
            asked.append(transfer(leader, target, voters))
            time.sleep(PAUSE_S)
            http = f"http://127.0.0.1:{cluster.base_port + 2_000 + leader_id - 1}"
            leaderless.append(leaderless_s(http))
            if creators is not None:
                windows.append(creators.longest_s(begin, time.perf_counter()))
    figures = {}
    for what, values in (("leaderless", leaderless), ("asked", asked), ("window", windows)):
        if values:
            summary = report.summary_ms(values)
            figures[f"{name}_{what}_p50_ms"] = summary["p50_ms"]
            figures[f"{name}_{what}_max_ms"] = summary["max_ms"]
    if creators is not None:
        figures[f"{name}_creates"] = len(creators.answered)
        figures[f"{name}_refused"] = len(creators.errors)
    return figures


def main() -> None:
    """Measure kraftline; Kafka has no such request."""
    flags: argparse.ArgumentParser = report.parser(__doc__)
    flags.add_argument("--rounds", type=int, default=20)
    flags.add_argument("--depth", type=int, default=64, help="creates in flight under load")
    flags.add_argument("--base-port", type=int, default=25300)
    args = flags.parse_args()
    with started_systems(args.base_port, with_kafka=False) as systems:
        rows = {}
        for system, cluster in systems:
            assert isinstance(cluster, OurCluster), f"{system} is ours"
            rows[system] = measure(cluster, args.rounds, 0, "idle")
            rows[system] |= measure(cluster, args.rounds, args.depth, "load")
        report.show("leadership_transfer", rows, as_json=args.json)


if __name__ == "__main__":
    main()
