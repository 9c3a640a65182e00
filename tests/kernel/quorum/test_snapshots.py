"""Snapshots in a running quorum: written, kept, fetched by those who lag, refused when damaged."""

import random
from typing import Any

import pytest
from msgspec.structs import replace

from kernel import effects as out
from kernel.config import MetadataLogConfig, QuorumConfig
from kernel.events import Now
from kernel.opening import open_storage
from kernel.quorum.messages.table import request_to_wire
from kernel.quorum.snapshot_reading import SLICE_RECORDS
from network.clock import Clock
from raft.effects import WriteSnapshotChunk
from raft.messages import VoteRequest
from simulator.cluster.memory_vfs import MemoryVfs, SimulatedCrashError
from storage.errors import CorruptFileError, CorruptLogError
from storage.log_dir.snapshot_files import snapshot_name
from storage.space_reserve import RESERVE_BYTES
from tests.kernel.harness import CLUSTER_ID, Node, World, config_of
from tests.selection import thinned
from wire.errors import ErrorCode
from wire.types import LeaderEpoch, NodeId, Offset, OffsetAndEpoch

SMALL = MetadataLogConfig(
    segment_bytes=2_000,
    record_bytes_between_snapshots=3_000,
    snapshot_interval_ms_max=0,
    retention_bytes=6_000,
)
LARGE = replace(SMALL, record_bytes_between_snapshots=100_000, retention_bytes=1)
CHUNKS = QuorumConfig(fetch_snapshot_bytes_max=300)
PARTITION = "/data/__cluster_metadata-0"


def ready(count: int = 3, **more: Any) -> World:
    world = World(count, **{"metadata_log": SMALL, "quorum": CHUNKS, **more})
    world.start_all()
    world.run_until(world.is_ready)
    return world


def create(world: World, node_id: int, names: range) -> None:
    client = world.client(node_id)
    for number in names:
        answer = client.create_topic(f"t{number}", partitions=3, replicas=1)
        assert answer.error_code is ErrorCode.none, answer


def log_start(world: World, node_id: int) -> int:
    return world.kernel(node_id).log.log_start_offset


def snapshots(world: World, node_id: int) -> list[OffsetAndEpoch]:
    return world.kernel(node_id).snapshot_files.list()


def said(world: World, node_id: int, event: str) -> list[out.Log]:
    return [log for log in world.nodes[node_id].logs if log.event == event]


def have_all(world: World, count: int) -> bool:
    wanted = {f"t{number}" for number in range(count)}
    return all(wanted <= set(world.kernel(i).cache.image.topic_id_by_name) for i in world.alive)


def leader_of(world: World) -> int:
    leader = world.active()
    assert leader is not None
    return leader


def lagging(seed: int = 0, **more: Any) -> tuple[World, int]:
    """A quorum whose logs do not begin at 0 any more, and a node that was away meanwhile."""
    world = ready(seed=seed, **more)
    away = next(i for i in world.alive if i != world.active())
    world.kill(away)
    create(world, world.alive[0], range(60))
    world.run_until(lambda: all(log_start(world, i) > 20 for i in world.alive))
    world.run_for(200)  # the last snapshot is finished
    return world, away


def test_a_snapshot_by_bytes_covers_committed_records_and_lets_the_log_go() -> None:
    world = ready()
    create(world, 1, range(60))
    world.run_for(2_000)
    for node_id in world.alive:
        found = snapshots(world, node_id)
        log = world.kernel(node_id).log
        assert len(said(world, node_id, "snapshot_written")) > 2
        assert log.log_start_offset in {snapshot_id.offset for snapshot_id in found}
        assert found[0].offset == log.log_start_offset > 0
        held = sum(world.kernel(node_id).snapshot_files.size(i) for i in found)
        assert log.size_bytes + held <= SMALL.retention_bytes + SMALL.segment_bytes * 2 or (
            len(found) == 1
        )
        assert world.kernel(node_id).core.log_start_offset == log.log_start_offset
    for node_id in list(world.alive):
        world.kill(node_id)
    world.start_all()
    world.run_until(world.is_ready, 40_000)
    world.run_until(lambda: have_all(world, 60))
    assert [world.kernel(i).state.snapshots_loaded for i in world.alive] == [1, 1, 1]


