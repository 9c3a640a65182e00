"""The header walk: damage at every place, and cuts at every batch."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.core.records.batches import Fault, iter_batches, resync, scan
from tests.pipeline.segments import batch
from tests.selection import examples

GOLDEN = Path(__file__).parent.parent / "golden" / "storage"
LOG = [batch(10 * i, [b"v" * (i + 1)] * 10) for i in range(6)]
DATA = b"".join(LOG)
STARTS = [sum(map(len, LOG[:i])) for i in range(len(LOG))]


def walk(data: bytes, start: int = 0, end: int | None = None, **options: object) -> list:
    """Base offsets and faults in order."""
    stop = len(data) if end is None else end
    refs = iter_batches(data, start, stop, frozen_size=len(data), **options)
    return [ref.base_offset if ref.error is None else ref.error for ref in refs]


def changed(position: int, content: bytes) -> bytes:
    return DATA[:position] + content + DATA[position + len(content) :]


def test_references_carry_the_header() -> None:
    ref = list(iter_batches(DATA, 0, len(DATA)))[2]
    assert (ref.position, ref.size, ref.base_offset, ref.last_offset) == (
        STARTS[2], len(LOG[2]), 20, 29,
    )  # fmt: skip
    assert (ref.count, ref.epoch, ref.error) == (10, 1, None)


@settings(deadline=None, derandomize=True)
@given(st.integers(1, 400), st.sampled_from(STARTS), st.sampled_from([*STARTS, len(DATA)]))
def test_any_window_and_any_split_give_each_batch_once(window: int, low: int, high: int) -> None:
    cuts = [0, *sorted({low, high}), len(DATA)]
    found = []
    for start, end in pairwise(cuts):
        for table in scan(DATA, start, end, frozen_size=len(DATA), window_bytes=window + 61):
            assert table.fault is None
            found += table.column("base_offset").tolist()
    assert found == [0, 10, 20, 30, 40, 50]


def test_truncation_at_every_byte_is_a_live_append_in_the_last_segment() -> None:
    for size in range(len(DATA)):
        whole = [10 * i for i, start in enumerate(STARTS) if start + len(LOG[i]) <= size]
        assert walk(DATA[:size]) == whole
        *before, last = walk(DATA[:size], is_last=False) or [None]
        if size in (0, *STARTS):
            assert last == (whole[-1] if whole else None)
        else:
            assert before == whole
            assert last.reason == ("short_header" if size - last.position < 61 else "partial_tail")
            assert last.position + last.length == size


@pytest.mark.parametrize(
    ("at", "content", "reason"),
    [
        (8, b"\x7f\0\0\0", "bad_length"),
        (8, b"\0\0\0\x05", "bad_length"),
        (8, b"\xff\xff\xff\xff", "bad_length"),
        (16, b"\x01", "old_magic"),
        (16, b"\x09", "bad_magic"),
        (17, b"\0\0\0\0", "bad_crc"),
        (70, b"\xff", "bad_crc"),
    ],
)
def test_damage_is_found_and_what_follows_is_read(at: int, content: bytes, reason: str) -> None:
    found = walk(changed(STARTS[2] + at, content))
    assert [x for x in found if isinstance(x, int)] == [0, 10, 30, 40, 50]
    fault = found[2]
    assert (fault.reason, fault.position) == (reason, STARTS[2])
    assert fault.length == len(LOG[2])
    assert fault.base_offset == 20


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(st.integers(0, len(DATA) - 1), st.integers(0, 7))
def test_a_flipped_bit_costs_one_batch_at_most(position: int, bit: int) -> None:
    data = changed(position, bytes([DATA[position] ^ 1 << bit]))
    index = max(i for i, start in enumerate(STARTS) if start <= position)
    found = walk(data)
    others = [10 * i for i in range(6) if i != index]
    within = position - STARTS[index]
    if within < 8 or 12 <= within < 16:  # base offset and epoch: the checksum does not cover them
        assert not any(isinstance(x, Fault) for x in found)
    else:
        assert [x for x in found if isinstance(x, int)] == others
        (fault,) = [x for x in found if isinstance(x, Fault)] or [None]
        last_batch_looks_cut = index == 5 and within < 12
        assert (
            fault is None
            if last_batch_looks_cut and fault is None
            else fault.position == STARTS[index]
        )


def test_split_set_does_not_change_what_is_damaged() -> None:
    data = changed(STARTS[1] + 8, b"\0\1\0\0")  # reaches over the next batches
    whole = walk(data)
    split = walk(data, 0, STARTS[3]) + walk(data, STARTS[3])
    assert split == whole
    assert [x for x in whole if isinstance(x, int)] == [0, 20, 30, 40, 50]


def test_zeros_at_the_end_are_a_fault() -> None:
    found = walk(DATA + bytes(300))
    assert (found[-1].reason, found[-1].position, found[-1].length) == ("zero_tail", len(DATA), 300)


def test_resync_finds_the_next_sound_batch_only() -> None:
    garbage = b"\0" * 16 + b"\2" + b"\0" * 40
    data = garbage + DATA
    assert resync(data, 0, len(data)) == len(garbage)
    assert resync(data, len(garbage) + 1, len(data)) == len(garbage) + STARTS[1]
    assert resync(garbage, 0, len(garbage)) is None


def test_a_file_that_shrinks_below_its_frozen_size_is_reported(tmp_path) -> None:
    path = tmp_path / "log"
    path.write_bytes(DATA[: STARTS[3]])
    with path.open("rb") as file:
        tables = list(scan(file.fileno(), 0, len(DATA), frozen_size=len(DATA)))
    assert sum(map(len, tables)) == 3
    assert (tables[-1].fault.reason, tables[-1].fault.position) == ("vanished", STARTS[3])


def test_the_old_message_format_is_named_and_what_follows_is_read() -> None:
    """A log whose format was raised twice: messages of magic 0 and 1, then batches."""
    content = (GOLDEN / "legacy-log" / "mixed-v0-v1-v2-0" / "00000000000000000000.log").read_bytes()
    first, *rest = iter_batches(content, 0, len(content), frozen_size=len(content))
    assert first.error is not None
    assert (first.error.reason, first.error.position) == ("old_magic", 0)
    assert "is of the old message format (magic 0, before Kafka 0.11)" in first.error.detail
    assert rest[0].error is None
    assert content[rest[0].position + 16] == 2
    assert first.error.length == rest[0].position
    zeros = walk(bytes(300))
    assert [fault.detail for fault in zeros] == ["300 bytes of zeros"]
