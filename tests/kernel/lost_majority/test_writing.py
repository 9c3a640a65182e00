"""The steps of a recovery: what they write, from which log, and a crash at each."""

import json
import random

import pytest
from msgspec.structs import replace

from kernel.lost_majority import writing
from kernel.lost_majority.audit import unfinished_audit
from kernel.lost_majority.reading import UnusableFolderError, read_folder
from kernel.lost_majority.writing import carry_out, relabel
from raft.membership.lost_majority import EPOCH_MARGIN, RecoveryPlan, plan_recovery
from raft.membership.voter_history import Membership, VotersAt
from raft.membership.voters import static_voters
from simulator.cluster.memory_vfs import MemoryVfs, SimulatedCrashError
from storage.errors import CorruptFileError
from storage.log_dir.meta_properties import read_meta_properties
from storage.log_dir.quorum_state_file import ElectionState, QuorumStateFile
from storage.logs.log import AppendInfo, Log
from tests.kernel.dynamic import checkpoint, key, voter, voters
from tests.kernel.lost_majority.folders import (
    CLUSTER,
    NOBODY,
    audit_of,
    make_folder,
    partition,
    plan_of,
    put_snapshot,
    read,
)
from tests.kernel.test_kraft_version import BEGINNING
from tests.storage import golden
from wire.batches.batch import iterate_batches
from wire.types import Endpoint, LeaderEpoch, NodeId

OTHER = "MTIzNDU2Nzg5MDEyMzQ1Ng"
OBSERVER = 101


def segments(vfs: MemoryVfs, node_id: int) -> bytes:
    names = [name for name in vfs.list(partition(node_id)) if name.endswith(".log")]
    return b"".join(vfs.read(f"{partition(node_id)}/{name}") for name in names)


def recovered(vfs: MemoryVfs, *node_ids: int, cluster_id: str = CLUSTER) -> MemoryVfs:
    """The disk after the recovery of the first node, and a power failure right behind it."""
    path = carry_out(vfs, audit_of(plan_of(vfs, *node_ids), cluster_id), "now")
    assert json.loads(vfs.read(path))["state"] == "done"
    return vfs.crash()


def test_the_log_gets_the_steps_to_the_new_voters_in_one_batch_of_the_new_epoch() -> None:
    vfs = MemoryVfs()
    make_folder(vfs, 1, {1: 5}, epoch=4)
    before = segments(vfs, 1)
    vfs = recovered(vfs, 1)
    written = segments(vfs, 1)
    assert written.startswith(before)
    (batch,) = iterate_batches(written[len(before) :])
    epoch = 4 + EPOCH_MARGIN
    assert (batch.header.leader_epoch, batch.header.base_offset, batch.header.end_offset) == (
        epoch, 5, 7,
    )  # fmt: skip
    (found,) = read(vfs, 1)
    assert found.replica.voters.sets[1:] == (VotersAt(5, voters(1, 3)), VotersAt(6, voters(1)))
    assert found.election == ElectionState(LeaderEpoch(epoch))
    assert json.loads(vfs.read(f"{partition(1)}/quorum-state"))["data_version"] == 1
    assert found.properties.cluster_id == CLUSTER
    assert found.flushed_end_offset == found.replica.end_offset == 7


def test_a_static_quorum_gets_an_epoch_and_no_record() -> None:
    vfs = golden.load("static")
    vfs.rewrite(  # one of two
        "/log/__cluster_metadata-0/quorum-state",
        vfs.read("/log/__cluster_metadata-0/quorum-state").replace(b',{"voterId":3}', b""),
    )
    static = static_voters(((NodeId(1), Endpoint("C", "h", 1)), (NodeId(2), Endpoint("C", "h", 2))))

    plan = plan_recovery([read_folder(vfs, "/log", static).replica], "/log", voter(1))
    assert isinstance(plan, RecoveryPlan)
    carry_out(vfs, audit_of(plan, OTHER), "now")
    found = read_folder(vfs, "/log", static)
    assert found.replica.end_offset == 671
    assert found.election == ElectionState(LeaderEpoch(7 + EPOCH_MARGIN))
    assert found.static_voter_ids == (1,)
    assert found.properties.cluster_id == OTHER
    assert found.properties.directory_id is not None


@pytest.mark.parametrize(("target", "source"), [
    ({1: 5}, {1: 9}),  # behind
    ({1: 5, 2: 4}, {1: 3, 3: 9}),  # apart
    ({}, {1: 5, 2: 4}),  # formatted anew
    ({1: 50}, {1: 3, 2: 3}),  # longer, of an older epoch
])  # fmt: skip
def test_the_log_of_another_folder(target: dict[int, int], source: dict[int, int]) -> None:
    vfs = MemoryVfs()
    make_folder(vfs, 1, target, epoch=2 if target else None)
    golden.put(vfs, "/n1/.unproven", b"")  # of a voter that may have lost a disk
    make_folder(vfs, OBSERVER, source, epoch=3)
    theirs = segments(vfs, OBSERVER)
    vfs = recovered(vfs, 1, OBSERVER)
    assert segments(vfs, 1).startswith(theirs)
    (found,) = read(vfs, 1)
    assert found.replica.voters.latest == voters(1)
    assert found.replica.end_offset == sum(source.values()) + 2
    assert segments(vfs, OBSERVER) == theirs
    assert not vfs.exists("/n1/.unproven")


