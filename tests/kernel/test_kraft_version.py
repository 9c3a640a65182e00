"""The level and the voters of a folder: those of its records, else those of the configuration.

Opened with static voters a folder of dynamic ones (kraft.version 1, KIP-853) would elect itself
alone. Kafka's own folders: formatted with dynamic voters, raised to them while it ran, and static
ones. A folder of a level that is not known is refused and left as it is.
"""

import random
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import crc32c
import pytest
from msgspec.structs import replace

from kernel import effects as out
from kernel.events import Now
from kernel.kraft_version import UnsupportedFeatureError, checked_kraft_version
from kernel.opening import open_storage, raft_core
from kernel.quorum import log_writer
from metadata.control_records import (
    ControlRecord,
    KRaftVersion,
    KRaftVersionRange,
    KRaftVoters,
    LeaderChange,
    Voter,
    VoterEndpoint,
    encode_control,
)
from metadata.snapshot import encode_snapshot
from network.clock import Clock
from raft.effects import AppendFetched, WriteSnapshotChunk
from raft.events import SnapshotInstalled, SnapshotRefused
from raft.membership.voter_history import Membership
from simulator.cluster.memory_vfs import MemoryVfs
from storage.errors import CorruptFileError
from storage.log_dir.bootstrap_checkpoint import (
    BOOTSTRAP_CHECKPOINT_NAME,
    write_bootstrap_checkpoint,
)
from storage.log_dir.snapshot_files import snapshot_name
from storage.logs.control_batches import control_batches
from storage.segments.segment import segment_name
from storage.vfs import join
from tests.kernel.harness import CLUSTER_ID, World, config_of
from tests.storage import golden
from wire.batches.batch import (
    CONTROL_BIT,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    encode_batch,
    encode_control_batch,
)
from wire.types import DirectoryId, LeaderEpoch, NodeId, Offset, OffsetAndEpoch

RECORDED = Path(__file__).parent.parent / "golden" / "metadata"
FOLDER = "/data/__cluster_metadata-0"
EPOCH = LeaderEpoch(1)
BEGINNING = snapshot_name(OffsetAndEpoch(Offset(0), LeaderEpoch(0)))
LATER = snapshot_name(OffsetAndEpoch(Offset(7), EPOCH))
VOTER = Voter(
    voter_id=NodeId(1),
    voter_directory_id=DirectoryId(bytes([1]) * 16),
    endpoints=(VoterEndpoint(name="CONTROLLER", host="1", port=9093),),
    k_raft_version_feature=KRaftVersionRange(min_supported_version=0, max_supported_version=1),
)
LEVEL_0, LEVEL_1, LEVEL_2 = (KRaftVersion(k_raft_version=level) for level in range(3))
VOTERS = KRaftVoters(voters=(VOTER,))
CHANGE = LeaderChange(leader_id=NodeId(1))


def disk(files: dict[str, bytes]) -> MemoryVfs:
    vfs = MemoryVfs()
    vfs.make_directory("/data")
    for name, content in files.items():
        golden.put(vfs, f"{FOLDER}/{name}", content)
    return vfs


def checkpoint(*records: ControlRecord) -> bytes:
    batches = encode_snapshot(
        (),
        level=25,
        epoch=EPOCH,
        last_contained_timestamp_ms=0,
        timestamp_ms=0,
        control_records=records,
    )
    return b"".join(batches)


def control(base_offset: int, *records: ControlRecord, epoch: LeaderEpoch = EPOCH) -> bytes:
    return encode_control_batch([encode_control(r) for r in records], base_offset, epoch, 0)


def refusal(vfs: MemoryVfs, log_dir: str = "/data") -> str:
    """Error of a refused start; the folder stays as it was."""
    before, operations = contents(vfs), vfs.operations
    world = World(1)
    world.nodes[1].vfs = vfs
    with pytest.raises(UnsupportedFeatureError) as refused:
        world.start(1)
    assert (contents(vfs), vfs.operations) == (before, operations)
    text = str(refused.value)
    assert text.startswith(f"{log_dir}: kraft.version is finalized at ")
    assert "supported is 0 to 1" in text
    assert "\n" not in text
    return text


def contents(vfs: MemoryVfs) -> dict[str, bytes]:
    return {name: vfs.read(join(FOLDER, name)) for name in vfs.list(FOLDER)}


