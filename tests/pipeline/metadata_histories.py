"""Random metadata logs, and a metadata image as the rows that the history must hold for it."""

import random
from base64 import b64encode

from metadata import record_codec
from metadata import records as m
from metadata.apply import apply
from metadata.delta import MetadataDelta
from metadata.image import EMPTY
from metadata.json_form import uuid_text
from wire.batches.batch import encode_batch, encode_control_batch

TIME_MS = 1_700_000_000_000
LEADER_CHANGE = 2


class RandomLog:
    """A legal log of random batches; with transactions, ended and aborted, across batches.

    `content` is the segment. Every record kind that changes an image occurs, also in one batch
    together, also twice for one key.
    """

    def __init__(self, seed, batches):
        self.rng = random.Random(seed)
        self.image = self.before = EMPTY
        self.in_transaction = False
        self.offset = 0
        self.epoch = 1
        self.content = b""
        self.topics_made = 0
        self.next_producer_id = 0
        self._leader()
        for number in range(batches):
            if number % 40 == 39:
                self.epoch += 1
                self._leader()
            self._batch(number)
        if self.in_transaction:
            self._write([m.EndTransactionRecord()], batches)

    def _leader(self):
        body = b"\0\0" + (1).to_bytes(4, "big") + b"\1\1\0"  # version, leader, no voters
        content = encode_control_batch(
            [(LEADER_CHANGE, body)], self.offset, self.epoch, TIME_MS + self.offset
        )
        self.content += content
        self.offset += 1

    def _batch(self, number):
        records = []
        if not self.in_transaction and self.rng.random() < 0.1:
            records.append(m.BeginTransactionRecord(name="t"))
            self.in_transaction, self.before = True, self.image
        for _ in range(self.rng.randint(1, 5)):
            record = self.rng.choice(_OPERATIONS)(self)
            if record is not None:
                offset = self.offset + len(records)
                self.image = apply(self.image, record, offset, MetadataDelta())
                records.append(record)
        if self.in_transaction and self.rng.random() < 0.4:
            if self.rng.random() < 0.5:
                records.append(m.EndTransactionRecord())
            else:
                records.append(m.AbortTransactionRecord(reason="r"))
                self.image = self.before
            self.in_transaction = False
        if records:
            self._write(records, number)

    def _write(self, records, number):
        values = [record_codec.encode(one, type(one).versions[1]) for one in records]
        # the clock of a new controller may run behind
        time_ms = TIME_MS + number * 1000 - (500_000 if self.epoch % 3 == 0 else 0)
        self.content += encode_batch(values, self.offset, self.epoch, time_ms)
        self.offset += len(records)

    def some(self, items):
        items = sorted(items)
        return self.rng.choice(items) if items else None

    def replicas(self):
        return tuple(self.rng.sample(range(1, 6), 3))

    def directories(self):
        return tuple(self.rng.randbytes(16) for _ in range(3))

    def lists(self):
        return tuple(self.rng.sample(range(1, 6), self.rng.randint(0, 2)))

    def topic(self):
        self.topics_made += 1
        topic_id = self.rng.randbytes(16)
        name = f"topic-{self.rng.randint(0, 5)}"
        if name in self.image.topic_id_by_name:
            return None
        return m.TopicRecord(name=name, topic_id=topic_id)

    def remove_topic(self):
        topic_id = self.some(self.image.topics)
        if topic_id is None or self.rng.random() < 0.5:
            return None
        return m.RemoveTopicRecord(topic_id=topic_id)

    def partition(self):
        topic_id = self.some(self.image.topics)
        if topic_id is None:
            return None
        replicas = self.replicas()
        return m.PartitionRecord(
            partition_id=self.rng.randint(0, 2), topic_id=topic_id, replicas=replicas,
            isr=replicas[:2], leader=self.rng.choice((-1, replicas[0])),
            leader_recovery_state=self.rng.randint(0, 1), leader_epoch=self.rng.randint(0, 9),
            partition_epoch=self.rng.randint(0, 9), adding_replicas=self.lists(),
            removing_replicas=self.lists(),
            directories=self.rng.choice(((), self.directories())),
            eligible_leader_replicas=self.rng.choice((None, (), self.lists())),
            last_known_elr=self.rng.choice((None, self.lists())),
        )  # fmt: skip

    def change(self):
        topic_id = self.some(self.image.topics)
        partition_id = (
            None if topic_id is None else self.some(self.image.topics[topic_id].partitions)
        )
        if partition_id is None:
            return None
        pick = self.rng.choice
        replicas = pick((None, None, self.replicas()))
        return m.PartitionChangeRecord(
            partition_id=partition_id, topic_id=topic_id, isr=pick((None, self.lists())),
            leader=pick((-2, -2, -1, self.rng.randint(1, 5))), replicas=replicas,
            removing_replicas=pick((None, self.lists())),
            adding_replicas=pick((None, self.lists())),
            leader_recovery_state=pick((-1, 0, 1)),
            directories=pick((None, None, (), self.directories())),
            eligible_leader_replicas=pick((None, self.lists())),
            last_known_elr=pick((None, self.lists())),
        )  # fmt: skip

    def clear_elr(self):
        names = sorted(self.image.topic_id_by_name)
        return m.ClearElrRecord(topic_name=self.rng.choice(["", *names]))

    def register(self):
        return m.RegisterBrokerRecord(
            broker_id=self.rng.randint(1, 3), incarnation_id=self.rng.randbytes(16),
            broker_epoch=self.offset, rack=self.rng.choice((None, "a")),
            fenced=self.rng.random() < 0.5, in_controlled_shutdown=self.rng.random() < 0.2,
            end_points=(m.RegisteredEndpoint(name="PLAINTEXT", host="h", port=9092),),
            features=(m.SupportedFeature(name="f", min_supported_version=0,
                                         max_supported_version=3),),
            log_dirs=self.rng.choice(((), self.directories())),
            cordoned_log_dirs=self.rng.choice((None, (), self.directories())),
        )  # fmt: skip

    def broker_change(self):
        broker_id = self.some(self.image.brokers)
        if broker_id is None:
            return None
        epoch = self.image.brokers[broker_id].epoch
        if self.rng.random() < 0.2:
            return m.UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=epoch)
        kind = self.rng.choice((m.FenceBrokerRecord, m.UnfenceBrokerRecord, None))
        if kind is not None:
            return kind(id=broker_id, epoch=epoch)
        return m.BrokerRegistrationChangeRecord(
            broker_id=broker_id, broker_epoch=epoch, fenced=self.rng.choice((-1, 0, 1)),
            in_controlled_shutdown=self.rng.choice((0, 1)),
            log_dirs=self.rng.choice(((), self.directories())),
            cordoned_log_dirs=self.rng.choice((None, (), self.directories())),
        )  # fmt: skip

    def config(self):
        kind = self.rng.choice((2, 2, 4))
        return m.ConfigRecord(
            resource_type=kind,
            resource_name=f"topic-{self.rng.randint(0, 5)}" if kind == 2 else "1",
            name=self.rng.choice(("retention.ms", "min.insync.replicas", "password")),
            value=self.rng.choice((None, "1", "2")),
        )

    def quota(self):
        parts = [("user", self.rng.choice((None, "u"))), ("client-id", "c")]
        entity = tuple(
            m.QuotaEntity(entity_type=t, entity_name=n)
            for t, n in self.rng.sample(parts, self.rng.randint(1, 2))
        )
        return m.ClientQuotaRecord(
            entity=entity,
            key="rate",
            value=self.rng.randint(0, 9) / 4,
            remove=self.rng.random() < 0.3,
        )

    def acl(self):
        if self.image.acls and self.rng.random() < 0.5:
            return m.RemoveAccessControlEntryRecord(id=self.some(self.image.acls))
        return m.AccessControlEntryRecord(
            id=self.rng.randbytes(16), resource_type=2, resource_name="t", pattern_type=3,
            principal="User:a", host="*", operation=3, permission_type=3,
        )  # fmt: skip

    def scram(self):
        if self.image.scram and self.rng.random() < 0.5:
            mechanism, name = self.some(self.image.scram)
            return m.RemoveUserScramCredentialRecord(name=name, mechanism=mechanism)
        return m.UserScramCredentialRecord(
            name=self.rng.choice("ab"), mechanism=1, salt=self.rng.randbytes(4), stored_key=b"k",
            server_key=b"s", iterations=self.rng.randint(4096, 9999),
        )  # fmt: skip

    def token(self):
        if self.rng.random() < 0.5:
            return m.RemoveDelegationTokenRecord(token_id=self.rng.choice("xy"))
        return m.DelegationTokenRecord(
            owner="User:a", requester="User:b", renewers=("User:c",), issue_timestamp=1,
            max_timestamp=self.rng.randint(2, 99), expiration_timestamp=3,
            token_id=self.rng.choice("xy"),
        )  # fmt: skip

    def setting(self):
        kind = self.rng.randint(0, 3)
        if kind == 0:
            return m.FeatureLevelRecord(name="f", feature_level=self.rng.randint(0, 3))
        if kind == 1:
            self.next_producer_id += 1000
            return m.ProducerIdsRecord(broker_id=1, next_producer_id=self.next_producer_id)
        if kind == 2:
            return m.RegisterControllerRecord(
                controller_id=self.rng.randint(1, 2), incarnation_id=self.rng.randbytes(16)
            )
        return m.ZkMigrationStateRecord(zk_migration_state=self.rng.randint(0, 4))


