"""A controller with a log of its own: commits when told to, keeps what was proposed."""

import random
import uuid
from datetime import timedelta

from kio.schema.broker_heartbeat.v2.request import BrokerHeartbeatRequest
from kio.schema.broker_registration.v4.request import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from kio.schema.create_topics.v7.request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState

from metadata.image import EMPTY
from metadata.records import FeatureLevelRecord
from quorum_controller.config import ControllerConfig
from quorum_controller.controller import Controller
from quorum_controller.result import ControllerRequest, Output
from wire import api_keys

CLUSTER_ID = "Z29sZGVuLXNoYXJlZC0wMQ"
EPOCH = 3
SECOND = timedelta(seconds=30)


def directory(broker_id, number=0):
    """A directory id of a broker."""
    return uuid.UUID(int=(broker_id << 32) + 1000 + number)


def incarnation(number):
    """An incarnation id."""
    return uuid.UUID(int=(7 << 64) + number)


def topic(name, partitions=1, factor=1, assignments=(), configs=()):
    """A topic to create; assignments are replica lists, or (index, replicas) pairs."""
    pairs = [
        a if isinstance(a[1:2], tuple) and len(a) == 2 and isinstance(a[1], tuple) else (i, a)
        for i, a in enumerate(assignments)
    ]
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=tuple(
            CreatableReplicaAssignment(partition_index=i, broker_ids=tuple(r)) for i, r in pairs
        ),
        configs=tuple(CreatableTopicConfig(name=n, value=v) for n, v in configs),
    )


def manual(name, *assignments):
    """A topic with replica lists chosen by the client."""
    return topic(name, -1, -1, assignments)


class Harness:
    """One node's controller, driven by hand."""

    def __init__(self, level=21, *, activate=True, seed=1, **config):
        rng = random.Random(seed)
        self.config = ControllerConfig(
            cluster_id=CLUSTER_ID,
            node_id=1,
            bootstrap_records=(FeatureLevelRecord(name="metadata.version", feature_level=level),),
            **config,
        )
        self.controller = Controller(self.config, rng, lambda: rng.randbytes(16))
        self.now_ms = 1_000
        self.wall_ms = 0
        self.log = []
        self.batches = []
        self.committed = []
        self.answers = {}
        self.level = level
        if activate:
            self.take(self.controller.activate(EPOCH, 1, EMPTY, self.now_ms, self.wall_ms))
            self.log.insert(0, None)  # the LeaderChange record
            self.commit()

    def take(self, output):
        """Keep an output; returns it."""
        for proposal in output.proposals:
            self.batches.append(proposal)
            self.log.extend(proposal.records)
        for answer in output.answers:
            assert answer.reply_token not in self.answers, "answered twice"
            self.answers[answer.reply_token] = answer.body
        return output

    def submit(self, api_key, body, **more):
        """Submit without commit; returns the token."""
        token = object()
        request = ControllerRequest(api_key=api_key, body=body, reply_token=token, **more)
        self.take(self.controller.submit(request, self.now_ms, self.wall_ms))
        return token

    def commit(self, high_watermark=None):
        """Commit up to the high watermark, everything by default."""
        end = self.controller.next_offset if high_watermark is None else high_watermark
        pending, output = self.controller.commit(end)
        self.committed.extend(pending)
        self.take(output)

    def take_draft(self, draft):
        """Propose and commit records that no request makes."""
        output = Output()
        self.controller._propose(draft, output, self.now_ms, self.wall_ms)
        self.take(output)
        self.commit()

    def call(self, api_key, body, **more):
        """Submit, commit, run pending work; returns the response."""
        token = self.submit(api_key, body, **more)
        self.commit()
        while token not in self.answers:
            self.tick()
            self.commit()
        return self.answers[token]

    def tick(self, advance_ms=0):
        """Let time pass and the controller do what is due."""
        self.now_ms += advance_ms
        return self.take(self.controller.tick(self.now_ms, self.wall_ms))

    @property
    def image(self):
        """The latest image."""
        return self.controller.latest

    def create(self, *topics, validate_only=False, **more):
        """CreateTopics."""
        body = CreateTopicsRequest(topics=topics, timeout=SECOND, validate_only=validate_only)
        return self.call(api_keys.CREATE_TOPICS, body, **more)

    def delete(self, *names, ids=()):
        """DeleteTopics."""
        states = [DeleteTopicState(name=name, topic_id=None) for name in names]
        states += [DeleteTopicState(name=None, topic_id=i) for i in ids]
        body = DeleteTopicsRequest(topics=tuple(states), timeout=SECOND)
        return self.call(api_keys.DELETE_TOPICS, body)

    def registration(self, broker_id, **more):
        """A good registration request, with changes."""
        fields = {
            "broker_id": broker_id,
            "cluster_id": CLUSTER_ID,
            "incarnation_id": incarnation(broker_id),
            "listeners": (
                Listener(name="PLAINTEXT", host="127.0.0.1", port=9000, security_protocol=0),
            ),
            "features": (
                Feature(name="metadata.version", min_supported_version=1, max_supported_version=21),
            ),
            "rack": None,
            "log_dirs": (directory(broker_id),),
        }
        return BrokerRegistrationRequest(**(fields | more))

    def register(self, broker_id, **more):
        """BrokerRegistration."""
        return self.call(api_keys.BROKER_REGISTRATION, self.registration(broker_id, **more))

    def heartbeat(self, broker_id, offset=None, **more):
        """BrokerHeartbeat, caught up unless told otherwise."""
        return self.call(api_keys.BROKER_HEARTBEAT, self.heartbeat_of(broker_id, offset, **more))

    def heartbeat_of(self, broker_id, offset=None, *, fence=False, stop=False, epoch=None, **more):
        """The request of a heartbeat, caught up unless told otherwise."""
        broker = self.image.brokers.get(broker_id)
        return BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=(broker.epoch if broker else -1) if epoch is None else epoch,
            current_metadata_offset=self.controller.next_offset - 1 if offset is None else offset,
            want_fence=fence,
            want_shut_down=stop,
            **more,
        )

    def start(self, *broker_ids, racks=None):
        """Register and unfence brokers."""
        for broker_id in broker_ids:
            rack = racks.get(broker_id) if racks else None
            assert self.register(broker_id, rack=rack).error_code == 0
            assert not self.heartbeat(broker_id).is_fenced
        return self

    def partition(self, name, partition_id=0):
        """A partition by topic name."""
        return self.image.topic_named(name).partitions[partition_id]


def names(records):
    """Record class names without `Record`."""
    return [type(record).__name__.removesuffix("Record") for record in records]
