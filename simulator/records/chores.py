"""Work of administrators in runs with records, planned like faults: topics, replicas, directories.

Each piece is asked for until it is done or tried often enough; a topic that was deleted is created
again in any case.
"""

import errno
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, Final

from metadata.image import Image
from replication.leader.leadership import Leadership
from simulator.checks.partitions.records import RecordChecks
from simulator.cluster.machine import Machine
from simulator.cluster.memory_vfs import MemoryVfs
from simulator.faults.decision import Decision
from simulator.faults.fault import CarryingOut, Reach
from simulator.faults.impact import AT_ONCE_US, Impact, impact_on
from simulator.records import requests
from simulator.records.clients import Cluster, PartitionClient
from simulator.records.failing_directories import FailingDirectory, repair_directories
from wire.errors import ErrorCode
from wire.types import TopicId, TopicIdPartition

TRIES: Final = 6
ALL_COMMITTED: Final = -1
CHANGES: Final[Mapping[str, tuple[str | None, ...]]] = {
    "min.insync.replicas": ("1", "2"),
    "internal.segment.bytes": ("1000", "4000", "20000"),
    "segment.ms": ("500", "2000", None),
    "retention.bytes": ("2000", "8000", None),
    "retention.ms": ("1500", "5000", None),
    "compression.type": ("gzip", "snappy", "lz4", "zstd", "uncompressed", None),
    "flush.messages": ("1", "10", None),
    "message.timestamp.type": ("LogAppendTime", None),
}
"""Config of a topic -> values that it is given."""


