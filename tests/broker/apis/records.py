"""Broker 1 with partitions in memory, whose Produce and Fetch handlers are asked in any version."""

import importlib
import random
import struct

import msgspec
from kio.serial import entity_reader

from broker.apis.access import Access
from broker.apis.records import fetch
from broker.apis.records.fetch import Fetch
from broker.apis.records.produce import Produce
from broker.clients.call import Call
from broker.clients.client_quotas import ClientQuotas
from broker.clients.throttling import Throttle
from broker.coordinators.verification import TransactionVerifier
from coordinator.transaction.config import TransactionsConfig
from metadata.image import Acl, Broker, Topic
from metadata.records import RegisteredEndpoint
from network.sampled_rate import QuotaWindow
from quorum_controller.security.authorization import PatternType, Permission, ResourceType
from replication.leader import fetches
from replication.leader.fetch_session import FetchManager, FetchSessionCache
from storage.segments.file_slice import FileSlice
from tests.broker.apis.requests import ALICE
from tests.replication.managers import Managed
from tests.wire.messages import test_fetch_request, test_produce
from tests.wire.messages.test_produce import topic_id
from wire.connections.headers import RequestHeader
from wire.messages import fetch_request, fetch_response
from wire.messages.fetch_request import RequestedPartition

PRODUCE, FETCH = 0, 1


def divide(monkeypatch):
    """Make each Fetch so large that it is done partition by partition."""
    for module, name, value in (
        (fetch, "SMALL_MAX", 0),
        (fetch, "SMALL_BYTES_MAX", 0),
        (fetch, "PIECE", 1),
        (fetches, "READ_PIECE", 1),
        (fetch_request, "PIECE", 1),
        (fetch_response, "PIECE", 1),
    ):
        monkeypatch.setattr(module, name, value)


def key_of(name, number=0):
    return topic_id(name).bytes, number


class Asked:
    """Answers to the calls of Alice."""

    def __init__(self):
        self.parts = []
        self.reasons = []
        self.errors = {}
        """By API key and code."""
        self.muted = []

    def respond(self, parts, reason):
        if parts is None:
            self.reasons.append(reason)
        else:
            self.parts.append(tuple(parts))


