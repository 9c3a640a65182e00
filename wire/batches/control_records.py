"""KRaft control records: leader change, snapshot header and footer, KRaft version, voters.

Each is in a control batch with the key (version 0, type). The values are Kafka's generated
messages, whose first field is their own version. This module reads all their versions; those that
nodes of this project write are in metadata/control_records.py.
"""

import enum
import importlib
import struct
from typing import Any, Final

from kio.serial import entity_reader
from kio.serial.errors import SerialError

from wire.errors import CorruptBatchError
from wire.messages.body_walk import checked_body

_KEY: Final = struct.Struct(">hh")
_VERSION: Final = struct.Struct(">h")
_END_OF_TRANSACTION: Final = struct.Struct(">hi")  # version, coordinator epoch
_NOT_DECODABLE: Final = (
    struct.error,
    SerialError,
    ValueError,
    KeyError,
    IndexError,
    ModuleNotFoundError,
)


class ControlType(enum.IntEnum):
    """The type of a control record; readers skip records of other types."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


# control type -> kio package, class, newest version
_SCHEMAS: Final = {
    ControlType.LEADER_CHANGE: ("leader_change_message", "LeaderChangeMessage", 1),
    ControlType.SNAPSHOT_HEADER: ("snapshot_header_record", "SnapshotHeaderRecord", 0),
    ControlType.SNAPSHOT_FOOTER: ("snapshot_footer_record", "SnapshotFooterRecord", 0),
    ControlType.KRAFT_VERSION: ("k_raft_version_record", "KRaftVersionRecord", 0),
    ControlType.KRAFT_VOTERS: ("voters_record", "VotersRecord", 0),
}


def control_type(key: bytes | None) -> ControlType | None:
    """The type in the key of a control record, None for an unknown one.

    Raises:
        CorruptBatchError: the key is absent, short, or of a negative version.
    """
    if key is None or len(key) < _KEY.size:
        raise CorruptBatchError("control record without a key")
    version, kind = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptBatchError(f"control record key has version {version}")
    return ControlType(kind) if kind in ControlType.__members__.values() else None


def decode_coordinator_epoch(value: bytes | None) -> int:
    """The coordinator epoch in the value of an ABORT or COMMIT marker; newer versions add fields.

    apache/kafka: clients/.../common/record/EndTransactionMarker.java

    Raises:
        CorruptBatchError: the value is null, short, or of a negative version.
    """
    if value is None or len(value) < _END_OF_TRANSACTION.size:
        raise CorruptBatchError("end of a transaction without a coordinator epoch")
    version, coordinator_epoch = _END_OF_TRANSACTION.unpack_from(value)
    if version < 0:
        raise CorruptBatchError(f"end of a transaction has version {version}")
    return int(coordinator_epoch)


def decode_control_value(kind: ControlType, value: bytes) -> Any:
    """The kio entity in the value of a KRaft control record.

    Raises:
        CorruptBatchError: the value cannot be read.
    """
    schema = _SCHEMAS[kind]
    try:
        (version,) = _VERSION.unpack_from(value)
        # A newer version only adds fields; the known ones are read.
        entity = getattr(_module(kind, min(version, schema[2])), schema[1])
        return entity_reader(entity)(checked_body(entity, value), 0)[0]
    except _NOT_DECODABLE as error:
        raise CorruptBatchError(f"{kind.name} record cannot be read: {error}") from error


def _module(kind: ControlType, version: int) -> Any:
    return importlib.import_module(f"kio.schema.{_SCHEMAS[kind][0]}.v{version}.data")
