"""Records of leader epochs: each change of the entries is written, and no other."""

from collections.abc import Callable

import pytest

from simulator.cluster.memory_vfs import MemoryVfs
from storage.checkpoints.epoch_checkpoint import EpochCache, EpochEntry

PATH = "/a/leader-epoch-checkpoint"


def recorded() -> tuple[EpochCache, MemoryVfs]:
    """Epochs that are in their file."""
    vfs = MemoryVfs()
    vfs.make_directory("/a")
    cache = EpochCache((EpochEntry(1, 10), EpochEntry(2, 20)))
    assert cache.record(vfs, "/a")
    assert not cache.is_changed
    return cache, vfs


@pytest.mark.parametrize(
    "change",
    [
        lambda cache: cache.assign(3, 30),
        lambda cache: cache.truncate_from_end(20),
        lambda cache: cache.truncate_from_start(15),
        lambda cache: cache.clear(),
    ],
)
def test_a_change_is_recorded(change: Callable[[EpochCache], object]) -> None:
    cache, vfs = recorded()
    change(cache)
    assert cache.is_changed
    before = vfs.read(PATH)
    assert cache.record(vfs, "/a")
    assert vfs.read(PATH) == cache.encode() != before


@pytest.mark.parametrize(
    "step",
    [
        lambda cache: cache.assign(2, 25),
        lambda cache: cache.truncate_from_end(21),
        lambda cache: cache.truncate_from_start(10),
    ],
)
def test_what_stays_is_not_recorded(step: Callable[[EpochCache], object]) -> None:
    cache, vfs = recorded()
    step(cache)
    vfs.unlink(PATH)
    assert not cache.record(vfs, "/a")
    assert not vfs.exists(PATH)


def test_a_change_while_a_write_runs_is_not_recorded_by_it() -> None:
    cache, vfs = recorded()
    cache.assign(3, 30)
    write = cache.write(vfs, "/a")
    cache.assign(4, 40)
    write.run()
    write.done()
    assert cache.is_changed
    assert vfs.read(PATH).endswith(b"3 30\n")
