"""Fetch responses of brokers: with the records between the pieces they equal those of kio."""

import importlib
from datetime import timedelta
from itertools import chain, zip_longest

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_reader
from msgspec.structs import replace

from tests.wire.kio_frames import topic_id, written
from tests.wire.recorded_pairs import of_key
from wire.errors import ErrorCode
from wire.messages.fetch_response import (
    VERSION_MAX,
    VERSION_MIN,
    FetchedPartition,
    encode_fetch_response,
)
from wire.messages.fields import LeaderEndpoint

PAIRS = [pair for pair in of_key(1) if pair["api_version"] >= VERSION_MIN and pair["response_hex"]]
NAMES = st.text(min_size=1, max_size=140)
OFFSETS = st.integers(-1, 2**63 - 1)
ANSWERS = st.builds(
    FetchedPartition,
    topic=st.just(""),
    partition=st.integers(-1, 2**31 - 1),
    code=st.sampled_from(ErrorCode),
    high_watermark=OFFSETS,
    last_stable_offset=OFFSETS,
    log_start_offset=OFFSETS,
    diverging_epoch=st.none() | st.tuples(st.integers(0, 99), st.integers(0, 2**63 - 1)),
    leader=st.none() | st.tuples(st.integers(0, 9), st.integers(0, 9)),
    aborted_transactions=st.none()
    | st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=3).map(tuple),
    preferred_read_replica=st.integers(-1, 9),
)
FETCHED = st.lists(st.tuples(ANSWERS, st.binary(max_size=200)), min_size=1, max_size=3)
ENDPOINTS = st.lists(
    st.builds(
        LeaderEndpoint,
        node_id=st.integers(0, 2**31 - 1),
        host=NAMES,
        port=st.integers(0, 65535),
        rack=st.none() | NAMES,
    ),
    max_size=2,
).map(tuple)


def schema(version: int):
    return importlib.import_module(f"kio.schema.fetch.v{version}.response")


def kio_partition(kio, version: int, answer: FetchedPartition, records: bytes):
    fields = {
        "partition_index": answer.partition,
        "error_code": answer.code,
        "high_watermark": answer.high_watermark,
        "last_stable_offset": answer.last_stable_offset,
        "records": records,
        "aborted_transactions": answer.aborted_transactions
        if answer.aborted_transactions is None
        else tuple(
            kio.AbortedTransaction(producer_id=producer_id, first_offset=first)
            for producer_id, first in answer.aborted_transactions
        ),
    }
    if version >= 5:
        fields["log_start_offset"] = answer.log_start_offset
    if version >= 11:
        fields["preferred_read_replica"] = answer.preferred_read_replica
    if version >= 12 and answer.diverging_epoch is not None:
        epoch, end_offset = answer.diverging_epoch
        fields["diverging_epoch"] = kio.EpochEndOffset(epoch=epoch, end_offset=end_offset)
    if version >= 12 and answer.leader is not None:
        leader_id, epoch = answer.leader
        fields["current_leader"] = kio.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch)
    return kio.PartitionData(**fields)


def joined(pieces: list[bytes], records: list[bytes]) -> bytes:
    assert len(pieces) == len(records) + 1
    return b"".join(chain.from_iterable(zip_longest(pieces, records, fillvalue=b"")))


@given(
    topics=st.dictionaries(NAMES, FETCHED, max_size=3),
    throttle_ms=st.integers(0, 2**31 - 1),
    code=st.sampled_from(ErrorCode),
    session_id=st.integers(0, 2**31 - 1),
    endpoints=ENDPOINTS,
)
def test_responses_equal_kios(topics, throttle_ms, code, session_id, endpoints) -> None:
    for version in range(VERSION_MIN, VERSION_MAX + 1):
        key_of = (lambda name: topic_id(name).bytes) if version >= 13 else str
        records = [data for fetched in topics.values() for _, data in fetched]
        pieces = encode_fetch_response(
            version,
            [
                replace(answer, topic=key_of(name), records_bytes=len(data))
                for name, fetched in topics.items()
                for answer, data in fetched
            ],
            throttle_time_ms=throttle_ms,
            code=code,
            session_id=session_id,
            endpoints=endpoints,
        )
        head = {"throttle_time": timedelta(milliseconds=throttle_ms)}
        if version >= 7:
            head |= {"error_code": code, "session_id": session_id}
        assert joined(pieces, records) == kio_response(version, topics, head, endpoints), version


def kio_response(version: int, topics, head, endpoints) -> bytes:
    kio = schema(version)
    fields = dict(head)
    if version >= 16:
        fields["node_endpoints"] = tuple(
            kio.NodeEndpoint(node_id=each.node_id, host=each.host, port=each.port, rack=each.rack)
            for each in endpoints
        )
    responses = []
    for name, fetched in topics.items():
        partitions = tuple(kio_partition(kio, version, *each) for each in fetched)
        key = {"topic_id": topic_id(name)} if version >= 13 else {"topic": name}
        responses.append(kio.FetchableTopicResponse(partitions=partitions, **key))
    return written(kio.FetchResponse(responses=tuple(responses), **fields))


def test_kafkas_frames_are_here() -> None:
    assert {pair["api_version"] for pair in PAIRS} >= {11, 16, 17, 18}


@pytest.mark.parametrize("version", sorted({pair["api_version"] for pair in PAIRS}))
def test_frames_of_kafka(version: int) -> None:
    for pair in (pair for pair in PAIRS if pair["api_version"] == version):
        body = bytes.fromhex(pair["response_hex"])[5 if version >= 12 else 4 :]
        kio, _ = entity_reader(schema(version).FetchResponse)(body, 0)
        if getattr(kio, "node_endpoints", ()) or any(
            version >= 12 and each.snapshot_id.end_offset >= 0
            for topic in kio.responses
            for each in topic.partitions
        ):
            continue  # of the metadata partition, or with endpoints, which are above
        answers, records = [], []
        for topic in kio.responses:
            for each in topic.partitions:
                answers.append(answer_of(version, topic, each))
                records.append(each.records or b"")
        pieces = encode_fetch_response(
            version,
            answers,
            throttle_time_ms=kio.throttle_time // timedelta(milliseconds=1),
            code=kio.error_code,
            session_id=kio.session_id,
        )
        assert joined(pieces, records) == body, pair["id"]


def test_an_empty_answer_has_no_throttle_time_no_error_and_no_session() -> None:
    assert b"".join(encode_fetch_response(11, [])) == bytes(4 + 2 + 4 + 4)


def answer_of(version: int, topic, each) -> FetchedPartition:
    leader = diverging = None
    if version >= 12 and each.current_leader.leader_epoch >= 0:
        leader = (each.current_leader.leader_id, each.current_leader.leader_epoch)
    if version >= 12 and each.diverging_epoch.epoch >= 0:
        diverging = (each.diverging_epoch.epoch, each.diverging_epoch.end_offset)
    aborted = each.aborted_transactions
    return FetchedPartition(
        topic=topic.topic_id.bytes if version >= 13 else topic.topic,
        partition=each.partition_index,
        code=each.error_code,
        high_watermark=each.high_watermark,
        last_stable_offset=each.last_stable_offset,
        log_start_offset=each.log_start_offset,
        diverging_epoch=diverging,
        leader=leader,
        aborted_transactions=aborted
        and tuple((one.producer_id, one.first_offset) for one in aborted),
        preferred_read_replica=each.preferred_read_replica,
        records_bytes=len(each.records or b""),
    )
