"""Targets: the small files of storage/, indexes, and the histories that the checker reads."""

import datetime as dt
import gzip
import struct
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from jepsen.linearizability import Event, Format, History, HistoryError, parse_history
from jepsen.linearizability import written_history as written
from storage.checkpoints.checkpoint_files import decode_offsets, encode_offsets
from storage.checkpoints.epoch_checkpoint import EpochCache, decode_epochs
from storage.checkpoints.flushed_end_file import decode_flushed_end, encode_flushed_end
from storage.errors import CorruptFileError
from storage.log_dir.meta_properties import decode_meta_properties, encode_meta_properties
from storage.log_dir.partition_directories import (
    parse_partition_directory,
    partition_directory_name,
)
from storage.log_dir.partition_metadata import decode_partition_metadata, encode_partition_metadata
from storage.log_dir.quorum_state_file import decode_quorum_state, encode_quorum_state
from storage.log_dir.snapshot_files import parse_snapshot_name, snapshot_name
from storage.segments.index import IndexDamageError, OffsetIndex, TimeIndex
from storage.segments.segment import LOG_SUFFIX, SEGMENT_SUFFIXES, segment_base_offset, segment_name
from storage.segments.transaction_index import AbortedTransaction, decode_transaction_index
from tests.fuzz.engine import Target

GOLDEN = Path(__file__).parent.parent / "golden"
BASE_OFFSET = 1_000
SEGMENT_BYTES = 1 << 16
INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1
GZIP = b"\x1f\x8b"
ABORTED_BYTES = 34
OLD_STATE = (
    b'{"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,'
    b'"currentVoters":[{"voterId":1}],"data_version":0}'
)
NEW_STATE = (
    b'{"leaderId":-1,"leaderEpoch":7,"votedId":3,'
    b'"votedDirectoryId":"EREREREREREREREREREREQ","data_version":1}'
)


@cache
def golden_files(pattern: str, bytes_max: int = 4000) -> list[bytes]:
    """Contents of the golden files with such a name, each once."""
    contents = {path.read_bytes() for path in GOLDEN.rglob(pattern) if path.is_file()}
    return sorted(content for content in contents if len(content) <= bytes_max)


# ---- JSON and text -----------------------------------------------------------------------------


def _quorum_state_again(state: Any, _data: bytes, _rng: Random) -> None:
    """P2, and what is read fits where it goes: int32 on the wire."""
    assert 0 <= state.epoch <= INT32_MAX
    assert state.leader_id is None or 0 <= state.leader_id <= INT32_MAX
    assert state.voted_key is None or 0 <= state.voted_key.id <= INT32_MAX
    again = encode_quorum_state(state, version=1)
    assert decode_quorum_state(again, "f") == state


def _meta_again(properties: Any, _data: bytes, _rng: Random) -> None:
    assert 0 <= properties.node_id <= INT32_MAX
    encode_meta_properties(properties)


def _offsets_again(offsets: Any, _data: bytes, _rng: Random) -> None:
    for (_, partition), offset in offsets.items():
        assert 0 <= partition <= INT32_MAX
        assert 0 <= offset <= INT64_MAX
    assert decode_offsets(encode_offsets(offsets), "f") == offsets


def _epochs_again(cache_: EpochCache, _data: bytes, _rng: Random) -> None:
    assert decode_epochs(cache_.encode(), "f").entries == cache_.entries
    numbers = [(entry.epoch, entry.start_offset) for entry in cache_.entries]
    for column, maximum in zip(zip(*numbers, strict=True), (INT32_MAX, INT64_MAX), strict=False):
        assert 0 <= column[0] <= column[-1] <= maximum
        assert list(column) == sorted(set(column)), "epochs and offsets grow"


def _flushed_end_again(end_offset: int | None, data: bytes, _rng: Random) -> None:
    assert end_offset is None or encode_flushed_end(end_offset) == data


def _partition_metadata_again(topic_id: Any, _data: bytes, _rng: Random) -> None:
    assert decode_partition_metadata(encode_partition_metadata(topic_id), "f") == topic_id


def _snapshot_name(data: bytes) -> Any:
    return parse_snapshot_name(data.decode("utf-8", errors="surrogateescape"))


def _snapshot_name_again(found: Any, data: bytes, _rng: Random) -> None:
    """None, or the one name of a snapshot that the wire can name."""
    if found is not None:
        assert snapshot_name(found).encode() == data
        assert found.offset <= INT64_MAX
        assert found.epoch <= INT32_MAX


