"""Voters and levels in the log and in snapshots, as a node finds or fetches them."""

import random

import pytest
from msgspec.structs import replace

from kernel import effects as out
from kernel.config import QuorumConfig
from kernel.events import Now
from kernel.kraft_version import read_voter_history
from kernel.opening import OpenedStorage, open_storage, raft_core
from kernel.quorum.voter_records import membership_of, voter_records
from metadata.control_records import ControlRecord, KRaftVersion, KRaftVoters
from network.clock import Clock
from raft.core import RaftCore
from raft.effects import AppendFetched, WriteSnapshotChunk
from raft.events import Appended, SnapshotRefused
from raft.membership.voters import Voter as QuorumVoter
from raft.membership.voters import voter_set
from storage.errors import CorruptFileError, CorruptLogError
from storage.segments.segment import segment_name
from tests.kernel.harness import CLUSTER_ID, config_of
from tests.kernel.test_kraft_version import (
    BEGINNING,
    CHANGE,
    EPOCH,
    FOLDER,
    LATER,
    LEVEL_0,
    LEVEL_1,
    VOTER,
    VOTERS,
    checkpoint,
    control,
    disk,
)
from wire.batches.batch import iterate_batches
from wire.types import LeaderEpoch, NodeId, Offset, OffsetAndEpoch, ReplicaKey


def opened_with(effects: list[out.Effect]) -> tuple[OpenedStorage, RaftCore]:
    opened = open_storage(
        config_of(1), disk({}), None, Clock(Now(0, 0)), effects, installed=lambda _: None
    )
    return opened, raft_core(config_of(1), CLUSTER_ID, opened, random.Random(0), 0)


@pytest.mark.parametrize("joins", [True, False])
def test_a_controller_joins_by_itself_where_that_is_configured(*, joins: bool) -> None:
    opened, _ = opened_with([])
    config = replace(config_of(1), quorum=QuorumConfig(joins=joins))
    assert raft_core(config, CLUSTER_ID, opened, random.Random(0), 0).config.joins == joins


TWICE, NOBODY = KRaftVoters(voters=(VOTER, VOTER)), KRaftVoters()
NEGATIVE_ID = KRaftVoters(voters=(replace(VOTER, voter_id=NodeId(-1)),))
NEGATIVE = KRaftVersion(k_raft_version=-1)
IMPOSSIBLE = [TWICE, NOBODY, NEGATIVE_ID, NEGATIVE]


@pytest.mark.parametrize("record", IMPOSSIBLE)
def test_fetched_voters_that_no_quorum_has_are_refused_like_a_damaged_batch(
    record: ControlRecord,
) -> None:
    """A node with them asserted; the bytes of a peer end no node."""
    effects: list[out.Effect] = []
    opened, core = opened_with(effects)
    records = control(0, CHANGE) + control(1, record)
    fetched = AppendFetched(base_offset=Offset(0), records=records, epoch=EPOCH, flush=True)
    event = opened.writer.perform(fetched, core)
    assert isinstance(event, Appended)
    assert (event.end_offset, event.voter_records, opened.log.end_offset) == (0, (), 0)
    assert not event.is_disk_full
    (line,) = effects
    assert isinstance(line, out.Log)
    assert line.event == "fetched_batches_refused"
    assert "cannot be -1" in line.fields["reason"] or "no quorum has" in line.fields["reason"]


@pytest.mark.parametrize("record", IMPOSSIBLE)
def test_a_fetched_snapshot_with_them_is_damaged(record: ControlRecord) -> None:
    effects: list[out.Effect] = []
    opened, _ = opened_with(effects)
    chunk = WriteSnapshotChunk(
        snapshot_id=OffsetAndEpoch(Offset(7), EPOCH), position_bytes=0, chunk=checkpoint(record),
        done=True, generation=0,
    )  # fmt: skip
    assert isinstance(opened.writer.downloads.write(chunk), SnapshotRefused)
    (line,) = effects
    assert isinstance(line, out.Log)
    assert line.event == "fetched_snapshot_damaged"


def test_only_voters_that_were_appended_are_told() -> None:
    opened, core = opened_with([])
    later = control(2, VOTERS, epoch=LeaderEpoch(EPOCH + 1))
    records = control(0, LEVEL_1, VOTERS) + later
    fetched = AppendFetched(base_offset=Offset(0), records=records, epoch=EPOCH, flush=True)
    event = opened.writer.perform(fetched, core)
    assert isinstance(event, Appended)
    assert event.end_offset == 2
    assert event.voter_records == tuple(voter_records(iterate_batches(control(0, LEVEL_1, VOTERS))))


STATIC_SET = voter_set((QuorumVoter(ReplicaKey(NodeId(9)), ()),))
ONE = membership_of((LEVEL_1, VOTERS)).voters


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, ((), ())),
        ({BEGINNING: checkpoint(LEVEL_1, VOTERS)}, (((-1, ONE),), ((-1, 1),))),
        ({BEGINNING: checkpoint(LEVEL_1)}, ((), ((-1, 1),))),
        (
            {BEGINNING: checkpoint(LEVEL_1, VOTERS), segment_name(0): control(0, CHANGE, VOTERS)},
            (((-1, ONE), (1, ONE)), ((-1, 1),)),
        ),
        (
            {BEGINNING: checkpoint(LEVEL_0), LATER: checkpoint(LEVEL_1, VOTERS)},
            (((6, ONE),), ((6, 1),)),
        ),
        (
            {LATER: checkpoint(LEVEL_1, VOTERS), segment_name(6): control(6, VOTERS, VOTERS)},
            (((6, ONE), (7, ONE)), ((6, 1),)),
        ),
        ({segment_name(8): control(8, LEVEL_1, VOTERS, VOTERS)}, (((9, ONE),), ((8, 1),))),
    ],
)
def test_the_history_is_of_the_newest_snapshot_and_the_log_behind_it(
    files: dict[str, bytes], expected: object
) -> None:
    vfs = disk(files or {"partition.metadata": b""})
    history = read_voter_history(vfs, FOLDER, STATIC_SET, Offset(10))
    sets = tuple((each.offset, each.voters) for each in history.sets)
    levels = tuple((each.offset, each.level) for each in history.levels)
    assert (sets, levels) == expected
    assert history.static == STATIC_SET


@pytest.mark.parametrize("record", IMPOSSIBLE)
def test_stored_voters_that_no_quorum_has_are_damage(record: ControlRecord) -> None:
    with pytest.raises(CorruptFileError, match=LATER):
        read_voter_history(disk({LATER: checkpoint(record)}), FOLDER, STATIC_SET, Offset(9))
    files = {segment_name(0): control(0, record)}
    with pytest.raises(CorruptLogError, match="a record of the voters"):
        read_voter_history(disk(files), FOLDER, STATIC_SET, Offset(9))
