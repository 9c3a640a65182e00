"""Folders of a quorum with dynamic voters: those that Kafka 4.3.1 formatted, interruptions, ids."""

import io
import tarfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from kernel.formatting import (
    FormatError,
    FormatRequest,
    format_directories,
    voters_checkpoint,
)
from kernel.kraft_version import checked_kraft_version
from metadata.control_records import SnapshotHeader, control_type, decode_control, encode_control
from metadata.snapshot import decode_snapshot
from raft.membership.voters import Voter, VoterSet, voter_set
from simulator.cluster.memory_vfs import MemoryVfs
from storage.log_dir.meta_properties import read_meta_properties
from storage.log_dir.quorum_state_file import ElectionState, QuorumStateFile
from tests.kernel.harness import config_of
from tests.storage.crashes import Operation, run, steps_of
from tests.storage.possible_disks import FEW, disks
from wire.batches.batch import encode_control_batch, iterate_batches
from wire.types import DirectoryId, Endpoint, LeaderEpoch, NodeId, ReplicaKey

NODES = Path(__file__).parent.parent / "golden" / "metadata-nodes.tar.xz"
CHECKPOINT = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
LEVELS = {"metadata.version": 30, "kraft.version": 1}
MARK = "/data/.unproven"
NOW_MS = 1_795_255_998_031


def voter(node_id: int) -> Voter:
    """As the recorded command line has it: the directory ids are AAA.., BBB.., CCC..."""
    directory_id = DirectoryId(bytes([0x40 + node_id]) * 15 + b"\x01")
    where = Endpoint("CONTROLLER", "127.0.0.1", 29900 + node_id)
    return Voter(ReplicaKey(NodeId(node_id), directory_id), (where,), 0, 1)


VOTERS = voter_set((voter(3), voter(1), voter(2)))


def request(voters: VoterSet | None = VOTERS, *, ignored: bool = False) -> FormatRequest:
    return FormatRequest(
        cluster_id="c",
        features=LEVELS,
        now_ms=NOW_MS,
        initial_voters=voters,
        ignore_formatted=ignored,
    )


def formatted(vfs: MemoryVfs, wish: FormatRequest, node_id: int = 1) -> list[str]:
    drawn = iter(range(1, 9))
    config = replace(config_of(node_id), log_dirs=("/data", "/more"))
    return format_directories(vfs, config, wish, lambda: bytes([next(drawn)]) * 16)


def without_times(content: bytes) -> list[bytes]:
    """Batches of control records with every time 0: Kafka reads the clock for each of three."""
    batches: list[bytes] = []
    for batch in iterate_batches(content):
        header = batch.header
        values = [
            encode_control(decode_control(control_type(view.key), view.value))
            for view in batch.records()
        ]
        place = header.base_offset, header.leader_epoch
        assert encode_control_batch(values, *place, header.base_timestamp_ms) == batch.buffer
        if len(batches) == 0:
            values[0] = encode_control(SnapshotHeader(last_contained_log_timestamp=0))
        batches.append(encode_control_batch(values, *place, 0))
    return batches


def test_the_checkpoint_is_the_one_that_kafka_writes_but_for_its_times() -> None:
    ours = voters_checkpoint(VOTERS, 1, NOW_MS)
    with tarfile.open(fileobj=io.BytesIO(NODES.read_bytes())) as archive:
        for node in ("n1", "n2", "n3"):
            file = archive.extractfile(f"dynamic-4.3.1/{node}/{CHECKPOINT}")
            assert file is not None
            assert without_times(ours) == without_times(file.read())
    times = {batch.header.base_timestamp_ms for batch in iterate_batches(ours)}
    assert times == {NOW_MS}
    assert decode_snapshot(ours).last_contained_timestamp_ms == NOW_MS


def test_a_voter_has_its_directory_id_and_the_checkpoint() -> None:
    vfs = MemoryVfs()
    assert formatted(vfs, request()) == ["/data", "/more"]
    ids = [read_meta_properties(vfs, path).directory_id for path in ("/data", "/more")]
    assert ids == [voter(1).key.directory_id, bytes([1]) * 16]
    assert vfs.read(f"/data/{CHECKPOINT}") == voters_checkpoint(VOTERS, 1, NOW_MS)
    assert not vfs.exists(f"/more/{CHECKPOINT}")
    assert vfs.exists("/data/bootstrap.checkpoint")


def test_the_metadata_folder_of_a_controller_is_marked() -> None:
    """Not one that knows its election: its voter has forgotten nothing."""
    vfs, broker, known = MemoryVfs(), MemoryVfs(), MemoryVfs()
    formatted(vfs, request())
    assert vfs.exists(MARK)
    assert not vfs.exists("/more/.unproven")
    config = replace(config_of(1), is_controller=False)
    format_directories(broker, config, request(None), lambda: bytes([1]) * 16)
    assert not broker.exists(MARK)
    known.make_directory("/data/__cluster_metadata-0")
    QuorumStateFile(known, "/data/__cluster_metadata-0").write(ElectionState(LeaderEpoch(3)))
    formatted(known, request(None))
    assert not known.exists(MARK)


