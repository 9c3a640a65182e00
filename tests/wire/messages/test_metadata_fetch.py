"""The straight-line Fetch says and understands what kio does, and leaves the unusual to kio."""

import dataclasses
import json
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from wire.errors import ErrorCode
from wire.messages import codec, metadata_fetch
from wire.messages.fetch_messages import HIGH_WATERMARK_UNSUPPORTED, FetchRequest, FetchResponse
from wire.types import METADATA_TOPIC_ID, Endpoint, LeaderEpoch, NodeId, Offset, OffsetAndEpoch

GOLDEN = Path(__file__).parents[2] / "golden" / "wire"
PAIRS = [json.loads(line) for line in (GOLDEN / "pairs.jsonl").read_text().splitlines()]
FETCHES = [pair for pair in PAIRS if pair["api"] == "FETCH" and pair["api_version"] >= 17]

INT32, INT64 = st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1)
VERSIONS = st.sampled_from([17, 18])
REQUESTS = st.builds(
    FetchRequest,
    cluster_id=st.none() | st.text(max_size=30),
    replica_id=st.none() | INT32.map(NodeId),
    replica_directory_id=st.none() | st.binary(min_size=16, max_size=16).filter(any),
    current_leader_epoch=INT32,
    fetch_offset=INT64,
    last_fetched_epoch=INT32,
    max_wait_ms=INT32,
    max_bytes=INT32,
    high_watermark=st.integers(-1, 2**63 - 1),
)
POSITIONS = st.none() | st.builds(
    OffsetAndEpoch, offset=INT64.map(Offset), epoch=INT32.map(LeaderEpoch)
)
LEADERS = st.one_of(
    st.tuples(st.none(), st.none()),
    st.tuples(
        INT32,
        st.none()
        | st.builds(
            Endpoint, listener=st.just(""), host=st.text(min_size=1, max_size=140), port=INT32
        ),
    ),
)
RESPONSES = st.builds(
    lambda leader, **fields: FetchResponse(
        leader_id=leader[0], leader_endpoint=leader[1], **fields
    ),
    leader=LEADERS,
    error_code=st.sampled_from([code.value for code in ErrorCode]),
    leader_epoch=st.integers(-1, 2**31 - 1),
    high_watermark=st.integers(-1, 2**63 - 1),
    log_start_offset=st.integers(-1, 2**63 - 1),
    diverging_epoch=POSITIONS,
    snapshot_id=POSITIONS,
    records=st.binary(max_size=700),  # on both sides of what is kept
)


@given(request=REQUESTS, version=VERSIONS)
def test_request_equals_kio(request: FetchRequest, version: int) -> None:
    kio = metadata_fetch.request_to_kio(codec.newest(1, "request"), request)
    frame = codec.encode_request(1, version, 7, "raft-client-1", request)
    assert frame == codec.encode_request(1, version, 7, "raft-client-1", kio)
    _, position = codec.split_request(frame)
    again = codec.read_request(1, version, frame, position)
    assert again == metadata_fetch.decode_request(frame[position:]) or len(frame) > 150
    assert again == metadata_fetch.request_from_kio(
        codec.decode_request(1, version, frame[position:])
    )


@given(response=RESPONSES, version=VERSIONS)
def test_response_equals_kio(response: FetchResponse, version: int) -> None:
    kio = metadata_fetch.response_to_kio(codec.newest(1, "response"), response)
    frame = codec.encode_response(1, version, 7, response)
    assert frame == codec.encode_response(1, version, 7, kio)
    assert metadata_fetch.decode_response(frame[5:]) == response
    assert codec.read_response(1, version, frame) == (7, response)


@pytest.mark.parametrize("leader_id", [None, NodeId(0), NodeId(5)])
@pytest.mark.parametrize("leader_epoch", [-1, 0, 5])
def test_a_leader_without_id_or_epoch_is_told(leader_id: NodeId | None, leader_epoch: int) -> None:
    response = FetchResponse(leader_id=leader_id, leader_epoch=LeaderEpoch(leader_epoch))
    kio = metadata_fetch.response_to_kio(codec.newest(1, "response"), response)
    frame = codec.encode_response(1, 17, 7, response)
    assert frame == codec.encode_response(1, 17, 7, kio)
    assert metadata_fetch.decode_response(frame[5:]) == response


@pytest.mark.parametrize("version", [12, 13, 15, 16])
def test_older_versions_go_by_way_of_kio(version: int) -> None:
    request = FetchRequest(cluster_id="c", replica_id=2, fetch_offset=5, max_wait_ms=6, max_bytes=7)
    response = FetchResponse(leader_id=1, leader_epoch=3, high_watermark=4, records=b"abc")
    frame = codec.encode_request(1, version, 7, None, request)
    if version >= 13:  # version 12 names the topic, and so does whoever speaks it
        _, position = codec.split_request(frame)
        assert codec.read_request(1, version, frame, position) == request
        answer = codec.encode_response(1, version, 7, response)
        assert codec.read_response(1, version, answer) == (7, response)


