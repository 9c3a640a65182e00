"""Every read from a log checks it again: bytes that rot under a running node stop it."""

import pytest

from simulator.cluster.memory_vfs import MemoryVfs
from storage.errors import CorruptLogError
from storage.log_dir.partition_directories import open_metadata_log
from storage.logs.log import LogConfig
from storage.segments.read_check import first_damage
from tests.storage.test_crash import batch

LOG = "/d/__cluster_metadata-0/00000000000000000000.log"
BATCHES = [batch(offset, 1) for offset in range(9)]
SIZE = len(BATCHES[0])


def opened():
    vfs = MemoryVfs()
    vfs.make_directory("/d")
    log = open_metadata_log(vfs, "/d", LogConfig(index_interval_bytes=150))
    for offset, content in enumerate(BATCHES):
        log.append(content, offset)
    log.close()
    path = next(p for p in (LOG, f"{log.directory}/00000000000000000000.log") if vfs.exists(p))
    return vfs, open_metadata_log(vfs, "/d", LogConfig(index_interval_bytes=150)), path


def flip(vfs, path, position):
    byte = vfs.read(path)[position]
    vfs.damage(path, position, bytes([byte ^ 0x10]))


def test_nothing_is_damaged():
    _, log, _ = opened()
    assert log.read(3, 1 << 20) == b"".join(BATCHES[3:])
    assert first_damage(b"".join(BATCHES), 0, contiguous=True) is None


@pytest.mark.parametrize("max_bytes", [1, SIZE, 1 << 20])
def test_every_flipped_bit_but_those_of_the_epoch_stops_the_reader(max_bytes):
    for at in (byte for byte in range(SIZE) if not 12 <= byte < 16):
        vfs, log, path = opened()
        flip(vfs, path, 4 * SIZE + at)
        with pytest.raises(CorruptLogError) as caught:
            log.read(4, max_bytes)
        assert (caught.value.path, caught.value.position) == (path, 4 * SIZE), f"{at=}"
        assert caught.value.reason


def test_what_lies_before_the_damage_is_given():
    vfs, log, path = opened()
    flip(vfs, path, 4 * SIZE + 70)
    assert log.read(2, 1 << 20, end_offset=4) == b"".join(BATCHES[2:4])
    with pytest.raises(CorruptLogError) as caught:
        log.read(2, 1 << 20)
    assert caught.value.position == 4 * SIZE


def test_a_read_that_spans_the_damage_names_its_batch():
    vfs, log, path = opened()
    vfs.damage(path, 5 * SIZE, bytes(SIZE))
    with pytest.raises(CorruptLogError) as caught:
        log.read(3, 4 * SIZE)
    assert caught.value.position == 5 * SIZE


def test_a_batch_in_the_place_of_another():
    vfs, log, path = opened()
    vfs.damage(path, 5 * SIZE, BATCHES[2])
    with pytest.raises(CorruptLogError, match="base offset 2 where offset 5 has to be"):
        log.read(4, 1 << 20)


def test_a_lookup_that_meets_no_header():
    vfs, log, path = opened()
    for number in range(4, 9):
        vfs.damage(path, number * SIZE, bytes(SIZE))
    with pytest.raises(CorruptLogError) as caught:
        log.read(6, 1)
    assert caught.value.position == 4 * SIZE


def test_a_truncation_that_meets_no_header():
    vfs, log, path = opened()
    for number in range(4, 9):
        vfs.damage(path, number * SIZE, bytes(SIZE))
    with pytest.raises(CorruptLogError):
        log.truncate_to(6)


def test_a_compacted_log_has_gaps():
    content = BATCHES[0] + BATCHES[4]
    assert first_damage(content, 0, contiguous=False) is None
    assert first_damage(content, 0, contiguous=True) == (
        SIZE,
        "base offset 4 where offset 1 has to be",
    )
