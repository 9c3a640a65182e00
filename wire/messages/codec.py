"""Bodies of requests and responses, in one shape whatever their version on the wire.

Inside the project a body is an instance of kio's NEWEST class of its API. A request of an older
version is read with that version's class and lifted; a response is lowered to the version asked
for. kio's schema modules are imported at the first use of an (api, version), never before: there
are over a thousand.
"""

import importlib
import types
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from functools import cache, lru_cache
from typing import Any, Final, Literal, Protocol

from kio.serial import entity_reader
from kio.serial.errors import OutOfBoundValue, SerialError
from kio.static.protocol import Entity

from wire.api_keys import (
    API_VERSIONS,
    BEGIN_QUORUM_EPOCH,
    BROKER_HEARTBEAT,
    BROKER_REGISTRATION,
    CONTROLLER_REGISTRATION,
    CREATE_TOPICS,
    END_QUORUM_EPOCH,
    FETCH,
    METADATA,
    PRODUCE,
    VOTE,
)
from wire.api_table import SCHEMAS, api_name
from wire.connections.headers import (
    RequestHeader,
    encode_request_header,
    encode_response_header,
    parse_request_header,
    parse_response_header,
)
from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.messages import api_versions, create_topics_response, metadata_fetch
from wire.messages.absent_times import reading_class
from wire.messages.body_walk import checked_body, entity_walker
from wire.messages.body_writer import body_writer
from wire.messages.conversion import converter, default_entity, is_readable_as
from wire.messages.fetch_messages import FetchRequest, FetchResponse
from wire.primitives import Buffer, skip_tagged_fields

Kind = Literal["request", "response"]
_KINDS: Final[tuple[Kind, ...]] = ("request", "response")
Body = Any  # kio's newest class of the API; a metadata Fetch may be one of wire.fetch_messages

_PRE_VOTE_VERSION: Final = 2
_REPEATED: Final = frozenset(
    {
        API_VERSIONS,
        BEGIN_QUORUM_EPOCH,
        BROKER_HEARTBEAT,
        BROKER_REGISTRATION,
        CONTROLLER_REGISTRATION,
        END_QUORUM_EPOCH,
        VOTE,
    }
)
"""APIs whose requests and responses repeat unchanged. Decoded and encoded bodies are cached: bodies
are immutable, and equal ones of these APIs have equal bytes (none has a field of floating point,
where 0.0 equals -0.0)."""
_KEPT_MAX: Final = 64
_KEPT_BYTES_MAX: Final = 512
_LEGACY_STRING_BYTES_MAX: Final = 2**15 - 1
_NOT_DECODABLE: Final = (SerialError, ValueError, KeyError, IndexError, TypeError, OverflowError)


class Schema(Protocol):
    """The classes of one API's bodies, by name.

    Argument types go unchecked: kio's constructors expect its phantom types (i32, i32Timedelta).
    """

    def __getattr__(self, name: str) -> Callable[..., Entity]:
        """The class of this name."""
        ...


def newest(api_key: int, kind: Kind) -> Schema:
    """The newest schema module of the API: its classes are the shape of bodies in the project."""
    return _module(api_key, SCHEMAS[api_key].newest_version, kind)


_OWN_DECODERS: Final = {PRODUCE: (3, 9), FETCH: (4, 12)}
"""First version and first flexible one of APIs whose requests are read without kio's classes: to
import those takes 12 ms in the turn of the first request of each version."""


@cache
def entity_class(api_key: int, version: int, kind: Kind) -> Any:
    """The class of a body in one version.

    Raises:
        LookupError: there is no such version.
    """
    module = _module(api_key, version, kind)
    return getattr(module, f"{SCHEMAS[api_key].name}{kind.capitalize()}")


def preload(api_key: int) -> None:
    """Import the API's classes and derive its codecs: 5 to 10 ms that its first use would take."""
    for kind in _KINDS:
        entity = entity_class(api_key, SCHEMAS[api_key].newest_version, kind)
        entity_reader(entity)
        body_writer(entity)
        entity_walker(entity)


@cache
def is_flexible(api_key: int, version: int) -> bool:
    """True if the version has compact lengths and tagged fields, hence the longer headers.

    Raises:
        LookupError: there is no such version.
    """
    own = _OWN_DECODERS.get(api_key)
    if own is not None and own[0] <= version <= SCHEMAS[api_key].newest_version:
        return version >= own[1]
    return bool(entity_class(api_key, version, "request").__flexible__)


def has_flexible_response_header(api_key: int, version: int) -> bool:
    """True if `is_flexible`, except for ApiVersions, always answered with header version 0."""
    return api_key != API_VERSIONS and is_flexible(api_key, version)


def default_request(api_key: int) -> Body:
    """The newest class of a request with every field at its default."""
    return default_entity(entity_class(api_key, SCHEMAS[api_key].newest_version, "request"))


