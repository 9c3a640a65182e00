"""A shard of groups of both kinds over a log in memory; the clock stands unless it is moved."""

from collections.abc import Callable
from typing import Any

import msgspec

from coordinator.group.classic.requests import Join
from coordinator.group.classic.room import ClassicRoom
from coordinator.group.classic.settings import ClassicSettings
from coordinator.group.consumer.classic_requests import ClassicRequests
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.groups import ConsumerGroups
from coordinator.group.consumer.requests import Heartbeat, HeartbeatAnswer
from coordinator.group.consumer.settings import Bounded, ConsumerSettings
from coordinator.group.counts import GroupCounts
from coordinator.group.image import GroupsImage
from coordinator.group.machine import GroupMachine, OffsetsConfig
from coordinator.group.requests_by_kind import RequestsByKind
from coordinator.group.rules_by_kind import RulesByKind
from coordinator.records.kinds import GROUP_KINDS
from coordinator.records.schema import CoordinatorRecord
from coordinator.runtime.shard import Shard
from coordinator.runtime.write import Write
from metadata.image import Image, Provenance
from network.clock import Clock, Now
from tests.coordinator.group.consumer.driver import KIND, cluster_of
from tests.coordinator.memory_log import MemoryShardLog
from wire.errors import ApiError
from wire.types import LeaderEpoch, Offset

KINDS = KIND | {1: "offset", 2: "classic"}
SETTINGS = ConsumerSettings(
    assignment_interval_ms=Bounded(default=0, minimum=0, maximum=0),
    session_timeout_ms=Bounded(default=1_000, minimum=500, maximum=5_000),
)
CLASSIC_SETTINGS = ClassicSettings(initial_rebalance_delay_ms=0, session_timeout_ms_min=1)


def at_offset(cluster: Image, end_offset: int) -> Image:
    provenance = Provenance(Offset(end_offset), LeaderEpoch(1), 0)
    return msgspec.structs.replace(cluster, provenance=provenance)


class ShardDriver:
    """Requests to the group `g`; each is committed at once."""

    def __init__(self, settings: ConsumerSettings = SETTINGS) -> None:
        self.settings = settings
        self.clock = Clock(Now(10_000, 1_000_000))
        self.cluster = at_offset(cluster_of({"a": 2}), 50)
        self.configs: dict[str, dict[str, str]] = {}
        self.log = MemoryShardLog()
        self.counts = GroupCounts()
        self.shard = self.elected()

    def elected(self) -> Shard[GroupsImage]:
        self.classic = ClassicRoom(self.clock, CLASSIC_SETTINGS)
        self.groups = ConsumerGroups(
            self.clock,
            self.settings,
            lambda: self.cluster,
            lambda group_id: self.configs.get(group_id, {}),
            self.classic,
            counts=self.counts,
        )
        self.requests = RequestsByKind(self.classic, ClassicRequests(self.groups))
        self.rules = RulesByKind(self.classic.rules)
        machine = GroupMachine(self.clock, OffsetsConfig(), self.rules, (self.classic, self.groups))
        shard = Shard(machine, self.log, self.clock, epoch=LeaderEpoch(1), timeout_ms=5_000)
        for header, views in self.log.replayed():
            shard.replay(header, views, high_watermark=self.log.high_watermark)
        shard.activate()
        return shard

    def beat(
        self,
        member_id: str,
        epoch: int,
        allowed: Callable[[str], bool] = lambda _: True,
        **fields: Any,
    ) -> HeartbeatAnswer | ApiError:
        request = Heartbeat(group_id="g", member_id=member_id, member_epoch=epoch, **fields)
        found: list[HeartbeatAnswer | ApiError] = []
        self.groups.serve(request, allowed, found.append)
        self.log.commit(self.shard)
        (answer,) = found
        return answer

    def join(self, member_id: str, *names: str, **fields: Any) -> HeartbeatAnswer:
        known = {"subscribed_topic_names": names, "rebalance_timeout_ms": 300, "owned": {}}
        answer = self.beat(member_id, 0, **known | fields)
        assert isinstance(answer, HeartbeatAnswer), answer
        return answer

    def ask(self, method: str, *request: Any) -> Any:
        """Answer of a request of the classic protocol; None while it waits."""
        found: list[Any] = []
        getattr(self.requests, method)(*request, found.append)
        self.log.commit(self.shard)
        assert len(found) < 2
        return found[0] if found else None

    def ask_join(self, request: Join) -> Any:
        return self.ask("join", request, f"uuid-{self.log.end_offset}")

    def write(self, *records: CoordinatorRecord) -> None:
        self.shard.write(lambda _: Write(response=None, records=records), lambda _: None)
        self.log.commit(self.shard)

    def pass_ms(self, ms: int) -> list[str]:
        """Let time pass and do what is due; the kinds of records that this wrote."""
        before = len(self.log.batches)
        self.clock.set(Now(self.clock.now_ms + ms, self.clock.wall_ms + ms))
        self.shard.tick()
        self.log.commit(self.shard)
        return self.kinds(before)

    def kinds(self, first_batch: int) -> list[str]:
        records = [each for batch in self.log.records(GROUP_KINDS)[first_batch:] for each in batch]
        assert None not in records
        return [
            KINDS[record.key.type] + ("" if record.value is not None else "-")
            for record in records
            if record is not None
        ]

    @property
    def group(self) -> ConsumerGroup:
        group = self.shard.image.groups["g"]
        assert isinstance(group, ConsumerGroup)
        return group
