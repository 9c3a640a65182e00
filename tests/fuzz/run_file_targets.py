"""Targets: files of a process and of runs, and whole folders of a log.

`.kafka_cleanshutdown`, producer snapshots, records of coordinators, the simulator's schedules and
ledgers, and a log that is opened with index files, epoch checkpoint and flushed end beside it.
"""

import struct
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import crc32c
import msgspec

from cli.offline.dump_index import producer_snapshot_lines
from pipeline.core.records.coordinator_records import (
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
    CoordinatorRecord,
    CoordinatorRecordError,
    coordinator_decoder,
)
from simulator.campaign.campaign import Result
from simulator.campaign.draw import Options
from simulator.campaign.run import prepare
from simulator.campaign.schedule import (
    Schedule,
    ScheduleError,
    read_schedule,
    write_schedule,
)
from simulator.campaign.seed_ledger import LedgerError, SeedLedger
from simulator.cluster.memory_vfs import MemoryVfs
from storage.checkpoints.flushed_end_file import encode_flushed_end
from storage.errors import CorruptFileError, CorruptLogError
from storage.log_dir.clean_shutdown_file import decode_clean_shutdown, encode_clean_shutdown
from storage.log_dir.partition_directories import open_metadata_log
from storage.logs.log import Log
from tests.fuzz.batch_targets import CONFIG, GOLDEN, LOG
from tests.fuzz.engine import Target
from wire.batches.batch import encode_batch, iterate_batches

COUNT = struct.Struct(">i")
OPTIONS = Options(duration_us=1_000_000, write_count=2, node_count=3)
RESULT = Result(
    seed=1, invariant=None, text="", at_us=0, events=5, cpu_seconds=0.1, virtual_us=9, elections=1,
    acknowledged=1, operations=2, definite=2, verdict="ok", messages=3, digest=4,
    events_by_kind={}, faults={}, marks={},
)  # fmt: skip


@cache
def _folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="kraftline-fuzz-")


def _written(data: bytes) -> Path:
    path = Path(_folder().name, "input")
    path.write_bytes(data)
    return path


# ---- small files -------------------------------------------------------------------------------


def _epoch_fits(epoch: int, _data: bytes, _rng: Random) -> None:
    assert -1 <= epoch < 1 << 63
    assert decode_clean_shutdown(encode_clean_shutdown(epoch)) == epoch


def _producers(data: bytes) -> list[str]:
    return list(producer_snapshot_lines(data, "input"))


def _producer_snapshot(rng: Random) -> bytes:
    """Any numbers under a right checksum."""
    count = rng.randrange(5)
    rest = COUNT.pack(count) + rng.randbytes(count * 46)
    return struct.pack(">hI", 1, crc32c.crc32c(rest)) + rest


# ---- records of coordinators -------------------------------------------------------------------

TOPICS = (CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE)


def _packed(topic: int, key: bytes, value: bytes | None) -> bytes:
    """One byte of topic, four of the key's length, key, value; no value for a last byte of 1."""
    rest = b"" if value is None else value
    return bytes([topic]) + COUNT.pack(len(key)) + key + rest + bytes([value is None])


@cache
def _coordinator_seeds() -> list[bytes]:
    found: list[bytes] = []
    for path in sorted(GOLDEN.rglob("*.log")):
        for number, topic in enumerate(TOPICS):
            if not path.parent.name.startswith(topic):
                continue
            for batch in iterate_batches(path.read_bytes()):
                if not batch.header.is_control:
                    found += [_packed(number, r.key or b"", r.value) for r in batch.records()]
    return sorted(set(found), key=lambda data: (len(data), data))[:200]


def _coordinator(data: bytes) -> CoordinatorRecord:
    if len(data) < 6:
        raise CoordinatorRecordError("no key length in the input")
    decode = coordinator_decoder(TOPICS[data[0] % len(TOPICS)])
    assert decode is not None
    length = min(max(COUNT.unpack_from(data, 1)[0], 0), len(data) - 6)
    value = None if data[-1] == 1 else data[5 + length : -1]
    return decode(data[5 : 5 + length], value)


def _is_json(record: CoordinatorRecord, _data: bytes, _rng: Random) -> None:
    msgspec.json.decode(msgspec.json.encode(record.content))


# ---- files of simulated runs -------------------------------------------------------------------


@cache
def _schedules() -> list[bytes]:
    path = Path(_folder().name, "schedule")
    plan = prepare(4, OPTIONS)[2][:4]
    write_schedule(
        path, Schedule(seed=4, options=OPTIONS, plan=plan, commit="c", invariant="I7", text="t")
    )
    return [path.read_bytes(), b'{"schedule":1,"seed":4,"options":{"node_count":3}}\n']


def _schedule(data: bytes) -> Schedule:
    return read_schedule(_written(data))


def _schedule_again(schedule: Schedule, _data: bytes, _rng: Random) -> None:
    path = Path(_folder().name, "again")
    write_schedule(path, schedule)
    assert read_schedule(path) == schedule


