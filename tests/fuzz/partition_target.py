"""Target: the folder of a partition of records, opened by a broker that was killed.

Segment, index files, producer snapshot, transactions and epochs, of magic 0 to 2: any bytes give a
log that reads as whole batches and takes new ones, or a refusal.
"""

import struct
from functools import cache
from pathlib import Path
from random import Random

from storage.errors import CorruptFileError, CorruptLogError
from storage.log_dir.partition_metadata import write_partition_metadata
from storage.logs.recovery import FileRebuilt
from storage.logs.unified_log import FetchIsolation
from storage.segments.read_check import first_damage
from tests.fuzz.engine import Target
from tests.storage.golden import put
from tests.storage.log_brokers import IDS, NOW
from tests.storage.log_brokers import Broker as LogBroker
from tests.storage.test_unified_log import produced
from wire.batches.log_batches import iterate_log_frames

GOLDEN = Path(__file__).parent.parent / "golden"
FOLDER = "/d/a-0"
NAMES = (
    f"{0:020d}.log", f"{0:020d}.index", f"{0:020d}.timeindex", f"{0:020d}.txnindex",
    "leader-epoch-checkpoint", f"{84:020d}.snapshot", f"{21:020d}.snapshot",
)  # fmt: skip
"""Of the files; the snapshots are at the ends of folders below."""
OF_TXN = ("txn-0", "idem-0", "epochs-0", "rd-gzip-0")


def _packed(files: dict[str, bytes]) -> bytes:
    """A byte of the name, four of the length, the content."""
    return b"".join(
        struct.pack(">Bi", NAMES.index(name), len(content)) + content
        for name, content in files.items()
    )


def _files(data: bytes) -> dict[str, bytes]:
    found, position = {}, 0
    while position + 5 <= len(data):
        number, length = struct.unpack_from(">Bi", data, position)
        position += 5
        length = min(max(length, 0), len(data) - position)
        found[NAMES[number % len(NAMES)]] = data[position : position + length]
        position += length
    return found


def _opened(data: bytes) -> LogBroker:
    broker = LogBroker()
    for name, content in _files(data).items():
        put(broker.vfs, f"{FOLDER}/{name}", content)
    broker.vfs.make_directory(FOLDER)
    write_partition_metadata(broker.vfs, FOLDER, IDS["a"])
    return LogBroker(broker.vfs)


def _can_be_used(broker: LogBroker, _data: bytes, rng: Random) -> None:
    log = broker.log()
    offset, end = log.log_start_offset, log.end_offset
    last_epoch = max(log.log.last_epoch, 0)
    while offset < end:
        found = log.slice(offset, 1, FetchIsolation.LOG_END, at_least_one=True)
        if found is None:
            break
        content = found.read()
        assert first_damage(content, offset, contiguous=False, reads_old_formats=True) is None
        (frame,) = iterate_log_frames(content)
        assert frame.last_offset >= offset, "the batch holds the offset, or begins behind it"
        offset = frame.last_offset + 1
    assert log.producers.end_offset == end
    if last_epoch < 2**31 - 1 and end < 2**62 and end - log.log.segments[-1].base_offset < 2**31:
        appended = log.append_as_leader(produced(NOW), last_epoch, NOW)
        assert appended.base_offset == end
        end += 1
    is_clean = rng.random() < 0.5
    if is_clean:
        log.close()
    again = LogBroker(broker.vfs, clean=is_clean).log()
    assert again.end_offset == end
    assert all(isinstance(each, FileRebuilt) for each in again.recovery_report), "cut twice"


@cache
def _seeds() -> tuple[bytes, ...]:
    found = []
    for folder in ("mixed-v0-v1-v2-0", "v0-none-0", "v1-append-time-0"):
        content = (GOLDEN / "storage" / "legacy-log" / folder / NAMES[0]).read_bytes()
        found.append(_packed({NAMES[0]: content, NAMES[4]: b"0\n1\n0 0\n"}))
    for folder in OF_TXN:
        path = GOLDEN / "cli" / "data-log" / folder
        files = {
            name: (path / name).read_bytes()[:20_000] for name in NAMES if (path / name).exists()
        }
        found.append(_packed(files))
    return tuple(found)


def targets() -> list[Target]:
    """All of this file."""
    return [
        Target(
            "partition-folders", _seeds(), _opened, (CorruptLogError, CorruptFileError),
            _can_be_used, cpu_seconds_max=1.0, weight=0.2,
        ),
    ]  # fmt: skip