def test_a_first_voter_of_a_dynamic_quorum_is_marked() -> None:
    vfs = MemoryVfs()
    config = replace(config_of(1), voters=())
    format_directories(vfs, config, request(), lambda: bytes([1]) * 16)
    assert vfs.exists(MARK)


def test_who_is_no_voter_has_an_id_of_its_own() -> None:
    vfs = MemoryVfs()
    formatted(vfs, request(), node_id=4)
    assert read_meta_properties(vfs, "/data").directory_id == bytes([1]) * 16
    assert vfs.exists(f"/data/{CHECKPOINT}")


def test_who_finds_the_voters_at_the_quorum_has_no_checkpoint_and_no_mark() -> None:
    """It was never a voter: its directory id is new."""
    vfs = MemoryVfs()
    config = replace(config_of(1), voters=())
    format_directories(vfs, config, request(None), lambda: bytes([1]) * 16)
    assert not vfs.exists(MARK)
    assert not vfs.exists("/data/__cluster_metadata-0")
    assert read_meta_properties(vfs, "/data").directory_id == bytes([1]) * 16


def test_the_voters_of_an_interrupted_formatting_do_not_stay() -> None:
    """Else a node formatted for static voters would be none of those that it then counts."""
    vfs = MemoryVfs()
    formatted(vfs, request())
    for path in ("/data", "/more"):
        vfs.unlink(f"{path}/meta.properties")  # written last: it was not reached
    assert checked_kraft_version(vfs, "/data") == 1
    formatted(vfs, request(None))
    assert checked_kraft_version(vfs, "/data") == 0
    assert vfs.list("/data/__cluster_metadata-0") == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (CHECKPOINT, b"damaged"),
        (CHECKPOINT, voters_checkpoint(VOTERS, 2, 0)),
        ("__cluster_metadata-0/00000000000000000000.log", b""),
        ("__cluster_metadata-0/00000000000000000005-0000000001.checkpoint", b"s"),
    ],
    ids=["damaged", "of a later level", "beside a log", "beside a snapshot"],
)
def test_a_checkpoint_that_is_not_of_a_formatting_stays(name: str, content: bytes) -> None:
    vfs = MemoryVfs()
    formatted(vfs, request())
    for path in ("/data", "/more"):
        vfs.unlink(f"{path}/meta.properties")
    file = vfs.open(f"/data/{name}", create=True)
    file.truncate(0)
    file.pwrite(content, 0)
    kept = vfs.read(f"/data/{CHECKPOINT}")
    formatted(vfs, request(None))
    assert vfs.read(f"/data/{CHECKPOINT}") == kept


def test_a_formatted_folder_keeps_its_voters() -> None:
    vfs = MemoryVfs()
    formatted(vfs, request())
    other = request(voter_set((voter(1),)), ignored=True)
    assert formatted(vfs, other) == []
    assert vfs.read(f"/data/{CHECKPOINT}") == voters_checkpoint(VOTERS, 1, NOW_MS)
    with pytest.raises(FormatError, match="already formatted"):
        formatted(vfs, request())


@pytest.mark.parametrize("wish", [
    lambda: replace(request(), initial_voters=voter_set(())),
    lambda: replace(request(), features={"metadata.version": 30, "kraft.version": 0}),
    lambda: replace(request(), features={"metadata.version": 30}),
    lambda: replace(request(None), features={"kraft.version": 1}),
    lambda: request(voter_set((Voter(ReplicaKey(NodeId(1)), ()),))),
])  # fmt: skip
def test_requests_that_no_caller_makes(wish) -> None:
    with pytest.raises(AssertionError):
        wish()


def whole_or_unformatted(vfs: MemoryVfs, is_done: bool) -> None:
    """A folder with meta.properties has the voters; one without is formatted again."""
    is_formatted = vfs.exists("/data") and read_meta_properties(vfs, "/data") is not None
    assert is_formatted or not is_done
    if not is_formatted:
        formatted(vfs, request())
    assert vfs.exists(MARK)
    assert vfs.read(f"/data/{CHECKPOINT}") == voters_checkpoint(VOTERS, 1, NOW_MS)


def prepared(vfs: MemoryVfs) -> MemoryVfs:
    vfs.make_directory("/data")
    vfs.sync_directory("/")
    return vfs


@pytest.mark.parametrize("is_killed", [False, True], ids=["power", "kill"])
def test_an_interruption_leaves_an_unformatted_folder(is_killed: bool) -> None:
    operation = Operation(
        prepared,
        lambda vfs: formatted(vfs, request(), 1),
        whole_or_unformatted,
    )
    for step in [*range(steps_of(operation)), None]:
        vfs, is_done = run(operation, step)
        left = [vfs] if is_killed else disks(vfs, f"format {step}", FEW)
        if is_killed:
            vfs.crash_at = None
            vfs.kill()
        for each in left:
            whole_or_unformatted(each, is_done)
