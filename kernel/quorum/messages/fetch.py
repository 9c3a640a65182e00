"""Fetch of the metadata partition, decoded from the wire as a value of the core.

`wire/messages/metadata_fetch.py` reads and writes it in every version (docs/decisions/0008); here
are the limit of one read and the responses with a top-level error, which name no partition.
"""

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from raft import messages as raft
from raft.config import READ_BYTES_MAX
from wire.api_keys import FETCH
from wire.errors import ErrorCode
from wire.messages import codec

if TYPE_CHECKING:
    from kio.schema.fetch.v18.request import FetchRequest
    from kio.schema.fetch.v18.response import FetchResponse

_ZERO: Final = timedelta(0)


def request_from_wire(body: "raft.FetchRequest | FetchRequest") -> raft.FetchRequest | None:
    """Return the message of a body; None unless it is about the metadata partition."""
    if type(body) is not raft.FetchRequest:
        return None
    if body.max_bytes > READ_BYTES_MAX:
        return replace(body, max_bytes=READ_BYTES_MAX)
    return body


def request_to_wire(message: raft.FetchRequest) -> raft.FetchRequest:
    """Return the body of a message: itself."""
    return message


def response_from_wire(
    body: "raft.FetchResponse | FetchResponse",
) -> raft.FetchResponse | None:
    """Return the message of a body; None unless it is about the metadata partition."""
    if isinstance(body, raft.FetchResponse):
        return body
    top_error_code = body.error_code.value
    return raft.FetchResponse(top_error_code=top_error_code) if top_error_code else None


def response_to_wire(message: raft.FetchResponse) -> raft.FetchResponse | codec.Entity:
    """Return the body of a message: itself, unless it has a top-level error."""
    return _without_topics(message.top_error_code) if message.top_error_code else message


def refusal(body: "FetchRequest") -> codec.Entity:
    """Return the response to a request that is not about exactly the metadata partition."""
    del body
    return _without_topics(ErrorCode.invalid_request.value)


def _without_topics(error_code: int) -> codec.Entity:
    return codec.newest(FETCH, "response").FetchResponse(
        throttle_time=_ZERO, error_code=ErrorCode(error_code), responses=()
    )