@pytest.mark.parametrize("version", [16, 17, 18])
def test_the_leader_is_the_first_endpoint_of_its_id(version: int) -> None:
    """Others are read over, and without a leader all are."""
    new = codec.newest(1, "response")
    known = FetchResponse(leader_id=NodeId(2), leader_epoch=LeaderEpoch(3))
    nodes = tuple(
        new.NodeEndpoint(node_id=node_id, host=host, port=9)
        for node_id, host in ((1, "a"), (2, "b"), (2, "c"))
    )
    for leader_id, expected in ((2, Endpoint("", "b", 9)), (4, None), (None, None)):
        kio = metadata_fetch.response_to_kio(new, replace(known, leader_id=leader_id))
        kio = dataclasses.replace(kio, node_endpoints=nodes)
        frame = codec.encode_response(1, version, 7, kio)
        _, response = codec.read_response(1, version, frame)
        assert response.leader_id == leader_id
        assert response.leader_endpoint == expected


@given(number=st.integers(-(2**31), -1))
def test_every_negative_replica_is_anonymous(number: int) -> None:
    new = codec.newest(1, "request")
    fetch = FetchRequest(fetch_offset=Offset(5), max_wait_ms=6, max_bytes=7)
    kio = dataclasses.replace(
        metadata_fetch.request_to_kio(new, fetch), replica_state=new.ReplicaState(replica_id=number)
    )
    frame = codec.encode_request(1, 18, 7, None, kio)
    _, position = codec.split_request(frame)
    assert metadata_fetch.decode_request(frame[position:]) == fetch
    assert metadata_fetch.request_from_kio(kio) == fetch


def test_an_endpoint_without_a_leader_is_not_told() -> None:
    nobody = FetchResponse(leader_epoch=LeaderEpoch(3))
    lost = replace(nobody, leader_endpoint=Endpoint("", "host", 9))
    new = codec.newest(1, "response")
    assert metadata_fetch.encode_response(lost) == metadata_fetch.encode_response(nobody)
    assert metadata_fetch.response_to_kio(new, lost).node_endpoints == ()


def test_an_error_at_the_top_is_about_no_partition() -> None:
    with pytest.raises(AssertionError, match="about no partition"):
        metadata_fetch.encode_response(FetchResponse(top_error_code=31))


@given(cut=st.integers(0, 130), flipped=st.integers(0, 130), bit=st.integers(0, 7))
def test_damaged_bodies_are_kios_affair(cut: int, flipped: int, bit: int) -> None:
    """Never another exception: what cannot be read gives None."""
    whole = metadata_fetch.encode_response(
        FetchResponse(
            leader_id=1, leader_epoch=2, leader_endpoint=Endpoint("", "host", 9), records=b"x" * 20
        )
    )
    body = bytearray(whole[:cut])
    if flipped < len(body):
        body[flipped] ^= 1 << bit
    metadata_fetch.decode_response(bytes(body))
    metadata_fetch.decode_request(bytes(body))


@pytest.mark.parametrize("pair", FETCHES, ids=lambda pair: "-".join(pair["flags"]) or "plain")
def test_recorded_fetches(pair: dict[str, str]) -> None:
    """Frames of real Kafka replicas are read alike on both ways."""
    frame = bytes.fromhex(pair["request_hex"])
    header, position = codec.split_request(frame)
    kio = codec.decode_request(1, header.api_version, frame[position:])
    expected = metadata_fetch.request_from_kio(kio)
    fast = metadata_fetch.decode_request(frame[position:])
    assert fast in (expected, None)
    assert fast is not None or expected is None


def test_a_high_watermark_is_no_field_of_version_17() -> None:
    request = FetchRequest(
        fetch_offset=Offset(9), max_wait_ms=6, max_bytes=7, high_watermark=Offset(5)
    )
    frame = codec.encode_request(1, 18, 7, None, request)
    _, position = codec.split_request(frame)
    read = [codec.read_request(1, version, frame, position) for version in (17, 18)]
    assert [fetch.high_watermark for fetch in read] == [HIGH_WATERMARK_UNSUPPORTED, 5]
    silent = replace(request, high_watermark=HIGH_WATERMARK_UNSUPPORTED)
    bodies = [metadata_fetch.encode_request(version, silent) for version in (17, 18)]
    assert bodies[0] == bodies[1]


@pytest.mark.parametrize(("offset", "epoch"), [(-1, 3), (5, -1), (-1, -1), (0, 0)])
def test_half_a_position_is_none(offset: int, epoch: int) -> None:
    position = OffsetAndEpoch(Offset(5), LeaderEpoch(3))
    body = metadata_fetch.encode_response(
        FetchResponse(leader_epoch=2, diverging_epoch=position, snapshot_id=position)
    )
    for layout, known, half in ((">iq", (3, 5), (epoch, offset)), (">qi", (5, 3), (offset, epoch))):
        changed = body.replace(struct.pack(layout, *known), struct.pack(layout, *half))
        read = metadata_fetch.decode_response(changed)
        assert read is not None
        expected = OffsetAndEpoch(Offset(0), LeaderEpoch(0)) if offset == epoch == 0 else None
        assert {read.diverging_epoch, read.snapshot_id} == {position, expected}