def _partition_directory(data: bytes) -> Any:
    return parse_partition_directory(f"/d/{data.decode('utf-8', errors='replace')}")


def _partition_directory_again(found: Any, _data: bytes, _rng: Random) -> None:
    """Check that the parsed name is within limits, and that its own text parses to the same."""
    if found is not None:
        assert 0 <= found.partition <= INT32_MAX
        again = parse_partition_directory(partition_directory_name(found.topic, found.partition))
        assert (again.topic, again.partition) == (found.topic, found.partition)


def _segment_offset(data: bytes) -> int | None:
    suffix = SEGMENT_SUFFIXES[data[0] % len(SEGMENT_SUFFIXES)] if data else LOG_SUFFIX
    return segment_base_offset(data[1:].decode("utf-8", errors="surrogateescape"), suffix)


def _segment_offset_again(found: int | None, data: bytes, _rng: Random) -> None:
    """None, or the one name of that offset."""
    if found is not None:
        suffix = SEGMENT_SUFFIXES[data[0] % len(SEGMENT_SUFFIXES)]
        assert segment_name(found, suffix).encode() == data[1:]


# ---- indexes -----------------------------------------------------------------------------------


def _offset_index(data: bytes) -> OffsetIndex:
    return OffsetIndex.decode(data, BASE_OFFSET, SEGMENT_BYTES)


def _offset_index_again(index: OffsetIndex, _data: bytes, rng: Random) -> None:
    """Every position lies in the segment, whatever is looked up."""
    for offset in (0, BASE_OFFSET, BASE_OFFSET + rng.randrange(1 << 32)):
        assert 0 <= index.lookup(offset) < SEGMENT_BYTES
    assert _offset_index(index.encode()).entries() == index.entries()


def _offset_index_bytes(rng: Random) -> bytes:
    index = OffsetIndex(BASE_OFFSET)
    offset, position = BASE_OFFSET, 0
    for _ in range(rng.randrange(20)):
        offset += 1 + rng.randrange(50)
        position += 1 + rng.randrange(2000)
        index.append(offset, position)
    return index.encode() + bytes(8 * rng.randrange(3))


def _time_index(data: bytes) -> TimeIndex:
    return TimeIndex.decode(data, BASE_OFFSET)


def _time_index_again(index: TimeIndex, _data: bytes, _rng: Random) -> None:
    assert _time_index(index.encode()).entries() == index.entries()


def _aborted_again(entries: list[AbortedTransaction], data: bytes, _rng: Random) -> None:
    """Every whole entry, and each says what its bytes say."""
    whole = len(data) // ABORTED_BYTES * ABORTED_BYTES
    again = b"".join(struct.pack(">hqqqq", *msgspec.structs.astuple(entry)) for entry in entries)
    assert again == data[:whole]


# ---- histories ---------------------------------------------------------------------------------


def _history(data: bytes) -> tuple[History, Any]:
    history = parse_history(data)
    return history, history.operations


def _history_again(value: tuple[History, Any], _data: bytes, _rng: Random) -> None:
    """Check that a history written again reads the same; EDN refuses names without a form."""
    history, _ = value
    for kind in (Format.JSONL, Format.MSGPACK, Format.EDN):
        try:
            data = written(history.events, kind)
        except HistoryError:
            assert kind is Format.EDN
            continue
        again = parse_history(data)
        assert repr(again.events) == repr(history.events)


