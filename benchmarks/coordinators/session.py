"""A connection of one client, one request at a time, for hundreds of them in one process.

Bodies are kio's classes of one version each: those that Kafka 4.3 and kraftline serve both.
"""

import asyncio
import importlib
import struct
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any, Final

from kio.serial import entity_reader
from typing_extensions import override

from wire.api_keys import (
    ADD_PARTITIONS_TO_TXN,
    ALTER_PARTITION_REASSIGNMENTS,
    CONSUMER_GROUP_HEARTBEAT,
    ELECT_LEADERS,
    END_TXN,
    FIND_COORDINATOR,
    HEARTBEAT,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    PRODUCE,
    SYNC_GROUP,
)
from wire.api_table import SCHEMAS
from wire.connections.headers import parse_response_header
from wire.messages import codec

VERSIONS: Final = {
    ADD_PARTITIONS_TO_TXN: 3,
    ALTER_PARTITION_REASSIGNMENTS: 0,
    CONSUMER_GROUP_HEARTBEAT: 1,
    ELECT_LEADERS: 2,
    END_TXN: 5,
    FIND_COORDINATOR: 4,
    HEARTBEAT: 4,
    INIT_PRODUCER_ID: 4,
    JOIN_GROUP: 9,
    METADATA: 12,
    OFFSET_COMMIT: 9,
    OFFSET_FETCH: 9,
    PRODUCE: 12,
    SYNC_GROUP: 5,
}
CLIENT_ID: Final = "measure"
GROUP_KEY: Final = 0
TRANSACTION_KEY: Final = 1
"""Kinds of coordinators."""
NOT_YET: Final = frozenset({14, 15, 16})
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR."""
TIMEOUT_S: Final = 60.0
RETRY_S: Final = 0.05
_LENGTH: Final = struct.Struct(">i")
_ERROR: Final = struct.Struct(">h")
_ERROR_AT: Final = 9
"""Behind correlation id, tagged fields and throttle time."""


class RefusedError(Exception):
    """An answer with an error code that the measurement has no use for."""


def schema(api_key: int, version: int | None = None) -> Any:
    """The module with the classes of a request, in the version that is sent."""
    number = VERSIONS[api_key] if version is None else version
    return importlib.import_module(f"kio.schema.{SCHEMAS[api_key].package}.v{number}.request")


def framed(api_key: int, body: Any, version: int | None = None) -> bytes:
    """A whole request; every one has the same correlation id, since one is under way at a time."""
    number = VERSIONS[api_key] if version is None else version
    frame = codec.encode_request(api_key, number, 0, CLIENT_ID, body)
    return _LENGTH.pack(len(frame)) + frame


def answered(api_key: int, frame: bytes, version: int | None = None) -> Any:
    """Body of an answer without its length, in the class of the version that was asked in."""
    number = VERSIONS[api_key] if version is None else version
    entity = codec.entity_class(api_key, number, "response")
    _, position = parse_response_header(frame, is_flexible=codec.is_flexible(api_key, number))
    return entity_reader(entity)(frame, position)[0]


def heartbeat_error(frame: bytes) -> int:
    """Error code of an answer to a heartbeat of either protocol, without reading the rest."""
    (code,) = _ERROR.unpack_from(frame, _ERROR_AT)
    return int(code)


class Session(asyncio.Protocol):
    """One connection: `send` with a callback for what is measured, `ask` for the rest."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._transport: Any = None
        self._on_frame: Callable[[bytes], None] | None = None
        self._on_lost: Callable[[], None] | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = transport

    @override
    def data_received(self, data: bytes) -> None:
        """Hand on the answer once it is whole."""
        self._buffer += data
        if len(self._buffer) < _LENGTH.size:
            return
        (size,) = _LENGTH.unpack_from(self._buffer)
        if len(self._buffer) < _LENGTH.size + size:
            return
        assert len(self._buffer) == _LENGTH.size + size, "one request at a time, one answer"
        frame, on_frame = bytes(self._buffer[_LENGTH.size :]), self._on_frame
        self._buffer.clear()
        assert on_frame is not None, "an answer that nobody asked for"
        self._on_frame = self._on_lost = None
        on_frame(frame)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        """Fail who waits."""
        del exc
        if self._on_lost is not None:
            self._on_lost()

    def send(self, frame: bytes, on_frame: Callable[[bytes], None]) -> None:
        """Send a request; the callback gets the answer without its length."""
        assert self._on_frame is None, "one request at a time"
        self._on_frame = on_frame
        self._transport.write(frame)

    async def ask_raw(self, frame: bytes) -> bytes:
        """Send a request and wait for the answer; one that comes too late is dropped."""
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def came(frame: bytes) -> None:
            if not answer.done():  # who asked was cancelled, or waits no longer
                answer.set_result(frame)

        def lost() -> None:
            if not answer.done():
                answer.set_exception(ConnectionError("the server closed the connection"))

        self._on_lost = lost
        self.send(frame, came)
        return await asyncio.wait_for(answer, TIMEOUT_S)

    async def ask(self, api_key: int, body: Any, version: int | None = None) -> Any:
        """Send a body and wait for the answer's."""
        frame = framed(api_key, body, version)
        return answered(api_key, await self.ask_raw(frame), version)

    def close(self) -> None:
        """End the connection."""
        self._on_frame = self._on_lost = None
        self._transport.close()


async def connected(address: str) -> Session:
    """A connection to `host:port`."""
    host, port = address.rsplit(":", 1)
    _, session = await asyncio.get_running_loop().create_connection(Session, host, int(port))
    return session


async def all_connected(addresses: Iterable[str]) -> list[Session]:
    """A connection to each address, some at a time: a listener's queue is bounded."""
    sessions: list[Session] = []
    rest = list(addresses)
    for start in range(0, len(rest), 50):
        sessions += await asyncio.gather(*map(connected, rest[start : start + 50]))
    return sessions


def close_all(sessions: Iterable[Session]) -> None:
    """End connections."""
    for session in sessions:
        session.close()


async def coordinators(address: str, keys: Sequence[str], kind: int = GROUP_KEY) -> list[str]:
    """Address of the coordinator of each key, in their order; waits until there are some."""
    session, deadline = await connected(address), time.monotonic() + TIMEOUT_S
    found: dict[str, str] = {}
    try:
        while len(found) < len(keys):
            assert time.monotonic() < deadline, f"coordinators of {len(found)} of {len(keys)} keys"
            missing = tuple(key for key in keys if key not in found)
            new = schema(FIND_COORDINATOR)
            request = new.FindCoordinatorRequest(key_type=kind, coordinator_keys=missing)
            answer = await session.ask(FIND_COORDINATOR, request)
            found |= {
                row.key: f"{row.host}:{row.port}"
                for row in answer.coordinators
                if not row.error_code.value
            }
            await asyncio.sleep(0 if len(found) == len(keys) else RETRY_S)
    finally:
        session.close()
    return [found[key] for key in keys]


async def until_served(
    session: Session, api_key: int, body: Any, code_of: Callable[[Any], Any]
) -> Any:
    """Ask until the coordinator is there; RefusedError for any other error."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        answer = await session.ask(api_key, body)
        code = code_of(answer)
        if not code.value:
            return answer
        if code.value not in NOT_YET or time.monotonic() > deadline:
            raise RefusedError(f"{SCHEMAS[api_key].name}: {code.name}")
        await asyncio.sleep(RETRY_S)


def milliseconds(number: int) -> timedelta:
    """A time of a request."""
    return timedelta(milliseconds=number)