def split_request(frame: bytes) -> tuple[RequestHeader, int]:
    """Header of a request frame and the position of its body; the version must exist.

    Raises:
        RemoteProtocolError: the header cannot be read, or there is no such API or version.
    """
    header, position = parse_request_header(frame)
    try:
        flexible = is_flexible(header.api_key, header.api_version)
    except LookupError:
        raise RemoteProtocolError(
            f"version {header.api_version} of {api_name(header.api_key)} is unknown"
        ) from None
    return header, skip_tagged_fields(frame, position) if flexible else position


def decode_request(api_key: int, version: int, body: Buffer) -> Body:
    """A request body, lifted to the newest class; bytes left over after it are ignored.

    Raises:
        RemoteProtocolError: the bytes are not a body of this API and version.
    """
    decoded = _decode(entity_class(api_key, version, "request"), body)
    lifted = _lift(api_key, decoded, "request")
    if api_key == METADATA and version == 0 and lifted.topics == ():
        return replace(lifted, topics=None)  # version 0 asks for all topics with an empty list
    return lifted


def read_request(api_key: int, version: int, frame: bytes, position: int) -> Body:
    """As `decode_request`, but a Fetch of the metadata partition as a `FetchRequest`.

    Args:
        api_key: of the request.
        version: of the request.
        frame: the whole request.
        position: of its body.
    """
    if api_key != FETCH:
        return decode_request(api_key, version, frame[position:])
    if version >= metadata_fetch.FIRST_VERSION:
        fetch = metadata_fetch.decode_request(frame, position, version)
        if fetch is not None:
            return fetch
    decoded = decode_request(api_key, version, frame[position:])
    return metadata_fetch.request_from_kio(decoded) or decoded


def decode_as_sent(frame: bytes) -> Any:
    """A request frame's body in the class of its own version, with the fields that later ones lack.

    Raises:
        RemoteProtocolError: the bytes are not a request of a known version.
    """
    header, position = split_request(frame)
    return decode_body_as_sent(header.api_key, header.api_version, frame[position:])


def decode_body_as_sent(api_key: int, version: int, body: Buffer) -> Any:
    """As `decode_as_sent`, of a body behind its header.

    Raises:
        RemoteProtocolError: the bytes are not a body of this API and version.
    """
    return _decode(entity_class(api_key, version, "request"), body)


def response_module(api_key: int, version: int) -> types.ModuleType:
    """The schema module of a response in one version.

    Raises:
        LookupError: there is no such version.
    """
    return _module(api_key, version, "response")


def encode_response(api_key: int, version: int, correlation_id: int, body: Body) -> bytes:
    """A response frame with its header, lowered to the version; without the 4-byte length.

    An error message longer than the version can carry is cut.

    Raises:
        LocalProtocolError: another text of the body is longer than the version can carry.
    """
    if isinstance(body, FetchResponse):
        if version >= metadata_fetch.FIRST_VERSION:
            start = encode_response_header(correlation_id, is_flexible=True)
            return start + metadata_fetch.encode_response(body)
        body = metadata_fetch.response_to_kio(newest(FETCH, "response"), body)
    header = encode_response_header(
        correlation_id, is_flexible=has_flexible_response_header(api_key, version)
    )
    if api_key == API_VERSIONS:
        return header + api_versions.encode_response(version, body)
    if api_key == CREATE_TOPICS and version >= create_topics_response.FIRST_VERSION:
        return header + create_topics_response.encode_create_topics_response(version, body)
    entity = entity_class(api_key, version, "response")
    try:
        return _encode(header, entity, body)
    except OutOfBoundValue:
        try:
            return _encode(header, entity, _with_short_messages(body))
        except OutOfBoundValue as error:
            name = f"{api_name(api_key)} response version {version}"
            raise LocalProtocolError(f"{name} cannot be written: {error}") from error


def _with_short_messages(body: Any) -> Any:
    """The body with error messages cut to the 16-bit length of older versions."""
    if isinstance(body, tuple):
        return tuple(map(_with_short_messages, body))
    if not is_dataclass(type(body)):
        return body
    changes: dict[str, Any] = {}
    for field in fields(body):
        value = getattr(body, field.name)
        if field.name == "error_message" and value is not None:
            changes[field.name] = value.encode()[:_LEGACY_STRING_BYTES_MAX].decode(errors="ignore")
        elif isinstance(value, tuple):
            changes[field.name] = _with_short_messages(value)
    return replace(body, **changes)


def encode_request(
    api_key: int, version: int, correlation_id: int, client_id: str | None, body: Body
) -> bytes:
    """A request frame with its header, lowered to the version; without the 4-byte length.

    Raises:
        LocalProtocolError: the version cannot carry the body.
    """
    if isinstance(body, FetchRequest):
        if version >= metadata_fetch.FIRST_VERSION:
            head = RequestHeader(api_key, version, correlation_id, client_id)
            content = metadata_fetch.encode_request(version, body)
            return encode_request_header(head, is_flexible=True) + content
        body = metadata_fetch.request_to_kio(newest(FETCH, "request"), body)
    if api_key == VOTE and version < _PRE_VOTE_VERSION:
        _check_no_pre_vote(body, version)
    header = encode_request_header(
        RequestHeader(api_key, version, correlation_id, client_id),
        is_flexible=is_flexible(api_key, version),
    )
    return _encode(header, entity_class(api_key, version, "request"), body)


