"""Records of a stopped metadata log by type and name: of those that a recovery may lose."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from cli.arguments import UsageError
from cli.offline.offline_log import OfflineLog
from metadata import record_codec
from metadata.control_records import control_type, decode_control
from metadata.image import Image
from metadata.schema import MetadataRecordError
from storage.log_dir.meta_properties import encode_uuid
from wire.batches.batch import Batch, iterate_batches
from wire.errors import CorruptBatchError

_NUMBERS: Final = ("broker_id", "controller_id", "leader_id", "k_raft_version")
_UNREADABLE: Final = "UNREADABLE_RECORD"


class NamedRecord(msgspec.Struct, frozen=True):
    """A record of the log."""

    offset: int
    epoch: int
    type: str
    name: str
    """Name of what it is about, a topic with its partition; empty if it is about nothing."""

    def line(self) -> str:
        """One line for a person."""
        return f"offset {self.offset} epoch {self.epoch} {self.type} {self.name}".rstrip()


def records_between(folder: str, begin_offset: int, end_offset: int) -> list[NamedRecord]:
    """Return the records of a folder in [begin, end), oldest first.

    A record that cannot be read has the type UNREADABLE_RECORD.
    """
    if begin_offset >= end_offset:
        return []
    log = OfflineLog(Path(folder))
    topics = _topic_names(log, end_offset)
    found: list[NamedRecord] = []
    for _, path in log.segments:
        for batch in _whole_batches(path.read_bytes()):
            if batch.header.end_offset > begin_offset and batch.header.base_offset < end_offset:
                found += _named(batch, topics)
    return [each for each in found if begin_offset <= each.offset < end_offset]


def _whole_batches(content: bytes) -> Iterator[Batch]:
    """Yield batches up to a torn end, before which the log was found to end."""
    with suppress(CorruptBatchError):
        yield from iterate_batches(content)


def _topic_names(log: OfflineLog, end_offset: int) -> dict[bytes, str]:
    """Return topic ids and names; none where the log is of a time that no image can be made of."""
    try:
        image: Image = log.image_at(end_offset)
    except UsageError:
        return {}
    return {bytes(topic_id): topic.name for topic_id, topic in image.topics.items()}


def _named(batch: Batch, topics: dict[bytes, str]) -> list[NamedRecord]:
    found = []
    epoch = batch.header.leader_epoch
    for view in batch.records():
        try:
            if batch.header.is_control:
                control = decode_control(control_type(view.key), view.value)
                kind, name = type(control).__name__, "" if control is None else _name(control, {})
            else:
                record = record_codec.decode(view.value or b"")
                kind, name = record.type_name, _name(record, topics)
                if kind == "TOPIC_RECORD":
                    topics.setdefault(bytes(getattr(record, "topic_id", b"")), name)
        except MetadataRecordError:
            kind, name = _UNREADABLE, ""
        found.append(NamedRecord(view.offset, epoch, kind, name))
    return found


def _name(record: Any, topics: dict[bytes, str]) -> str:
    """Return what a record is about, by the fields that tell it."""
    name = getattr(record, "name", None) or ""
    resource = getattr(record, "resource_name", None)
    if resource is not None:
        return f"{resource} {name}".strip()
    topic_id = getattr(record, "topic_id", None)
    if topic_id is not None and not name:
        name = topics.get(bytes(topic_id)) or encode_uuid(bytes(topic_id))
        partition = getattr(record, "partition_id", None)
        return name if partition is None else f"{name}-{partition}"
    voters = getattr(record, "voters", None)
    if voters is not None and not hasattr(record, "leader_id"):
        return "voters " + ",".join(str(each.voter_id) for each in voters)
    numbers = [str(getattr(record, field)) for field in _NUMBERS if hasattr(record, field)]
    return name or " ".join(numbers[:1])