_OPERATIONS = (
    RandomLog.topic, RandomLog.topic, RandomLog.remove_topic, RandomLog.partition,
    RandomLog.partition, *(RandomLog.change,) * 8, RandomLog.clear_elr, RandomLog.register,
    RandomLog.broker_change, RandomLog.broker_change, RandomLog.config, RandomLog.config,
    RandomLog.quota, RandomLog.acl, RandomLog.scram, RandomLog.token, RandomLog.setting,
    lambda log: m.NoOpRecord(),
)  # fmt: skip


def write_metadata_log(root, content, base_offset=0):
    """A node's folder with one segment of the metadata log."""
    folder = root / "__cluster_metadata-0"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{base_offset:020d}.log").write_bytes(content)
    return root


def image_rows(image):
    """Rows that each table must hold as of the image, as JSON-like values.

    Written out by hand: nothing here goes through the code under test.
    """
    return {
        "topics": [{"topic_id": uuid_text(i), "name": t.name} for i, t in image.topics.items()],
        "partitions": [
            _partition(topic, number, partition)
            for topic in image.topics.values()
            for number, partition in topic.partitions.items()
        ],
        "brokers": [_broker(one) for one in image.brokers.values()],
        "controllers": [
            {"controller_id": one.id, "incarnation": uuid_text(one.incarnation_id),
             "zk_migration_ready": one.zk_migration_ready,
             "endpoints": _endpoints(one.endpoints), "features": _features(one.features)}
            for one in image.controllers.values()
        ],
        "configs": [
            {"resource_type": kind, "resource": resource, "name": name, "value": value,
             "is_sensitive_masked": False}
            for (kind, resource), values in image.configs.items()
            for name, value in values.items()
        ],
        "features": [{"name": n, "level": level} for n, level in image.features.items()],
        "quotas": [
            {"entity": dict(entity), "key": key, "value": value}
            for entity, values in image.client_quotas.items()
            for key, value in values.items()
        ],
        "acls": [
            {"id": uuid_text(i), "resource_type": a.resource_type, "resource_name": a.resource_name,
             "pattern_type": a.pattern_type, "principal": a.principal, "host": a.host,
             "operation": a.operation, "permission_type": a.permission_type}
            for i, a in image.acls.items()
        ],
        "producer_ids": [] if image.producer_ids is None else [{"next": image.producer_ids}],
        "scram": [
            {"name": name, "mechanism": mechanism, "iterations": c.iterations,
             "salt": _base64(c.salt), "stored_key": _base64(c.stored_key),
             "server_key": _base64(c.server_key)}
            for (mechanism, name), c in image.scram.items()
        ],
        "delegation_tokens": [
            {"token_id": i, "owner": t.owner, "requester": t.requester,
             "renewers": list(t.renewers), "issue_timestamp_ms": t.issue_timestamp_ms,
             "max_timestamp_ms": t.max_timestamp_ms,
             "expiration_timestamp_ms": t.expiration_timestamp_ms}
            for i, t in image.delegation_tokens.items()
        ],
        "zk_migration": []
        if image.zk_migration_state is None
        else [{"state": image.zk_migration_state}],
    }  # fmt: skip


