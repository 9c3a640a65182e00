"""A broker's life cycle and its ISR expansion, with the controller's answers one at a time."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from kernel.effects import Effect
from kernel.lifecycle.broker_lifecycle import BrokerLifecycle, BrokerState, Incarnation
from kernel.lifecycle.controller_link import ControllerLink
from kernel.lifecycle.isr_expansion import BACKOFF_MS_MIN, IsrExpansion
from metadata.apply import apply_all
from metadata.delta import MetadataDelta
from metadata.image import EMPTY, Image, Provenance
from metadata.records import (
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from network.clock import Clock, Now
from network.peers import Peers
from network.timers import HEARTBEAT, ISR_EXPANSION, NEVER_MS
from quorum_controller.result import RequestContext
from tests.kernel.harness import config_of
from wire.api_keys import ALTER_PARTITION, BROKER_HEARTBEAT, BROKER_REGISTRATION
from wire.errors import ErrorCode
from wire.messages import codec
from wire.types import (
    BrokerEpoch,
    DirectoryId,
    LeaderAndEpoch,
    LeaderEpoch,
    NodeId,
    Offset,
    TopicId,
)

SELF, OTHER = NodeId(1), NodeId(2)
EPOCH = 7
"""Of the broker: the offset of its registration."""
TOPIC = TopicId(b"t" * 16)
NO_TIME = timedelta(0)


class Local:
    """The active controller, on this node: holds requests until the test answers them."""

    is_active = True

    def __init__(self) -> None:
        self.held: list[tuple[int, Any, Callable[[Any], None]]] = []

    def submit(
        self, api_key: int, body: Any, answered: Callable[[Any], None], context: RequestContext
    ) -> None:
        del context
        self.held.append((api_key, body, answered))


class Rig:
    """A broker's parts without its kernel."""

    def __init__(self) -> None:
        self.clock = Clock(Now(1_000, 1_000))
        self.effects: list[Effect] = []
        self.local = Local()
        config = config_of(SELF, 1)
        here = LeaderAndEpoch(SELF, LeaderEpoch(1))
        peers = Peers({}, SELF, self.clock, self.effects, lambda: here, lambda _: None)
        link = ControllerLink(SELF, self.local, peers, lambda: SELF)
        directory_ids = {"/data": DirectoryId(b"d" * 16)}
        self.incarnation = Incarnation(UUID(int=5), directory_ids, -1)
        self.lifecycle = BrokerLifecycle(
            config,
            "cluster",
            incarnation=self.incarnation,
            controller=link,
            clock=self.clock,
            effects=self.effects,
            on_state=lambda: None,
            on_shut_down=lambda: None,
        )
        self.expansion = IsrExpansion(config, self.lifecycle, link, self.clock, set)
        self.image = EMPTY
        self.lifecycle.start()

    def asked(self, api_key: int) -> Any:
        """The body of the one request that is held."""
        ((held_key, body, _),) = self.local.held
        assert held_key == api_key
        return body

    def answer(self, api_key: int, error: ErrorCode = ErrorCode.none, **values: Any) -> None:
        self.asked(api_key)
        _, _, answered = self.local.held.pop()
        new = codec.newest(api_key, "response")
        body = getattr(new, f"{NAMES[api_key]}Response")
        answered(body(throttle_time=NO_TIME, error_code=error, **values))

    def register(self) -> None:
        self.lifecycle.tick()
        self.answer(BROKER_REGISTRATION, broker_epoch=EPOCH)

    def publish(self, end_offset: int, *records: msgspec.Struct) -> None:
        delta = MetadataDelta()
        after: Image = apply_all(self.image, records, Offset(EPOCH), delta)
        provenance = Provenance(Offset(end_offset), LeaderEpoch(1), 0)
        after = msgspec.structs.replace(after, provenance=provenance)
        self.lifecycle.publish(self.image, after, delta)
        self.expansion.publish(self.image, after, delta)
        self.image = after

    def run(self) -> None:
        """Registered, caught up, unfenced: the broker serves."""
        self.register()
        self.publish(EPOCH + 1, broker(SELF, self.incarnation.id.bytes))
        for _ in range(2):
            self.clock.now_ms = max(self.clock.now_ms, self.clock.timers.at_ms[HEARTBEAT])
            self.lifecycle.tick()
            self.answer(
                BROKER_HEARTBEAT, is_caught_up=True, is_fenced=False, should_shut_down=False
            )
        assert self.lifecycle.state is BrokerState.RUNNING

    def lead(self, *partitions: int) -> None:
        """Partitions that this broker leads, and whose other replica is back."""
        self.publish(
            20,
            broker(OTHER, b"o" * 16),
            TopicRecord(name="t", topic_id=TOPIC),
            *(led(number) for number in partitions),
        )


NAMES = {
    ALTER_PARTITION: "AlterPartition",
    BROKER_HEARTBEAT: "BrokerHeartbeat",
    BROKER_REGISTRATION: "BrokerRegistration",
}


def broker(node_id: NodeId, incarnation: bytes) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=node_id,
        incarnation_id=incarnation,
        broker_epoch=BrokerEpoch(EPOCH),
        fenced=False,
    )