def test_a_long_log_is_copied_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    vfs = MemoryVfs()
    make_folder(vfs, 1, {1: 5}, epoch=1)
    make_folder(vfs, OBSERVER, {1: 12}, epoch=1)
    sizes: list[int] = []
    append = Log.append_fetched

    def noted(log: Log, batches: bytes, epoch_max: int) -> AppendInfo:
        sizes.append(len(batches))
        return append(log, batches, epoch_max)

    monkeypatch.setattr(Log, "append_fetched", noted)
    monkeypatch.setattr(writing, "COPIED_BYTES_MAX", 200)
    vfs = recovered(vfs, 1, OBSERVER)
    assert read(vfs, 1)[0].replica.end_offset == 14
    assert len(sizes) == 3, "three batches of 72 bytes are a piece"


def test_the_log_of_another_folder_that_begins_at_a_snapshot() -> None:
    vfs = MemoryVfs()
    make_folder(vfs, 1, {1: 5}, epoch=2)
    make_folder(vfs, OBSERVER, {4: 6}, start=40, epoch=4)
    vfs = recovered(vfs, 1, OBSERVER)
    (found,) = read(vfs, 1)
    log = found.replica
    assert (log.start_offset, log.end_offset, log.voters.latest) == (40, 48, voters(1))
    assert log.snapshot_id is not None
    assert log.snapshot_id.offset == 40
    assert segments(vfs, 1).startswith(segments(vfs, OBSERVER))


def test_what_both_logs_have_is_not_copied_again() -> None:
    vfs = MemoryVfs()
    make_folder(vfs, 1, {1: 50}, epoch=1)
    make_folder(vfs, OBSERVER, {1: 20}, start=40, epoch=1)
    before = segments(vfs, 1)
    vfs = recovered(vfs, 1, OBSERVER)
    (found,) = read(vfs, 1)
    assert (found.replica.start_offset, found.replica.end_offset) == (0, 62)
    assert segments(vfs, 1).startswith(before)


def test_a_log_that_begins_at_a_snapshot_and_has_nothing_of_the_source() -> None:
    vfs = MemoryVfs()
    make_folder(vfs, 1, {1: 3}, start=40, epoch=1)
    make_folder(vfs, OBSERVER, {2: 50}, epoch=2)
    vfs = recovered(vfs, 1, OBSERVER)
    (found,) = read(vfs, 1)
    log = found.replica
    assert (log.start_offset, log.end_offset, log.snapshot_id) == (0, 52, None)


def test_a_source_that_went_on_is_copied_as_far_as_planned() -> None:
    vfs = MemoryVfs()
    make_folder(vfs, 1, {1: 5}, epoch=1)
    make_folder(vfs, OBSERVER, {1: 12}, epoch=1)
    audit = audit_of(plan_of(vfs, 1, OBSERVER))
    carry_out(vfs, replace(audit, plan=replace(audit.plan, end_offset=8)), "now")
    assert read(vfs, 1)[0].replica.end_offset == 10


def test_the_checkpoint_of_a_formatting_stays() -> None:
    vfs = MemoryVfs()
    make_folder(vfs, 1, {}, epoch=None)
    formatted = checkpoint(Membership(1, voters(1, 2, 3)))
    golden.put(vfs, f"{partition(1)}/{BEGINNING}", formatted)
    make_folder(vfs, OBSERVER, {1: 5}, epoch=1)
    vfs = recovered(vfs, 1, OBSERVER)
    assert vfs.read(f"{partition(1)}/{BEGINNING}") == formatted
    assert read(vfs, 1)[0].replica.voters.latest == voters(1)


def test_both_logs_begin_at_snapshots() -> None:
    vfs = MemoryVfs()
    make_folder(vfs, 1, {4: 3}, start=40, epoch=4)
    make_folder(vfs, OBSERVER, {4: 6}, start=40, epoch=4)
    vfs = recovered(vfs, 1, OBSERVER)
    (found,) = read(vfs, 1)
    assert (found.replica.start_offset, found.replica.end_offset) == (40, 48)


def test_a_snapshot_that_the_source_contradicts_goes() -> None:
    vfs = MemoryVfs()
    make_folder(vfs, 1, {1: 9}, epoch=1)
    put_snapshot(vfs, 1, 8, 1, Membership(1, voters(1, 2, 3)))
    make_folder(vfs, OBSERVER, {1: 5, 2: 9}, epoch=2)
    vfs = recovered(vfs, 1, OBSERVER)
    (found,) = read(vfs, 1)
    assert (found.replica.snapshot_id, found.replica.end_offset) == (None, 16)