def recorded(scenario: str) -> dict[str, bytes]:
    """The files of its metadata partition."""
    names = (path.name for path in (RECORDED / scenario).iterdir())
    kept = sorted(set(names) - {BOOTSTRAP_CHECKPOINT_NAME})
    return {name: (RECORDED / scenario / name).read_bytes() for name in kept}


DYNAMIC = [
    (scenario, name)
    for scenario in ("dynamic-4.3.1", "kraft-upgrade-4.3.1", "single-4.3.1")
    for name in recorded(scenario)
]


@pytest.mark.parametrize(("scenario", "name"), DYNAMIC)
def test_each_file_of_a_dynamic_quorum_tells_its_level(scenario: str, name: str) -> None:
    assert checked_kraft_version(disk({name: recorded(scenario)[name]}), "/data") == 1


@pytest.mark.parametrize("node", ["n1", "n2", "n3", "n101"])
def test_the_folders_of_all_nodes_of_an_upgraded_quorum(node: str) -> None:
    vfs = golden.load(f"kraft-upgrade/{node}")
    assert checked_kraft_version(vfs, "/log") == 1


@pytest.mark.parametrize("scenario", ["static-4.3.1", "static-3.9.1"])
def test_static_folders_of_kafka_are_of_level_0(scenario: str) -> None:
    assert checked_kraft_version(disk(recorded(scenario)), "/data") == 0
    assert checked_kraft_version(golden.load("static"), "/log") == 0


def test_a_static_folder_of_kafka_starts() -> None:
    """Of 3.9.1: what that release finalizes is known here."""
    world = World(1, is_controller=False)
    for name, content in recorded("static-3.9.1").items():
        golden.put(world.nodes[1].vfs, f"{FOLDER}/{name}", content)
    world.start(1)
    assert world.nodes[1].exit is None
    assert world.kernel(1).log.end_offset > 0


@pytest.mark.parametrize(
    ("files", "level"),
    [
        ({BEGINNING: checkpoint(LEVEL_1, VOTERS)}, 1),
        ({BEGINNING: checkpoint(LEVEL_1)}, 1),
        ({BEGINNING: checkpoint(VOTERS)}, 1),
        ({LATER: checkpoint(LEVEL_2)}, 2),
        ({segment_name(0): control(0, CHANGE, LEVEL_1)}, 1),
        ({segment_name(0): control(0, CHANGE) + control(1, VOTERS)}, 1),
        ({segment_name(0): control(0, CHANGE), segment_name(1): control(1, LEVEL_1)}, 1),
        ({segment_name(0): b"\x00" * 100, segment_name(9): control(9, LEVEL_1)}, 1),
        ({segment_name(0): control(0, CHANGE), LATER: checkpoint(LEVEL_0, LEVEL_1)}, 1),
    ],
)
def test_level_or_voters_anywhere(files: dict[str, bytes], level: int) -> None:
    if level > 1:
        assert f"finalized at {level} (" in refusal(disk(files))
    else:
        assert checked_kraft_version(disk(files), "/data") == level


@pytest.mark.parametrize(
    "files",
    [
        {},
        {BEGINNING: checkpoint()},
        {BEGINNING: checkpoint(LEVEL_0)},
        {LATER: checkpoint(LEVEL_0)},
        {segment_name(0): control(0, CHANGE, LEVEL_0)},
        {segment_name(0): encode_batch([b"\x01" * 9], 0, EPOCH, 0)},
        {segment_name(0): b"", LATER: b"", "quorum-state": b""},
        {LATER + ".deleted": checkpoint(LEVEL_1), "other": control(0, LEVEL_1)},
    ],
)
def test_level_0_and_what_tells_none(files: dict[str, bytes]) -> None:
    assert checked_kraft_version(disk(files), "/data") == 0


def test_a_folder_that_is_not_there_yet() -> None:
    assert checked_kraft_version(disk({}), "/data") == 0
    assert not disk({}).exists(FOLDER)


def test_as_many_voters_as_any_quorum_has() -> None:
    far = VoterEndpoint(name="CONTROLLER", host="h" * 1_000, port=9093)
    many = KRaftVoters(voters=(replace(VOTER, endpoints=(far,)),) * 100)
    assert checked_kraft_version(disk({BEGINNING: checkpoint(many)}), "/data") == 1


