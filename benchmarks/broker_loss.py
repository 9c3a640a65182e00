"""A broker with 10,000 of 50,000 replicas is lost: when its leaders have moved, and who sees it.

    python -m benchmarks.broker_loss [--json] [--kafka] [--topics 25000]
    python -m benchmarks.broker_loss --controllers HOST:PORT,... --broker HOST:PORT

Three real nodes and five brokers that only register and beat (`fake_brokers`); topics of one
partition with two replicas, evenly placed. One broker asks to stop, another one goes silent.

- moved: the last change of a leader is committed, as an observer of the log sees it
- visible: Metadata of a node that does not lead shows no partition led by the lost broker
- stop: the broker is told that it may stop
- other: the slowest of the DescribeQuorum requests sent to the active controller meanwhile

A shutdown counts from the wish, a death from the append time of the first change of a leader, which
is the decision: silence lasts as long as the session. CPU is that of the active controller.
"""

import threading
import time
from typing import Any, Final

from typing_extensions import override

from benchmarks import report
from benchmarks.clusters.fake_brokers import FakeBroker, Tail, start_brokers
from benchmarks.clusters.processes import cpu_seconds, listener_pid
from benchmarks.clusters.protocol import wait_until_writable
from benchmarks.clusters.systems import started_systems
from benchmarks.clusters.typed_client import (
    DESCRIBE_QUORUM,
    METADATA,
    TypedClient,
    create_assigned,
    delete_topics,
    describe_quorum_request,
    metadata_request,
    wait_until,
)
from metadata.loader import committed_batches
from metadata.records import (
    REGISTRATION_FENCE,
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
)

FIRST_ID: Final = 501
BROKERS: Final = 5
SAMPLE: Final = 100
PATIENCE_S: Final = 90
LULL_S: Final = 0.3