def test_a_log_that_begins_at_its_snapshot_is_not_written_out_at_every_commit() -> None:
    one_segment = replace(SMALL, segment_bytes=1 << 20)  # retention cannot let go of the active one
    world = ready(metadata_log=one_segment)
    create(world, 1, range(64))
    world.run_for(1_000)
    assert all(log_start(world, i) == snapshots(world, i)[-1].offset > 0 for i in world.alive)
    before = {i: len(said(world, i, "snapshot_written")) for i in world.alive}
    world.run_for(5_000)  # ten NoOp records, far below the bytes between two snapshots
    assert {i: len(said(world, i, "snapshot_written")) for i in world.alive} == before


def test_a_snapshot_by_time() -> None:
    timed = MetadataLogConfig(snapshot_interval_ms_max=5_000)
    world = ready(metadata_log=timed)
    create(world, 1, range(2))
    world.run_for(4_000)
    assert not any(snapshots(world, i) for i in world.alive)
    world.run_for(3_000)
    assert all(len(snapshots(world, i)) == 1 for i in world.alive)


def test_old_snapshots_go_by_age() -> None:
    aged = MetadataLogConfig(
        segment_bytes=2_000,
        snapshot_interval_ms_max=5_000,
        retention_bytes=-1,
        retention_ms=20_000,
    )
    world = ready(1, metadata_log=aged)
    create(world, 1, range(5))
    world.run_for(40_000)
    ages = [snapshot_id.offset for snapshot_id in snapshots(world, 1)]
    assert 4 <= len(ages) <= 6
    assert log_start(world, 1) == ages[0] > 0


def test_times_of_snapshots_that_went_another_way_are_forgotten() -> None:
    aged = MetadataLogConfig(snapshot_interval_ms_max=5_000, retention_bytes=-1)
    world = ready(1, metadata_log=aged)
    create(world, 1, range(5))
    world.run_for(70_000)
    known = world.kernel(1).snapshots._retention._timestamps_ms
    assert known, "retention looked at ages"
    known[OffsetAndEpoch(Offset(1), LeaderEpoch(1))] = 0  # a fetched snapshot removed it
    world.run_for(70_000)
    assert set(known) <= set(snapshots(world, 1))


def test_writing_a_large_snapshot_takes_short_steps() -> None:
    world = World(1, metadata_log=MetadataLogConfig(snapshot_interval_ms_max=3_000))
    world.start_all()
    world.run_until(world.is_ready)
    assert world.client(1).create_topic("a", partitions=1_500).error_code is ErrorCode.none
    begun_ms = world.now_ms
    world.run_until(lambda: bool(said(world, 1, "snapshot_written")))
    slices = 3_000 // 200
    assert world.now_ms - begun_ms >= slices  # other events have their turn in between


@pytest.mark.parametrize("seed", thinned(range(3), every=3))
def test_a_node_that_was_away_fetches_the_snapshot_in_chunks(seed: int) -> None:
    world, away = lagging(seed)
    world.start(away)
    world.run_until(lambda: have_all(world, 60))
    (loaded,) = said(world, away, "snapshot_loaded")
    assert world.kernel(away).state.snapshots_loaded == 1
    log = world.kernel(away).log
    assert log.log_start_offset >= int(str(loaded.fields["end_offset"]))
    assert snapshots(world, away)[0].offset == log.log_start_offset
    world.run_for(2_000)
    images = [world.kernel(i).cache.image for i in world.alive]
    assert images[0].topics == images[1].topics == images[2].topics
    create(world, away, range(60, 62))  # and it is a voter as before
    world.kill(next(i for i in world.alive if i != away))
    world.run_until(lambda: world.active() is not None)


def test_an_observer_fetches_it_too() -> None:
    world = ready()
    config = config_of(4, 3, is_controller=False, metadata_log=SMALL, quorum=CHUNKS)
    world.nodes[4] = Node(replace(config, listeners=config.broker_listeners))
    world.nodes[4].vfs.make_directory("/data")
    world.nodes[4].vfs.sync_directory("/")
    create(world, 1, range(60))
    world.run_until(lambda: all(log_start(world, i) > 20 for i in world.alive))
    world.start(4)
    world.run_until(lambda: have_all(world, 60))
    assert said(world, 4, "snapshot_loaded")