@cache
def _ledgers() -> list[bytes]:
    path = Path(_folder().name, "ledger")
    ledger = SeedLedger(path, "commit", OPTIONS, is_twice=False)
    for seed in (1, 2):
        ledger.add(msgspec.structs.replace(RESULT, seed=seed))
    return [path.read_bytes(), b""]


def _ledger(data: bytes) -> tuple[SeedLedger, dict[int, Result]]:
    ledger = SeedLedger(_written(data), "commit", OPTIONS, is_twice=False)
    return ledger, ledger.known()


def _ledger_goes_on(
    value: tuple[SeedLedger, dict[int, Result]], _data: bytes, _rng: Random
) -> None:
    """Check that any ledger takes a further result, finds it the next time and loses none."""
    ledger, known = value
    ledger.add(msgspec.structs.replace(RESULT, seed=77))
    assert ledger.known().keys() == known.keys() | {77}


# ---- the folder of a log -----------------------------------------------------------------------

SECOND = 9
NAMES = (
    f"{0:020d}.log", f"{0:020d}.index", f"{0:020d}.timeindex", f"{SECOND:020d}.log",
    f"{SECOND:020d}.index", f"{SECOND:020d}.timeindex", "leader-epoch-checkpoint",
    "flushed-end-offset",
)  # fmt: skip


def _folder_bytes(files: dict[str, bytes]) -> bytes:
    """Each file of NAMES as four bytes of length, -1 for none, and its content."""
    parts = []
    for name in NAMES:
        content = files.get(name)
        parts.append(COUNT.pack(-1) if content is None else COUNT.pack(len(content)) + content)
    return b"".join(parts)


def _folder_files(data: bytes) -> dict[str, bytes]:
    files, position = {}, 0
    for name in NAMES:
        if position + COUNT.size > len(data):
            break
        (size,) = COUNT.unpack_from(data, position)
        position += COUNT.size
        if size >= 0:
            files[name] = data[position : position + size]
            position += size
    return files


@cache
def _log_folders() -> list[bytes]:
    """A log of two segments as `close` leaves it, and without its small files."""
    vfs = MemoryVfs()
    vfs.make_directory("/d")
    log = open_metadata_log(vfs, "/d", CONFIG)
    for offset in range(17):
        log.append(encode_batch([bytes([offset]) * 9], offset, 1 + offset // 12, 1000), offset)
        log.flush()
    log.close()
    files = {name: vfs.read(f"{LOG}/{name}") for name in vfs.list(LOG)}
    first, second = f"{0:020d}.log", f"{SECOND:020d}.log"
    assert second in files, sorted(files)
    whole = {name: files[name] for name in NAMES if name in files}
    alone = {first: files[first], "flushed-end-offset": encode_flushed_end(5)}
    return [_folder_bytes(whole), _folder_bytes(alone), _folder_bytes({first: files[first]})]


def _opened(data: bytes) -> tuple[Log, MemoryVfs]:
    vfs = MemoryVfs()
    vfs.make_directory("/d")
    vfs.make_directory(LOG)
    for name, content in _folder_files(data).items():
        vfs.open(f"{LOG}/{name}", create=True).pwrite(content, 0)
    return open_metadata_log(vfs, "/d", CONFIG), vfs


def _log_can_be_used(value: tuple[Log, MemoryVfs], _data: bytes, _rng: Random) -> None:
    """Check that with any indexes each offset reads as its own batch, and the log goes on."""
    log, vfs = value
    offset = log.log_start_offset
    while offset < log.end_offset:
        (batch, *_) = iterate_batches(log.read(offset, 1))
        assert batch.header.base_offset <= offset < batch.header.end_offset
        assert batch.crc_is_valid
        offset = batch.header.end_offset
    end = log.end_offset
    log.append(encode_batch([b"more"], end, max(log.last_epoch, 0), 1000), end)
    log.close()
    again = open_metadata_log(vfs, "/d", CONFIG)
    assert (again.log_start_offset, again.end_offset) == (log.log_start_offset, end + 1)
    assert not again.recovery_report


def targets() -> list[Target]:
    """All of this file."""
    snapshots = sorted({path.read_bytes() for path in GOLDEN.rglob("*.snapshot")})
    damaged = (CorruptLogError, CorruptFileError)
    return [
        Target(
            "clean-shutdown", [encode_clean_shutdown(166), b"", b"{}"], decode_clean_shutdown, (),
            _epoch_fits,
        ),
        Target(
            "producer-snapshots", snapshots, _producers, (CorruptFileError,),
            generate=_producer_snapshot,
        ),
        Target(
            "coordinator-records", _coordinator_seeds(), _coordinator, (CoordinatorRecordError,),
            _is_json,
        ),
        Target("schedules", _schedules(), _schedule, (ScheduleError,), _schedule_again, weight=0.2),
        Target("ledgers", _ledgers(), _ledger, (LedgerError,), _ledger_goes_on, weight=0.2),
        Target("log-folders", _log_folders(), _opened, damaged, _log_can_be_used, weight=0.2),
    ]  # fmt: skip
