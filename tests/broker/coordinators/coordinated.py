"""A whole broker whose clients commit and fetch offsets."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec
from kio.serial import entity_reader

from broker.coordinators.coordinator import Coordinator
from broker.effects import Ask, Log, SendParts
from broker.events import ConnectionOpened, FramesReceived, TimeAdvanced
from coordinator.records.kinds import CONSUMER_OFFSETS
from metadata.image import Acl
from metadata.records import RegisterBrokerRecord, RegisteredEndpoint, UnfenceBrokerRecord
from quorum_controller.security.authorization import (
    Caller,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from simulator.cluster.memory_vfs import MemoryVfs
from tests.broker.brokers import Driven
from tests.broker.fronts import LISTENER, content
from tests.broker.metadata_log import D1, B
from wire.errors import ErrorCode
from wire.messages import codec
from wire.messages.codec import Entity
from wire.types import DirectoryId, NodeId

OFFSETS = b"o" * 16
FIND_COORDINATOR, OFFSET_COMMIT, OFFSET_FETCH, OFFSET_DELETE = 10, 8, 9, 47
PARTITIONS = 3
CLIENT = Caller("User:ANONYMOUS", "127.0.0.1")


class Coordinated(Driven):
    """Topics a and b exist; `offsets` makes that of the coordinator.

    With `has_offsets` it is in the first image, as after a restart.
    """

    def __init__(
        self, *, vfs: MemoryVfs | None = None, has_offsets: bool = False, **settings: Any
    ) -> None:
        super().__init__(vfs=vfs, **settings)
        self.register_at("h", 9092)
        self.metadata.topic("a", partitions=2)
        self.metadata.topic("b", B)
        if has_offsets:
            self.metadata.topic(CONSUMER_OFFSETS, OFFSETS, partitions=PARTITIONS)
        self.effects: list[Any] = self.publish()
        self.step(
            ConnectionOpened(1, LISTENER, "127.0.0.1"), ConnectionOpened(2, LISTENER, "127.0.0.1")
        )
        self.connection_id = 1
        """Of the next request; an answer waits for those before it of the same connection."""

    def register_at(self, host: str, port: int, *, node_id: int = 1, fenced: bool = False) -> None:
        end_points = (RegisteredEndpoint(name=LISTENER, host=host, port=port),)
        record = RegisterBrokerRecord(
            broker_id=NodeId(node_id),
            incarnation_id=bytes(15) + bytes([node_id]),
            broker_epoch=self.metadata._end,  # type: ignore[arg-type]
            log_dirs=(DirectoryId(D1),),
            end_points=end_points,
        )
        self.metadata.write(record)
        epoch = self.metadata.image.brokers[NodeId(node_id)].epoch
        if not fenced:
            self.metadata.write(UnfenceBrokerRecord(id=NodeId(node_id), epoch=epoch))

    def offsets(self, **fields: Any) -> None:
        """Make the topic of the coordinator, and load it."""
        self.metadata.topic(CONSUMER_OFFSETS, OFFSETS, **{"partitions": PARTITIONS, **fields})
        self.publish()
        self.settle()

    def settle(self) -> list[Any]:
        """Step until nothing is to be done at once."""
        effects = []
        for _ in range(100):
            if self.groups.loading_count == 0 and not self.groups.is_busy:
                break
            effects += self.step(TimeAdvanced())
        return effects

    @property
    def groups(self) -> Coordinator[Any]:
        return self.broker._groups

    def ask(self, api_key: int, version: int, body: Entity) -> Any:
        """The answer to a request, None while it waits."""
        frame = bytearray(codec.encode_request(api_key, version, 5, "client", body))
        self.effects = self.step(FramesReceived(self.connection_id, [frame]))
        return answer_in(api_key, version, self.effects)

    def later(self, api_key: int, version: int, *events: Any) -> Any:
        """The answer that these events bring, None if they bring none."""
        self.effects = self.step(*events)
        return answer_in(api_key, version, self.effects)

    def pass_ms(self, ms: int) -> list[Any]:
        self.now_ms += ms
        return self.step(TimeAdvanced()) + self.settle()

    def allow(self, operation: Operation, name: str, kind: ResourceType) -> None:
        """Add an ACL of the client, in the image alone."""
        acl = Acl(
            resource_type=int(kind),
            resource_name=name,
            pattern_type=int(PatternType.LITERAL),
            principal=CLIENT.principal,
            host="*",
            operation=int(operation),
            permission_type=int(Permission.ALLOW),
        )
        image = self.metadata.image
        acls = image.acls.set(len(image.acls).to_bytes(16, "big"), acl)
        self.metadata.image = msgspec.structs.replace(image, acls=acls)
        self.publish()

    # -- requests -------------------------------------------------------------------------------

    def commit(
        self,
        rows: dict[Any, Sequence[tuple[int, int]]],
        *,
        version: int = 9,
        group: str = "g",
        **fields: Any,
    ) -> dict[Any, dict[int, ErrorCode]] | None:
        """Commit by topic, name or id; codes by topic and partition, None while it waits."""
        answer = self.ask(OFFSET_COMMIT, version, commit_body(rows, version, group, **fields))
        return None if answer is None else codes_of(answer)

    def fetch(
        self, *groups: tuple[str, dict[Any, Sequence[int]] | None], version: int = 9, **fields: Any
    ) -> Any:
        """Fetch of groups; of each the code and rows (offset, epoch, metadata, code) by topic."""
        body = fetch_body(groups, version, **fields)
        answer = self.ask(OFFSET_FETCH, version, body)
        return None if answer is None else fetched_of(answer, version)

    def find(self, *keys: str, version: int = 4, key_type: int = 0) -> Any:
        new: Any = codec._module(FIND_COORDINATOR, version, "request")
        if version < 4:
            more = {"key_type": key_type} if version else {}
            body = new.FindCoordinatorRequest(key=keys[0], **more)
        else:
            body = new.FindCoordinatorRequest(key_type=key_type, coordinator_keys=keys)
        return self.ask(FIND_COORDINATOR, version, body)

    def asked(self) -> list[Ask]:
        return [effect for effect in self.effects if isinstance(effect, Ask)]


def commit_body(rows: dict[Any, Any], version: int, group: str = "g", **fields: Any) -> Entity:
    new: Any = codec._module(OFFSET_COMMIT, version, "request")
    topics = []
    for topic, partitions in rows.items():
        named = {"topic_id": UUID(bytes=topic)} if version >= 10 else {"name": topic}
        made = []
        for number, offset, *more in partitions:
            given: dict[str, Any] = {"committed_metadata": more[0] if more else None}
            if version >= 6:
                given["committed_leader_epoch"] = more[1] if len(more) > 1 else -1
            made.append(
                new.OffsetCommitRequestPartition(
                    partition_index=number, committed_offset=offset, **given
                )
            )
        topics.append(new.OffsetCommitRequestTopic(**named, partitions=tuple(made)))
    body: Entity = new.OffsetCommitRequest(
        **{"group_id": group, "generation_id_or_member_epoch": -1, "member_id": ""} | fields,
        topics=tuple(topics),
    )
    return body


def fetch_body(
    groups: Sequence[tuple[str, dict[Any, Sequence[int]] | None]], version: int, **fields: Any
) -> Entity:
    new: Any = codec._module(OFFSET_FETCH, version, "request")
    topic_class = new.OffsetFetchRequestTopics if version >= 8 else new.OffsetFetchRequestTopic

    def topics_of(rows: dict[Any, Sequence[int]] | None) -> Any:
        return None if rows is None else tuple(
            topic_class(
                **({"topic_id": UUID(bytes=topic)} if version >= 10 else {"name": topic}),
                partition_indexes=tuple(numbers),
            )
            for topic, numbers in rows.items()
        )  # fmt: skip

    if version >= 8:
        rows = tuple(
            new.OffsetFetchRequestGroup(group_id=group, topics=topics_of(topics))
            for group, topics in groups
        )
        body: Entity = new.OffsetFetchRequest(groups=rows, **fields)
        return body
    ((group, topics),) = groups
    old: Entity = new.OffsetFetchRequest(group_id=group, topics=topics_of(topics), **fields)
    return old


def answer_in(api_key: int, version: int, effects: Sequence[Any]) -> Any:
    """The answer in the class of its version; None if there is none."""
    parts = [part for e in effects if isinstance(e, SendParts) for part in e.parts]
    if not parts:
        return None
    frame = content(parts)[4:]
    start = 5 if codec.has_flexible_response_header(api_key, version) else 4
    entity = codec.entity_class(api_key, version, "response")
    body, size = entity_reader(entity)(frame[start:], 0)
    assert start + size == len(frame), "one answer"
    return body


def _topic(row: Any) -> Any:
    if hasattr(row, "name"):
        return str(row.name)
    return None if row.topic_id is None else row.topic_id.bytes


def codes_of(answer: Any) -> dict[Any, dict[int, ErrorCode]]:
    return {
        _topic(row): {p.partition_index: ErrorCode(p.error_code) for p in row.partitions}
        for row in answer.topics
    }


def fetched_of(answer: Any, version: int) -> Any:
    def rows(topics: Any) -> Any:
        return {
            _topic(row): {
                p.partition_index: (
                    p.committed_offset,
                    getattr(p, "committed_leader_epoch", None),
                    p.metadata,
                    ErrorCode(p.error_code).name,
                )
                for p in row.partitions
            }
            for row in topics
        }

    if version < 8:
        return ErrorCode(getattr(answer, "error_code", 0)).name, rows(answer.topics)
    return {
        str(group.group_id): (ErrorCode(group.error_code).name, rows(group.topics))
        for group in answer.groups
    }


def logs(effects: Sequence[Any], event: str) -> list[dict[str, Any]]:
    return [dict(e.fields) for e in effects if isinstance(e, Log) and e.event == event]