class Watch(threading.Thread):
    """Poller of Metadata for a sample of topics, until none is led by the lost broker."""

    def __init__(self, address: str, names: list[str], lost: int) -> None:
        super().__init__(daemon=True)
        self._client = TypedClient(address)
        self._names = names
        self._lost = lost
        self.seen_at: float | None = None

    @override
    def run(self) -> None:
        """Poll the sample; then all topics once, nearly always only as a confirmation."""
        left = self._names[:: max(1, len(self._names) // SAMPLE)]
        left = self._until_moved(left)
        self._until_moved(self._names)

    def _until_moved(self, names: list[str]) -> list[str]:
        is_first = True
        while names:
            rest: list[str] = []
            for start in range(0, len(names), 1000):
                answer = self._client.ask(METADATA, metadata_request(names[start : start + 1000]))
                rest += [
                    topic.name
                    for topic in answer.topics
                    if any(one.leader_id == self._lost for one in topic.partitions)
                ]
            if rest or not is_first or self.seen_at is None:
                self.seen_at = time.monotonic()
            names, is_first = rest, False
            time.sleep(0.005)
        return names


class Probe(threading.Thread):
    """Prober that sends the active controller another request every 10 ms."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self._client = TypedClient(address)
        self.took: list[float] = []
        self.is_over = False

    @override
    def run(self) -> None:
        """Send requests until `is_over` is set."""
        while not self.is_over:
            begin = time.monotonic()
            self._client.send(DESCRIBE_QUORUM, describe_quorum_request())
            self._client.receive_frame()
            self.took.append(time.monotonic() - begin)
            time.sleep(0.01)


class Moves:
    """Changes of leaders in the log: arrival of the last one, append time of the first."""

    def __init__(self, tail: Tail, count: int, lost: int) -> None:
        self._tail, self._count, self._lost = tail, count, lost
        self._next = len(tail.arrivals)
        self.last_at = 0.0
        self.decided_at: float | None = None  # wall clock, as the controller stamps it
        self.seen = 0
        self.is_fenced = False

    def is_complete(self) -> bool:
        """Return True if every leader moved; decodes only in a lull, to spare the measured node."""
        arrivals = self._tail.arrivals
        if not arrivals or time.monotonic() - arrivals[-1][0] < LULL_S:
            return False
        begin, self._next = self._next, len(arrivals)  # more arrive meanwhile
        for arrived, content in arrivals[begin : self._next]:
            for batch in committed_batches(content):
                for record in batch.records:
                    if isinstance(record, PartitionChangeRecord) and record.leader != -2:
                        self.seen += 1
                        self.last_at = arrived
                        self.decided_at = self.decided_at or batch.timestamp_ms / 1000
                    elif isinstance(record, BrokerRegistrationChangeRecord):
                        is_lost = record.broker_id == self._lost
                        self.is_fenced |= is_lost and record.fenced == REGISTRATION_FENCE
        return self.seen >= self._count


def placed(topics: int, partitions: int, nodes: list[int], tag: str) -> dict[str, Any]:
    """Replicas of topics, with even leaders and even pairs of replicas."""
    count = len(nodes)
    pairs = [
        (nodes[index % count], nodes[(index + 1 + index // count % (count - 1)) % count])
        for index in range(topics * partitions)
    ]
    return {
        f"{tag}{index}": pairs[index * partitions : (index + 1) * partitions]
        for index in range(topics)
    }


def lose(
    where: tuple[str, str], tail: Tail, broker: FakeBroker, led: list[str], *, is_death: bool
) -> dict[str, float]:
    """Measure one loss: `where` is the active controller and a node that answers Metadata."""
    active, other = where
    pid = listener_pid(active)
    watch, probe = Watch(other, led, broker.node_id), Probe(active)
    moves = Moves(tail, len(led), broker.node_id)
    wall, begin, used = time.time_ns() / 1e9, time.monotonic(), cpu_seconds(pid)
    if is_death:
        broker.vanish()
    else:
        broker.shut_down()
    watch.start()
    probe.start()
    wait_until(
        moves.is_complete,
        PATIENCE_S,
        lambda: (
            f"{len(led)} leaders of {broker.node_id} moved by {active}: {moves.seen} seen, "
            f"tail {tail.error}, broker {broker.error}"
        ),
    )
    watch.join(PATIENCE_S)
    probe.is_over = True
    probe.join()
    assert watch.seen_at is not None, "Metadata never showed it"
    assert moves.decided_at is not None, "no batch told its time"
    start = begin + (moves.decided_at - wall if is_death else 0)
    figures = {
        "moved_ms": 1000 * (moves.last_at - start),
        "visible_ms": 1000 * (watch.seen_at - start),
        "other_max_ms": 1000 * max(probe.took),
        "cpu_ms": 1000 * (cpu_seconds(pid) - used),
    }
    if is_death:
        wait_until(lambda: moves.is_complete() and moves.is_fenced, 30, "the broker is fenced")
        figures["detect_ms"] = 1000 * (start - broker.last_beat)
    else:
        wait_until(lambda: broker.may_stop_at is not None, 30, "the broker may stop")
        figures["stop_ms"] = 1000 * ((broker.may_stop_at or 0) - begin)
    return {name: round(value, 1) for name, value in figures.items()}


def measure(
    controllers: list[str], brokers: list[str], topics: int, partitions: int
) -> dict[str, Any]:
    """Measure both losses on a running cluster."""
    wait_until_writable(controllers)
    active, tail, fakes = start_brokers(controllers, BROKERS, FIRST_ID)
    names = placed(topics, partitions, [fake.node_id for fake in fakes], f"loss-{time.time_ns()}-")
    client = TypedClient(active)
    begin = time.monotonic()
    create_assigned(client, names)
    figures: dict[str, Any] = {"create_s": round(time.monotonic() - begin, 2)}
    not_leading = [
        broker
        for broker, controller in zip(brokers, controllers, strict=False)
        if controller != active
    ]
    where = (active, (not_leading or brokers)[0])
    for broker, kind in ((fakes[0], "shutdown"), (fakes[1], "death")):
        time.sleep(2.5)  # every broker sends one more heartbeat, with the newest offset
        led = _led_by(where[1], list(names), broker.node_id)
        found = lose(where, tail, broker, led, is_death=kind == "death")
        figures |= {f"{kind}_{name}": value for name, value in found.items()}
    delete_topics(client, list(names))
    for fake in fakes[2:]:
        fake.vanish()
    tail.stop()
    client.close()
    return figures


def _led_by(address: str, names: list[str], node_id: int) -> list[str]:
    """Topic names, one entry for each partition that the broker leads."""
    client = TypedClient(address)
    led = []
    for start in range(0, len(names), 1000):
        answer = client.ask(METADATA, metadata_request(names[start : start + 1000]))
        for topic in answer.topics:
            led += [topic.name for one in topic.partitions if one.leader_id == node_id]
    client.close()
    return led


def main() -> None:
    """Measure the systems that the flags name."""
    flags = report.parser(__doc__)
    flags.add_argument("--controllers", help="measure this cluster on this machine: host:port,...")
    flags.add_argument("--broker", help="its node (host:port) that shows what is visible")
    flags.add_argument("--kafka", action="store_true", help="measure Apache Kafka in the same run")
    flags.add_argument("--topics", type=int, default=25_000)
    flags.add_argument("--partitions", type=int, default=1, help="of each topic")
    flags.add_argument("--base-port", type=int, default=25500)
    args = flags.parse_args()
    rows: dict[str, dict[str, Any]] = {}
    if args.controllers:
        controllers, brokers = args.controllers.split(","), [args.broker]
        rows["given"] = measure(controllers, brokers, args.topics, args.partitions)
        report.show("broker_loss", rows, as_json=args.json)
        return
    with started_systems(args.base_port, with_kafka=args.kafka) as systems:
        for system, cluster in systems:
            rows[system] = measure(
                cluster.controllers, cluster.brokers, args.topics, args.partitions
            )
        report.show("broker_loss", rows, as_json=args.json)


if __name__ == "__main__":
    main()
