"""The straight-line Fetch says and understands what kio does, and leaves the unusual to kio."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire import codec, metadata_fetch
from wire.errors import ErrorCode
from wire.metadata_fetch import MetadataFetch, MetadataFetched
from wire.types import LeaderEpoch, Offset, OffsetAndEpoch

GOLDEN = Path(__file__).parent.parent / "golden" / "wire"
PAIRS = [json.loads(line) for line in (GOLDEN / "pairs.jsonl").read_text().splitlines()]
FETCHES = [pair for pair in PAIRS if pair["api"] == "FETCH" and pair["api_version"] >= 17]

INT32, INT64 = st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1)
VERSIONS = st.sampled_from([17, 18])
REQUESTS = st.builds(
    MetadataFetch,
    cluster_id=st.none() | st.text(max_size=30),
    replica_id=st.integers(-1, 2**31 - 1),
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
RESPONSES = st.builds(
    MetadataFetched,
    error_code=st.sampled_from([code.value for code in ErrorCode]),
    leader_id=st.integers(-1, 2**31 - 1),
    leader_epoch=st.integers(-1, 2**31 - 1),
    endpoints=st.lists(st.tuples(INT32, st.text(min_size=1, max_size=140), INT32), max_size=3).map(
        tuple
    ),
    high_watermark=st.integers(-1, 2**63 - 1),
    log_start_offset=st.integers(-1, 2**63 - 1),
    diverging_epoch=POSITIONS,
    snapshot_id=POSITIONS,
    records=st.binary(max_size=700),  # on both sides of what is kept
)


@given(request=REQUESTS, version=VERSIONS)
def test_request_equals_kio(request: MetadataFetch, version: int) -> None:
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
def test_response_equals_kio(response: MetadataFetched, version: int) -> None:
    kio = metadata_fetch.response_to_kio(codec.newest(1, "response"), response)
    frame = codec.encode_response(1, version, 7, response)
    assert frame == codec.encode_response(1, version, 7, kio)
    assert metadata_fetch.decode_response(frame[5:]) == response
    assert codec.read_response(1, version, frame) == (7, response)


@pytest.mark.parametrize("version", [12, 13, 15, 16])
def test_older_versions_go_by_way_of_kio(version: int) -> None:
    request = MetadataFetch(
        cluster_id="c", replica_id=2, fetch_offset=5, max_wait_ms=6, max_bytes=7
    )
    response = MetadataFetched(leader_id=1, leader_epoch=3, high_watermark=4, records=b"abc")
    frame = codec.encode_request(1, version, 7, None, request)
    if version >= 13:  # version 12 names the topic, and so does whoever speaks it
        _, position = codec.split_request(frame)
        assert codec.read_request(1, version, frame, position) == request
        answer = codec.encode_response(1, version, 7, response)
        assert codec.read_response(1, version, answer) == (7, response)


@given(cut=st.integers(0, 130), flipped=st.integers(0, 130), bit=st.integers(0, 7))
def test_damaged_bodies_are_kios_affair(cut: int, flipped: int, bit: int) -> None:
    """Never another exception: what cannot be read gives None."""
    whole = metadata_fetch.encode_response(
        MetadataFetched(leader_id=1, leader_epoch=2, endpoints=((1, "host", 9),), records=b"x" * 20)
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


def test_another_topic_stays_with_kio() -> None:
    new = codec.newest(1, "request")
    request = MetadataFetch(fetch_offset=5, max_wait_ms=6, max_bytes=7)
    kio = metadata_fetch.request_to_kio(new, request)
    other = new.FetchRequest(
        max_wait=kio.max_wait, min_bytes=1, max_bytes=7, topics=(), forgotten_topics_data=()
    )
    frame = codec.encode_request(1, 18, 7, None, other)
    _, position = codec.split_request(frame)
    assert codec.read_request(1, 18, frame, position) == other


def test_a_kept_response_is_found_by_its_exact_bytes_only() -> None:
    fetched = MetadataFetched(leader_id=1, leader_epoch=3, high_watermark=9, records=b"abc")
    body = metadata_fetch.encode_response(fetched)
    assert metadata_fetch.decode_response(b"head" + body, 4) == fetched
    assert metadata_fetch.decode_response(b"head" + body, 4) == fetched
    at = body.index(b"abc")
    damaged = body[:at] + b"abd" + body[at + 3 :]
    read = metadata_fetch.decode_response(damaged)
    assert read is not None
    assert read.records == b"abd"