def test_the_leader_changes_during_the_fetch() -> None:
    world, away = lagging(quorum=QuorumConfig(fetch_snapshot_bytes_max=20))
    world.start(away)
    part = world.run_until(lambda: any(n.endswith(".part") for n in names(world, away)))
    assert part >= 0
    leader = world.active()
    assert leader is not None
    world.kill(leader)
    world.run_until(lambda: have_all(world, 60), 60_000)
    assert said(world, away, "snapshot_loaded")
    assert not any(name.endswith(".part") for name in names(world, away))


def names(world: World, node_id: int) -> list[str]:
    return world.nodes[node_id].vfs.list(PARTITION)


def test_a_damaged_snapshot_is_refused_and_the_log_stays() -> None:
    quiet = replace(SMALL, idle_interval_ms_max=0)  # no newer snapshot during the test
    world, away = lagging(metadata_log=quiet)
    leader = world.active()
    assert leader is not None
    latest = snapshots(world, leader)[-1]
    path = f"{PARTITION}/{snapshot_name(latest)}"
    size = world.nodes[leader].vfs.size(path)
    good = world.nodes[leader].vfs.read(path)[size // 2 : size // 2 + 1]
    world.nodes[leader].vfs.damage(path, size // 2, bytes([good[0] ^ 1]))
    world.start(away)
    before = world.kernel(away).log.end_offset
    world.run_until(lambda: len(said(world, away, "fetched_snapshot_damaged")) == 3)
    refused = said(world, away, "fetched_snapshot_damaged")[0]
    assert refused.fields["snapshot_end_offset"] == latest.offset
    assert "checksum" in str(refused.fields["error"])
    assert world.kernel(away).log.end_offset == before
    assert not snapshots(world, away)
    world.nodes[leader].vfs.damage(path, size // 2, good)
    world.run_until(lambda: have_all(world, 60))


def test_a_snapshot_that_is_deleted_meanwhile_is_replaced_by_the_next() -> None:
    world, away = lagging(quorum=QuorumConfig(fetch_snapshot_bytes_max=20))
    leader = world.active()
    assert leader is not None
    world.start(away)
    world.run_until(lambda: any(name.endswith(".part") for name in names(world, away)))
    before = snapshots(world, leader)[-1]
    create(world, leader, range(60, 90))
    assert before not in snapshots(world, leader)
    world.run_until(lambda: have_all(world, 90), 60_000)
    (loaded,) = said(world, away, "snapshot_loaded")
    assert int(str(loaded.fields["end_offset"])) > before.offset


def test_a_full_disk_refuses_the_snapshot_until_there_is_space() -> None:
    world, away = lagging()
    vfs = world.nodes[away].vfs
    world.start(away)
    world.kill(away)
    vfs = world.nodes[away].vfs
    vfs.bytes_max = vfs.used_bytes() + RESERVE_BYTES + 100
    world.start(away)
    world.run_for(5_000)
    assert said(world, away, "disk_full")
    assert not snapshots(world, away)
    vfs.bytes_max = None
    world.run_until(lambda: have_all(world, 60))


def test_a_log_without_its_beginning_needs_a_snapshot() -> None:
    world, _ = lagging()
    node_id = world.alive[0]
    world.kill(node_id)
    vfs = world.nodes[node_id].vfs
    for name in vfs.list(PARTITION):
        if name.endswith(".checkpoint"):
            vfs.unlink(f"{PARTITION}/{name}")
    with pytest.raises(CorruptLogError, match="no snapshot holds what is before it"):
        world.start(node_id)


def test_a_damaged_newest_snapshot_stops_the_start_and_is_named() -> None:
    world, _ = lagging()
    node_id = world.alive[0]
    world.kill(node_id)
    vfs = world.nodes[node_id].vfs
    path = f"{PARTITION}/{[n for n in vfs.list(PARTITION) if n.endswith('.checkpoint')][-1]}"
    vfs.damage(path, 100, bytes([vfs.read(path)[100] ^ 1]))
    with pytest.raises(CorruptFileError, match=r"\.checkpoint: "):
        world.start(node_id)


def test_a_crash_at_every_step_of_an_installation() -> None:
    """Before the end the old log opens, or the snapshot takes its place; never neither."""
    world, away = lagging(quorum=QuorumConfig())
    leader = leader_of(world)
    snapshot_id = snapshots(world, leader)[-1]
    content = world.kernel(leader).snapshot_files.read(snapshot_id)
    config = world.nodes[away].config

    def install(vfs: MemoryVfs) -> None:
        opened = open_storage(config, vfs, None, Clock(Now(0, 0)), [], installed=lambda _: None)
        begun = vfs.operations
        chunks = [content[:5_000], content[5_000:]]
        for number, chunk in enumerate(chunks):
            opened.writer.downloads.write(
                WriteSnapshotChunk(
                    snapshot_id=snapshot_id,
                    position_bytes=5_000 * number,
                    chunk=chunk,
                    done=number == len(chunks) - 1,
                    generation=1,
                )
            )
        operations.append(vfs.operations - begun)

    operations: list[int] = []
    clean = world.nodes[away].vfs.crash()
    install(clean)
    before = open_storage(
        config, world.nodes[away].vfs.crash(), None, Clock(Now(0, 0)), [], installed=lambda _: None
    )
    old_end = before.log.end_offset
    ends = set()
    for step in range(operations[0]):
        for seed in range(4):
            vfs = world.nodes[away].vfs.crash()
            opened = open_storage(
                config, vfs.crash(), None, Clock(Now(0, 0)), [], installed=lambda _: None
            )
            assert opened.log.end_offset == old_end
            vfs.crash_at = clean.operations - operations[0] + step
            with pytest.raises(SimulatedCrashError):
                install(vfs)
            effects: list[out.Effect] = []
            after = vfs.crash(random.Random(step * 100 + seed))
            opened = open_storage(
                config, after, None, Clock(Now(0, 0)), effects, installed=lambda _: None
            )
            assert not effects, effects
            end = opened.log.end_offset
            ends.add(end)
            assert end in (old_end, snapshot_id.offset)
            assert opened.loader.image.provenance.end_offset in (0, end)
    assert ends == {old_end, snapshot_id.offset}


def vote_request(cluster_id: str, candidate: int, epoch: int) -> Any:
    """A pre-vote of another voter."""
    return request_to_wire(
        VoteRequest(
            cluster_id=cluster_id,
            replica_id=NodeId(candidate),
            replica_directory_id=None,
            voter_id=None,
            voter_directory_id=None,
            replica_epoch=LeaderEpoch(epoch),
            last_epoch=LeaderEpoch(0),
            last_end_offset=Offset(0),
            pre_vote=True,
        )
    )


def large() -> tuple[World, int]:
    """A snapshot of thousands of records, in one chunk, and a node that lacks it."""
    world = ready(quorum=QuorumConfig(), metadata_log=LARGE)
    away = next(i for i in world.alive if i != world.active())
    world.kill(away)
    for name in ("a", "b"):
        answer = world.client(world.alive[0]).create_topic(name, partitions=1_500)
        assert answer.error_code is ErrorCode.none
    create(world, world.alive[0], range(3))
    world.run_until(lambda: all(log_start(world, i) > 3_000 for i in world.alive))
    return world, away


def test_a_vote_is_answered_while_a_large_snapshot_is_read() -> None:
    world, away = large()
    world.start(away)
    reading = world.kernel(away).replica._reading
    world.run_until(lambda: reading.units_done > 1_000)
    client = world.client(away, "CONTROLLER")
    api_key, body = vote_request(CLUSTER_ID, 4 - away, world.kernel(away).core.epoch)
    answer = client.call(api_key, body)
    assert answer.topics[0].partitions[0].error_code is ErrorCode.none
    assert not said(world, away, "snapshot_loaded"), "the answer came after the whole load"
    world.run_until(lambda: bool(said(world, away, "snapshot_loaded")))
    world.run_until(lambda: world.kernel(away).is_unfenced)
    images = [world.kernel(i).cache.image for i in world.alive]
    assert images[0].topics == images[1].topics == images[2].topics


def test_no_step_reads_more_of_a_snapshot_than_a_slice() -> None:
    world, away = large()
    world.start(away)
    reading = world.kernel(away).replica._reading
    before, most = 0, 0
    while not said(world, away, "snapshot_loaded"):
        world.advance_once()
        most = max(most, reading.units_done - before)
        before = reading.units_done
    assert 0 < most <= SLICE_RECORDS
