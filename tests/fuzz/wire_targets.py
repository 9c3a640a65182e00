"""Targets of wire/: frames, headers, numbers, and every RPC that is served, all versions."""

import json
import struct
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from kernel.serving.dispatch import APIS
from tests.fuzz.engine import Target
from tests.fuzz.entities import body_bytes
from wire.api_table import SCHEMAS, ListenerKind
from wire.connections.connection import Request, ServerConnection, parse_request
from wire.connections.framing import FrameReader, frame
from wire.connections.headers import (
    RequestHeader,
    encode_request_header,
    encode_response_header,
    parse_request_header,
    parse_response_header,
)
from wire.errors import RemoteProtocolError
from wire.messages import metadata_fetch
from wire.messages.codec import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    entity_class,
    is_flexible,
    read_response,
)
from wire.primitives import (
    encode_unsigned_varint,
    encode_varint,
    encode_varlong,
    read_unsigned_varint,
    read_varint,
    read_varlong,
    skip_tagged_fields,
)

GOLDEN = Path(__file__).parent.parent / "golden"
FRAME_BYTES_MAX = 1 << 16
BOTH = {**APIS[ListenerKind.CONTROLLER], **APIS[ListenerKind.BROKER]}
FETCH = 1
HIGH_WATERMARK_SINCE = 18


@cache
def pairs() -> list[dict[str, Any]]:
    """Requests and responses that real Kafka sent."""
    return [
        json.loads(line)
        for name in ("wire/pairs.jsonl", "raft/pairs.jsonl")
        for line in (GOLDEN / name).read_text().splitlines()
    ]


@cache
def golden_requests() -> list[bytes]:
    return [bytes.fromhex(pair["request_hex"]) for pair in pairs()]


@cache
def golden_responses() -> list[bytes]:
    """Behind one byte each of key and version, as `_decode_response` takes them."""
    return [
        bytes([pair["api_key"], pair["api_version"]]) + bytes.fromhex(pair["response_hex"])
        for pair in pairs()
        if pair["response_hex"]
    ]


@cache
def served() -> list[tuple[int, int]]:
    """Every API and version that a listener serves and that can be read."""
    found = []
    for key, api in BOTH.items():
        for version in range(api.min_version, api.max_version + 1):
            try:
                entity_class(key, version, "request")
            except LookupError:
                continue
            found.append((key, version))
    return found


# ---- frames and headers ------------------------------------------------------------------------


def _frames(data: bytes) -> list[bytes]:
    reader = FrameReader(FRAME_BYTES_MAX)
    reader.feed(data)
    found = []
    while (content := reader.next_frame()) is not None:
        found.append(content)
    return found


def _same_in_portions(value: list[bytes], data: bytes, rng: Random) -> None:
    """P4, and P2: what came out, framed again, is what went in."""
    assert data.startswith(b"".join(frame(content) for content in value))
    reader, found, position = FrameReader(FRAME_BYTES_MAX), [], 0
    while position < len(data):
        size = rng.choice((1, 2, 3, 5, 64, 1024))
        reader.feed(data[position : position + size])
        position += size
        while (content := reader.next_frame()) is not None:
            found.append(content)
    assert found == value


def _some_frames(rng: Random) -> bytes:
    return b"".join(frame(rng.randbytes(rng.randrange(40))) for _ in range(rng.randrange(5)))


def _header(data: bytes) -> RequestHeader:
    header, position = parse_request_header(data)
    skip_tagged_fields(data, position)
    parse_response_header(data, is_flexible=True)
    return header


def _header_again(header: RequestHeader, data: bytes, _rng: Random) -> None:
    again = encode_request_header(header, is_flexible=False)
    if header.client_id is not None:
        assert data.startswith(again)
    assert parse_request_header(again)[0] == header


