"""Frames as the threads of a node cut them out of streams, and records as a follower takes them.

Both cutters give what the plain reader of `wire.connections.framing` gives, in portions of any
size, and leave no memory of the pool behind.
"""

import struct
from functools import cache
from random import Random

from crc32c import crc32c

from network.frame_assembly import FrameAssembly
from network.memory_pool import MemoryPool
from storage.logs.append_info import UnexpectedOffsetError
from storage.logs.unified_log import FetchIsolation
from storage.producers.producer_state import ProducerStateError
from storage.segments.read_check import first_damage
from tests.fuzz.engine import Target
from tests.storage.log_brokers import NOW, fill
from tests.storage.log_brokers import Broker as LogBroker
from wire.api_keys import PRODUCE
from wire.batches.batch import BatchHeader, RecordView, encode_records
from wire.batches.compression import Codec
from wire.connections.framing import FrameReader, frame
from wire.connections.growing_frames import GrowingFrames
from wire.errors import CorruptBatchError, RemoteProtocolError
from wire.types import Offset

FRAME_BYTES_MAX = 100
POOL_BYTES = 120
EPOCH_MAX = 5
IN_THE_LOG = 3
HEADER_BYTES = 61
CHECKED_FROM = 21
"""Offset in a batch behind its checksum."""
Frames = tuple[list[bytes], str | None]


# ---- frames --------------------------------------------------------------------------------------


def _cut(reader: FrameReader | GrowingFrames, portions: list[bytes]) -> Frames:
    """The frames, and why there are no more."""
    found: list[bytes] = []
    try:
        for portion in portions:
            reader.feed(portion)
            while (content := reader.next_frame()) is not None:
                found.append(bytes(content))
    except RemoteProtocolError as error:
        return found, str(error)
    return found, None


def _growing(data: bytes) -> Frames:
    return _cut(GrowingFrames(FRAME_BYTES_MAX), [data])


def _assembled(data: bytes) -> Frames:
    return _received([data], 64)


def _received(portions: list[bytes], shared_bytes: int) -> Frames:
    """Receive as a driver does: what a socket has goes into the buffer, as much as that takes."""
    pool = MemoryPool(POOL_BYTES)
    shared = memoryview(bytearray(shared_bytes))
    receiving = FrameAssembly(FRAME_BYTES_MAX, shared, grant_bytes=64, pool=pool, connection_id=1)
    found: list[bytes] = []

    def take(frames: list[bytearray]) -> None:
        found.extend(bytes(content) for content in frames)
        pool.drop(frames)

    for portion in portions:
        rest = portion
        while rest and receiving.failure is None:
            buffer = receiving.buffer()
            count = min(len(buffer), len(rest))
            buffer[:count] = rest[:count]
            rest = rest[count:]
            take(receiving.received(count))
            while receiving.is_starved:
                assert pool.first_with_room() == 1, "whoever waits alone has its turn"
                take(receiving.granted())
    receiving.close()
    assert pool.used_bytes == 0
    return found, receiving.failure


def _portions(data: bytes, rng: Random) -> list[bytes]:
    found, position = [], 0
    while position < len(data):
        size = rng.choice((1, 2, 3, 5, 64))
        found.append(data[position : position + size])
        position += size
    return found


def _as_the_plain_reader(value: Frames, data: bytes, rng: Random) -> None:
    portions = _portions(data, rng)
    assert value == _cut(FrameReader(FRAME_BYTES_MAX), [data])
    assert value == _cut(GrowingFrames(FRAME_BYTES_MAX), portions)
    assert value == _received(portions, rng.randrange(6, 65))


def _stream(rng: Random) -> bytes:
    start = PRODUCE.to_bytes(2, "big")
    contents = [
        rng.choice((start, b"")) + rng.randbytes(rng.choice((0, 3, 40, 98)))
        for _ in range(rng.randrange(6))
    ]
    return b"".join(map(frame, contents))


@cache
def _streams() -> list[bytes]:
    return [_stream(Random(seed)) for seed in range(20)]


# ---- records of a leader's response --------------------------------------------------------------


def _fetched(rng: Random) -> bytes:
    """Batches behind those that the log of the follower has."""
    found, offset, epoch = [], IN_THE_LOG, 1
    for _ in range(rng.randrange(1, 4)):
        count = rng.randrange(1, 4)
        producer_id = rng.choice((-1, 7))
        epoch = rng.randrange(epoch, EPOCH_MAX + 1)
        header = BatchHeader(
            base_offset=Offset(offset),
            leader_epoch=epoch,
            attributes=rng.choice(tuple(Codec)),
            last_offset_delta=count - 1,
            base_timestamp_ms=NOW,
            max_timestamp_ms=NOW,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=offset if producer_id >= 0 else -1,
            records_count=count,
        )
        records = [RecordView(Offset(offset + n), NOW, None, b"v") for n in range(count)]
        found.append(encode_records(header, records))
        offset += count + rng.choice((0, 0, 2))
    return bytes([rng.randrange(2)]) + b"".join(found)


@cache
def _responses() -> list[bytes]:
    return [_fetched(Random(seed)) for seed in range(30)]


def _records(data: bytes) -> bytes:
    """Behind a byte: if that is odd, checksums are made to fit whatever the rest became."""
    records = bytearray(data[1:])
    position = 0
    while data[0] % 2 and position + HEADER_BYTES <= len(records):
        (length,) = struct.unpack_from(">i", records, position + 8)
        end = position + 12 + length
        if length < HEADER_BYTES - 12 or end > len(records):
            break
        checksum = crc32c(bytes(records[position + CHECKED_FROM : end]))
        struct.pack_into(">I", records, position + CHECKED_FROM - 4, checksum)
        position = end
    return bytes(records)


def _appended(data: bytes) -> LogBroker:
    if not data:
        raise CorruptBatchError("nothing")
    broker = LogBroker()
    fill(broker.create(), IN_THE_LOG)
    end = broker.log().append_as_follower(memoryview(_records(data)), EPOCH_MAX, NOW).end_offset
    assert end == broker.log().end_offset >= IN_THE_LOG
    return broker


def _is_a_log(broker: LogBroker, data: bytes, _rng: Random) -> None:
    """Check that what was taken is the start of the response, and is there after a kill."""
    log = broker.log()
    end = log.end_offset
    taken = log.slice(IN_THE_LOG, 1 << 20, FetchIsolation.LOG_END, at_least_one=True)
    content = b"" if taken is None else taken.read()
    assert _records(data).startswith(content)
    assert bool(content) == (end > IN_THE_LOG)
    first = first_damage(content, IN_THE_LOG, contiguous=False, reads_old_formats=True)
    assert first is None
    assert log.producers.end_offset == end
    assert LogBroker(broker.vfs).log().end_offset == end


def targets() -> list[Target]:
    """All of this file."""
    return [
        Target("frame-assembly", _streams(), _assembled, (), _as_the_plain_reader, _stream),
        Target("growing-frames", _streams(), _growing, (), _as_the_plain_reader, _stream),
        Target(
            "fetched-records", _responses(), _appended,
            (UnexpectedOffsetError, ProducerStateError, CorruptBatchError),
            _is_a_log, _fetched, weight=0.3,
        ),
    ]  # fmt: skip
