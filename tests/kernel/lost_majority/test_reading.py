"""Stopped folders are read without a change: Kafka's, torn ones, damaged ones."""

import json

import pytest
from msgspec.structs import replace

from kernel.kraft_version import UnsupportedFeatureError
from kernel.lost_majority.reading import UnusableFolderError, read_folder
from raft.events import EpochStart
from raft.membership.voter_history import Membership
from raft.membership.voters import static_voters
from simulator.cluster.memory_vfs import MemoryVfs
from storage.checkpoints.flushed_end_file import FlushedEndFile
from storage.errors import CorruptFileError, CorruptLogError
from storage.log_dir.snapshot_files import snapshot_name
from tests.kernel.dynamic import checkpoint, key, voters
from tests.kernel.lost_majority.folders import NOBODY, make_folder, partition, put_snapshot, read
from tests.kernel.test_kraft_version import BEGINNING
from tests.storage import golden
from wire.types import Endpoint, LeaderEpoch, NodeId, Offset, OffsetAndEpoch

SEGMENT = "/00000000000000000000.log"


def append(vfs: MemoryVfs, path: str, content: bytes) -> None:
    file = vfs.open(path)
    file.pwrite(content, file.size())
    file.close()


def test_a_folder_of_kafka_with_dynamic_voters() -> None:
    vfs = golden.load("kraft-upgrade/n2")
    before = vfs.operations
    found = read_folder(vfs, "/log", NOBODY)
    assert vfs.operations == before, "nothing is written"
    log = found.replica
    assert (found.properties.node_id, log.key.id, log.epoch) == (2, 2, 1)
    assert (log.start_offset, log.end_offset, found.flushed_end_offset) == (0, 87, 0)
    assert log.snapshot_id == OffsetAndEpoch(Offset(85), LeaderEpoch(1))
    assert log.epochs == (EpochStart(LeaderEpoch(1), Offset(0)),)
    assert log.voters.latest.ids == found.static_voter_ids == (1, 2, 3)
    assert log.voters.kraft_version == 1
    assert (log.is_evidence, found.torn) == (True, None)
    assert not read_folder(vfs, "/log", NOBODY, is_copy=True).replica.is_evidence


def test_a_folder_of_kafka_with_static_voters_and_four_segments() -> None:
    vfs = golden.load("static")
    static = static_voters(((NodeId(1), Endpoint("CONTROLLER", "h", 1)),))
    log = read_folder(vfs, "/log", static).replica
    kafka = vfs.read("/log/__cluster_metadata-0/leader-epoch-checkpoint").decode().split()[2:]
    assert [(each.epoch, each.start_offset) for each in log.epochs] == [
        (int(epoch), int(start)) for epoch, start in zip(kafka[::2], kafka[1::2], strict=True)
    ]
    assert (log.epoch, log.end_offset, log.voters.latest) == (7, 671, static)
    assert log.snapshot_id == OffsetAndEpoch(Offset(607), LeaderEpoch(6))


def test_a_torn_end_ends_the_log_unless_it_was_flushed() -> None:
    vfs = MemoryVfs()
    make_folder(vfs, 1, {1: 5}, epoch=1)
    (whole,) = read(vfs, 1)
    assert (whole.replica.end_offset, whole.flushed_end_offset, whole.torn) == (5, 5, None)
    append(vfs, partition(1) + SEGMENT, bytes(20))
    (torn,) = read(vfs, 1)
    assert torn.replica == whole.replica
    assert torn.torn is not None
    FlushedEndFile(vfs, partition(1)).record(6)
    with pytest.raises(CorruptLogError, match=r"000\.log: corrupt at position \d+: "):
        read(vfs, 1)


def test_damage_before_the_last_segment_is_refused() -> None:
    vfs = golden.load("static")
    path = "/log/__cluster_metadata-0/00000000000000000182.log"
    content = vfs.read(path)
    vfs.rewrite(path, content[:-1])
    with pytest.raises(CorruptLogError, match=r"182\.log: corrupt"):
        read_folder(vfs, "/log", NOBODY)
    vfs.unlink(path)
    with pytest.raises(CorruptLogError, match=r"407\.log: .* follows offset 182"):
        read_folder(vfs, "/log", NOBODY)


