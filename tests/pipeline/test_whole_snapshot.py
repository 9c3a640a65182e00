"""A snapshot that was cut is refused, wherever it was cut; Kafka's and ours are taken."""

from pathlib import Path

import pytest

from metadata.image import EMPTY
from metadata.snapshot import encode_snapshot, snapshot_records
from pipeline.core.errors import BadInputError
from pipeline.core.reading.discovery import SegmentFile, discover
from pipeline.core.reading.whole_snapshot import check_snapshot

GOLDEN = Path(__file__).parent.parent / "golden" / "metadata"
SNAPSHOTS = sorted(path for path in GOLDEN.rglob("*.checkpoint") if path.name[0] == "0")
NAME = f"{5:020d}-{1:010d}.checkpoint"


def listed(path: Path) -> SegmentFile:
    (file,) = discover([str(path)]).files
    return file


@pytest.mark.parametrize("path", SNAPSHOTS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_snapshots_of_kafka_are_whole_and_cut_anywhere_are_not(path: Path, tmp_path: Path) -> None:
    check_snapshot(listed(path))
    content = path.read_bytes()
    copy = tmp_path / path.name
    for cut in {*range(0, len(content), 97), len(content) - 1}:
        copy.write_bytes(content[:cut])
        with pytest.raises(BadInputError, match=r"(damaged|truncated) snapshot"):
            check_snapshot(listed(copy))


def test_our_own_cut_between_batches(tmp_path: Path) -> None:
    made = encode_snapshot(
        snapshot_records(EMPTY), level=21, epoch=1, last_contained_timestamp_ms=1, timestamp_ms=1
    )
    parts = list(made)
    copy = tmp_path / NAME
    copy.write_bytes(b"".join(parts))
    check_snapshot(listed(copy))
    copy.write_bytes(b"".join(parts[:-1]))
    with pytest.raises(BadInputError, match="does not end with its footer"):
        check_snapshot(listed(copy))
    copy.write_bytes(b"".join(parts[1:]))
    with pytest.raises(BadInputError, match="does not begin with its header"):
        check_snapshot(listed(copy))
