"""Brokers of ours and of Apache Kafka in one cluster under load, SIGKILL in turn.

python -m tests.interop.mixed_run --minutes 10 --kafka 2 [--dir DIR]

Three combined nodes, a topic of six partitions with three replicas. One idempotent producer for
each codec writes with acks=all to all of them; node after node is killed, comes back and leads what
it is preferred for. At the end every acknowledged record is read back at its offset, no record is
there twice or out of order, and the logs of each partition are equal byte for byte on three nodes.
"""

import argparse
import itertools
import json
import logging
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from confluent_kafka import ElectionType, KafkaException, Producer, TopicPartition

from tests.interop.mixed_cluster import MixedCluster, Software, complaints, mixed_cluster
from tests.interop.quorum import wait_until
from tests.interop.record_clients import CODECS, AioRecords

TOPIC: Final = "records"
REPLICAS: Final = {p: [(p + i) % 3 + 1 for i in range(3)] for p in range(6)}
TURN_SECONDS: Final = 0.02
RECORDS_A_TURN: Final = 5
QUEUED_MAX: Final = 5_000
MORE: Final = 500
"""Records to be acknowledged before the next step: the cluster works again."""
WAIT_SECONDS: Final = 120.0
EXPECTED: Final = "controller_request_failed"
"""A WARN of ours where the active controller is the node that was killed."""
log: Final = logging.getLogger("mixed_run")


class Writer:
    """Produces numbered values to all partitions in a thread; remembers what was acknowledged."""

    def __init__(self, bootstrap: str, codec: str | None) -> None:
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "log_level": 2, "acks": "all",
             "enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 120_000,
             "compression.type": codec or "none"}
        )  # fmt: skip
        self._name = (codec or "none").encode()
        self.acknowledged: list[dict[int, int]] = [{} for _ in REPLICAS]
        self.without_offset: list[set[int]] = [set() for _ in REPLICAS]
        """Numbers that librdkafka takes for written, not knowing where: a later batch was taken."""
        self.failures: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def value(self, number: int) -> bytes:
        return b"%s %d " % (self._name, number) + b"." * (number % 300)

    def _run(self) -> None:
        numbers = itertools.count()
        while not self._stop.wait(TURN_SECONDS):
            for number in itertools.islice(numbers, RECORDS_A_TURN):
                self._produce(number)
            self._producer.poll(0)
            while len(self._producer) > QUEUED_MAX and not self._stop.is_set():
                self._producer.poll(TURN_SECONDS)

    def _produce(self, number: int) -> None:
        def delivered(error: object, message: Any) -> None:
            partition, offset = message.partition(), message.offset()
            if error is not None:
                self.failures.append(f"{number}: {error}")
            elif offset is None:
                self.without_offset[partition].add(number)
            else:
                self.acknowledged[partition][offset] = number

        partition = number % len(REPLICAS)
        self._producer.produce(
            TOPIC, self.value(number), partition=partition, on_delivery=delivered
        )

    def count(self) -> int:
        return sum(map(len, (*self.acknowledged, *self.without_offset)))

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)
        assert self._producer.flush(120) == 0
        assert self.failures == []


def run(folder: Path, softwares: Mapping[int, Software], minutes: float) -> dict[str, Any]:
    """Carry out one run, at least one SIGKILL of each node; an AssertionError is a finding.

    Returns:
        what it consisted of.
    """
    with mixed_cluster(folder, softwares) as cluster:
        cluster.create(TOPIC, REPLICAS, min_insync_replicas="2", segment_bytes="4194304")
        cluster.wait_in_sync(TOPIC, 3)
        leaders = Counter(cluster.leaders(TOPIC).values())
        assert leaders == {1: 2, 2: 2, 3: 2}, f"{leaders=}"
        writers = [Writer(cluster.bootstrap, codec) for codec in CODECS]
        complained: list[str] = []
        until = time.monotonic() + minutes * 60
        kills = kill_in_turn(cluster, softwares, writers, until, complained)
        for writer in writers:
            writer.stop()
        cluster.wait_in_sync(TOPIC, 3)
        log_bytes = sum(compare_logs(cluster, partition) for partition in REPLICAS)
        records = sum(read_back(cluster, writers, partition) for partition in REPLICAS)
        assert complained == []
        return {
            "softwares": [*softwares.values()],
            "kills": kills,
            "acknowledged": sum(writer.count() for writer in writers),
            "without_offset": sum(len(n) for w in writers for n in w.without_offset),
            "records": records,
            "log_bytes": log_bytes,
            "leaders": cluster.leaders(TOPIC),
        }


