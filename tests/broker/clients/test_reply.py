"""The parts in which a response is sent."""

import pytest

from broker.clients.reply import JOINED_BYTES_MAX, framed
from simulator.cluster.memory_vfs import MemoryVfs
from storage.segments.file_slice import FileSlice

LARGE = b"l" * (JOINED_BYTES_MAX + 1)
RECORDS = FileSlice(MemoryVfs().open("/log", create=True), 3, 500, 0, 0)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((), [b"\0\0\0\0"]),
        ((b"ab", b"c"), [b"\0\0\0\3abc"]),
        ((b"ab", RECORDS, b"c", b"d"), [b"\0\0\1\xf8ab", RECORDS, b"cd"]),
        ((RECORDS, RECORDS), [b"\0\0\3\xe8", RECORDS, RECORDS]),
        ((LARGE, b"c", b"d"), [b"\0\0\x10\3", LARGE, b"cd"]),
        ((LARGE[1:], b"c"), [b"\0\0\x10\1" + LARGE[1:] + b"c"]),
    ],
)
def test_small_parts_leave_together_behind_the_length(parts, expected) -> None:
    assert framed(parts) == expected
