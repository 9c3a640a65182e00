"""Groups of a run: who is in them, what befalls their members, and where their coordinators go.

A group has members of the classic protocol, of KIP-848's, or of both by turns, two or three at the
same time, some of them static. The plan of a seed kills, pauses and replaces them, lets them leave,
and moves the partition of a coordinator; each comes back, with a protocol drawn anew where the
group has both.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from coordinator.records.kinds import CONSUMER_OFFSETS
from metadata.features import GROUP_VERSION
from metadata.image import Image
from simulator.checks.partitions.groups import GroupChecks
from simulator.cluster.machine import Machine
from simulator.copying.consumer import CopyingConsumer
from simulator.copying.drawing import Copying
from simulator.copying.session import CopySession, Source
from simulator.faults.decision import Decision
from simulator.faults.fault import CarryingOut, Reach
from simulator.faults.impact import Impact
from simulator.groups.bodies import Membership
from simulator.groups.classic_member import ClassicMember
from simulator.groups.consumer_member import ConsumerMember
from simulator.groups.group_consumer import GroupConsumer, Member
from simulator.groups.settings import (
    GROUPED,
    OFFSETS_CONFIGS,
    OFFSETS_PARTITIONS,
    OFFSETS_SEGMENTS,
    REBALANCE_MS,
    SESSION_MS,
)
from simulator.records import requests
from simulator.records.clients import Cluster, PartitionClient
from simulator.records.producers import ProducerKind, RecordProducer
from simulator.records.transactions.session import SessionRules
from wire.errors import ErrorCode

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
PROTOCOLS: Final = ((CLASSIC,), (CONSUMER,), (CLASSIC, CONSUMER))
STATIC_SHARE: Final = 0.3
START_US: Final = 1_500_000
DEAD_US: Final = 500_000
TRIES: Final = 6
CREATED: Final = (ErrorCode.none, ErrorCode.topic_already_exists)
PAUSE_US: Final = 250_000
COPYING_MEMBERS: Final = 2
NEVER_US: Final = 1 << 62
CALM_US: Final = 20_000_000
"""Time behind the faults in which members that copy stall, and hold transactions open."""


class Slot(msgspec.Struct):
    """A place in a group, in which one consumer follows another."""

    host: int
    group_id: str
    protocols: tuple[str, ...]
    instance_id: str | None
    consumer: GroupConsumer | None = None
    count: int = 0
    """Consumers so far."""
    copies: SessionRules | None = None
    """Of the processes that copy what it reads; None: it only reads."""

    @property
    def member(self) -> Member | None:
        """The member of its consumer; None without any."""
        return None if self.consumer is None else self.consumer.member

    @property
    def positions(self) -> list[tuple[int, int | None, int | None]]:
        """The positions of its consumer."""
        return [] if self.consumer is None else self.consumer.positions

    def resume(self) -> None:
        """Resume its consumer."""
        if self.consumer is not None:
            self.consumer.resume()

    def kill(self) -> None:
        """Kill its consumer."""
        if self.consumer is not None:
            self.consumer.kill()


class Groups:
    """All groups of a run.

    Args:
        cluster: as its clients reach it.
        rng: of the groups.
        hosts: gives a number for each client.
        checks: judge what they see.
        image: gives the newest committed image.
        copying: a group more, which copies what it reads; None for none.
    """

    def __init__(
        self,
        cluster: Cluster,
        rng: Random,
        hosts: Callable[[], int],
        checks: GroupChecks,
        image: Callable[[], Image],
        copying: Copying | None = None,
    ) -> None:
        self._cluster = replace(cluster, topic=GROUPED, rng=rng)
        self._rng = rng
        self._checks = checks
        self._records = cluster.checks
        self._image = image
        self._scheduler = cluster.scheduler
        self._is_settling = self._is_stopped = False
        self._calm_us = NEVER_US
        """Time from which on members that copy hold nothing open."""
        self._open = 0
        """Requests of administrators."""
        self._admin = hosts()
        self.slots = self._draw_slots(hosts)
        self._copying = copying
        if copying is not None:
            self.slots += self._draw_copying(copying, hosts)
        kind = ProducerKind(ahead=1, pause_us=PAUSE_US)
        self.producers = [
            RecordProducer(self._cluster, hosts(), number, kind)
            for number in range(GROUPED.partitions)
        ]
        self.table: Mapping[str, CarryingOut] = {
            "member_kill": self._strike(self._kill),
            "member_pause": self._strike(self._pause),
            "member_leave": self._strike(self._leave),
            "member_replace": self._strike(self._replace),
            "coordinator_move": self._move_coordinator,
        }

    def _draw_slots(self, hosts: Callable[[], int]) -> list[Slot]:
        rng = self._rng
        slots = []
        for number in range(rng.choice((1, 1, 2))):
            protocols = rng.choice(PROTOCOLS)
            group_id = f"{'-'.join(protocols)}-{number}"
            self._checks.note_group(
                group_id, is_classic=CLASSIC in protocols, is_mixed=len(protocols) > 1
            )
            for place in range(rng.choice((2, 2, 3))):
                is_static = rng.random() < STATIC_SHARE
                instance_id = f"i{place}" if is_static else None
                slots.append(Slot(hosts(), group_id, protocols, instance_id))
        return slots

    def _draw_copying(self, copying: Copying, hosts: Callable[[], int]) -> list[Slot]:
        rng = copying.rng
        protocols = rng.choice(PROTOCOLS)
        group_id = f"copying-{'-'.join(protocols)}"
        self._checks.note_group(
            group_id, is_classic=CLASSIC in protocols, is_mixed=len(protocols) > 1
        )
        slots = []
        for place in range(COPYING_MEMBERS):
            host, instance_id = hosts(), f"i{place}" if rng.random() < STATIC_SHARE else None
            copies = copying.rules_of(host)
            slots.append(Slot(host, group_id, protocols, instance_id, copies=copies))
        return slots

    # ---- the run -------------------------------------------------------------------------------

    def start(self) -> None:
        """Create both topics, raise the feature, and start producers and members."""
        segments = self._rng.choice(OFFSETS_SEGMENTS)
        configs = {**OFFSETS_CONFIGS, "internal_segment_bytes": segments}
        grouped = partial(self._create, GROUPED.name, GROUPED.partitions, self._begin)
        # Before any member looks for its coordinator: a broker would create it by its own settings.
        self._create(CONSUMER_OFFSETS, OFFSETS_PARTITIONS, grouped, **configs)
        self._ask(
            requests.UPDATE_FEATURES,
            requests.upgrade_feature(GROUP_VERSION, 1),
            lambda response: response.error_code is ErrorCode.none,
            tries=-1,
        )

    def _create(self, name: str, partitions: int, then: Callable[[], None], **configs: str) -> None:
        copies = min(3, len(self._cluster.nodes))
        self._ask(
            requests.CREATE_TOPICS,
            requests.create_topic(name, partitions, copies, **configs),
            lambda response: response.topics[0].error_code in CREATED,
            then,
            tries=-1,
        )

    def _begin(self) -> None:
        for producer in self.producers:
            producer.start()
        for slot in self.slots:
            self._after(self._rng.randrange(START_US), partial(self._start, slot))

    def _after(self, delay_us: int, act: Callable[[], None]) -> None:
        self._scheduler.after(delay_us, act)

    def _start(self, slot: Slot) -> None:
        if slot.consumer is not None or self._is_stopped:
            return
        slot.count += 1
        membership = Membership(
            slot.group_id, GROUPED.name, SESSION_MS, REBALANCE_MS, slot.instance_id
        )
        is_classic = self._rng.choice(slot.protocols) == CLASSIC
        member_id = f"m{slot.host}-{slot.count}"

        def make(topic_id: Any) -> Member:
            if is_classic:
                return ClassicMember(membership, GROUPED.partitions)
            return ConsumerMember(membership, topic_id, member_id)

        consumer: GroupConsumer
        given = (self._cluster, slot.host, membership, make, self._checks)
        if slot.copies is None:
            consumer = GroupConsumer(*given, lambda: self._dead(slot, consumer))
        else:
            assert self._copying is not None, "there is a group that copies"
            consumer = CopyingConsumer(
                *given,
                lambda: self._dead(slot, consumer),
                make_session=partial(self._session, slot, slot.copies, self._copying),
                rng=self._copying.rng,
            )
        slot.consumer = consumer
        consumer.start()

    def _session(
        self, slot: Slot, rules: SessionRules, copying: Copying, source: Source
    ) -> CopySession:
        """The process of a consumer that copies, which ends when it is fenced."""
        consumer: Any = source
        return CopySession(
            copying.cluster,
            rules,
            slot.count,
            copying.checks,
            lambda _: self._fenced(slot, consumer),
            group_id=slot.group_id,
            source=source,
            is_calm=lambda: self._scheduler.now_us >= self._calm_us,
        )

    def _fenced(self, slot: Slot, consumer: GroupConsumer) -> None:
        consumer.kill()
        self._gone(slot, consumer)

    def _dead(self, slot: Slot, consumer: GroupConsumer) -> None:
        self._checks.hit("static_member_fenced")
        self._gone(slot, consumer)

    def _gone(self, slot: Slot, consumer: GroupConsumer) -> None:
        if slot.consumer is consumer:
            slot.consumer = None
            self._after(DEAD_US, partial(self._start, slot))

    def settle(self) -> None:
        """Let all members come back, and nothing befall them any more; producers stop."""
        self._is_settling = True
        self._calm_us = self._scheduler.now_us + CALM_US
        for producer in self.producers:
            producer.is_stopped = True
        for slot in self.slots:
            slot.resume()
            self._start(slot)

    def stop(self) -> None:
        """End all members without a word."""
        self._is_stopped = True
        for slot in self.slots:
            slot.kill()

    def why_unfinished(self) -> str:
        """Describe what is not done; empty when every group is stable and has read to the end."""
        if self._open:
            return "requests about groups are not answered"
        busy = [each.host for each in self.producers if not each.is_idle]
        if busy:
            return f"producers {busy} are not answered"
        for group_id in sorted({slot.group_id for slot in self.slots}):
            slots = [slot for slot in self.slots if slot.group_id == group_id]
            copying = None if slots[0].copies is None else self._copying
            wrong = why_unstable(slots)
            if not wrong and (copying is None or not copying.is_undecided):
                wrong = self._why_unread(slots)
            if wrong:
                return f"group {group_id}: {wrong}"
        return ""

    def _why_unread(self, slots: Sequence[Slot]) -> str:
        image = self._image()
        topic_id = image.topic_id_by_name[GROUPED.name]
        for slot in slots:
            for number, position, committed in slot.positions:
                leader = int(image.topics[topic_id].partitions[number].leader)
                replica = self._records.partition_at(leader, (topic_id, number))
                end = None if replica is None or replica.log is None else replica.log.end_offset
                if end is None or (position, committed) != (end, end):
                    at = f"position {position}, committed {committed}"
                    return f"partition {number} ends at {end}, {at}"
        return ""

    # ---- what befalls members ------------------------------------------------------------------

    def _strike(self, act: Callable[[Slot, GroupConsumer, Decision], None]) -> CarryingOut:
        def carry_out(reach: Reach, decision: Decision, machines: list[Machine]) -> Impact | None:
            del reach, machines
            there = [slot for slot in self.slots if slot.consumer is not None]
            if not there or self._is_settling:
                return None
            slot = decision.chance.choice(there)
            assert slot.consumer is not None, "it is there"
            act(slot, slot.consumer, decision)
            how = f"client {slot.host} of {slot.group_id}"
            return Impact(nodes=decision.targets, how=how, length_us=decision.length_us)

        return carry_out

    def _come_back(self, slot: Slot, decision: Decision) -> None:
        slot.consumer = None
        self._after(decision.length_us, partial(self._start, slot))

    def _kill(self, slot: Slot, consumer: GroupConsumer, decision: Decision) -> None:
        consumer.kill()
        self._come_back(slot, decision)

    def _leave(self, slot: Slot, consumer: GroupConsumer, decision: Decision) -> None:
        consumer.leave()
        self._come_back(slot, decision)

    def _pause(self, slot: Slot, consumer: GroupConsumer, decision: Decision) -> None:
        del slot
        consumer.pause()
        self._after(2 * decision.length_us, consumer.resume)

    def _replace(self, slot: Slot, consumer: GroupConsumer, decision: Decision) -> None:
        """Start another consumer in the place of one that goes on, until it is fenced or ends."""
        slot.consumer = None
        self._start(slot)
        self._after(decision.length_us, consumer.kill)

    def _move_coordinator(
        self, reach: Reach, decision: Decision, machines: list[Machine]
    ) -> Impact | None:
        """Let another replica of a partition of offsets be the preferred one, and lead."""
        del reach, machines
        topic_id = self._image().topic_id_by_name.get(CONSUMER_OFFSETS)
        if topic_id is None:
            return None
        number = decision.chance.randrange(OFFSETS_PARTITIONS)
        nodes = list(self._cluster.nodes)
        first = nodes.index(decision.targets[0]) if decision.targets[0] in nodes else 0
        count = len(self._image().topics[topic_id].partitions[number].replicas)
        replicas = (nodes[first:] + nodes[:first])[:count]

        def elect() -> None:
            body = requests.elect_preferred(CONSUMER_OFFSETS, number)
            self._ask(requests.ELECT_LEADERS, body, lambda _: True)

        self._ask(
            requests.ALTER_PARTITION_REASSIGNMENTS,
            requests.reassign(CONSUMER_OFFSETS, number, replicas),
            lambda response: response.error_code is ErrorCode.none,
            lambda: self._after(decision.length_us, elect),
        )
        how = f"partition {number} to {replicas}"
        return Impact(nodes=decision.targets, how=how, length_us=decision.length_us)

    def _ask(
        self,
        api_key: int,
        body: Any,
        is_done: Callable[[Any], bool],
        then: Callable[[], None] = lambda: None,
        tries: int = TRIES,
    ) -> None:
        """Ask nodes until it is done, which is then followed up."""
        client = PartitionClient(self._cluster, self._admin, 0)
        self._open += 1
        left = [tries]

        def ask() -> None:
            left[0] -= 1
            client.ask_any(api_key, body, answered)

        def answered(response: Any) -> None:
            done = response is not None and is_done(response)
            if not done and left[0]:
                client.later(ask)
                return
            client.close()
            self._open -= 1
            if done:
                then()

        ask()


def why_unstable(slots: Sequence[Slot]) -> str:
    """Describe why a group is not stable; empty if it is."""
    owned: list[int] = []
    epochs = set()
    for slot in slots:
        member = slot.member
        if member is None or not member.is_stable:
            return f"the member of {slot.host} is not stable"
        epochs.add(member.epoch)
        owned += member.owned
    if sorted(owned) != list(range(GROUPED.partitions)):
        return f"{sorted(owned)} is owned"
    return f"it is in epochs {sorted(epochs)}" if len(epochs) > 1 else ""