def test_other_forms_are_kios_affair() -> None:
    """Several topics or partitions, another partition, a tagged field inside a tagged field."""
    ours = METADATA_TOPIC_ID
    body = metadata_fetch.encode_request(
        17, FetchRequest(fetch_offset=Offset(5), max_wait_ms=6, max_bytes=7)
    )
    assert metadata_fetch.decode_request(body) is not None
    for known, other in (
        (b"\2" + ours, b"\3" + ours),
        (ours + b"\2", ours + b"\3"),
        (ours + b"\2" + bytes(4), ours + b"\2\0\0\0\1"),
    ):
        assert body.count(known) == 1
        assert metadata_fetch.decode_request(body.replace(known, other)) is None
    position = OffsetAndEpoch(Offset(5), LeaderEpoch(3))
    answer = metadata_fetch.encode_response(FetchResponse(leader_epoch=2, snapshot_id=position))
    known = struct.pack(">qib", 5, 3, 0)
    assert answer.count(known) == 1
    changed = answer.replace(known, struct.pack(">qib", 5, 3, 1))
    assert metadata_fetch.decode_response(changed) is None


@pytest.mark.parametrize(
    ("endpoints", "is_read"),
    [(b"\0", True), (b"\1\0\1\1", True), (b"\1\0\2\1", False), (b"\1\0\1\0", False)],
)
def test_a_list_without_endpoints(endpoints: bytes, is_read: bool) -> None:
    response = FetchResponse(leader_id=1, leader_epoch=2)
    body = metadata_fetch.encode_response(response)
    assert body.endswith(b"\0")
    read = metadata_fetch.decode_response(body[:-1] + endpoints)
    assert read == (response if is_read else None)


def test_another_topic_stays_with_kio() -> None:
    new = codec.newest(1, "request")
    request = FetchRequest(fetch_offset=5, max_wait_ms=6, max_bytes=7)
    kio = metadata_fetch.request_to_kio(new, request)
    other = new.FetchRequest(
        max_wait=kio.max_wait, min_bytes=1, max_bytes=7, topics=(), forgotten_topics_data=()
    )
    frame = codec.encode_request(1, 18, 7, None, other)
    _, position = codec.split_request(frame)
    assert codec.read_request(1, 18, frame, position) == other


def test_a_kept_response_is_found_by_its_exact_bytes_only() -> None:
    fetched = FetchResponse(leader_id=1, leader_epoch=3, high_watermark=9, records=b"abc")
    body = metadata_fetch.encode_response(fetched)
    assert metadata_fetch.decode_response(b"head" + body, 4) == fetched
    assert metadata_fetch.decode_response(b"head" + body, 4) == fetched
    at = body.index(b"abc")
    damaged = body[:at] + b"abd" + body[at + 3 :]
    read = metadata_fetch.decode_response(damaged)
    assert read is not None
    assert read.records == b"abd"


@pytest.mark.parametrize(("size", "kept"), [(300, 1), (700, 0)])
def test_only_small_responses_are_kept(size: int, kept: int) -> None:
    metadata_fetch._kept_response.cache_clear()
    fetched = FetchResponse(
        error_code=0,
        leader_id=1,
        leader_epoch=1,
        leader_endpoint=None,
        high_watermark=1,
        log_start_offset=0,
        diverging_epoch=None,
        snapshot_id=None,
        records=bytes(size),
    )
    frame = codec.encode_response(1, 17, 7, fetched)
    assert metadata_fetch.decode_response(frame, 5) == fetched
    assert metadata_fetch._kept_response.cache_info().currsize == kept


REPLICA_STATE = struct.pack(">iq", 2, -1)


@pytest.mark.parametrize(
    ("tagged", "is_read"),
    [
        (b"\x00\x02\x02c", True),  # the cluster id "c"
        (b"\x05\x02\x02c", False),
        (b"\x01\x0d" + REPLICA_STATE + b"\x00", True),
        (b"\x05\x0d" + REPLICA_STATE + b"\x00", False),
        (b"\x01\x0d" + REPLICA_STATE + b"\x01", False),  # with a tagged field of its own
    ],
)
def test_tagged_fields_of_others_are_kios_affair(tagged: bytes, *, is_read: bool) -> None:
    request = FetchRequest(fetch_offset=Offset(5), max_wait_ms=6, max_bytes=7)
    frame = codec.encode_request(1, 17, 7, None, request)
    _, position = codec.split_request(frame)
    assert metadata_fetch.decode_request(frame[position:]) == request
    plain = frame[position : frame.rindex(b"\x00\x01\x01") + 3]
    found = metadata_fetch.decode_request(plain + b"\x01" + tagged)
    assert (found is not None) is is_read