class Chores:
    """Work on the topic of a run.

    Args:
        cluster: as its clients reach it.
        host: number of the administrator.
        checks: are told what may happen from now on.
        image: gives the newest committed image.
        create_topic: body of the request that creates the topic.
    """

    def __init__(
        self,
        cluster: Cluster,
        host: int,
        checks: RecordChecks,
        image: Callable[[], Image],
        create_topic: Callable[[], Any],
    ) -> None:
        self._cluster = cluster
        self._topic = cluster.topic.name
        self._scheduler = cluster.scheduler
        self._starts = checks.starts
        self._host = host
        self._checks = checks
        self._image = image
        self._create_topic = create_topic
        self._clients: list[PartitionClient] = []
        self._open = 0
        self._is_recreating = False
        self.table: Mapping[str, CarryingOut] = {
            "reassign": self._on_topic(self._reassign),
            "recreate_topic": self._on_topic(self._recreate),
            "alter_topic": self._on_topic(self._alter),
            "delete_records": self._on_topic(self._delete_records),
            "elect_preferred": self._on_topic(self._elect),
            "directory_failure": self._fail_directory,
            "move_replica": self._move_replica,
        }

    @property
    def is_idle(self) -> bool:
        """True if nothing is under way."""
        return self._open == 0

    def _on_topic(self, act: Callable[[TopicId, Decision, Random], str]) -> CarryingOut:
        def carry_out(reach: Reach, decision: Decision, machines: list[Machine]) -> Impact | None:
            del reach, machines
            topic_id = self._image().topic_id_by_name.get(self._topic)
            if topic_id is None or self._is_recreating:
                return None
            how = act(topic_id, decision, decision.chance)
            return Impact(nodes=decision.targets, how=how, length_us=AT_ONCE_US)

        return carry_out

    # ---- asking --------------------------------------------------------------------------------

    def _ask(
        self,
        target: int | None,
        api_key: int,
        body: Any,
        is_done: Callable[[Any], bool],
        then: Callable[[], None] = lambda: None,
        tries: int = TRIES,
    ) -> None:
        """Ask a node, or any, until it is done, which is then followed up."""
        client = PartitionClient(self._cluster, self._host, 0)
        self._clients.append(client)
        self._open += 1
        left = [tries]

        def ask() -> None:
            left[0] -= 1
            if target is None:
                client.ask_any(api_key, body, answered)
            else:
                client.ask(target, api_key, body, answered)

        def answered(response: Any) -> None:
            done = response is not None and is_done(response)
            if not done and left[0]:
                client.later(ask)
                return
            client.close()
            if done:
                then()
            self._open -= 1

        ask()

    # ---- topics --------------------------------------------------------------------------------

    def _recreate(self, topic_id: TopicId, decision: Decision, rng: Random) -> str:
        del rng
        self._is_recreating = True
        gone = (ErrorCode.none, ErrorCode.unknown_topic_id)
        there = (ErrorCode.none, ErrorCode.topic_already_exists)

        def created() -> None:
            self._is_recreating = False
            self._checks.hit("topic_recreated")

        def create() -> None:
            self._ask(
                None,
                requests.CREATE_TOPICS,
                self._create_topic(),
                lambda response: response.topics[0].error_code in there,
                created,
                tries=-1,
            )

        self._ask(
            None,
            requests.DELETE_TOPICS,
            requests.delete_topic(topic_id),
            lambda response: response.responses[0].error_code in gone,
            lambda: self._scheduler.after(decision.length_us, create_later),
            tries=-1,
        )
        self._open += 1

        def create_later() -> None:
            self._open -= 1
            create()

        return self._topic

    def _alter(self, topic_id: TopicId, decision: Decision, rng: Random) -> str:
        del decision
        key = rng.choice(tuple(CHANGES))
        value = rng.choice(CHANGES[key])
        kept = int(value) if value is not None and key.startswith("retention.") else None
        if kept is not None:
            self._starts.note_retention(bytes(topic_id), key, kept)
            self._starts.ask_retention(key, kept)

        def altered() -> None:
            self._checks.hit("topic_altered")
            now = self._image().topic_id_by_name.get(self._topic)
            if kept is not None and now is not None:
                self._starts.note_retention(bytes(now), key, kept)
                self._starts.answer_retention(key, kept)

        self._ask(
            None,
            requests.INCREMENTAL_ALTER_CONFIGS,
            requests.alter_topic(self._topic, {key: value}),
            lambda response: response.responses[0].error_code is ErrorCode.none,
            altered,
        )
        return f"{key}={value}"

    # ---- partitions ----------------------------------------------------------------------------

    def _reassign(self, topic_id: TopicId, decision: Decision, rng: Random) -> str:
        del decision
        number = self._draw_partition(topic_id, rng)
        brokers = self._cluster.nodes
        count = min(len(brokers), rng.choice((1, 2, 2, 3, 3, 3)))
        replicas: Sequence[int] | None = rng.sample(brokers, count)
        if rng.random() < 0.1:
            replicas = None
        self._ask(
            None,
            requests.ALTER_PARTITION_REASSIGNMENTS,
            requests.reassign(self._topic, number, replicas),
            lambda response: response.error_code is ErrorCode.none,
            lambda: self._checks.hit("replicas_reassigned"),
        )
        return f"partition {number} to {replicas}"

    def _elect(self, topic_id: TopicId, decision: Decision, rng: Random) -> str:
        del decision
        number = self._draw_partition(topic_id, rng)

        def is_done(response: Any) -> bool:
            rows = response.replica_election_results[0].partition_result
            if rows[0].error_code is ErrorCode.none:
                self._checks.hit("preferred_leader_elected")
            return True

        body = requests.elect_preferred(self._topic, number)
        self._ask(None, requests.ELECT_LEADERS, body, is_done)
        return f"partition {number}"

    def _delete_records(self, topic_id: TopicId, decision: Decision, rng: Random) -> str:
        del decision
        number = self._draw_partition(topic_id, rng)
        key: TopicIdPartition = (topic_id, number)
        leader = int(self._image().topics[topic_id].partitions[number].leader)
        replica = self._checks.partition_at(leader, key) if leader >= 0 else None
        if replica is None or not isinstance(replica.role, Leadership) or replica.log is None:
            return "no leader"
        log = replica.log
        offset = rng.randrange(log.log_start_offset, int(log.high_watermark) + 1)
        if rng.random() < 0.2:
            offset = ALL_COMMITTED
        self._starts.note_deletion((bytes(topic_id), number), offset)
        self._starts.ask_deletion(number, offset)

        def is_done(response: Any) -> bool:
            row = response.topics[0].partitions[0]
            if row.error_code is ErrorCode.none:
                self._checks.deleted(key, offset, row.low_watermark)
                now = self._image().topic_id_by_name.get(self._topic)
                if now is not None:
                    self._starts.note_deletion((bytes(now), number), offset)
                    self._starts.answer_deletion(number, offset)
                self._checks.hit("records_deleted")
            return True

        body = requests.delete_records(self._topic, number, offset)
        self._ask(leader, requests.DELETE_RECORDS, body, is_done)
        return f"partition {number} below {offset}"

    def _draw_partition(self, topic_id: TopicId, rng: Random) -> int:
        return rng.choice(sorted(self._image().topics[topic_id].partitions))

    # ---- directories ---------------------------------------------------------------------------

    def _move_replica(
        self, reach: Reach, decision: Decision, machines: list[Machine]
    ) -> Impact | None:
        """Ask the broker of a replica to move it to a log directory, be it the one it is in."""
        del machines
        topic_id = self._image().topic_id_by_name.get(self._topic)
        if topic_id is None or self._is_recreating:
            return None
        rng = decision.chance
        number = self._draw_partition(topic_id, rng)
        node = int(rng.choice(self._image().topics[topic_id].partitions[number].replicas))
        path = rng.choice(reach.machines[node].config.log_dirs)
        self._ask(
            node,
            requests.ALTER_REPLICA_LOG_DIRS,
            requests.alter_log_dir(self._topic, number, path),
            lambda response: response.results[0].partitions[0].error_code is ErrorCode.none,
        )
        how = f"partition {number} of node {node} to {path}"
        return Impact(nodes=(node,), how=how, length_us=AT_ONCE_US)

    def _fail_directory(
        self, reach: Reach, decision: Decision, machines: list[Machine]
    ) -> Impact | None:
        """Make a log directory refuse writes and syncs of partitions, and repair it."""
        rng = decision.chance
        hit = []
        for machine in machines:
            if machine.vfs.failing is not None or not machine.is_up:
                continue
            path = rng.choice(machine.config.log_dirs)
            code = rng.choice((errno.EIO, errno.EIO, errno.ENOSPC))
            machine.vfs.failing = FailingDirectory(path, self._topic, code)
            reach.later(decision, partial(_repair, reach, machine, machine.vfs))
            hit.append((machine, f"{errno.errorcode[code]} in {path}"))

        how = "; ".join(text for _, text in hit)
        return impact_on([machine for machine, _ in hit], decision, how)


def _repair(reach: Reach, machine: Machine, vfs: MemoryVfs) -> None:
    """Repair what has failed, unless a power failure has ended the fault before."""
    if machine.vfs is vfs:
        repair_directories(machine)
    reach.restart(machine)
