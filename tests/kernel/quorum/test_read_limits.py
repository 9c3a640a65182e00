"""Limits of one Fetch or FetchSnapshot: any number of bytes is served, and the node lives on.

Kafka 4.3.1 was asked the same: FetchSnapshot with max_bytes 0 gives an empty chunk, with -1 it ends
the leader; Fetch with 0 gives one batch, with -1 UNKNOWN_SERVER_ERROR in the partition.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from kernel.config import MetadataLogConfig
from kernel.quorum.messages.table import request_from_wire
from kernel.serving.dispatch import APIS
from raft.config import READ_BYTES_MAX
from raft.messages import FetchRequest, FetchResponse, FetchSnapshotRequest
from storage.log_dir.snapshot_files import snapshot_name
from storage.vfs import write_file_atomically
from tests.kernel.harness import World
from tests.kernel.serving.test_hostile_values import RawClient, around, body_of
from wire.api_keys import FETCH, FETCH_SNAPSHOT
from wire.api_table import ListenerKind
from wire.batches.batch import iterate_batches
from wire.errors import ErrorCode
from wire.messages import codec
from wire.types import LeaderEpoch, Offset, OffsetAndEpoch

INT32_MAX = 2**31 - 1
OFFERED = OffsetAndEpoch(Offset(1), LeaderEpoch(1))
"""Put into the folder by hand: of any size."""


@pytest.fixture(scope="module")
def world() -> World:
    found = World(1, metadata_log=MetadataLogConfig(snapshot_interval_ms_max=2_000))
    found.start_all()
    found.run_until(found.is_ready)
    found.run_for(6_000)
    assert latest(found).offset > 0
    return found


def latest(world: World) -> OffsetAndEpoch:
    return world.kernel(1).snapshot_files.list()[-1]


def snapshot_body(
    world: World, max_bytes: int, snapshot_id: OffsetAndEpoch, position: int = 0
) -> Any:
    entity = codec.newest(FETCH_SNAPSHOT, "request").FetchSnapshotRequest
    partition = {
        "partition": 0,
        "current_leader_epoch": world.kernel(1).core.epoch,
        "snapshot_id": {"end_offset": snapshot_id.offset, "epoch": snapshot_id.epoch},
        "position": position,
        "replica_directory_id": None,
    }
    topics = [{"name": "__cluster_metadata", "partitions": [partition]}]
    values = {"cluster_id": None, "replica_id": -1, "max_bytes": max_bytes, "topics": topics}
    return body_of(entity, values)


def fetch_body(world: World, max_bytes: int, fetch_offset: int = 0) -> FetchRequest:
    return FetchRequest(
        cluster_id=None,
        replica_id=None,
        replica_directory_id=None,
        current_leader_epoch=world.kernel(1).core.epoch,
        fetch_offset=Offset(fetch_offset),
        last_fetched_epoch=LeaderEpoch(1 if fetch_offset else 0),
        max_wait_ms=0,
        max_bytes=max_bytes,
        high_watermark=-1,
    )


def chunk(
    world: World, max_bytes: int, snapshot_id: OffsetAndEpoch | None = None, position: int = 0
) -> Any:
    body = snapshot_body(world, max_bytes, snapshot_id or latest(world), position)
    answer = world.client(1, "CONTROLLER").call(FETCH_SNAPSHOT, body, 3_000)
    assert world.nodes[1].exit is None
    return answer.topics[0].partitions[0]


def fetched(world: World, max_bytes: int, fetch_offset: int) -> FetchResponse:
    body = fetch_body(world, max_bytes, fetch_offset)
    answer = world.client(1, "CONTROLLER").call(FETCH, body, 3_000)
    assert world.nodes[1].exit is None
    assert isinstance(answer, FetchResponse)
    return answer


@pytest.mark.parametrize("max_bytes", [-(2**31), -1, 0])
def test_no_bytes_are_an_empty_chunk(world: World, max_bytes: int) -> None:
    answer = chunk(world, max_bytes)
    assert answer.error_code == ErrorCode.none
    assert (answer.position, answer.unaligned_records or b"") == (0, b"")
    assert answer.size > 0


@pytest.mark.parametrize("max_bytes", [1, 100, INT32_MAX])
def test_a_chunk_has_the_bytes_that_are_asked_for(world: World, max_bytes: int) -> None:
    content = world.kernel(1).snapshot_files.read(latest(world))
    answer = chunk(world, max_bytes)
    assert answer.unaligned_records == content[:max_bytes]
    assert answer.size == len(content)


@pytest.mark.parametrize(("more", "expected"), [(0, READ_BYTES_MAX), (1, READ_BYTES_MAX)])
def test_one_chunk_reads_no_more_than_the_limit(world: World, more: int, expected: int) -> None:
    vfs, files = world.nodes[1].vfs, world.kernel(1).snapshot_files
    size = READ_BYTES_MAX + more
    write_file_atomically(vfs, files.path(OFFERED), bytes(size))
    try:
        answer = chunk(world, INT32_MAX, OFFERED)
        assert (answer.size, len(answer.unaligned_records)) == (size, expected)
        rest = chunk(world, INT32_MAX, OFFERED, READ_BYTES_MAX - 1)
        assert len(rest.unaligned_records) == 1 + more
    finally:
        vfs.unlink(files.path(OFFERED))
    assert files.path(OFFERED).endswith(snapshot_name(OFFERED))


@pytest.mark.parametrize("max_bytes", [0, 1, 60, 61, 62])
def test_one_batch_is_served_however_little_is_asked_for(world: World, max_bytes: int) -> None:
    for fetch_offset in (1, 3):
        batches = list(iterate_batches(fetched(world, max_bytes, fetch_offset).records))
        assert len(batches) == 1
        (batch,) = batches
        assert batch.header.base_offset <= fetch_offset <= batch.header.last_offset


@pytest.mark.parametrize("max_bytes", [-1, -(2**31)])
def test_a_fetch_of_less_than_nothing_is_an_error(world: World, max_bytes: int) -> None:
    answer = fetched(world, max_bytes, 3)
    assert answer.error_code == ErrorCode.unknown_server_error
    assert (answer.high_watermark, answer.records or b"") == (-1, b"")


@pytest.mark.parametrize("api_key", [FETCH, FETCH_SNAPSHOT])
@pytest.mark.parametrize(
    ("max_bytes", "read"),
    [
        (1, 1),
        (READ_BYTES_MAX - 1, READ_BYTES_MAX - 1),
        (READ_BYTES_MAX, READ_BYTES_MAX),
        (READ_BYTES_MAX + 1, READ_BYTES_MAX),
        (INT32_MAX, READ_BYTES_MAX),
    ],
)
def test_the_limit_holds_at_the_door(world: World, api_key: int, max_bytes: int, read: int) -> None:
    body = fetch_body(world, max_bytes) if api_key == FETCH else None
    message = request_from_wire(api_key, body or snapshot_body(world, max_bytes, OFFERED))
    assert isinstance(message, FetchRequest | FetchSnapshotRequest)
    assert message.max_bytes == read


def test_one_wrong_value_in_a_right_request_for_a_snapshot(world: World) -> None:
    valid = snapshot_body(world, 100, latest(world))
    versions = APIS[ListenerKind.CONTROLLER][FETCH_SNAPSHOT]
    for version in {versions.min_version, versions.max_version}:
        client = RawClient(world, "CONTROLLER")
        for body in (valid, *around(valid)):
            if not world.is_open(client.pipe):
                client = RawClient(world, "CONTROLLER")
            client.ask(FETCH_SNAPSHOT, version, body)
            assert world.nodes[1].exit is None, f"version {version}: {body}"


def test_one_wrong_value_in_a_right_fetch(world: World) -> None:
    valid = fetch_body(world, 100, 3)
    numbers = (0, -1, 1, INT32_MAX, -(2**31))
    for field in ("current_leader_epoch", "last_fetched_epoch", "max_bytes"):
        for number in numbers:
            answer = world.client(1, "CONTROLLER").call(
                FETCH, replace(valid, **{field: number}), 3_000
            )
            assert isinstance(answer, FetchResponse), f"{field}={number}"
            assert world.nodes[1].exit is None, f"{field}={number}"
