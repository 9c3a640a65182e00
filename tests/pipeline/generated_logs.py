"""Random sound replicas on disk: what a node leaves, with everything that the audit compares."""

import random
import struct
from pathlib import Path
from typing import NamedTuple

import crc32c

from storage.segments.index import OffsetIndex, TimeIndex
from tests.pipeline.segments import TIME_MS, TOPIC_ID, batch, marker
from wire.batches.batch import parse_batch_header
from wire.batches.compression import Codec

INTERVAL_BYTES = 200
TRANSACTION_ENTRY = struct.Struct(">hqqqq")


class Placed(NamedTuple):
    """A batch and where it stands; `aborted` is the first offset of what its marker aborts."""

    content: bytes
    base: int
    last: int
    epoch: int
    aborted: int | None = None
    producer: int = -1


class Written(NamedTuple):
    """A batch of a replica on disk."""

    path: Path
    position: int
    batch: Placed


def random_batches(rng: random.Random, count: int) -> list[Placed]:
    """Sound batches: all codecs, several epochs, idempotent and transactional producers."""
    placed: list[Placed] = []
    offset, epoch, time_ms = 0, rng.randrange(3), TIME_MS
    sequences: dict[int, int] = {}
    open_since: dict[int, int] = {}
    for _ in range(count):
        epoch += rng.random() < 0.15
        time_ms += rng.randrange(-20, 200)
        if open_since and rng.random() < 0.3:
            producer = rng.choice(sorted(open_since))
            first, commit = open_since.pop(producer), rng.random() < 0.5
            content = with_epoch(marker(offset, producer, commit=commit), epoch)
            aborted = None if commit else first
            placed.append(Placed(content, offset, offset, epoch, aborted, producer))
            offset += 1
            continue
        size = rng.choice((1, 1, 2, 5, 20))
        values = [rng.choice((None, b"", rng.randbytes(rng.randrange(60)), b"value" * 9))
                  for _ in range(size)]  # fmt: skip
        producer, attributes, sequence = -1, 0, -1
        if rng.random() < 0.5:
            producer = rng.randrange(3)
            sequence = sequences.get(producer, 0)
            sequences[producer] = sequence + size
            if producer in open_since or rng.random() < 0.5:
                attributes |= 0x10
                open_since.setdefault(producer, offset)
        content = batch(
            offset, values, codec=rng.choice(list(Codec)), epoch=epoch, time_ms=time_ms,
            attributes=attributes, producer=(producer, -1 if producer < 0 else 0, sequence),
            headers=(("h", b"x"),) if rng.random() < 0.2 else (),
        )  # fmt: skip
        placed.append(Placed(content, offset, offset + size - 1, epoch))
        offset += size
    return placed


def with_epoch(content: bytes, epoch: int) -> bytes:
    """The batch in another leader epoch, which the checksum does not cover."""
    return content[:12] + struct.pack(">i", epoch) + content[16:]


def write_replica(
    folder: Path,
    batches: list[Placed],
    rng: random.Random,
    *,
    segments: int = 3,
    committed: int | None = None,
    epochs: list[tuple[int, int]] | None = None,
) -> list[Written]:
    """A log directory with `orders-0`; rolled at random places; where each batch stands."""
    home = folder / "orders-0"
    home.mkdir(parents=True)
    (home / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}")
    cuts = sorted(rng.sample(range(1, len(batches)), min(segments, len(batches)) - 1))
    written: list[Written] = []
    for start, end in zip([0, *cuts], [*cuts, len(batches)], strict=True):
        written += _write_segment(home, batches[start:end], is_last=end == len(batches))
    if epochs is None:
        epochs = epoch_starts(batches)
    lines = "".join(f"{epoch} {start}\n" for epoch, start in epochs)
    (home / "leader-epoch-checkpoint").write_text(f"0\n{len(epochs)}\n{lines}")
    end_offset = batches[-1].last + 1
    (home / f"{end_offset:020d}.snapshot").write_bytes(producer_snapshot(rng))
    if committed is not None:
        write_checkpoints(folder, committed)
    return written


def epoch_starts(batches: list[Placed]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for one in batches:
        if not found or found[-1][0] != one.epoch:
            found.append((one.epoch, one.base))
    return found


def write_checkpoints(folder: Path, committed: int) -> None:
    """Write the broker's checkpoint files: its high watermark, recovery point, log start."""
    text = f"0\n1\norders 0 {committed}\n"
    (folder / "replication-offset-checkpoint").write_text(text)
    (folder / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 0\n")
    (folder / "log-start-offset-checkpoint").write_text("0\n0\n")


def producer_snapshot(rng: random.Random) -> bytes:
    """Kafka's producer state, version 1, with random entries."""
    entries = rng.randrange(3)
    body = struct.pack(">i", entries) + rng.randbytes(46 * entries)
    return struct.pack(">hI", 1, crc32c.crc32c(body)) + body


def _write_segment(home: Path, batches: list[Placed], *, is_last: bool) -> list[Written]:
    base = batches[0].base
    path = home / f"{base:020d}.log"
    offsets, times = OffsetIndex(base), TimeIndex(base)
    position, since_entry, transactions = 0, 0, b""
    largest, largest_at = -1, base
    written = []
    for one in batches:
        header = parse_batch_header(one.content, 0)
        if since_entry > INTERVAL_BYTES and position:
            offsets.append(one.last, position)
            times.maybe_append(largest, largest_at)
            since_entry = 0
        if header.max_timestamp_ms > largest:
            largest, largest_at = header.max_timestamp_ms, one.last
        if one.aborted is not None:
            entry = (0, one.producer, one.aborted, one.base, one.base + 1)
            transactions += TRANSACTION_ENTRY.pack(*entry)
        written.append(Written(path, position, one))
        position += len(one.content)
        since_entry += len(one.content)
    times.maybe_append(largest, largest_at)
    path.write_bytes(b"".join(one.content for one in batches))
    padding = bytes(80) if is_last else b""  # preallocated
    path.with_suffix(".index").write_bytes(offsets.encode() + padding)
    path.with_suffix(".timeindex").write_bytes(times.encode() + bytes(len(padding) // 8 * 12))
    if transactions:
        path.with_suffix(".txnindex").write_bytes(transactions)
    return written
