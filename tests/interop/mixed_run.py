"""Brokers of ours and of Apache Kafka in one cluster under load, SIGKILL in turn.

python -m tests.interop.mixed_run --minutes 10 --kafka 2 [--applications] [--dir DIR]

Three combined nodes, a topic of six partitions with three replicas. One idempotent producer for
each codec writes with acks=all to all of them; node after node is killed, comes back and leads what
it is preferred for. At the end every acknowledged record is read back at its offset, no record is
there out of order, or twice in one producer epoch, and the logs of each partition are equal
byte for byte on three nodes.
With `--applications`, groups of both protocols and exactly-once copies run beside the writers
(`tests/interop/applications.py`), coordinated by nodes of each kind.
"""

import argparse
import contextlib
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

from confluent_kafka import ElectionType, KafkaException, Producer

from tests.interop.applications import Applications, coordinators
from tests.interop.mixed_cluster import MixedCluster, Software, complaints, mixed_cluster
from tests.interop.quorum import wait_until
from tests.interop.record_clients import CODECS, AioRecords
from wire.batches.batch import iterate_batches

TOPIC: Final = "records"
REPLICAS: Final = {p: [(p + i) % 3 + 1 for i in range(3)] for p in range(6)}
TURN_SECONDS: Final = 0.02
TURN_SECONDS_WITH_APPLICATIONS: Final = 0.2
"""Every record is read seven times then."""
RECORDS_A_TURN: Final = 5
QUEUED_MAX: Final = 5_000
MORE_SECONDS: Final = 2.0
"""Time whose records are to be acknowledged before the next step: the cluster works again."""
COPY: Final = "copy"
WAIT_SECONDS: Final = 120.0
EXPECTED: Final = "controller_request_failed"
"""A WARN of ours where the active controller is the node that was killed."""
log: Final = logging.getLogger("mixed_run")


class Writer:
    """Produces numbered values to all partitions in a thread; remembers what was acknowledged."""

    def __init__(
        self, bootstrap: str, codec: str | None, turn_seconds: float = TURN_SECONDS
    ) -> None:
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
        self.turn_seconds = turn_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def value(self, number: int) -> bytes:
        return b"%s %d " % (self._name, number) + b"." * (number % 300)

    def _run(self) -> None:
        numbers = itertools.count()
        while not self._stop.wait(self.turn_seconds):
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


def run(
    folder: Path,
    softwares: Mapping[int, Software],
    minutes: float,
    *,
    with_applications: bool = False,
) -> dict[str, Any]:
    """Carry out one run, at least one SIGKILL of each node; an AssertionError is a finding.

    Returns:
        what it consisted of.
    """
    turn_seconds = TURN_SECONDS_WITH_APPLICATIONS if with_applications else TURN_SECONDS
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(mixed_cluster(folder, softwares))
        cluster.create(TOPIC, REPLICAS, min_insync_replicas="2", segment_bytes="4194304")
        cluster.create(COPY, REPLICAS, min_insync_replicas="2")
        cluster.wait_in_sync(TOPIC, 3)
        leaders = Counter(cluster.leaders(TOPIC).values())
        assert leaders == {1: 2, 2: 2, 3: 2}, f"{leaders=}"
        applications = None
        if with_applications:
            words = folder / "applications", cluster.bootstrap, TOPIC, COPY
            applications = stack.enter_context(Applications(*words))
        writers = [Writer(cluster.bootstrap, codec, turn_seconds) for codec in CODECS]
        complained: list[str] = []
        until = time.monotonic() + minutes * 60
        found = kill_in_turn(cluster, softwares, writers, until, complained)
        for writer in writers:
            writer.stop()
        cluster.wait_in_sync(TOPIC, 3)
        log_bytes = sum(compare_logs(cluster, partition) for partition in REPLICAS)
        values = [read_back(cluster, writers, partition) for partition in REPLICAS]
        if applications is not None:
            applications.calm()
            every = Counter(value for each in values for value in each)
            found |= applications.judge([len(each) for each in values], every)
        assert complained == []
        return {
            "softwares": [*softwares.values()],
            **found,
            "acknowledged": sum(writer.count() for writer in writers),
            "without_offset": sum(len(n) for w in writers for n in w.without_offset),
            "records": sum(map(len, values)),
            "repeated_by_clients": sum(len(each) - len(set(each)) for each in values),
            "log_bytes": log_bytes,
            "leaders": cluster.leaders(TOPIC),
        }


