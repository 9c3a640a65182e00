"""Messages of magic 0 and 1, as Kafka 3.9.1's own builder writes them: named, never cut."""

import struct
import zlib

import pytest

from cli.main import main
from simulator.cluster.memory_vfs import MemoryVfs
from storage.errors import CorruptLogError
from storage.logs.log import Log, LogConfig
from storage.segments.read_check import first_damage
from storage.segments.segment import segment_name
from tests.storage import golden
from wire.batches.batch import encode_batch, iterate_batches, iterate_frames, parse_batch_header
from wire.batches.old_messages import LENGTH_MIN
from wire.errors import CorruptBatchError

FOLDERS = sorted(path for path in (golden.ROOT / "legacy-log").iterdir() if path.is_dir())
MIXED = "mixed-v0-v1-v2-0"
SEGMENT = segment_name(0)
NEW = encode_batch([b"v" * 40], 0, 1, 0)
CONFIG = LogConfig(contiguous=False, verify_from_start=True)


def content_of(folder: str) -> bytes:
    return (golden.ROOT / "legacy-log" / folder / SEGMENT).read_bytes()


def messages(content: bytes) -> list[tuple[int, bytes]]:
    """Magic and bytes of each message or batch."""
    found, position = [], 0
    while position < len(content):
        (length,) = struct.unpack_from(">i", content, position + 8)
        found.append((content[position + 16], content[position : position + 12 + length]))
        position += 12 + length
    return found


OLD = [
    (folder.name, magic, message)
    for folder in FOLDERS
    for magic, message in messages(content_of(folder.name))
    if magic < 2
]


def message(magic: int, value: bytes, offset: int = 0) -> bytes:
    checked = struct.pack(">bb", magic, 0) + (struct.pack(">q", 7) if magic else b"")
    checked += struct.pack(">ii", -1, len(value)) + value
    crc = zlib.crc32(checked)
    return struct.pack(">qiI", offset, len(checked) + 4, crc) + checked


def test_the_set_has_both_formats_short_and_long() -> None:
    assert {magic for _, magic, _ in OLD} == {0, 1}
    assert min(len(found) for _, _, found in OLD) < 61 < max(len(found) for _, _, found in OLD)
    assert {magic for magic, _ in messages(content_of(MIXED))} == {0, 1, 2}
    assert message(0, b"v")[12:] in message(0, b"v", 5)


@pytest.mark.parametrize(("folder", "magic", "found"), OLD)
def test_every_reader_of_batches_names_the_format(folder: str, magic: int, found: bytes) -> None:
    del folder
    words = rf"is of the old message format \(magic {magic}, before Kafka 0\.11\)"
    for content in (found, found + NEW, found + found, found[:17]):
        with pytest.raises(CorruptBatchError, match=words):
            list(iterate_batches(content))
        with pytest.raises(CorruptBatchError, match=words):
            list(iterate_frames(content))
        with pytest.raises(CorruptBatchError, match=words):
            parse_batch_header(content)
    with pytest.raises(CorruptBatchError, match=words):
        list(iterate_frames(NEW + found))
    damage = first_damage(found + NEW, 0, contiguous=False)
    assert damage is not None
    assert "is of the old message format" in damage[1]


@pytest.mark.parametrize(
    ("length", "magic", "words"),
    [
        (LENGTH_MIN[0], 0, "old message format"),
        (LENGTH_MIN[0] - 1, 0, "cannot be 13 bytes long"),
        (LENGTH_MIN[1], 1, "old message format"),
        (LENGTH_MIN[1] - 1, 1, "cannot be 21 bytes long"),
        (0, 0, "cannot be 0 bytes long"),
        (-1, 1, "cannot be -1 bytes long"),
        (48, 2, "cannot be 48 bytes long"),
        (49, 3, "has magic 3, not 2"),
        (49, -1, "has magic (-1|255), not 2"),
        (49, 1, "old message format"),
    ],
)
def test_what_is_wrong_with_a_header(length: int, magic: int, words: str) -> None:
    header = struct.pack(">qiib", 0, length, 0, magic) + bytes(44)
    for read in (iterate_batches, iterate_frames):
        with pytest.raises(CorruptBatchError, match=words):
            list(read(header))
    with pytest.raises(CorruptBatchError, match=words):
        parse_batch_header(header)


def test_a_header_that_is_cut_before_its_magic_is_cut() -> None:
    for size in range(17):
        with pytest.raises(CorruptBatchError, match="is cut"):
            parse_batch_header(NEW[:size])
    with pytest.raises(CorruptBatchError, match="is cut"):
        parse_batch_header(NEW[:60])


# ---- a log ---------------------------------------------------------------------------------------


def disk(content: bytes) -> MemoryVfs:
    vfs = MemoryVfs()
    golden.put(vfs, f"/log/t-0/{SEGMENT}", content)
    return vfs


def refused(content: bytes, position: int) -> None:
    """With nothing recorded, where damage would be cut."""
    vfs = disk(content)
    with pytest.raises(CorruptLogError, match=r"is of the old message format") as error:
        Log.open(vfs, "/log/t-0", CONFIG)
    assert error.value.position == position
    assert vfs.read(f"/log/t-0/{SEGMENT}") == content


@pytest.mark.parametrize("folder", [folder.name for folder in FOLDERS])
def test_a_log_of_the_old_format_is_refused_whole(folder: str) -> None:
    refused(content_of(folder), 0)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("size", [0, 1, 44, 45, 46, 3 * 1024 * 1024])
def test_wherever_it_is_and_however_long(magic: int, size: int) -> None:
    old = message(magic, b"v" * size)
    for before, after in ((b"", b""), (NEW, b""), (NEW, NEW), (NEW, b"\xff" * 5)):
        refused(before + old + after, len(before))


@pytest.mark.parametrize("magic", [0, 1])
def test_a_cut_or_damaged_one_is_an_end_like_any_other(magic: int) -> None:
    old = message(magic, b"v" * 100)
    wrong = bytearray(old)
    wrong[-1] ^= 1
    for tail in (old[:-1], old[:17], old[:16], bytes(wrong), bytes(wrong) + NEW):
        vfs = disk(NEW + tail)
        log = Log.open(vfs, "/log/t-0", CONFIG)
        assert (log.end_offset, len(log.recovery_report)) == (1, 1)
        assert vfs.read(f"/log/t-0/{SEGMENT}") == NEW


def test_a_read_behind_the_recorded_end_names_it_too() -> None:
    vfs = disk(NEW)
    log = Log.open(vfs, "/log/t-0", CONFIG)
    vfs.damage(f"/log/t-0/{SEGMENT}", 16, b"\x01")
    with pytest.raises(CorruptLogError, match=r"old message format \(magic 1"):
        log.read(0, 1000)


# ---- tools ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["v0-none-0", "v1-lz4-0", MIXED])
def test_tools_name_it(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = golden.ROOT / "legacy-log" / folder
    magic = int(folder[1]) if folder[0] == "v" else 0
    words = f"is of the old message format (magic {magic}, before Kafka 0.11), which is not read"
    assert main(["log", "verify", str(path)]) == 1
    said = capsys.readouterr().out
    assert words in said
    assert "bytes long" not in said
