"""`groups-log.tar.xz`: coordinators' logs of a Kafka 4.3.1, and what its tool prints of them."""

import tarfile
from functools import cache
from pathlib import Path

import msgspec

from wire.batches.batch import Batch, RecordView, iterate_batches

ARCHIVE = Path(__file__).resolve().parents[1] / "golden" / "groups-log.tar.xz"
PARTITIONS = (
    "__consumer_offsets-0",
    "__consumer_offsets-1",
    "__consumer_offsets-2",
    "__share_group_state-0",
    "__transaction_state-0",
    "__transaction_state-1",
)


class GoldenRecord(msgspec.Struct, frozen=True):
    """A record with its batch and the line that Kafka's dump tool prints of it."""

    batch: Batch
    view: RecordView
    line: str


@cache
def _members() -> dict[str, bytes]:
    with tarfile.open(ARCHIVE) as archive:
        files = [member for member in archive.getmembers() if member.isfile()]
        return {m.name.split("/", 1)[1]: _content(archive, m) for m in files}


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    opened = archive.extractfile(member)
    assert opened is not None
    return opened.read()


@cache
def batches(partition: str) -> tuple[Batch, ...]:
    """All batches of a partition, control batches too."""
    names = sorted(n for n in _members() if n.startswith(f"{partition}/") and n.endswith(".log"))
    assert names
    return tuple(batch for name in names for batch in iterate_batches(_members()[name]))


@cache
def golden_records(partition: str) -> tuple[GoldenRecord, ...]:
    """All data records of a partition."""
    text = _members()[f"dump/{partition}.txt"].decode()
    lines = [line for line in text.splitlines() if " key: {" in line]
    views = [
        (b, view) for b in batches(partition) if not b.header.is_control for view in b.records()
    ]
    return tuple(GoldenRecord(b, view, line) for (b, view), line in zip(views, lines, strict=True))