def led(number: int, topic_id: TopicId = TOPIC) -> PartitionRecord:
    return PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=(SELF, OTHER),
        isr=(SELF,),
        leader=SELF,
        leader_epoch=LeaderEpoch(0),
        partition_epoch=0,
    )


def test_before_the_first_image_a_heartbeat_says_that_nothing_was_read() -> None:
    rig = Rig()
    rig.register()
    rig.lifecycle.tick()
    body = rig.asked(BROKER_HEARTBEAT)
    assert body.broker_epoch == EPOCH
    assert body.current_metadata_offset == -1
    assert body.want_fence


@pytest.mark.parametrize(("end_offset", "is_caught_up"), [(EPOCH, False), (EPOCH + 1, True)])
def test_a_broker_has_caught_up_when_it_has_read_its_registration(
    end_offset: int, is_caught_up: bool
) -> None:
    rig = Rig()
    rig.register()
    rig.publish(end_offset)
    rig.lifecycle.tick()
    body = rig.asked(BROKER_HEARTBEAT)
    assert body.current_metadata_offset == end_offset - 1
    assert body.want_fence is not is_caught_up


def refused(*rows: tuple[int, ErrorCode]) -> tuple[Any, ...]:
    """The topic of an AlterPartition response."""
    new = codec.newest(ALTER_PARTITION, "response")
    return (
        new.TopicData(
            topic_id=UUID(bytes=TOPIC),
            partitions=tuple(
                new.PartitionData(
                    partition_index=number,
                    error_code=error,
                    leader_id=SELF,
                    leader_epoch=0,
                    partition_epoch=0,
                )
                for number, error in rows
            ),
        ),
    )


def partitions_asked(rig: Rig) -> list[int]:
    rig.expansion.tick()
    (topic,) = rig.asked(ALTER_PARTITION).topics
    return [row.partition_index for row in topic.partitions]


def test_only_refused_partitions_are_asked_again_and_after_a_pause() -> None:
    rig = Rig()
    rig.run()
    rig.lead(0, 1, 2)
    assert partitions_asked(rig) == [0, 1, 2]
    fenced = ErrorCode.fenced_leader_epoch
    rows = refused((0, ErrorCode.none), (1, fenced), (2, ErrorCode.none))
    rig.answer(ALTER_PARTITION, topics=rows)
    due_ms = rig.clock.timers.at_ms[ISR_EXPANSION]
    assert due_ms == rig.clock.now_ms + BACKOFF_MS_MIN
    rig.clock.now_ms = due_ms - 1
    rig.expansion.tick()
    assert not rig.local.held
    rig.clock.now_ms = due_ms
    assert partitions_asked(rig) == [1]


def test_the_pause_doubles_until_an_answer_without_a_refusal() -> None:
    rig = Rig()
    rig.run()
    rig.lead(0)
    pauses_ms = []
    for error in (ErrorCode.not_controller, ErrorCode.stale_broker_epoch):
        assert partitions_asked(rig) == [0]
        rig.answer(ALTER_PARTITION, error, topics=())
        pauses_ms.append(rig.clock.timers.at_ms[ISR_EXPANSION] - rig.clock.now_ms)
        rig.clock.now_ms += pauses_ms[-1]
    assert partitions_asked(rig) == [0]
    rig.answer(ALTER_PARTITION, topics=refused((0, ErrorCode.none)))
    assert rig.clock.timers.at_ms[ISR_EXPANSION] == NEVER_MS
    rig.publish(30, led(1))
    assert partitions_asked(rig) == [1]
    rig.answer(ALTER_PARTITION, topics=refused((1, ErrorCode.fenced_leader_epoch)))
    pauses_ms.append(rig.clock.timers.at_ms[ISR_EXPANSION] - rig.clock.now_ms)
    assert pauses_ms == [BACKOFF_MS_MIN, 2 * BACKOFF_MS_MIN, BACKOFF_MS_MIN]


@pytest.mark.parametrize(
    "change",
    [
        RemoveTopicRecord(topic_id=TOPIC),
        PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=(OTHER,), leader=OTHER),
        PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=(SELF, OTHER)),
    ],
    ids=["deleted", "another leader", "whole"],
)
def test_a_partition_that_changed_meanwhile_is_not_asked_for(change: msgspec.Struct) -> None:
    rig = Rig()
    rig.run()
    rig.lead(0)
    rig.publish(30, change)
    rig.expansion.tick()
    assert not rig.local.held


def test_a_request_names_each_topic_once() -> None:
    """In whatever order its partitions became ready."""
    other = TopicId(b"u" * 16)
    rig = Rig()
    rig.run()
    rig.lead(1)
    rig.publish(30, TopicRecord(name="u", topic_id=other), led(0, other))
    rig.publish(31, led(0))
    rig.expansion.tick()
    topics = rig.asked(ALTER_PARTITION).topics
    found = [(t.topic_id.bytes, [row.partition_index for row in t.partitions]) for t in topics]
    assert found == [(TOPIC, [0, 1]), (other, [0])]