def _numbers(data: bytes) -> list[tuple[int, int]]:
    return [
        read_unsigned_varint(data, 0),
        read_varint(data, 0),
        read_varlong(data, 0),
        read_unsigned_varint(data, 0, 10),
    ]


def _numbers_again(value: list[tuple[int, int]], data: bytes, _rng: Random) -> None:
    """Against a reader that does it digit by digit."""
    end = next(place for place, byte in enumerate(data) if byte < 0x80) + 1
    plain = sum((byte & 0x7F) << (7 * place) for place, byte in enumerate(data[:end]))
    assert [position for _, position in value] == [end] * 4
    assert value[0][0] == value[3][0] == plain
    low = plain & 0xFFFF_FFFF
    assert value[1][0] == (low >> 1 if low % 2 == 0 else -((low + 1) >> 1))
    assert read_varint(encode_varint(value[1][0]), 0)[0] == value[1][0]
    assert read_varlong(encode_varlong(value[2][0]), 0)[0] == value[2][0]
    assert read_unsigned_varint(encode_unsigned_varint(plain), 0)[0] == plain


# ---- requests ----------------------------------------------------------------------------------


def request_frame(rng: Random) -> bytes:
    """A structured request of any API and version."""
    key, version = rng.choice(served())
    client_id = rng.choice((None, "", "client", "é"))
    header = RequestHeader(key, version, rng.randrange(100), client_id)
    start = encode_request_header(header, is_flexible=is_flexible(key, version))
    return start + body_bytes(entity_class(key, version, "request"), rng)


def _decode_request(data: bytes) -> Request:
    broker = APIS[ListenerKind.BROKER]
    key = int.from_bytes(data[:2], "big", signed=True)
    return parse_request(broker if key in broker else APIS[ListenerKind.CONTROLLER], data)


def _request_again(request: Request, data: bytes, _rng: Random) -> None:
    """P2: what was read can be written in its version, and reads the same again."""
    if request.error is not None:
        return
    key, version = request.api_key, request.api_version
    first = encode_request(key, version, request.correlation_id, request.client_id, request.body)
    second = parse_request(BOTH, first)
    again = encode_request(key, version, request.correlation_id, request.client_id, second.body)
    assert first == again
    assert request.frame == data


# ---- responses ---------------------------------------------------------------------------------


def _response_frame(rng: Random) -> bytes:
    key, version = rng.choice(served())
    flexible = key != 18 and is_flexible(key, version)
    start = encode_response_header(rng.randrange(100), is_flexible=flexible)
    body = body_bytes(entity_class(key, version, "response"), rng)
    return bytes([key, version]) + start + body


def _decode_response(data: bytes) -> tuple[int, int, int, Any]:
    if len(data) < 2:
        raise RemoteProtocolError("no key")
    key, version = data[0], data[1]
    if key not in SCHEMAS or not 0 <= version <= SCHEMAS[key].newest_version:
        raise RemoteProtocolError("no such version: a client knows what it asked for")
    try:
        entity_class(key, version, "response")
    except LookupError as error:
        raise RemoteProtocolError(str(error)) from error
    correlation_id, body = read_response(key, version, data[2:])
    return key, version, correlation_id, body


def _response_again(value: tuple[int, int, int, Any], _data: bytes, _rng: Random) -> None:
    key, version, correlation_id, body = value
    first = encode_response(key, version, correlation_id, body)
    second = read_response(key, version, first)[1]
    assert encode_response(key, version, correlation_id, second) == first


# ---- the metadata Fetch, read in two ways --------------------------------------------------------


def _fetch_seeds() -> list[bytes]:
    found = []
    for data in golden_requests():
        key, version = struct.unpack_from(">hh", data)
        if key == FETCH and version >= metadata_fetch.FIRST_VERSION:
            header, position = parse_request_header(data)
            position = skip_tagged_fields(data, position)
            found.append(bytes([0, header.api_version]) + data[position:])
    for data in golden_responses():
        if data[0] == FETCH and data[1] >= metadata_fetch.FIRST_VERSION:
            _, position = parse_response_header(data[2:], is_flexible=True)
            found.append(bytes([1, data[1]]) + data[2 + position :])
    return found


