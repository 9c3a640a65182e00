"""`.reserve`: filled when the disk has the blocks, tried with a block more, released whole."""

from simulator.cluster.memory_vfs import MemoryVfs
from storage.space_reserve import PROBE_BYTES, RESERVE_BYTES, RESERVE_NAME, SpaceReserve

PATH = f"/d/{RESERVE_NAME}"


def reserve_of() -> tuple[MemoryVfs, SpaceReserve]:
    vfs = MemoryVfs()
    vfs.make_directory("/d")
    reserve = SpaceReserve(vfs, "/d")
    assert reserve.fill()
    return vfs, reserve


def test_a_disk_has_space_when_it_takes_a_block_beside_the_reserve() -> None:
    vfs, reserve = reserve_of()
    assert reserve.has_space()
    vfs.bytes_max = vfs.used_bytes() + PROBE_BYTES
    assert reserve.has_space()
    vfs.bytes_max -= 1
    assert not reserve.has_space()
    assert vfs.size(PATH) == RESERVE_BYTES


def test_a_reserve_with_the_probe_behind_it_is_whole() -> None:
    """A crash may come between the probe and its end."""
    vfs, reserve = reserve_of()
    file = vfs.open(PATH)
    file.pwrite(b"p", RESERVE_BYTES + PROBE_BYTES - 1)
    file.close()
    vfs.bytes_max = vfs.used_bytes()
    vfs.failing = lambda kind, _: 28 if kind == "write" else None
    assert reserve.fill(), "nothing is to be written"
    assert not reserve.has_space()
    assert vfs.size(PATH) == RESERVE_BYTES