def kill_in_turn(
    cluster: MixedCluster,
    softwares: Mapping[int, Software],
    writers: list[Writer],
    until: float,
    complained: list[str],
) -> int:
    """Kill one node after the other while all writers go on; the number of kills.

    What nodes of ours complain about is added to `complained`.
    """
    for kills, victim in enumerate(itertools.cycle(softwares)):
        if kills >= len(softwares) and time.monotonic() > until:
            return kills
        wait_more(cluster, writers)
        cluster.stop(victim, signal.SIGKILL)
        cluster.wait_fenced(TOPIC, victim)
        wait_more(cluster, writers)
        if softwares[victim] == "ours":
            found = complaints(cluster.output(victim))
            complained += [line for line in found if EXPECTED not in line]
        cluster.start(victim, softwares[victim])
        cluster.wait_in_sync(TOPIC, 3)
        elect_preferred(cluster)
        acknowledged = sum(writer.count() for writer in writers)
        log.info("node %d (%s) is back, %d acknowledged", victim, softwares[victim], acknowledged)
    raise AssertionError


def wait_more(cluster: MixedCluster, writers: list[Writer]) -> None:
    """Wait until every writer gets more records acknowledged."""
    before = [writer.count() for writer in writers]

    def is_more() -> bool:
        counts = [writer.count() for writer in writers]
        return all(count > old + MORE for count, old in zip(counts, before, strict=True))

    wait_until(is_more, WAIT_SECONDS, cluster.outputs)


def elect_preferred(cluster: MixedCluster) -> None:
    """Give every partition back to its first replica, so that each software leads."""
    partitions = [TopicPartition(TOPIC, partition) for partition in REPLICAS]

    def is_preferred() -> bool:
        try:
            cluster.admin.elect_leaders(ElectionType.PREFERRED, partitions).result(10)
            return cluster.leaders(TOPIC) == {p: nodes[0] for p, nodes in REPLICAS.items()}
        except KafkaException:
            return False

    wait_until(is_preferred, WAIT_SECONDS, cluster.outputs)


def compare_logs(cluster: MixedCluster, partition: int) -> int:
    """The logs of three replicas become equal: nothing is written any more; their length."""

    def are_equal() -> bool:
        first, second, third = (cluster.log_bytes(node, TOPIC, partition) for node in (1, 2, 3))
        return first == second == third != b""

    wait_until(are_equal, WAIT_SECONDS, cluster.outputs)
    return len(cluster.log_bytes(1, TOPIC, partition))


def read_back(cluster: MixedCluster, writers: list[Writer], partition: int) -> int:
    """Every acknowledged record of a partition, once and in order; the count of records."""
    readers = AioRecords(cluster.bootstrap)
    first, end = readers.ends(TOPIC, partition=partition)
    assert first == 0
    found = [record.value for record in readers.consume(TOPIC, end, partition=partition)]
    values = set(found)
    assert len(found) == len(values), f"{partition=} has duplicates"
    for writer in writers:
        written = writer.acknowledged[partition]
        lost = [
            offset for offset, number in written.items() if found[offset] != writer.value(number)
        ]
        assert lost == [], f"{partition=} {len(lost)} lost, {lost[:3]=}"
        missing = {writer.value(number) for number in writer.without_offset[partition]} - values
        assert not missing, f"{partition=} {len(missing)} lost"
        in_order = [written[offset] for offset in sorted(written)]
        assert in_order == sorted(in_order), f"{partition=} out of order"
    return end


def main() -> None:
    """Run until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--kafka", type=int, choices=(1, 2), default=2, help="nodes of Kafka's")
    parser.add_argument("--dir", type=Path, help="new folder, kept; default: a temporary one")
    chosen = parser.parse_args()
    logging.basicConfig(format="%(asctime)s %(message)s")
    log.setLevel(logging.INFO)
    ours: list[Software] = ["ours"] * (3 - chosen.kafka)
    theirs: list[Software] = ["kafka"] * chosen.kafka
    softwares = dict(enumerate([*ours, *theirs], start=1))
    if chosen.dir is not None:
        found = run(chosen.dir, softwares, chosen.minutes)
    else:
        with tempfile.TemporaryDirectory() as folder:
            found = run(Path(folder), softwares, chosen.minutes)
    sys.stdout.write(f"{json.dumps(found)}\n")


if __name__ == "__main__":
    main()
