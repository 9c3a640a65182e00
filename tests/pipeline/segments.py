"""Segments written for a test, and Kafka's dump lines rendered from rows."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa

from wire.batches.batch import BatchHeader, RecordView, encode_records
from wire.batches.compression import Codec

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "cli"
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAABQ"
TIME_MS = 1_700_000_000_000


def batch(
    base_offset: int,
    values: Sequence[bytes | None] = (b"value",),
    *,
    keys: Sequence[bytes | None] | None = None,
    codec: Codec = Codec.NONE,
    epoch: int = 1,
    attributes: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    headers: tuple[tuple[str, bytes | None], ...] = (),
    time_ms: int = TIME_MS,
) -> bytes:
    """One batch whose records stand at consecutive offsets and one millisecond apart."""
    records = [
        RecordView(base_offset + i, time_ms + i, keys[i] if keys else b"key-%d" % i, value, headers)
        for i, value in enumerate(values)
    ]
    header = BatchHeader(
        base_offset=base_offset,
        leader_epoch=epoch,
        attributes=int(codec) | attributes,
        last_offset_delta=len(values) - 1,
        base_timestamp_ms=time_ms,
        max_timestamp_ms=time_ms + len(values) - 1,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        records_count=len(values),
    )
    return encode_records(header, records)


def marker(base_offset: int, producer_id: int, *, commit: bool) -> bytes:
    """The control batch that ends a transaction."""
    key = b"\0\0" + (b"\0\1" if commit else b"\0\0")
    return batch(
        base_offset, [b"\0\0\0\0\0\0"], keys=[key], attributes=0x30, producer=(producer_id, 0, -1)
    )


def write_partition(
    root: Path,
    batches: Iterable[bytes],
    *,
    name: str = "orders-0",
    base_offset: int = 0,
    topic_id: str = TOPIC_ID,
) -> Path:
    """A partition directory with one segment; the path of the segment."""
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    path = folder / f"{base_offset:020d}.log"
    path.write_bytes(b"".join(batches))
    return path


def write_high_watermark(root: Path, offset: int, name: str = "orders 0") -> None:
    (root / "replication-offset-checkpoint").write_text(f"0\n1\n{name} {offset}\n")


def batch_line(row: dict[str, object]) -> str:
    """A row of decode=metadata as kafka-dump-log prints the batch."""
    count, base = row["count"], row["baseSequence"]
    span = row["lastOffset"] - row["baseOffset"]
    last = -1 if base == -1 else (base + span) & 0x7FFFFFFF
    horizon = "OptionalLong.empty"
    if row["hasDeleteHorizon"]:
        horizon = f"OptionalLong[{milliseconds(row['baseTimestamp'])}]"
    return (
        f"baseOffset: {row['baseOffset']} lastOffset: {row['lastOffset']} count: {count} "
        f"baseSequence: {base} lastSequence: {last} producerId: {row['producerId']} "
        f"producerEpoch: {row['producerEpoch']} partitionLeaderEpoch: {row['leaderEpoch']} "
        f"isTransactional: {str(row['isTransactional']).lower()} "
        f"isControl: {str(row['isControl']).lower()} deleteHorizonMs: {horizon} "
        f"position: {row['position']} {time_name(row)}: {milliseconds(row['maxTimestamp'])} "
        f"size: {row['size']} magic: {row['magic']} compresscodec: {row['codec']} "
        f"crc: {row['crc']} isvalid: {str(row['crcOk']).lower()}"
    )


def record_line(row: dict[str, object]) -> str:
    """A row of decode=records or json as kafka-dump-log prints the record."""
    keys = ",".join(header["key"] for header in row["headers"])
    line = (
        f"| offset: {row['offset']} {time_name(row)}: {milliseconds(row['timestamp'])} "
        f"keySize: {row['keySize']} valueSize: {row['valueSize']} sequence: {row['sequence']} "
        f"headerKeys: [{keys}]"
    )
    if row["isControl"]:
        return line + f" {control_text(row)}"
    if row["key"] is not None:
        line += f" key: {row['key'].decode(errors='replace')}"
    payload = row["json"] if "json" in row else row["value"]
    if payload is not None:
        text = payload if isinstance(payload, str) else payload.decode(errors="replace")
        line += f" payload: {text}"
    return line


def control_text(row: dict[str, object]) -> str:
    if "json" not in row:
        kind = "COMMIT" if row["key"][3] else "ABORT"
        epoch = int.from_bytes(row["value"][2:6], "big")
        return f"endTxnMarker: {kind} coordinatorEpoch: {epoch}"
    label = "LeaderChange:" if row["apiName"] == "LeaderChange" else row["apiName"]
    return f"{label} {row['json']}"


def time_name(row: dict[str, object]) -> str:
    return "LogAppendTime" if row["timestampType"] == 1 else "CreateTime"


def milliseconds(moment: object) -> int:
    return -1 if moment is None else round(moment.timestamp() * 1000)


def dump_lines(batches: pa.Table, records: pa.Table) -> list[str]:
    """Both tables of one file as Kafka prints it with --deep-iteration --print-data-log."""
    rows = records.to_pylist()
    lines = []
    for found in batches.to_pylist():
        lines.append(batch_line(found))
        mine = [row for row in rows if row["batchPosition"] == found["position"]]
        lines += [record_line(row) for row in mine]
    return lines