def _partition(topic, number, one):
    return {
        "topic_id": uuid_text(topic.topic_id), "topic": topic.name, "partition": number,
        "leader": one.leader, "leader_epoch": one.leader_epoch,
        "partition_epoch": one.partition_epoch, "replicas": list(one.replicas),
        "isr": list(one.isr), "elr": list(one.elr), "last_known_elr": list(one.last_known_elr),
        "adding": list(one.adding_replicas), "removing": list(one.removing_replicas),
        "directories": [uuid_text(d) for d in one.directories],
        "recovery": one.leader_recovery_state,
    }  # fmt: skip


def _broker(one):
    cordoned = one.cordoned_log_dirs
    return {
        "broker_id": one.id, "broker_epoch": one.epoch,
        "incarnation": uuid_text(one.incarnation_id), "endpoints": _endpoints(one.endpoints),
        "rack": one.rack, "features": _features(one.features),
        "is_migrating": one.is_migrating_zk_broker, "fenced": one.fenced,
        "in_shutdown": one.in_controlled_shutdown,
        "log_dirs": [uuid_text(d) for d in one.log_dirs],
        "cordoned_log_dirs": None if cordoned is None else [uuid_text(d) for d in cordoned],
    }  # fmt: skip


def _endpoints(endpoints):
    found = [{"name": e.name, "host": e.host, "port": e.port, "protocol": e.security_protocol}
             for e in endpoints]  # fmt: skip
    return sorted(found, key=lambda e: e["name"])


def _features(features):
    return {
        f.name: {"min": f.min_supported_version, "max": f.max_supported_version} for f in features
    }


def _base64(content):
    return b64encode(content).decode()
