"""Control records: the records of raft itself in the metadata log and snapshots.

They have no frame: the value is the bare message, always in version 0 (LeaderChange too, also with
kraft.version 1). The key is two int16: key version 0 and the type.
(apache/kafka: LeaderChangeMessage.json, SnapshotHeaderRecord.json, SnapshotFooterRecord.json,
KRaftVersionRecord.json, VotersRecord.json, ControlRecordType.java)
"""

import struct
from typing import Annotated, Any, Final

from metadata import codec_source, json_form
from metadata.schema import (
    INT16,
    INT32,
    INT64,
    STRING,
    UINT16,
    UUID,
    MetadataRecordError,
    WireStruct,
    array,
    field,
)
from wire.types import DirectoryId, NodeId

LEADER_CHANGE: Final = 2
SNAPSHOT_HEADER: Final = 3
SNAPSHOT_FOOTER: Final = 4
KRAFT_VERSION: Final = 5
KRAFT_VOTERS: Final = 6


class LeaderChangeVoter(WireStruct, frozen=True, kw_only=True, gc=False):
    """A voter by id."""

    voter_id: Annotated[NodeId, field(INT32)]


class LeaderChange(WireStruct, frozen=True, kw_only=True, gc=False):
    """First record of a leader's epoch."""

    version: Annotated[int, field(INT16)] = 0
    leader_id: Annotated[NodeId, field(INT32)]
    voters: Annotated[tuple[LeaderChangeVoter, ...], field(array(LeaderChangeVoter))] = ()
    granting_voters: Annotated[tuple[LeaderChangeVoter, ...], field(array(LeaderChangeVoter))] = ()


class SnapshotHeader(WireStruct, frozen=True, kw_only=True, gc=False):
    """First record of a snapshot; the time is that of the last record covered, ms since 1970."""

    version: Annotated[int, field(INT16)] = 0
    last_contained_log_timestamp: Annotated[int, field(INT64)]


class SnapshotFooter(WireStruct, frozen=True, kw_only=True, gc=False):
    """Last record of a snapshot: without it the file is incomplete."""

    version: Annotated[int, field(INT16)] = 0


class KRaftVersion(WireStruct, frozen=True, kw_only=True, gc=False):
    """The level of kraft.version from here on."""

    version: Annotated[int, field(INT16)] = 0
    k_raft_version: Annotated[int, field(INT16)]


class VoterEndpoint(WireStruct, frozen=True, kw_only=True, gc=False):
    """The endpoint of a voter's controller listener."""

    name: Annotated[str, field(STRING)]
    host: Annotated[str, field(STRING)]
    port: Annotated[int, field(UINT16)]


class KRaftVersionRange(WireStruct, frozen=True, kw_only=True, gc=False):
    """Inclusive range of kraft.version that a voter supports."""

    min_supported_version: Annotated[int, field(INT16)]
    max_supported_version: Annotated[int, field(INT16)]


class Voter(WireStruct, frozen=True, kw_only=True, gc=False):
    """A voter of a dynamic quorum (KIP-853)."""

    voter_id: Annotated[NodeId, field(INT32)]
    voter_directory_id: Annotated[DirectoryId, field(UUID)]
    endpoints: Annotated[tuple[VoterEndpoint, ...], field(array(VoterEndpoint))] = ()
    k_raft_version_feature: Annotated[KRaftVersionRange, field(KRaftVersionRange)]


class KRaftVoters(WireStruct, frozen=True, kw_only=True, gc=False):
    """The voter set from here on."""

    version: Annotated[int, field(INT16)] = 0
    voters: Annotated[tuple[Voter, ...], field(array(Voter))] = ()


ControlRecord = LeaderChange | SnapshotHeader | SnapshotFooter | KRaftVersion | KRaftVoters

_TYPES: Final[dict[int, type[WireStruct]]] = {
    LEADER_CHANGE: LeaderChange,
    SNAPSHOT_HEADER: SnapshotHeader,
    SNAPSHOT_FOOTER: SnapshotFooter,
    KRAFT_VERSION: KRaftVersion,
    KRAFT_VOTERS: KRaftVoters,
}
_NUMBERS: Final = {cls: number for number, cls in _TYPES.items()}
# kafka-dump-log prints these names before the JSON.
DUMP_NAMES: Final = {number: cls.__name__ for number, cls in _TYPES.items()}


def control_type(key: bytes | memoryview | None) -> int:
    """The control record type in a record's key; longer keys of later versions are accepted.

    Raises:
        MetadataRecordError: no key, fewer than 4 bytes, or a negative key version.
    """
    if key is None or len(key) < 4:
        raise MetadataRecordError("a control record needs a key of at least 4 bytes")
    version, number = struct.unpack_from(">hh", key)
    if version < 0:
        raise MetadataRecordError(f"a control record key has version {version}")
    return int(number)


def encode_control(record: ControlRecord) -> tuple[int, bytes]:
    """Control record type and value.

    Raises:
        MetadataRecordError: a value does not fit its wire type.
    """
    parts: list[bytes] = []
    try:
        codec_source.compile_writer(type(record), 0)(record, parts)
    except (struct.error, AttributeError, TypeError, ValueError) as error:
        name = type(record).__name__
        raise MetadataRecordError(f"{name} cannot be written: {error}") from error
    return _NUMBERS[type(record)], b"".join(parts)


def decode_control(number: int, value: bytes | memoryview | None) -> ControlRecord | None:
    """The control record of a type and value, None for a type that KRaft does not use.

    Raises:
        MetadataRecordError: the value is cut, damaged or longer than its message.
    """
    cls = _TYPES.get(number)
    if cls is None:
        return None
    buffer = b"" if value is None else bytes(value)
    try:
        record, position = codec_source.compile_reader(cls, 0)(buffer, 0, len(buffer))
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MetadataRecordError(f"{cls.__name__} is cut or damaged: {error}") from error
    if position != len(buffer):
        left = len(buffer) - position
        raise MetadataRecordError(f"{cls.__name__} is followed by {left} bytes of garbage")
    assert isinstance(record, ControlRecord)
    return record


def control_json(record: ControlRecord) -> dict[str, Any]:
    """The JSON that kafka-dump-log prints after the record's name (`DUMP_NAMES`)."""
    return json_form.struct_to_json(record, 0)