def test_the_bootstrap_checkpoint_counts() -> None:
    vfs = disk({"partition.metadata": b""})
    write_bootstrap_checkpoint(vfs, "/data", checkpoint(LEVEL_2))
    assert "(bootstrap.checkpoint)" in refusal(vfs)


@pytest.mark.parametrize(
    "damage",
    [lambda whole: b"", lambda whole: whole[:70], lambda whole: whole[:60] + b"\xff" + whole[61:]],
)
def test_first_voters_that_cannot_be_read_are_damage(damage: Callable[[bytes], bytes]) -> None:
    vfs = disk({BEGINNING: damage(checkpoint(LEVEL_1, VOTERS))})
    with pytest.raises(CorruptFileError, match=BEGINNING):
        checked_kraft_version(vfs, "/data")


def test_a_changed_byte_in_a_control_batch_is_left_to_whoever_opens_the_log() -> None:
    batch = bytearray(control(0, LEVEL_1))
    batch[-1] ^= 1
    vfs = disk({segment_name(0): bytes(batch)})
    assert list(control_batches(vfs, FOLDER)) == []
    assert checked_kraft_version(vfs, "/data") == 0


@pytest.mark.parametrize(
    ("position", "field", "size"),
    [
        (16, b"\x01", None),  # magic
        (8, (HEADER_BYTES - LOG_OVERHEAD_BYTES - 1).to_bytes(4, "big"), HEADER_BYTES - 1),
        (8, (-LOG_OVERHEAD_BYTES).to_bytes(4, "big", signed=True), 0),
    ],
)
def test_nothing_behind_a_damaged_header_is_believed(
    position: int, field: bytes, size: int | None
) -> None:
    damaged = bytearray(control(0, CHANGE))
    damaged[position : position + len(field)] = field
    content = bytes(damaged[:size]) + control(1, LEVEL_1)
    if size == 0:
        content = bytes(damaged)
    assert list(control_batches(disk({segment_name(0): content}), FOLDER)) == []


@pytest.mark.parametrize("damage_bytes", [0, HEADER_BYTES])
def test_neither_damage_nor_records_are_read_into_memory(damage_bytes: int) -> None:
    """A segment of 1 GiB with damage at its beginning was read whole."""
    size_bytes = 1 << 20
    records = encode_batch([bytes(size_bytes)], 1, EPOCH, 0)
    damaged = control(0, CHANGE) + bytes(damage_bytes) + records
    vfs = disk({segment_name(0): damaged + control(2, LEVEL_1)})
    tracemalloc.start()
    try:
        found = list(control_batches(vfs, FOLDER, 1_000))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [batch.header.base_offset for _, batch in found] == ([0] if damage_bytes else [0, 2])
    assert peak_bytes < size_bytes // 4


def test_a_batch_without_records_is_one_too() -> None:
    """As compaction leaves them: nothing but a header."""
    checked = struct.pack(">hiqqqhii", CONTROL_BIT, 0, 0, 0, -1, -1, -1, 0)
    length = HEADER_BYTES - LOG_OVERHEAD_BYTES
    empty = struct.pack(">qiibI", 0, length, EPOCH, MAGIC, crc32c.crc32c(checked)) + checked
    assert len(empty) == HEADER_BYTES
    assert len(list(control_batches(disk({segment_name(0): empty}), FOLDER))) == 1


def test_a_control_batch_that_a_window_cuts_is_read_to_its_end() -> None:
    content = encode_batch([b""], 0, EPOCH, 0) + control(1, CHANGE)
    found = list(control_batches(disk({segment_name(0): content}), FOLDER, len(content) - 1))
    assert [batch.header.base_offset for _, batch in found] == [1]


def mixed_batches(rng: random.Random, base_offset: int, count: int) -> tuple[bytes, list[int]]:
    """Batches of all sizes, and the base offsets of those that are control batches."""
    content, found = b"", []
    for _ in range(count):
        if rng.randrange(3) == 0:
            found.append(base_offset)
            content += control(base_offset, CHANGE)
            base_offset += 1
        else:
            values = [bytes(rng.randrange(200)) for _ in range(rng.randrange(1, 5))]
            content += encode_batch(values, base_offset, EPOCH, 0)
            base_offset += len(values)
    return content, found