class Records(Managed):
    """A broker whose topics have the ids that `key_of` says."""

    def __init__(self, rules=None, *, bytes_max=1 << 20, slots=10, reads_in_rack=False):
        super().__init__(reads_in_rack=reads_in_rack)
        self.quotas = ClientQuotas(self.clock, QuotaWindow(), lambda: 0)
        self.access = access = Access(rules, lambda: self.image)
        self.sessions = FetchManager(FetchSessionCache(slots, random.Random(1)))
        self.asked_brokers = []
        """Requests to brokers: node, API key, body and the function that takes the answer."""
        self.verifier = TransactionVerifier(
            self.clock,
            lambda: self.image,
            lambda *request: self.asked_brokers.append(request),
            TransactionsConfig(),
        )
        self.produce = Produce(
            self.manager,
            access,
            lambda: self.image,
            verifier=self.verifier,
            clock=self.clock,
        )
        self.reader = Fetch(
            self.manager,
            self.sessions,
            access,
            image=lambda: self.image,
            clock=self.clock,
            bytes_max=bytes_max,
            counters=self.counters,
            quota=self.quota,
        )

    def topic(self, name="t", number=0, **fields):
        """A hosted partition of a topic; broker 1 has it alone unless the fields say otherwise."""
        self.name(name)
        fields = {"isr": (1,), "replicas": (1,)} | fields
        return self.create(key_of(name, number), **fields)

    def name(self, name):
        topic_id_ = key_of(name)[0]
        if topic_id_ not in self.image.topics:
            self.image = msgspec.structs.replace(
                self.image,
                topics=self.image.topics.set(topic_id_, Topic(topic_id_, name)),
                topic_id_by_name=self.image.topic_id_by_name.set(name, topic_id_),
            )

    def broker(self, node_id, *, fenced=False, listener="PLAINTEXT", rack="r"):
        registered = Broker(
            id=node_id,
            epoch=10 + node_id,
            incarnation_id=bytes(16),
            endpoints=(RegisteredEndpoint(name=listener, host="h", port=90 + node_id),),
            features=(),
            rack=rack,
            fenced=fenced,
            in_controlled_shutdown=False,
            log_dirs=(),
            cordoned_log_dirs=None,
            registration_offset=0,
        )
        brokers = self.image.brokers.set(node_id, registered)
        self.image = msgspec.structs.replace(self.image, brokers=brokers)

    def allow(self, operation, name, resource_type=ResourceType.TOPIC):
        """Add an ACL of Alice."""
        acl = Acl(
            resource_type=int(resource_type),
            resource_name=name,
            pattern_type=int(PatternType.LITERAL),
            principal=ALICE.principal,
            host="*",
            operation=int(operation),
            permission_type=int(Permission.ALLOW),
        )
        acls = self.image.acls
        acls = acls.set(len(acls).to_bytes(16, "big"), acl)
        self.image = msgspec.structs.replace(self.image, acls=acls)

    def made_call(self, api_key, version, body, client_id="client"):
        """A call that no handler has seen, and its answers."""
        asked = Asked()
        call = Call(
            RequestHeader(api_key, version, 5, client_id),
            frame=bytearray(body),
            position=0,
            caller=ALICE,
            listener="PLAINTEXT",
            respond=asked.respond,
            throttle=Throttle(self.quotas, ALICE, client_id, asked.muted.append)
            if self.quotas.is_enabled
            else None,
            errors=asked.errors,
        )
        return call, asked

    def call(self, api_key, version, body, client_id="client"):
        call, asked = self.made_call(api_key, version, body, client_id)
        (self.produce if api_key == PRODUCE else self.reader).serve(call)
        asked.kind = call.kind
        return asked

    def send(self, topics, *, version=12, acks=-1, transactional_id=None, client_id="client"):
        """Ask to produce: records by partition, by topic name."""
        topics = {name: list(of_topic.items()) for name, of_topic in topics.items()}
        body = test_produce.request_bytes(version, transactional_id, acks, 50, topics)
        return self.call(PRODUCE, version, body, client_id)

    def ask(self, topics, forgotten=None, *, version=12, **values):
        """Ask to fetch: rows by topic name, (partition, offset) or with more fields as a dict."""
        rows = {
            name: [row_of(*row) if isinstance(row, tuple) else row_of(**row) for row in of_topic]
            for name, of_topic in topics.items()
        }
        values = {"max_bytes": 1 << 20, "min_bytes": 1} | values
        body = test_fetch_request.request_bytes(version, rows, forgotten, **values)
        return self.call(FETCH, version, body)


def row_of(partition, fetch_offset, max_bytes=1 << 20, **fields):
    return RequestedPartition(
        topic="", partition=partition, fetch_offset=fetch_offset, max_bytes=max_bytes, **fields
    )


def content(parts):
    """The bytes that a client gets; handles are closed."""
    whole = b""
    for part in parts:
        if isinstance(part, FileSlice):
            whole += part.read()
            part.close()
        else:
            whole += part
    return whole


def answer_of(asked, api_key, version):
    """The only answer, read by kio."""
    assert asked.reasons == []
    (frame,) = asked.parts = [
        content(parts) if isinstance(parts, tuple) else parts for parts in asked.parts
    ]
    assert struct.unpack(">i", frame[:4]) == (5,)
    name = "produce" if api_key == PRODUCE else "fetch"
    flexible = version >= (9 if api_key == PRODUCE else 12)
    kio = importlib.import_module(f"kio.schema.{name}.v{version}.response")
    response, size = entity_reader(getattr(kio, f"{name.capitalize()}Response"))(
        frame, 5 if flexible else 4
    )
    assert size == len(frame) - (5 if flexible else 4)
    return response


def produced_rows(asked, version=12):
    """Rows of a Produce answer by topic and partition."""
    return {
        (topic_name(topic), row.index): row
        for topic in answer_of(asked, PRODUCE, version).responses
        for row in topic.partition_responses
    }


def fetched_rows(asked, version=12):
    """Rows of a Fetch answer by topic and partition."""
    return {
        (topic_name(topic), row.partition_index): row
        for topic in answer_of(asked, FETCH, version).responses
        for row in topic.partitions
    }


def topic_name(topic):
    for field in ("name", "topic"):
        if hasattr(topic, field):
            return getattr(topic, field)
    return topic.topic_id.bytes
