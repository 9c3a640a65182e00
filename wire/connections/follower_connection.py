"""The follower's side of a connection to a leader: Fetch 13 to 18 without copies of records."""

from typing_extensions import override

from wire.api_keys import FETCH
from wire.connections.client_connection import RESPONSE_BYTES_MAX, ClientConnection, Pending
from wire.connections.framing import frame
from wire.connections.growing_frames import GrowingFrames
from wire.connections.headers import RequestHeader, encode_request_header, parse_response_header
from wire.errors import LocalProtocolError
from wire.messages.codec import Body
from wire.messages.replica_fetch import (
    VERSION_MIN,
    ReplicaFetchRequest,
    decode_replica_fetched,
    encode_replica_fetch,
)
from wire.primitives import Buffer
from wire.types import CorrelationId


class FollowerConnection(ClientConnection):
    """Connection whose Fetch is of partitions: `ReplicaFetchRequest` and `ReplicaFetchResponse`."""

    def __init__(self, client_id: str | None, response_bytes_max: int = RESPONSE_BYTES_MAX) -> None:
        """A fresh connection."""
        super().__init__(client_id, response_bytes_max=response_bytes_max)
        self._frames = GrowingFrames(response_bytes_max)

    @override
    def _encode(self, api_key: int, correlation_id: CorrelationId, body: Body) -> bytes:
        if api_key != FETCH:
            return super()._encode(api_key, correlation_id, body)
        assert isinstance(body, ReplicaFetchRequest), f"{type(body)=}"
        version = self._usable_version(FETCH)
        if version < VERSION_MIN:
            raise LocalProtocolError(f"the leader knows Fetch up to version {version}")
        header = RequestHeader(FETCH, version, correlation_id, self._client_id)
        start = encode_request_header(header, is_flexible=True)
        self._in_flight.append(Pending(FETCH, version, correlation_id))
        return frame(start + encode_replica_fetch(version, body))

    @override
    def _read(self, pending: Pending, content: Buffer) -> Body:
        if pending.api_key != FETCH:
            return super()._read(pending, content)
        _, position = parse_response_header(content, is_flexible=True)
        return decode_replica_fetched(pending.api_version, content, position)
