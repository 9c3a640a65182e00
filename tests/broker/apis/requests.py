"""One broker with partitions over logs in memory, whose handlers of requests are asked."""

import msgspec
from immutables import Map

from broker.apis.access import Access
from broker.apis.named_partitions import NamedPartitions
from broker.clients.call import Call
from metadata.image import Acl
from quorum_controller.security.authorization import (
    Caller,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tests.broker.metadata_log import A, MetadataLog
from tests.wire.recorded_pairs import named
from wire.connections.headers import RequestHeader
from wire.errors import ErrorCode
from wire.messages import codec

ALICE = Caller("User:alice", "10.0.0.1")


class Broker:
    """Broker 1; partitions 0 to 3 of each topic exist, those in `hosted` are here."""

    def __init__(self, *topics, rules=None):
        self.metadata = MetadataLog()
        self.metadata.register()
        for name in topics:
            self.metadata.topic(name, topic_id=name.encode().ljust(16, name[:1].encode())[:16],
                                partitions=4)  # fmt: skip
        self.acls = Map()
        self.hosted = {}
        self.partitions = NamedPartitions(self.image, self.partition_of)
        self.access = Access(rules, self.image)

    def image(self):
        return msgspec.structs.replace(self.metadata.image, acls=self.acls)

    def allow(self, operation, name, resource_type=ResourceType.TOPIC, **fields):
        """Add an ACL of Alice."""
        acl = Acl(
            **(
                {
                    "resource_type": int(resource_type),
                    "resource_name": name,
                    "pattern_type": int(PatternType.LITERAL),
                    "principal": ALICE.principal,
                    "host": "*",
                    "operation": int(operation),
                    "permission_type": int(Permission.ALLOW),
                }
                | fields
            )
        )
        self.acls = self.acls.set(len(self.acls).to_bytes(16, "big"), acl)

    def partition_of(self, key):
        return self.hosted.get(key, ErrorCode.not_leader_or_follower)

    def host(self, partition, number=0, topic_id=A):
        self.hosted[topic_id, number] = partition
        return partition


def call_of(api_key, version, body, answers):
    """A call of Alice with a body of the newest shape; its answers go to a list, decoded."""
    frame = codec.encode_request(api_key, version, 5, "client", body)

    def respond(parts, reason):
        assert reason is None
        correlation_id, answer = codec.decode_response(
            api_key, version, b"".join(map(bytes, parts))
        )
        assert correlation_id == 5
        answers.append(answer)

    return Call(
        RequestHeader(api_key, version, 5, "client"),
        frame=bytearray(frame),
        position=codec.split_request(frame)[1],
        caller=ALICE,
        listener="PLAINTEXT",
        respond=respond,
    )


def ask(handler, api_key, version, body):
    """The answer of a handler that gives it at once."""
    answers = []
    handler.serve(call_of(api_key, version, body, answers))
    (answer,) = answers
    return answer


def recorded(pair_id):
    """An exchange between a client and Kafka, as frames."""
    pair = named(pair_id)
    return bytes.fromhex(pair["request_hex"]), bytes.fromhex(pair["response_hex"])


def answer_bytes(handler, frame):
    """The frame that a handler answers a recorded frame with."""
    header, position = codec.split_request(frame)
    answers = []
    handler.serve(
        Call(
            header,
            frame=bytearray(frame),
            position=position,
            caller=ALICE,
            listener="PLAINTEXT",
            respond=lambda parts, reason: answers.append(b"".join(map(bytes, parts))),
        )
    )
    (answer,) = answers
    return answer


CLUSTER = (Operation.CLUSTER_ACTION, "kafka-cluster", ResourceType.CLUSTER)
