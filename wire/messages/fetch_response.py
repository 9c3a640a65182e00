"""Fetch responses of brokers, 4 to 18: everything but the records, which leave from their file.

What stands before the records of a partition and behind them is given in pieces; the sender puts
the bytes of the log between. The metadata partition has `wire/messages/metadata_fetch.py`.
apache/kafka: clients/.../common/message/FetchResponse.json (4.3.1)
"""

import struct
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

import msgspec

from wire.errors import ErrorCode
from wire.messages import one_row
from wire.messages.fetch_versions import (
    CURRENT_LEADER_TAG,
    DIVERGING_EPOCH_TAG,
    FLEXIBLE_VERSION,
    LEADER_VERSION,
    LOG_START_VERSION,
    RACK_VERSION,
    SESSION_VERSION,
    TOPIC_ID_VERSION,
    VERSION_MAX,
    VERSION_MIN,
)
from wire.messages.fields import (
    LeaderEndpoint,
    encode_endpoints,
    encode_length,
    encode_tagged,
    encode_text,
)
from wire.primitives import encode_unsigned_varint
from wire.steps import Steps, finished

PIECE: Final = 128
"""Answers that are written in one piece."""
_ANSWER_UNITS: Final = 2
_INT32: Final = struct.Struct(">i")
_OFFSET: Final = struct.Struct(">q")
_ERROR_AND_SESSION: Final = struct.Struct(">hi")
_PARTITION: Final = struct.Struct(">ihqq")
_ABORTED: Final = struct.Struct(">qq")
_DIVERGING_EPOCH: Final = struct.Struct(">iqb")
_LEADER: Final = struct.Struct(">iib")


class FetchedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for a partition; -1 is none. Fields that a version lacks are left out.

    `topic` is its name, from version 13 on its id (16 bytes).
    """

    topic: str | bytes
    partition: int
    code: ErrorCode = ErrorCode.none
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    diverging_epoch: tuple[int, int] | None = None
    """Epoch and its end offset: the replica truncates to it."""
    leader: tuple[int, int] | None = None
    """Id and epoch, beside NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH."""
    aborted_transactions: tuple[tuple[int, int], ...] | None = None
    """Producer ids and first offsets; None where uncommitted records are read."""
    preferred_read_replica: int = -1
    records_bytes: int = 0
    """Size of the records that the sender puts behind."""


def encode_fetch_response(
    version: int,
    answers: Sequence[FetchedPartition],
    *,
    throttle_time_ms: int = 0,
    code: ErrorCode = ErrorCode.none,
    session_id: int = 0,
    endpoints: tuple[LeaderEndpoint, ...] = (),
) -> list[bytes]:
    """Write a response at once; as `write_fetch_response`."""
    return finished(
        write_fetch_response(
            version,
            answers,
            throttle_time_ms=throttle_time_ms,
            code=code,
            session_id=session_id,
            endpoints=endpoints,
        )
    )


def write_fetch_response(
    version: int,
    answers: Sequence[FetchedPartition],
    *,
    throttle_time_ms: int = 0,
    code: ErrorCode = ErrorCode.none,
    session_id: int = 0,
    endpoints: tuple[LeaderEndpoint, ...] = (),
) -> Steps[list[bytes]]:
    """Write a response, without a header, in pieces.

    Args:
        version: VERSION_MIN to VERSION_MAX.
        answers: those of one topic behind each other.
        throttle_time_ms: time that the client should wait.
        code: of the session; left out below version 7, as `session_id`.
        session_id: 0 for none.
        endpoints: of the leaders that the answers name; left out below version 16.

    Returns:
        One piece more than `answers`: the records of each stand behind the piece of its number.
    """
    assert VERSION_MIN <= version <= VERSION_MAX, f"{version=}"
    if version >= TOPIC_ID_VERSION and len(answers) == 1 and not endpoints:
        (answer,) = answers
        if not (answer.aborted_transactions or answer.diverging_epoch or answer.leader):
            return [_of_one_row(answer, throttle_time_ms, code, session_id), one_row.RESPONSE_END]
    is_flexible = version >= FLEXIBLE_VERSION
    topics = [list(of_topic) for _, of_topic in groupby(answers, key=attrgetter("topic"))]
    piece = [_INT32.pack(throttle_time_ms)]
    if version >= SESSION_VERSION:
        piece.append(_ERROR_AND_SESSION.pack(code.value, session_id))
    piece.append(encode_length(len(topics), is_flexible=is_flexible))
    pieces: list[bytes] = []
    for of_topic in topics:
        piece += _topic(version, of_topic[0].topic, len(of_topic))
        for answer in of_topic:
            pieces.append(b"".join([*piece, _partition(version, answer)]))
            piece = [_tags(answer)] if is_flexible else []
            if len(pieces) % PIECE == 0:
                yield PIECE * _ANSWER_UNITS
        if is_flexible:
            piece.append(b"\0")
    if is_flexible:
        has_endpoints = bool(endpoints) and version >= LEADER_VERSION
        piece.append(encode_tagged({0: encode_endpoints(endpoints)} if has_endpoints else {}))
    return [*pieces, b"".join(piece)]


def _of_one_row(
    answer: FetchedPartition, throttle_time_ms: int, code: ErrorCode, session_id: int
) -> bytes:
    """A response for one partition up to its records, from version 13 on."""
    topic = answer.topic
    assert isinstance(topic, bytes), f"{topic=} is no id"
    return one_row.RESPONSE.pack(
        throttle_time_ms, code.value, session_id, one_row.ONE, topic, one_row.ONE,
        answer.partition, answer.code.value, answer.high_watermark, answer.last_stable_offset,
        answer.log_start_offset,
        one_row.NULL if answer.aborted_transactions is None else one_row.EMPTY,
        answer.preferred_read_replica,
    ) + encode_unsigned_varint(answer.records_bytes + 1)  # fmt: skip


def response_bytes(version: int, answers: Sequence[FetchedPartition]) -> int:
    """Size of a response with its records as quotas count it: with a length, without endpoints."""
    return finished(count_response_bytes(version, answers))


def count_response_bytes(version: int, answers: Sequence[FetchedPartition]) -> Steps[int]:
    """As `response_bytes`, in pieces."""
    pieces = yield from write_fetch_response(version, answers)
    return _INT32.size + sum(map(len, pieces)) + sum(each.records_bytes for each in answers)


def _topic(version: int, topic: str | bytes, count: int) -> list[bytes]:
    is_flexible = version >= FLEXIBLE_VERSION
    if isinstance(topic, bytes):
        assert version >= TOPIC_ID_VERSION, f"{version=} {topic=}"
        name = topic
    else:
        assert version < TOPIC_ID_VERSION, f"{version=} {topic=}"
        name = encode_text(topic, is_flexible=is_flexible)
    return [name, encode_length(count, is_flexible=is_flexible)]


def _partition(version: int, answer: FetchedPartition) -> bytes:
    """The fields up to the length of the records."""
    is_flexible = version >= FLEXIBLE_VERSION
    parts = [
        _PARTITION.pack(
            answer.partition, answer.code.value, answer.high_watermark, answer.last_stable_offset
        )
    ]
    if version >= LOG_START_VERSION:
        parts.append(_OFFSET.pack(answer.log_start_offset))
    aborted = answer.aborted_transactions
    parts.append(encode_length(-1 if aborted is None else len(aborted), is_flexible=is_flexible))
    end = b"\0" if is_flexible else b""
    parts += [_ABORTED.pack(producer_id, first) + end for producer_id, first in aborted or ()]
    if version >= RACK_VERSION:
        parts.append(_INT32.pack(answer.preferred_read_replica))
    parts.append(encode_length(answer.records_bytes, is_flexible=is_flexible))
    return b"".join(parts)


def _tags(answer: FetchedPartition) -> bytes:
    fields: dict[int, bytes] = {}
    if answer.diverging_epoch is not None:
        fields[DIVERGING_EPOCH_TAG] = _DIVERGING_EPOCH.pack(*answer.diverging_epoch, 0)
    if answer.leader is not None:
        fields[CURRENT_LEADER_TAG] = _LEADER.pack(*answer.leader, 0)
    return encode_tagged(fields) if fields else b"\0"
