"""Metadata logs that our own controller wrote: what brokers and administrators did, and failovers.

A random walk over a controller: brokers stop, restart and fall silent, leaders ask for other ISRs,
administrators create, delete, reassign, elect and configure. Now and then the controller dies: the
next one leads a new epoch, and aborts the metadata transaction that the log then ends in.
"""

import random
import uuid
from types import SimpleNamespace

from kio.schema.broker_registration.v4.request import Feature
from kio.schema.elect_leaders.v2.request import TopicPartitions
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from metadata import record_codec
from metadata.features import record_version
from metadata.records import (
    BeginTransactionRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from quorum_controller.controller import Controller
from quorum_controller.result import Draft
from tests.pipeline.metadata_histories import LEADER_CHANGE, TIME_MS
from tests.quorum_controller.controller_harness import SECOND, Harness, incarnation, topic
from wire.api_keys import (
    ALTER_PARTITION,
    ALTER_PARTITION_REASSIGNMENTS,
    ELECT_LEADERS,
    INCREMENTAL_ALTER_CONFIGS,
)
from wire.batches.batch import encode_batch, encode_control_batch

BROKERS = (1, 2, 3, 4, 5)
LEVEL = 29
SESSION_MS = 9_000
ELR = "eligible.leader.replicas.version"


class ControllerLog:
    """A segment that controllers wrote; `content` is its bytes, `offset` its end.

    `kinds` counts what happened, by the names of the steps.
    """

    def __init__(self, seed, steps):
        self.rng = random.Random(seed)
        self.content = b""
        self.offset = 0
        self.epoch = 3  # of the harness
        self.kinds = dict.fromkeys(WALK, 0)
        self._written = 0
        self._time_ms = TIME_MS
        self._leader()
        self.cluster = Harness(LEVEL, seed=seed, properties={"min.insync.replicas": "2"})
        self._draft([FeatureLevelRecord(name=ELR, feature_level=1)])
        for broker_id in BROKERS:
            self._register(broker_id, broker_id)
            self.cluster.heartbeat(broker_id)
        self.create()
        for number in range(steps):
            kind = self.rng.choice(WALK)
            self.kinds[kind] += 1
            getattr(self, kind)()
            if number % 40 == 39:
                self.fail_over(self.rng.random() < 0.5)
            self.cluster.tick(self.rng.randint(1, 1_000))
            self.cluster.commit()
            self._write()
        self.fail_over(in_transaction=True)

    @property
    def image(self):
        return self.cluster.image

    def create(self):
        self.cluster.create(topic(f"t-{self.rng.randint(0, 9)}", 3, 3))

    def delete(self):
        names = sorted(self.image.topic_id_by_name)
        if len(names) > 3:
            self.cluster.delete(self.rng.choice(names))

    def configure(self):
        name = self._topic()
        value = self.rng.choice(("1", "2"))
        resource = AlterConfigsResource(
            resource_type=2, resource_name=name,
            configs=(AlterableConfig(name="min.insync.replicas", config_operation=0, value=value),),
        )  # fmt: skip
        body = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
        self.cluster.call(INCREMENTAL_ALTER_CONFIGS, body)

    def change_isr(self):
        name, number, one = self._partition()
        if not one.has_leader:
            return
        others = [r for r in one.replicas if r != one.leader and self.rng.random() < 0.6]
        states = tuple(SimpleNamespace(broker_id=m, broker_epoch=-1) for m in (one.leader, *others))
        wanted = SimpleNamespace(
            partition_index=number, leader_epoch=one.leader_epoch,
            partition_epoch=one.partition_epoch, new_isr_with_epochs=states,
            leader_recovery_state=one.leader_recovery_state if not others else 0,
        )  # fmt: skip
        topic_id = uuid.UUID(bytes=self.image.topic_id_by_name[name])
        epoch = self.image.brokers[one.leader].epoch
        topics = (SimpleNamespace(topic_id=topic_id, partitions=(wanted,)),)
        body = SimpleNamespace(broker_id=one.leader, broker_epoch=epoch, topics=topics)
        self.cluster.call(ALTER_PARTITION, body)

    def reassign(self):
        name, number, _ = self._partition()
        replicas = self.rng.choice((None, tuple(self.rng.sample(BROKERS, 3))))
        wanted = SimpleNamespace(partition_index=number, replicas=replicas)
        body = SimpleNamespace(
            topics=(SimpleNamespace(name=name, partitions=(wanted,)),),
            allow_replication_factor_change=True, timeout=SECOND,
        )  # fmt: skip
        self.cluster.call(ALTER_PARTITION_REASSIGNMENTS, body)

    def elect(self):
        name, number, _ = self._partition()
        body = SimpleNamespace(
            election_type=self.rng.randint(0, 1), timeout=SECOND,
            topic_partitions=(TopicPartitions(topic=name, partitions=(number,)),),
        )  # fmt: skip
        self.cluster.call(ELECT_LEADERS, body)

    def stop(self):
        broker_id = self.rng.choice(BROKERS)
        self.cluster.heartbeat(broker_id, stop=True)
        self.cluster.heartbeat(broker_id, fence=True)

    def restart(self):
        for broker_id in BROKERS:
            if self.image.brokers[broker_id].fenced and self.rng.random() < 0.7:
                self._register(broker_id, 100 + self.offset + broker_id)
                self.cluster.heartbeat(broker_id)

    def fall_silent(self):
        silent = self.rng.choice(BROKERS)
        for _ in range(3):
            for other in BROKERS:
                if other != silent:
                    self.cluster.heartbeat(other, fence=self.image.brokers[other].fenced)
            self.cluster.tick(SESSION_MS // 2)
            self.cluster.commit()

    def fail_over(self, in_transaction):
        """The next controller; what the former one left open is aborted by it."""
        self._write()
        image = self.image
        if in_transaction:
            self._append(self._open_transaction())
        self.epoch += 1
        self._leader()
        former = self.cluster
        rng = random.Random(self.rng.random())
        former.controller = Controller(former.config, rng, lambda: rng.randbytes(16))
        former.take(
            former.controller.activate(
                self.epoch,
                self.offset,
                image,
                former.now_ms,
                0,
                has_open_transaction=in_transaction,
            )
        )
        former.commit()
        self._write()

    def _open_transaction(self):
        """Records of a transaction that the next controller aborts: its changes are never seen."""
        name, number, one = self._partition()
        topic_id = self.image.topic_id_by_name[name]
        others = sorted(set(self.image.topics) - {topic_id})
        return [
            BeginTransactionRecord(name="t"),
            TopicRecord(name="never", topic_id=self.rng.randbytes(16)),
            PartitionChangeRecord(partition_id=number, topic_id=topic_id, leader=one.replicas[0]),
            ConfigRecord(resource_type=2, resource_name=name, name="retention.ms", value="1"),
            *(RemoveTopicRecord(topic_id=one) for one in others[:1]),
        ]

    def _topic(self):
        return self.rng.choice(sorted(self.image.topic_id_by_name))

    def _partition(self):
        name = self._topic()
        partitions = self.image.topic_named(name).partitions
        number = self.rng.choice(sorted(partitions))
        return name, number, partitions[number]

    def _register(self, broker_id, number):
        supported = tuple(
            Feature(name=name, min_supported_version=least, max_supported_version=most)
            for name, least, most in (("metadata.version", 1, LEVEL), (ELR, 0, 1))
        )
        self.cluster.register(broker_id, features=supported, incarnation_id=incarnation(number))

    def _draft(self, records):
        draft = Draft(self.image, self.cluster.controller.next_offset)
        for record in records:
            draft.emit(record)
        self.cluster.take_draft(draft)

    def _write(self):
        """Append the proposals of the controller since the last call, as raft does."""
        for proposal in self.cluster.batches[self._written :]:
            assert proposal.base_offset == self.offset
            assert proposal.epoch == self.epoch
            self._append(proposal.records)
        self._written = len(self.cluster.batches)

    def _append(self, records):
        values = [record_codec.encode(one, record_version(one, LEVEL)) for one in records]
        self._time_ms += self.rng.randint(0, 2_000)
        self.content += encode_batch(values, self.offset, self.epoch, self._time_ms)
        self.offset += len(values)

    def _leader(self):
        body = b"\0\0" + (1).to_bytes(4, "big") + b"\1\1\0"  # version, leader, no voters
        changes = [(LEADER_CHANGE, body)]
        self.content += encode_control_batch(changes, self.offset, self.epoch, self._time_ms)
        self.offset += 1


WALK = (
    "create", "delete", "configure", "change_isr", "change_isr", "change_isr", "reassign",
    "reassign", "elect", "stop", "restart", "restart", "fall_silent",
)  # fmt: skip