def kill_in_turn(
    cluster: MixedCluster,
    softwares: Mapping[int, Software],
    writers: list[Writer],
    until: float,
    complained: list[str],
) -> dict[str, Any]:
    """Kill one node after the other while all writers go on; the number of kills.

    What nodes of ours complain about is added to `complained`.
    """
    coordinating: set[int] = set()
    for kills, victim in enumerate(itertools.cycle(softwares)):
        if kills >= len(softwares) and time.monotonic() > until:
            return {"kills": kills, "coordinators": sorted(coordinating)}
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
        coordinating |= coordinators(cluster.admin)
        acknowledged = sum(writer.count() for writer in writers)
        log.info("node %d (%s) is back, %d acknowledged", victim, softwares[victim], acknowledged)
    raise AssertionError


def wait_more(cluster: MixedCluster, writers: list[Writer]) -> None:
    """Wait until every writer gets more records acknowledged."""
    before = [writer.count() for writer in writers]

    def is_more() -> bool:
        counts = [writer.count() for writer in writers]
        more = RECORDS_A_TURN * MORE_SECONDS / writers[0].turn_seconds
        return all(count > old + more for count, old in zip(counts, before, strict=True))

    wait_until(is_more, WAIT_SECONDS, cluster.outputs)


def elect_preferred(cluster: MixedCluster) -> None:
    """Give every partition back to its first replica, so that each software leads."""

    def is_preferred() -> bool:
        try:
            cluster.admin.elect_leaders(ElectionType.PREFERRED, None).result(10)
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


def repeats(log: bytes) -> int:
    """Count the records that a client has written again with a new producer epoch.

    librdkafka bumps its epoch by itself when it has lost count ("skipped sequence numbers", which
    it does with brokers of Kafka alone too), and then sends again what was not acknowledged. No
    broker can know these records; a second copy in the same epoch is one that it has let through.
    """
    seen: dict[bytes, tuple[int, int]] = {}
    count = 0
    for batch in iterate_batches(log):
        producer = batch.header.producer_id, batch.header.producer_epoch
        for record in batch.records():
            value = bytes(record.value or b"")
            if value in seen:
                before = seen[value]
                assert before[0] == producer[0], f"{value[:20]!r} twice: {before}, {producer}"
                assert before[1] < producer[1], f"{value[:20]!r} twice: {before}, {producer}"
                count += 1
            seen[value] = producer
    return count


def read_back(cluster: MixedCluster, writers: list[Writer], partition: int) -> list[bytes]:
    """Every acknowledged record of a partition, in order; all values."""
    readers = AioRecords(cluster.bootstrap)
    first, end = readers.ends(TOPIC, partition=partition)
    assert first == 0
    records = readers.consume(TOPIC, end, partition=partition)
    found = [record.value for record in records if record.value is not None]
    assert len(found) == end, f"{partition=} {len(found)=} {end=}"
    values = set(found)
    assert len(found) - len(values) == repeats(cluster.log_bytes(1, TOPIC, partition))
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
    return found


def main() -> None:
    """Run until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument(
        "--kafka", type=int, choices=(0, 1, 2, 3), default=2, help="nodes of Kafka's"
    )
    parser.add_argument("--applications", action="store_true", help="groups and transactions too")
    parser.add_argument("--dir", type=Path, help="new folder, kept; default: a temporary one")
    chosen = parser.parse_args()
    logging.basicConfig(format="%(asctime)s %(message)s")
    log.setLevel(logging.INFO)
    ours: list[Software] = ["ours"] * (3 - chosen.kafka)
    theirs: list[Software] = ["kafka"] * chosen.kafka
    softwares = dict(enumerate([*ours, *theirs], start=1))
    with contextlib.ExitStack() as stack:
        temporary = tempfile.TemporaryDirectory
        folder = chosen.dir or Path(stack.enter_context(temporary()))
        found = run(folder, softwares, chosen.minutes, with_applications=chosen.applications)
    sys.stdout.write(f"{json.dumps(found)}\n")


if __name__ == "__main__":
    main()
