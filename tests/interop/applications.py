"""Groups and exactly-once copies that run beside faults, and what must be true of them at the end.

Readers of both group protocols, one group each, commit what they have read; copiers share a group
and write in transactions, and one of them after the other gets SIGKILL. At the end every group has
read every record, and committed the end of each partition; the copy has every value once.
"""

import itertools
import json
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from coordinator.runtime.shards import partition_for
from tests.interop.copier import STUCK
from tests.interop.group_process import Member
from tests.interop.quorum import wait_until

ROOT: Final = Path(__file__).parents[2]
CLASSIC: Final = ("classic-a", "classic-b", "classic-c")
CONSUMER: Final = ("consumer-a", "consumer-b", "consumer-c")
COPIERS: Final = ("copier-a", "copier-b", "copier-c")
COPIERS_GROUP: Final = "copiers"
KILL_SECONDS: Final = 15.0
END_SECONDS: Final = 300.0
OFFSETS_TOPIC: Final = "__consumer_offsets"
STATE_TOPIC: Final = "__transaction_state"
COORDINATED: Final = {
    OFFSETS_TOPIC: (*CLASSIC, *CONSUMER, COPIERS_GROUP),
    STATE_TOPIC: COPIERS,
}


class Copies:
    """Copier processes, started again when they end; one after the other is killed."""

    def __init__(self, folder: Path, bootstrap: str, source: str, target: str) -> None:
        self._folder = folder
        self._words = (bootstrap, source, target)
        self._files = itertools.count()
        self._processes = {name: self._start(name) for name in COPIERS}
        self.kills = self.ended = 0
        """Counts of those that got SIGKILL, and that ended by themselves: fenced."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _start(self, name: str) -> subprocess.Popen[bytes]:
        bootstrap, source, target = self._words
        command = [sys.executable, "-m", "tests.interop.copier", bootstrap, name, COPIERS_GROUP,
                   source, target]  # fmt: skip
        log = self._folder / f"{name}-{next(self._files)}.copier"
        with log.open("wb") as out:
            return subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out)

    def _run(self) -> None:
        for victim in itertools.cycle(COPIERS):
            if self._stop.wait(KILL_SECONDS):
                return
            self._processes[victim].kill()
            self._processes[victim].wait()
            self.kills += 1
            for name, process in self._processes.items():
                if process.poll() is not None:
                    self.ended += name != victim
                    self._processes[name] = self._start(name)

    def stop_killing(self) -> None:
        """Let all of them run, those that have ended again."""
        self._stop.set()
        self._thread.join()
        for name, process in self._processes.items():
            if process.poll() is not None:
                self._processes[name] = self._start(name)

    def stop(self) -> None:
        """End all of them behind a whole transaction, but for those that never come back."""
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)
        for name, process in self._processes.items():
            assert process.wait(END_SECONDS) in (0, STUCK), f"{name}: {self.told()}"

    def count(self) -> int:
        """Records of committed transactions, as the copiers were told."""
        return sum(each.get("copied", 0) for each in self._said())

    def stuck(self) -> int:
        """Count those whose client never came back (tests/interop/copier.py)."""
        return sum("stuck" in each for each in self._said())

    def _said(self) -> list[dict[str, int]]:
        lines = [
            line
            for log in self._folder.glob("*.copier")
            for line in log.read_text(errors="replace").splitlines()
        ]
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def told(self) -> str:
        """The last lines of all logs."""
        logs = sorted(self._folder.glob("*.copier"))
        return "\n".join(f"{log.name}: {log.read_text(errors='replace')[-300:]}" for log in logs)

    def end(self) -> None:
        """Kill what is left."""
        self._stop.set()
        self._thread.join()
        for process in self._processes.values():
            process.kill()
            process.wait()


class Applications:
    """All of them over one topic.

    Args:
        folder: new folder for their logs.
        bootstrap: addresses of the brokers.
        source: topic that all of them read.
        target: topic of the copies, with as many partitions.
    """

    def __init__(self, folder: Path, bootstrap: str, source: str, target: str) -> None:
        folder.mkdir()
        self._bootstrap, self._source, self._target = bootstrap, source, target
        self._readers = {
            **{each: Member(folder, "confluent-kafka", bootstrap, each, source)
               for each in CLASSIC},
            **{each: Member(folder, "confluent-kafka", bootstrap, each, source, "--consumer")
               for each in CONSUMER},
        }  # fmt: skip
        self._copies = Copies(folder, bootstrap, source, target)

    def __enter__(self) -> Self:
        """Run them within the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """End what is left of them."""
        self._copies.end()
        for reader in self._readers.values():
            reader.kill()

    def calm(self) -> None:
        """Kill copiers no more."""
        self._copies.stop_killing()

    def judge(self, ends: Sequence[int], values: Counter[bytes]) -> dict[str, int]:
        """Wait until all have come to the end of the source; an AssertionError is a finding.

        Args:
            ends: offset behind the last record of each partition of the source.
            values: all of the source.

        Returns:
            counts for the report.
        """
        groups = (*CLASSIC, *CONSUMER, COPIERS_GROUP)
        wait_until(lambda: self._are_at(groups, ends), END_SECONDS, lambda: self._told(ends))
        self._copies.stop()
        every = {(partition, offset) for partition, end in enumerate(ends) for offset in range(end)}
        read_again = 0
        for name, reader in self._readers.items():
            read = [(partition, offset) for partition, offset, _ in reader.read]
            missed = every - set(read)
            assert not missed, f"{name} has not read {len(missed)}, {sorted(missed)[:3]}"
            read_again += len(read) - len(set(read))
        copied = self._values_of_copy(len(ends))
        lost, twice = values - copied, copied - values
        assert not lost, f"{lost.total()} values are not copied, {list(lost)[:3]}"
        assert not twice, f"{twice.total()} values are copied twice, {list(twice)[:3]}"
        return {
            "copied": copied.total(),
            "copied_as_told": self._copies.count(),
            "copiers_killed": self._copies.kills,
            "copiers_fenced": self._copies.ended,
            "copiers_stuck": self._copies.stuck(),
            "read_again": read_again,
        }

    def _committed(self, group: str) -> dict[int, int]:
        admin = AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})
        request = [ConsumerGroupTopicPartitions(group)]
        found = admin.list_consumer_group_offsets(request)[group].result(20)
        return {
            each.partition: each.offset
            for each in found.topic_partitions
            if each.topic == self._source
        }

    def _are_at(self, groups: Sequence[str], ends: Sequence[int]) -> bool:
        wanted = {partition: end for partition, end in enumerate(ends) if end}
        return all(self._committed(group) == wanted for group in groups)

    def _told(self, ends: Sequence[int]) -> str:
        groups = {group: self._committed(group) for group in (*CLASSIC, *CONSUMER, COPIERS_GROUP)}
        readers = "\n".join(reader.told() for reader in self._readers.values())
        return f"{ends=} {groups=}\n{readers}\n{self._copies.told()}"

    def _values_of_copy(self, partitions: int) -> Counter[bytes]:
        """All committed values of the copy, up to where nothing is open."""
        reader = Consumer(
            {"bootstrap.servers": self._bootstrap, "group.id": "judge", "log_level": 0,
             "isolation.level": "read_committed", "enable.auto.commit": False,
             "enable.partition.eof": True}
        )  # fmt: skip
        found: Counter[bytes] = Counter()
        for partition in range(partitions):
            reader.assign([TopicPartition(self._target, partition, 0)])
            while (message := reader.poll(END_SECONDS)).error() is None:
                found[message.value()] += 1
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
        reader.close()
        return found


def coordinators(admin: AdminClient) -> set[int]:
    """The nodes that coordinate one of the groups or transactional ids."""
    nodes: set[int] = set()
    topics = admin.list_topics(timeout=20).topics
    for topic, keys in COORDINATED.items():
        partitions = topics[topic].partitions if topic in topics else {}
        for key in keys if partitions else ():
            nodes.add(partitions[partition_for(key, len(partitions))].leader)
    return nodes