def test_snapshots() -> None:
    vfs = MemoryVfs()
    membership = Membership(1, voters(1, 2))
    make_folder(vfs, 1, {2: 6}, start=40, epoch=2)
    (found,) = read(vfs, 1)
    assert (found.replica.start_offset, found.replica.end_offset) == (40, 46)
    put_snapshot(vfs, 1, 90, 5, membership)  # a crash before the log began anew at it
    (found,) = read(vfs, 1)
    log = found.replica
    assert (log.start_offset, log.end_offset, log.epochs) == (90, 90, ())
    assert (log.epoch, log.position, log.voters.latest) == (5, (5, 90), voters(1, 2))
    newest = f"{partition(1)}/{snapshot_name(OffsetAndEpoch(Offset(90), LeaderEpoch(5)))}"
    content = vfs.read(newest)
    vfs.rewrite(newest, content[:-1])
    with pytest.raises(CorruptFileError, match=r"0090-0000000005\.checkpoint"):
        read(vfs, 1)
    for name in vfs.list(partition(1)):
        if name.endswith(".checkpoint"):
            vfs.unlink(f"{partition(1)}/{name}")
    with pytest.raises(CorruptLogError, match="starts at offset 40 and no snapshot holds"):
        read(vfs, 1)


def test_the_checkpoint_of_a_formatting_is_no_snapshot_of_the_log() -> None:
    vfs = MemoryVfs()
    make_folder(vfs, 1, {})
    golden.put(vfs, f"{partition(1)}/{BEGINNING}", checkpoint(Membership(1, voters(1, 2))))
    log = read_folder(vfs, "/n1", NOBODY).replica
    assert (log.snapshot_id, log.voters.latest) == (None, voters(1, 2))
    golden.put(vfs, f"{partition(1)}/{BEGINNING}", checkpoint(Membership(2, voters(1, 2))))
    with pytest.raises(UnsupportedFeatureError):
        read_folder(vfs, "/n1", NOBODY)


def test_a_folder_that_took_part_in_no_election_is_no_evidence() -> None:
    vfs = MemoryVfs()
    make_folder(vfs, 1, {1: 5})
    (found,) = read(vfs, 1)
    assert (found.election, found.replica.is_evidence, found.static_voter_ids) == (None, False, ())
    assert found.replica.epoch == 1
    make_folder(vfs, 2, {1: 5}, epoch=9)
    (found,) = read(vfs, 2)
    assert (found.replica.is_evidence, found.replica.epoch, found.replica.key) == (True, 9, key(2))
    golden.put(vfs, "/n2/.unproven", b"")
    assert not read(vfs, 2)[0].replica.is_evidence


def test_a_formatted_folder_without_a_log_and_one_that_is_none() -> None:
    vfs = MemoryVfs()
    make_folder(vfs, 1, {1: 5}, epoch=1)
    golden.put(vfs, "/n9/meta.properties", vfs.read("/n1/meta.properties"))
    log = read_folder(vfs, "/n9", NOBODY).replica
    assert (log.end_offset, log.epochs, log.snapshot_id, log.epoch) == (0, (), None, 0)
    vfs.unlink("/n9/meta.properties")
    with pytest.raises(UnusableFolderError, match=r"^/n9: no meta\.properties"):
        read_folder(vfs, "/n9", NOBODY)


@pytest.mark.parametrize(("voters", "ids"), [
    ([{"voterId": 3}, {"voterId": 1}], (1, 3)), ([], ()), (None, ()),
    ([{}, 5, {"voterId": "x"}], ()), (5, ()),
])  # fmt: skip
def test_static_voters_of_quorum_state_are_read_leniently(
    voters: object, ids: tuple[int, ...]
) -> None:
    vfs = golden.load("static")
    path = "/log/__cluster_metadata-0/quorum-state"
    content = json.loads(vfs.read(path)) | {"currentVoters": voters}
    vfs.rewrite(path, json.dumps(content).encode())
    found = read_folder(vfs, "/log", NOBODY)
    assert found.static_voter_ids == ids
    assert replace(found, static_voter_ids=()).replica.end_offset == 671
