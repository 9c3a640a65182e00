"""A disk whose epochs leave no room for elections is refused at start, in one line."""

import re

import pytest

from kernel.formatting import bootstrap_checkpoint
from metadata.image import METADATA_VERSION
from simulator.cluster.memory_vfs import MemoryVfs
from storage.errors import CorruptFileError, CorruptLogError
from storage.log_dir.partition_directories import open_metadata_log
from storage.log_dir.quorum_state_file import ElectionState, QuorumStateFile
from storage.log_dir.snapshot_files import snapshot_name
from storage.logs.log import LogConfig
from storage.vfs import join, write_file_atomically
from tests.kernel.harness import World
from wire.batches.batch import encode_batch
from wire.types import EPOCH_MAX, LeaderEpoch, NodeId, Offset, OffsetAndEpoch

FOLDER = "/data/__cluster_metadata-0"
TOO_HIGH = [EPOCH_MAX + 1, 2**31 - 1]


def quorum_state(vfs: MemoryVfs, epoch: int) -> None:
    vfs.make_directory(FOLDER)
    QuorumStateFile(vfs, FOLDER, (NodeId(1),)).write(ElectionState(LeaderEpoch(epoch)))


def log(vfs: MemoryVfs, epoch: int) -> None:
    made = open_metadata_log(vfs, "/data", LogConfig())
    made.append(encode_batch([b""], Offset(0), LeaderEpoch(epoch), 0), 0)
    made.close()
    quorum_state(vfs, 0)


def snapshot(vfs: MemoryVfs, epoch: int) -> None:
    quorum_state(vfs, 0)
    content = bootstrap_checkpoint({METADATA_VERSION: 30}, 0)
    name = snapshot_name(OffsetAndEpoch(Offset(7), LeaderEpoch(epoch)))
    write_file_atomically(vfs, join(FOLDER, name), content)


@pytest.mark.parametrize("make", [quorum_state, snapshot])
def test_after_the_highest_epoch_elections_still_come(make) -> None:
    world = World(1)
    make(world.nodes[1].vfs, EPOCH_MAX)
    world.start(1)
    world.run_until(lambda: world.active() == 1)
    assert world.kernel(1).core.epoch == EPOCH_MAX + 1


@pytest.mark.parametrize("epoch", TOO_HIGH)
def test_a_quorum_state_above_it_is_refused(epoch: int) -> None:
    world = World(1)
    quorum_state(world.nodes[1].vfs, epoch)
    found = f"{FOLDER}/quorum-state: field 'leaderEpoch' cannot be {epoch}"
    with pytest.raises(CorruptFileError, match=re.escape(f"{found}, allowed: 0 to {EPOCH_MAX}")):
        world.start(1)


@pytest.mark.parametrize("epoch", TOO_HIGH)
def test_a_log_above_it_is_refused(epoch: int) -> None:
    world = World(1)
    log(world.nodes[1].vfs, epoch)
    with pytest.raises(CorruptLogError, match=f"leader epoch {epoch} is above {EPOCH_MAX}"):
        world.start(1)


@pytest.mark.parametrize("epoch", TOO_HIGH)
def test_a_snapshot_above_it_is_refused(epoch: int) -> None:
    world = World(1)
    snapshot(world.nodes[1].vfs, epoch)
    with pytest.raises(CorruptFileError, match=f"epoch {epoch} is above {EPOCH_MAX}"):
        world.start(1)