def test_a_snapshot_above_the_log_is_where_it_begins() -> None:
    vfs = MemoryVfs()
    make_folder(vfs, 1, {1: 9}, epoch=1)
    put_snapshot(vfs, 1, 30, 2, Membership(1, voters(1, 2, 3)))
    vfs = recovered(vfs, 1)
    (found,) = read(vfs, 1)
    assert (found.replica.start_offset, found.replica.end_offset) == (30, 32)
    assert found.replica.voters.latest == voters(1)


@pytest.mark.parametrize("keeps", [False, True])
def test_a_crash_at_each_operation_leaves_the_old_state_or_one_to_finish(*, keeps: bool) -> None:
    """Power failures that keep nothing unsynced, and ones that keep some of it."""

    def disk() -> MemoryVfs:
        vfs = MemoryVfs()
        make_folder(vfs, 1, {1: 5, 2: 4}, epoch=2)
        make_folder(vfs, OBSERVER, {1: 3, 3: 5}, epoch=3)
        return vfs

    vfs = disk()
    audit = audit_of(plan_of(vfs, 1, OBSERVER), OTHER)
    first = vfs.operations
    carry_out(vfs, audit, "now")
    count, expected = vfs.operations - first, segments(vfs, 1)
    seen = set()
    for number in range(count):
        vfs = disk()
        old = read(vfs, 1)[0]
        vfs.crash_at = first + number
        with pytest.raises(SimulatedCrashError):
            carry_out(vfs, audit, "now")
        vfs = vfs.crash(random.Random(number) if keeps else None)
        left = unfinished_audit(vfs, "/n1")
        (now,) = read(vfs, 1)
        is_new = now.replica.voters.latest == voters(1)
        if left is None and not is_new:
            assert now == old
            continue
        seen.add((is_new, left is None))
        if left is not None:
            assert left == audit
            carry_out(vfs, left, "now")
        (now,) = read(vfs, 1)
        assert segments(vfs, 1) == expected
        assert now.election == ElectionState(audit.plan.epoch)
        assert now.properties.cluster_id == OTHER
        assert unfinished_audit(vfs, "/n1") is None
    assert {(False, False), (True, False)} <= seen


def test_a_node_that_ran_meanwhile_keeps_its_epoch_and_its_log() -> None:
    """Interrupted behind the batch, started, and finished later."""
    vfs = MemoryVfs()
    make_folder(vfs, 1, {1: 5}, epoch=1)
    audit = audit_of(plan_of(vfs, 1))
    carry_out(vfs, audit, "now")
    led = ElectionState(LeaderEpoch(audit.plan.epoch + 1), NodeId(1), key(1))
    QuorumStateFile(vfs, partition(1)).write(led, 1)
    before = segments(vfs, 1)
    carry_out(vfs, audit, "now")
    assert segments(vfs, 1) == before
    assert read(vfs, 1)[0].election == led


def test_a_source_that_changed_meanwhile_is_refused() -> None:
    vfs = MemoryVfs()
    make_folder(vfs, 1, {1: 5}, epoch=1)
    make_folder(vfs, OBSERVER, {1: 9}, epoch=1)
    audit = audit_of(plan_of(vfs, 1, OBSERVER))
    changed = replace(audit, plan=replace(audit.plan, end_offset=12))
    with pytest.raises(UnusableFolderError, match="ends at offset 9, and was to end at 12: /n101"):
        carry_out(vfs, changed, "now")
    assert unfinished_audit(vfs, "/n1") is not None


def test_the_audit_says_what_was_decided() -> None:
    vfs = MemoryVfs()
    make_folder(vfs, 1, {1: 5}, epoch=1)
    audit = audit_of(plan_of(vfs, 1))
    path = carry_out(vfs, audit, "now")
    assert path == f"/n1/recovery-{1 + EPOCH_MARGIN:010d}.json"
    found = json.loads(vfs.read(path))
    assert [each["id"] for each in found["plan"]["wiped"]] == [2, 3]
    assert found["accepted_data_loss"] is True
    vfs.rewrite(path, b"{")
    with pytest.raises(CorruptFileError, match="not an audit of a recovery"):
        unfinished_audit(vfs, "/n1")
    golden.put(vfs, "/n1/recovery-point-offset-checkpoint", b"0\n0\n")
    vfs.unlink(path)
    assert unfinished_audit(vfs, "/n1") is None


def test_another_cluster_id() -> None:
    vfs = MemoryVfs()
    make_folder(vfs, 1, {1: 5}, epoch=1)
    before = read_meta_properties(vfs, "/n1")
    assert before is not None
    assert relabel(vfs, "/n1", OTHER, "now")
    assert not relabel(vfs, "/n1", OTHER, "now")
    assert read_meta_properties(vfs.crash(), "/n1") == replace(before, cluster_id=OTHER)
    vfs.make_directory("/empty")
    with pytest.raises(UnusableFolderError, match=r"^/empty: no meta\.properties"):
        relabel(vfs, "/empty", OTHER, "now")
    assert not read_folder(vfs, "/n1", NOBODY).torn
