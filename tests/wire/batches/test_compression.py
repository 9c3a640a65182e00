"""The size of a decompressed batch is bounded while it is decompressed."""

import random
import struct
import tracemalloc
import zlib

import cramjam
import pytest

from wire.batches.compression import Codec, compress, decompress
from wire.errors import CorruptBatchError

MEBIBYTE = 1 << 20
COMPRESSED = [codec for codec in Codec if codec is not Codec.NONE]


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("size", [0, 1, 1000, 100_000, MEBIBYTE])
def test_up_to_the_limit_all_of_it_comes_out(codec: Codec, size: int) -> None:
    plain = bytes(range(256)) * (size // 256) + bytes(size % 256)
    assert decompress(codec, compress(codec, plain), size) == plain
    assert decompress(codec, compress(codec, plain)) == plain


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("content", [bytes(MEBIBYTE), bytes(range(256)) * 4096])
def test_one_byte_more_is_refused(codec: Codec, content: bytes) -> None:
    with pytest.raises(CorruptBatchError, match=f"unfold to more than {MEBIBYTE - 1} bytes"):
        decompress(codec, compress(codec, content), MEBIBYTE - 1)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_bomb_takes_no_memory(codec: Codec) -> None:
    bomb = compress(codec, bytes(64 * MEBIBYTE))
    tracemalloc.start()
    with pytest.raises(CorruptBatchError, match="unfold to more than 1048576 bytes"):
        decompress(codec, bomb, MEBIBYTE)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40 * MEBIBYTE + 2 * len(bomb), f"{peak} bytes for {len(bomb)}"


@pytest.mark.parametrize("codec", [Codec.ZSTD, Codec.LZ4])
@pytest.mark.parametrize(
    ("content", "peak_max"),
    [
        (bytes(64 * MEBIBYTE), 1.6 * MEBIBYTE),
        (random.Random(1).randbytes(MEBIBYTE), 2.2 * MEBIBYTE),
    ],
)
def test_the_room_for_a_stream_ends_at_the_limit(
    codec: Codec, content: bytes, peak_max: float
) -> None:
    stream = compress(codec, content)
    tracemalloc.start()
    try:
        assert decompress(codec, stream, MEBIBYTE) == content
    except CorruptBatchError:
        assert len(content) > MEBIBYTE
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < peak_max


def test_a_snappy_block_that_declares_gigabytes_is_refused_before_they_are_taken() -> None:
    declared = b"\xff\xff\xff\xff\x0f"  # 4 GiB - 1
    with pytest.raises(CorruptBatchError, match="unfold to more than"):
        decompress(Codec.SNAPPY, declared + b"\x00a")
    framed = b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, 7) + declared + b"\x00a"
    with pytest.raises(CorruptBatchError, match="unfold to more than"):
        decompress(Codec.SNAPPY, framed)


@pytest.mark.parametrize("size_bytes", [-(2**31), -5, -4, -1])
def test_a_snappy_block_of_negative_length_is_refused(size_bytes: int) -> None:
    block = struct.pack(">i", size_bytes) + b"\x01\x00a"
    with pytest.raises(CorruptBatchError, match=f"block of {size_bytes} bytes does not fit"):
        decompress(Codec.SNAPPY, b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + block)


@pytest.mark.parametrize(
    ("codec", "levels", "default"),
    [(Codec.GZIP, (1, 6), 6), (Codec.LZ4, (1, 4, 17), 4), (Codec.ZSTD, (-100, 3), 3)],
)
def test_higher_levels_make_smaller_streams(
    codec: Codec, levels: tuple[int, ...], default: int
) -> None:
    plain = b"".join(b"%d;" % (number * number % 7919) for number in range(4_000))
    streams = {level: compress(codec, plain, level) for level in levels}
    assert all(decompress(codec, stream) == plain for stream in streams.values())
    sizes = [len(stream) for stream in streams.values()]
    assert sizes == sorted(set(sizes), reverse=True)
    assert compress(codec, plain) == streams[default]


@pytest.mark.parametrize("codec", COMPRESSED)
def test_cut_and_noise_are_refused(codec: Codec) -> None:
    stream = compress(codec, b"some records " * 100)
    for damaged in (stream[:-1], stream[: len(stream) // 2], b"\xffnoise" * 10):
        with pytest.raises(CorruptBatchError):
            decompress(codec, damaged)


def test_several_gzip_members_and_the_limit_over_all_of_them() -> None:
    member = zlib.compressobj(wbits=31)
    one = member.compress(bytes(600)) + member.flush()
    assert len(decompress(Codec.GZIP, one + one, 1200)) == 1200
    with pytest.raises(CorruptBatchError, match="more than 1199"):
        decompress(Codec.GZIP, one + one, 1199)
    raw = bytes(cramjam.snappy.compress_raw(b"abc"))
    assert decompress(Codec.SNAPPY, raw, 3) == b"abc"


def test_zstd_frames_that_follow_each_other_are_one_section() -> None:
    """Java's ZstdInputStream goes on with the next frame; a frame may end anywhere in a piece."""
    plain = [b"a" * 600, random.Random(1).randbytes(1000), b"", b"z" * 600]
    frames = [compress(Codec.ZSTD, part) for part in plain]
    assert len(frames[0]) < 256  # less than a piece
    assert len(frames[1]) > 512  # several
    stream, content = b"".join(frames), b"".join(plain)
    assert decompress(Codec.ZSTD, stream, len(content)) == content
    with pytest.raises(CorruptBatchError, match=f"more than {len(content) - 1} bytes"):
        decompress(Codec.ZSTD, stream, len(content) - 1)
    with pytest.raises(CorruptBatchError, match="valid zstd"):
        decompress(Codec.ZSTD, stream[:-1])
    with pytest.raises(CorruptBatchError, match="valid zstd"):
        decompress(Codec.ZSTD, stream + b"noise")


def test_zstd_without_a_frame_and_with_one_that_decoders_skip() -> None:
    assert decompress(Codec.ZSTD, b"") == b""
    skipped = struct.pack("<II", 0x184D2A50, 3) + b"abc"
    stream = skipped + compress(Codec.ZSTD, b"some records") + skipped
    assert decompress(Codec.ZSTD, stream) == b"some records"


def test_a_zstd_frame_that_declares_a_window_of_gigabytes_is_refused() -> None:
    window = (31 - 10) << 3  # RFC 8878, 3.1.1.1.2: 2 GiB
    frame = struct.pack("<IBB", 0xFD2FB528, 0, window) + b"\x01\x00\x00"  # one block, of nothing
    with pytest.raises(CorruptBatchError, match="too much memory"):
        decompress(Codec.ZSTD, frame)


@pytest.mark.parametrize("size", [1, 70_000, 300_000])
def test_blocks_of_lz4_are_independent(size: int) -> None:
    """Kafka's Java reader says `Dependent block stream is unsupported` otherwise."""
    plain = bytes(range(256)) * (size // 256 + 1)
    written = compress(Codec.LZ4, plain)
    assert written[4] & 0x20, "the flag of the frame"
    assert decompress(Codec.LZ4, written) == plain