@pytest.mark.parametrize("window_bytes", [61, 100, 333, 1000, 1 << 20])
def test_every_control_batch_is_found_however_little_is_read_at_once(window_bytes: int) -> None:
    rng = random.Random(window_bytes)
    first, expected = mixed_batches(rng, 0, 60)
    second, more = mixed_batches(rng, 1_000, 60)
    for tail in (b"", first[:30], b"\x00" * 61, b"\xff" * 200):
        vfs = disk({segment_name(0): first + tail, segment_name(1_000): second + tail})
        found = list(control_batches(vfs, FOLDER, window_bytes))
        assert [batch.header.base_offset for _, batch in found] == expected + more
        assert {path for path, _ in found} == {
            f"{FOLDER}/{segment_name(0)}",
            f"{FOLDER}/{segment_name(1_000)}",
        }
        assert [batch.header.end_offset for _, batch in found] == [
            offset + 1 for offset in expected + more
        ]


def append_at_leader(monkeypatch: pytest.MonkeyPatch, world: World, *records: ControlRecord) -> int:
    """As a leader of other software would: one control batch, in the place of a proposed one."""
    leader = world.active()
    assert leader is not None
    replica = world.kernel(leader).replica

    def other_batch(_values: object, base_offset: int, epoch: LeaderEpoch, _now_ms: int) -> bytes:
        return control(base_offset, *records, epoch=epoch)

    with monkeypatch.context() as patched:
        patched.setattr(log_writer, "encode_batch", other_batch)
        replica.propose(replica.leader.epoch, (b"",) * len(records))
        replica.drain()
    return leader


@pytest.mark.parametrize("records", [(LEVEL_2, VOTERS), (LEVEL_2,), (CHANGE, LEVEL_2)])
def test_followers_end_at_a_fetched_level_and_keep_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch, records: tuple[ControlRecord, ...]
) -> None:
    world = World(3)
    world.start_all()
    world.run_until(world.is_ready)
    world.run_for(1_000)
    leader = append_at_leader(monkeypatch, world, *records)
    offset = world.kernel(leader).log.end_offset - len(records)
    world.run_for(2_000)
    for node_id in set(world.nodes) - {leader}:
        exit_ = world.nodes[node_id].exit
        assert exit_ is not None
        assert exit_.code == 1
        start = f"/data: kraft.version is finalized at 2 (fetched at offset {offset}), supported is"
        assert exit_.reason.startswith(f"{start} 0 to 1: ")
        assert "\n" not in exit_.reason
        (line,) = (log for log in world.nodes[node_id].logs if log.event == "unsupported")
        assert line.fields == {"error": exit_.reason}
        world.start(node_id)
        assert world.kernel(node_id).log.end_offset == offset, "nothing was written"


def test_fetched_control_records_of_level_0_are_kept() -> None:
    opened = open_storage(
        config_of(1), disk({}), None, Clock(Now(0, 0)), [], installed=lambda _: None
    )
    core = raft_core(config_of(1), CLUSTER_ID, opened, random.Random(0), 0)
    records = control(0, CHANGE, LEVEL_0) + encode_batch([b"v"], 2, EPOCH, 0)
    fetched = AppendFetched(base_offset=Offset(0), records=records, epoch=EPOCH, flush=True)
    assert opened.writer.perform(fetched, core) is not None
    assert opened.log.read(0, 1_000) == records


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_fetched_snapshot_of_another_level_is_not_installed(level: int) -> None:
    vfs = disk({})
    effects: list[out.Effect] = []
    opened = open_storage(
        config_of(1), vfs, None, Clock(Now(0, 0)), effects, installed=lambda _: None
    )
    content = checkpoint(KRaftVersion(k_raft_version=level))
    chunk = WriteSnapshotChunk(
        snapshot_id=OffsetAndEpoch(Offset(7), EPOCH),
        position_bytes=0,
        chunk=content,
        done=True,
        generation=0,
    )
    event = opened.writer.downloads.write(chunk)
    refused = [effect for effect in effects if isinstance(effect, out.Exit)]
    if level < 2:
        assert isinstance(event, SnapshotInstalled)
        assert event.membership == Membership(level)
        assert not refused
        return
    assert isinstance(event, SnapshotRefused)
    (exit_,) = refused
    text = f"/data: kraft.version is finalized at 2 (fetched {LATER}), supported is 0 to 1: "
    assert exit_.code == 1
    assert exit_.reason.startswith(text)
    assert opened.log.end_offset == 0
    assert [name for name in vfs.list(FOLDER) if "checkpoint" in name] == []