@cache
def _histories() -> list[bytes]:
    events = [
        Event(process=0, type="invoke", f="write", value=1, index=0, time=1),
        Event(process=1, type="invoke", f="read", value=None, index=1, time=2, extra={"key": "a"}),
        Event(process=0, type="ok", f="write", value=1, index=2, time=3),
        Event(process=1, type="info", f="read", value=["a", None], index=3, time=4, error="x"),
        Event(process="nemesis", type="info", f="kill", value={"node": 1}, index=4, time=5),
    ]
    log = (
        "INFO  jepsen.util - 1\t:invoke\t:cas\t[1 2]\n"
        "INFO  jepsen.util - 1\t:info\t:cas\t:timed-out\n"
        "INFO  jepsen.util - 0\t:invoke\t:read\tnil\nINFO  jepsen.util - 0\t:ok\t:read\tnil\n"
    )
    edn = (
        '{:process 1, :type :invoke, :f :append, :key "0", :value "x 1 0 y"} ; c\n'
        '{:process 1, :type :ok, :f :append, :value #{1 2N 3.5M \\a} #_ 1 :error #inst "x"}\n'
    )
    odd = (
        '{"process":0,"type":"invoke","f":"1","value":[{"#char":"\\ud83d\\ude00"},{"#symbol":"-"},'
        '{"#tag":"bytes","#value":"zz"},{"#decimal":"1E+3"},{"#keyword":":\\u00e9@1"},1e16],'
        '"a b":1}\n'
    )
    kinds = (Format.JSONL, Format.MSGPACK, Format.EDN)
    plain = [*(written(events, kind) for kind in kinds), *(t.encode() for t in (log, edn, odd))]
    zipped = [gzip.compress(data, mtime=0) for data in plain]
    lines = plain[0].splitlines(keepends=True)
    members = b"".join(gzip.compress(line, mtime=0) for line in lines) + bytes(3)
    stored = gzip.compress(plain[0], compresslevel=0, mtime=0)
    return [*plain, *zipped, members, stored]


def _zipped_history(rng: Random) -> bytes:
    """A sound history in any form, as one gzip file of one or two members."""
    data = rng.choice([seed for seed in _histories() if not seed.startswith(GZIP)])
    at = rng.choice((0, rng.randrange(len(data))))
    parts = (data[:at], data[at:]) if at else (data,)
    level = rng.randrange(10)
    return b"".join(gzip.compress(part, compresslevel=level, mtime=0) for part in parts)


def _name(path: str) -> Any:
    def decode(reader: Any) -> Any:
        return lambda data: reader(data, path)

    return decode


def _dated(content: bytes) -> bytes:
    return content + f"#{dt.date(2026, 1, 1)}\n".encode()


def targets() -> list[Target]:
    """All of this file."""
    corrupt = (CorruptFileError,)
    named = _name("f")
    states = [*golden_files("quorum-state"), OLD_STATE, NEW_STATE]
    metas = golden_files("meta.properties")
    checkpoints = [*golden_files("*-checkpoint"), b"0\n2\nt 0 5\nt 1 7\n", b"0\n0\n"]
    epochs = [*golden_files("leader-epoch-checkpoint"), b"0\n2\n1 0\n3 17\n"]
    names = [b"00000000000000000103-0000000001.checkpoint", b"00000000000000000000.checkpoint"]
    unique = f"{7:032x}"
    directories = [b"t-0", b"a-b.c-2147483647", f"t-1.{unique}-delete".encode()]
    segments = [
        bytes([number]) + segment_name(offset, suffix).encode()
        for number, suffix in enumerate(SEGMENT_SUFFIXES)
        for offset in (0, 103, INT64_MAX)
    ]
    indexes, times = golden_files("*.index"), golden_files("*.timeindex")
    transactions = [*golden_files("*.txnindex"), bytes(68)]
    return [
        Target("quorum-state", states, named(decode_quorum_state), corrupt, _quorum_state_again),
        Target(
            "meta-properties", [*metas, _dated(metas[0])], named(decode_meta_properties), corrupt,
            _meta_again,
        ),
        Target("offset-checkpoints", checkpoints, named(decode_offsets), corrupt, _offsets_again),
        Target("epoch-checkpoints", epochs, named(decode_epochs), corrupt, _epochs_again),
        Target(
            "flushed-end", [encode_flushed_end(0), encode_flushed_end(987)], decode_flushed_end, (),
            _flushed_end_again,
        ),
        Target(
            "partition-metadata", golden_files("partition.metadata"),
            named(decode_partition_metadata), corrupt, _partition_metadata_again,
        ),
        Target(
            "partition-directories", directories, _partition_directory, (),
            _partition_directory_again,
        ),
        Target("segment-names", segments, _segment_offset, (), _segment_offset_again),
        Target("snapshot-names", names, _snapshot_name, (), _snapshot_name_again),
        Target(
            "offset-index", indexes, _offset_index, (IndexDamageError,), _offset_index_again,
            _offset_index_bytes,
        ),
        Target("time-index", times, _time_index, (IndexDamageError,), _time_index_again),
        Target("transaction-index", transactions, decode_transaction_index, (), _aborted_again),
        Target(
            "histories", _histories(), _history, (HistoryError,), _history_again, _zipped_history,
            weight=2,
        ),
    ]  # fmt: skip