def _straight_fetch(data: bytes) -> Any:
    """The straight-line reader alone; it gives None for what it leaves to kio's."""
    if len(data) < 2 or not metadata_fetch.FIRST_VERSION <= data[1] <= 18:
        raise RemoteProtocolError("not a version of it")
    if data[0] == 0:
        return metadata_fetch.decode_request(data[2:])
    return metadata_fetch.decode_response(data[2:])


def _as_kio_reads_it(value: Any, data: bytes, _rng: Random) -> None:
    """P3: what the straight-line reader accepts, kio's reads the same."""
    if value is None:
        return
    version, content = data[1], data[2:]
    if data[0] == 0:
        by_kio = metadata_fetch.request_from_kio(decode_request(FETCH, version, content))
        if version < HIGH_WATERMARK_SINCE:  # an unknown tag there, which only kio's reader skips
            unsupported = metadata_fetch.HIGH_WATERMARK_UNSUPPORTED
            value = msgspec.structs.replace(value, high_watermark=unsupported)
        assert by_kio == value
        return
    entity = entity_class(FETCH, version, "response")
    start = encode_response_header(1, is_flexible=bool(entity.__flexible__))
    try:
        _, body = decode_response(FETCH, version, start + content)
    except RemoteProtocolError as error:
        assert "not a valid ErrorCode" in str(error)  # noqa: PT017  # kio knows no others
        return
    assert metadata_fetch.response_from_kio(body) == value


# ---- a whole connection --------------------------------------------------------------------------


def _connection(data: bytes) -> tuple[list[bytes], str | None]:
    return _received([data])


def _received(portions: list[bytes]) -> tuple[list[bytes], str | None]:
    connection = ServerConnection(BOTH, FRAME_BYTES_MAX, in_flight_max=4)
    found: list[bytes] = []
    try:
        for portion in portions:
            requests = connection.receive(portion)
            while requests:
                found += [request.frame for request in requests]
                for request in requests:
                    connection.respond_encoded(request.reply_slot, b"1234")
                requests = connection.receive(b"")
    except RemoteProtocolError as error:
        return found, str(error)
    return found, connection.failure


def _connection_in_portions(
    value: tuple[list[bytes], str | None], data: bytes, rng: Random
) -> None:
    portions, position = [], 0
    while position < len(data):
        size = rng.choice((1, 3, 7, 50, 400))
        portions.append(data[position : position + size])
        position += size
    assert _received(portions) == value


def _requests_in_a_row(rng: Random) -> bytes:
    return b"".join(frame(request_frame(rng)) for _ in range(rng.randrange(4)))


def targets() -> list[Target]:
    """All of this file."""
    refusals = (RemoteProtocolError,)
    numbers = [encode_unsigned_varint(1 << bits) for bits in range(0, 64, 5)]
    streams = [b"".join(frame(data) for data in golden_requests()[n : n + 3]) for n in range(20)]
    return [
        Target("frames", streams, _frames, refusals, _same_in_portions, _some_frames),
        Target("headers", golden_requests()[:60], _header, refusals, _header_again),
        Target("numbers", numbers, _numbers, (ValueError, IndexError), _numbers_again),
        Target(
            "requests", golden_requests(), _decode_request, refusals, _request_again,
            request_frame, weight=5,
        ),
        Target(
            "responses", golden_responses(), _decode_response, refusals, _response_again,
            _response_frame, weight=4,
        ),
        Target(
            "metadata-fetch", _fetch_seeds(), _straight_fetch, refusals, _as_kio_reads_it, weight=2
        ),
        Target(
            "connection", streams, _connection, (), _connection_in_portions, _requests_in_a_row
        ),
    ]  # fmt: skip