def decode_response(api_key: int, version: int, frame: bytes) -> tuple[int, Body]:
    """Correlation id and body of a response frame, lifted to the newest class.

    Raises:
        RemoteProtocolError: the bytes are not a response of this API and version.
    """
    correlation_id, position = parse_response_header(
        frame, is_flexible=has_flexible_response_header(api_key, version)
    )
    entity = entity_class(api_key, version, "response")
    return correlation_id, _lift(
        api_key, _decode(entity, frame[position:], " response"), "response"
    )


def decode_version_ranges(version: int, frame: bytes) -> api_versions.Ranges:
    """Lowest and highest version by API key of an ApiVersions response; not to be modified.

    Raises:
        RemoteProtocolError: the bytes are not an ApiVersions response of this version.
    """
    _, position = parse_response_header(frame, is_flexible=False)
    ranges = api_versions.decode_ranges(version, frame[position:])
    if ranges is not None:
        return ranges
    _, body = decode_response(API_VERSIONS, version, frame)
    return {
        api.api_key: (api.min_version, api.max_version)
        for api in body.api_keys
        if api.api_key in SCHEMAS
    }


def read_response(api_key: int, version: int, frame: bytes) -> tuple[int, Body]:
    """As `decode_response`, but a Fetch of the metadata partition gives a `FetchResponse`."""
    if api_key != FETCH:
        return decode_response(api_key, version, frame)
    if version >= metadata_fetch.FIRST_VERSION:
        correlation_id, position = parse_response_header(frame, is_flexible=True)
        fetched = metadata_fetch.decode_response(frame, position)
        if fetched is not None:
            return correlation_id, fetched
    correlation_id, decoded = decode_response(api_key, version, frame)
    return correlation_id, metadata_fetch.response_from_kio(decoded) or decoded


def _decode(entity: Any, body: Buffer, kind: str = "") -> Any:
    content = bytes(body)
    is_kept = entity.__api_key__ in _REPEATED and len(content) <= _KEPT_BYTES_MAX
    try:
        return _kept_entity(entity, content) if is_kept else _read(entity, content)
    except _NOT_DECODABLE as error:
        name = f"{api_name(entity.__api_key__)}{kind}"
        raise RemoteProtocolError(
            f"{name} version {entity.__version__} cannot be read: {error}"
        ) from error


def _read(entity: Any, content: bytes) -> Any:
    return _reader(entity)(checked_body(entity, content), 0)[0]


@cache
def _reader(entity: Any) -> Callable[[bytes, int], tuple[Any, int]]:
    return entity_reader(reading_class(entity))


_kept_entity = lru_cache(_KEPT_MAX)(_read)


def _encode(header: bytes, entity: Any, body: Body) -> bytes:
    is_kept = entity.__api_key__ in _REPEATED
    return header + (_kept_content(entity, body) if is_kept else _write(entity, body))


def _write(entity: Any, body: Body) -> bytes:
    lowered = body
    body_class: type = type(body)
    if not is_readable_as(body_class, entity):
        convert = converter(body_class, entity)
        assert convert is not None
        lowered = convert(body)
    return body_writer(entity)(lowered)


_kept_content = lru_cache(_KEPT_MAX)(_write)


def _lift(api_key: int, decoded: Any, kind: Kind) -> Body:
    newest_class = entity_class(api_key, SCHEMAS[api_key].newest_version, kind)
    decoded_class: type = type(decoded)
    convert = converter(decoded_class, newest_class)
    return decoded if convert is None else convert(decoded)


def _check_no_pre_vote(body: Body, version: int) -> None:
    if any(partition.pre_vote for topic in body.topics for partition in topic.partitions):
        raise LocalProtocolError(f"Vote version {version} has no pre-vote")


@cache
def _module(api_key: int, version: int, kind: Kind) -> types.ModuleType:
    schema = SCHEMAS.get(api_key)
    if schema is None or not 0 <= version <= schema.newest_version:
        raise LookupError(f"no version {version} of API {api_key}")
    try:
        return importlib.import_module(f"kio.schema.{schema.package}.v{version}.{kind}")
    except ModuleNotFoundError:
        raise LookupError(f"no version {version} of API {api_key}") from None


__all__ = [
    "Body",
    "Entity",
    "Schema",
    "decode_as_sent",
    "decode_body_as_sent",
    "decode_request",
    "decode_response",
    "decode_version_ranges",
    "default_request",
    "encode_request",
    "encode_response",
    "entity_class",
    "newest",
    "preload",
    "read_request",
    "read_response",
    "response_module",
    "split_request",
]
