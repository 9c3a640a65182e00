"""Checks of the metadata logs that the nodes leave behind, beyond what clients saw.

They are read as record batches after the nodes stopped; nothing of a node is needed for that.
Only offsets below a high watermark that was seen when all nodes had caught up are judged.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from jepsen.linearizability import Event, HistoryError
from jepsen.linearizability.history import OK
from jepsen.report import INVALID, UNKNOWN, VALID, Check
from wire.batches.batch import iterate_batches
from wire.errors import CorruptBatchError

LOG_FOLDER: Final = "data/__cluster_metadata-0"
NAME: Final = "logs"


class LoggedBatch(NamedTuple):
    """Batch as every node must have it."""

    base_offset: int
    end_offset: int
    leader_epoch: int
    content: bytes
    """All of its bytes, the checksum included."""


def read_log(node_folder: Path) -> list[LoggedBatch]:
    """Read the batches of a node's metadata log, in order; a cut one at the end is left out.

    Raises:
        CorruptBatchError: bytes that are no batch, or a wrong checksum.
        OSError: the files cannot be read.
    """
    found: list[LoggedBatch] = []
    for path in sorted((node_folder / LOG_FOLDER).glob("*.log")):
        for batch in iterate_batches(path.read_bytes()):
            header = batch.header
            if not batch.crc_is_valid:
                raise CorruptBatchError(f"{path.name}: wrong checksum at {header.base_offset}")
            found.append(
                LoggedBatch(
                    header.base_offset,
                    header.end_offset,
                    header.leader_epoch,
                    bytes(batch.buffer),
                )
            )
    return found


def check_logs(
    folders: Mapping[int, Path], high_watermark: int, events: Iterable[Event]
) -> tuple[Check, int]:
    """Check that the logs agree below the high watermark and hold what was acknowledged.

    Args:
        folders: Folder of every node, by id.
        high_watermark: Everything below it is committed on all nodes.
        events: The history; ids of topics whose creation was acknowledged are looked for.

    Returns:
        The check, and the number of batches that were compared.

    Raises:
        HistoryError: an acknowledged id is no UUID.
    """
    logs: dict[int, list[LoggedBatch]] = {}
    for node_id, folder in folders.items():
        found = _committed(node_id, folder, high_watermark)
        if isinstance(found, Check):
            return found, 0
        logs[node_id] = found
    first = min(logs)
    for node_id in sorted(logs):
        reason = _difference(logs[first], logs[node_id])
        if reason is not None:
            return Check(NAME, INVALID, f"nodes {first} and {node_id}: {reason}"), 0
    content = b"".join(batch.content for batch in logs[first])
    lost = [name for name, topic_id in _created(events) if topic_id.bytes not in content]
    if lost:
        text = f"{len(lost)} acknowledged topics are in no log, such as {lost[0]}"
        return Check(NAME, INVALID, text), len(logs[first])
    if not logs[first]:
        return Check(NAME, UNKNOWN, "the logs are empty"), 0
    return Check(NAME, VALID), len(logs[first])


def _committed(node_id: int, folder: Path, high_watermark: int) -> list[LoggedBatch] | Check:
    """Read a node's batches below the high watermark; a check where that fails."""
    try:
        log = read_log(folder)
    except OSError as error:
        return Check(NAME, UNKNOWN, f"node {node_id}: {error.filename}: {error.strerror}")
    except CorruptBatchError as error:
        return Check(NAME, INVALID, f"node {node_id}: {error}")
    batches = [batch for batch in log if batch.end_offset <= high_watermark]
    end = batches[-1].end_offset if batches else 0
    if end < high_watermark:
        return Check(NAME, INVALID, f"node {node_id}: ends at {end}, not {high_watermark}")
    return batches


def _difference(ours: list[LoggedBatch], theirs: list[LoggedBatch]) -> str | None:
    """Describe how two logs differ where both have something; None: they do not."""
    start = max(ours[0].base_offset, theirs[0].base_offset) if ours and theirs else 0
    left = [batch for batch in ours if batch.base_offset >= start]
    right = [batch for batch in theirs if batch.base_offset >= start]
    for mine, other in zip(left, right, strict=False):
        if mine != other:
            return (
                f"offset {min(mine.base_offset, other.base_offset)} differs "
                f"(epochs {mine.leader_epoch} and {other.leader_epoch})"
            )
    return None if len(left) == len(right) else f"{len(left)} and {len(right)} batches"


def _created(events: Iterable[Event]) -> list[tuple[str, UUID]]:
    """Topics with the ids of their acknowledged creations; HistoryError where one is no UUID."""
    return [
        (event.value[0], _id(*event.value))
        for event in events
        if event.f == "create" and event.type == OK
    ]


def _id(name: str, text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as error:
        raise HistoryError(f"create of {name} gave {text!r}, which is no UUID") from error
