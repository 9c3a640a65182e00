"""Requests of members of the classic protocol to a group of a shard."""

import struct

from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.leave_group.v5.request import LeaveGroupRequest, MemberIdentity
from kio.schema.sync_group.v5.request import SyncGroupRequest, SyncGroupRequestAssignment
from kio.schema.types import GroupId
from kio.static.primitive import i32

from coordinator.group.classic.member import MemberProtocol
from coordinator.group.classic.requests import Join
from coordinator.group.consumer.client_protocol import assignment_bytes, assignment_of
from tests.coordinator.group.consumer.driver import topic_id
from tests.coordinator.group.consumer.shard_driver import ShardDriver
from wire.errors import ErrorCode

A = topic_id("a")


def metadata(*topics: str, owned: tuple[int, ...] = (), version: int = 3, rack: str = "") -> bytes:
    parts = [struct.pack(">hi", version, len(topics))]
    parts += [struct.pack(">h", len(name)) + name.encode() for name in topics]
    parts.append(struct.pack(">i", -1))
    if version >= 1:
        parts.append(struct.pack(">i", bool(owned)))
        if owned:
            parts.append(struct.pack(">h1si", 1, b"a", len(owned)))
            parts += [struct.pack(">i", partition) for partition in owned]
    if version >= 2:
        parts.append(struct.pack(">i", -1))
    if version >= 3:
        parts.append(struct.pack(">h", len(rack)) + rack.encode())
    return b"".join(parts)


def join(
    member_id: str, content: bytes | None = None, *, instance_id: str | None = None, **fields
) -> Join:
    known = {
        "client_id": "c",
        "client_host": "/h",
        "session_timeout_ms": 700,
        "rebalance_timeout_ms": 400,
        "protocol_type": "consumer",
        "protocols": (MemberProtocol("range", metadata("a") if content is None else content),),
    }
    return Join(group_id="g", member_id=member_id, group_instance_id=instance_id, **known | fields)


def sync(
    member_id: str, generation: int, assignments=(), instance_id: str | None = None, **fields
) -> SyncGroupRequest:
    known = {"protocol_type": "consumer", "protocol_name": "range"}
    return SyncGroupRequest(
        group_id=GroupId("g"),
        generation_id=i32(generation),
        member_id=member_id,
        group_instance_id=instance_id,
        assignments=assignments,
        **known | fields,
    )


def heartbeat(setup: ShardDriver, member_id: str, generation: int, instance_id=None) -> str:
    request = HeartbeatRequest(
        group_id=GroupId("g"),
        generation_id=i32(generation),
        member_id=member_id,
        group_instance_id=instance_id,
    )
    return setup.ask("heartbeat", request).error_code.name


def leave(setup: ShardDriver, *members: tuple[str, str | None]):
    rows = tuple(MemberIdentity(member_id=each, group_instance_id=inst) for each, inst in members)
    answer = setup.ask("leave", LeaveGroupRequest(group_id=GroupId("g"), members=rows))
    return [row.error_code.name for row in answer.members]


def classic_group(setup: ShardDriver, user_data: bytes = b"") -> str:
    """A stable classic group of one member, which has both partitions of `a`; its id."""
    asked = setup.ask_join(join(""))
    assert asked.error_code is ErrorCode.member_id_required
    assert setup.ask_join(join(asked.member_id)) is None
    setup.pass_ms(1)
    content = assignment_bytes({"a": (0, 1)}, 3)
    if user_data:
        content = content[:-4] + struct.pack(">i", len(user_data)) + user_data
    rows = (SyncGroupRequestAssignment(member_id=asked.member_id, assignment=content),)
    answer = setup.ask("sync", sync(asked.member_id, 1, rows))
    assert answer.error_code is ErrorCode.none
    return asked.member_id


def assigned(setup: ShardDriver, member_id: str, generation: int, instance_id=None):
    answer = setup.ask("sync", sync(member_id, generation, instance_id=instance_id))
    assert answer.error_code is ErrorCode.none
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
    return assignment_of(answer.assignment)[0]


def together(setup: ShardDriver) -> str:
    """A stable group of an old member and of `m1`; the id of the old one."""
    old = classic_group(setup)
    setup.join("m1", "a")
    setup.ask_join(join(old, metadata("a", owned=(0, 1))))
    owned = tuple(setup.group.members[old].assigned[A])
    setup.ask_join(join(old, metadata("a", owned=owned)))
    setup.ask("sync", sync(old, 2))
    setup.beat("m1", 2)
    assert setup.group.state == "Stable"
    return old
