"""Stream of the committed log: read when the client has taken the earlier records.

Nothing is queued for a client: the log itself is the buffer. A client that takes nothing for
`SLOW_READER_S` is disconnected; one whose position is below the log start gets an `end` event.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from itertools import islice
from typing import Any, Final

import msgspec
from aiohttp import web

from inspection.consistency import CONSISTENCY, wait_for
from inspection.negotiation import MSGPACK, negotiated
from inspection.parameters import read_parameters
from inspection.problem import Problem
from inspection.record_views import RecordView
from inspection.resources import committed_records
from inspection.routes import STREAM_PARAMETERS
from inspection.running_node import RunningNode

SSE: Final = "text/event-stream"
SLOW_READER_S: Final = 10.0
KEEP_ALIVE_S: Final = 15.0
STREAMS_MAX: Final = 64
RECORDS_PER_WRITE: Final = 200

_json = msgspec.json.Encoder()
_msgpack = msgspec.msgpack.Encoder()


class Streams:
    """All streams of one node."""

    def __init__(
        self,
        node: RunningNode,
        slow_reader_s: float = SLOW_READER_S,
        streams_max: int = STREAMS_MAX,
    ) -> None:
        self._node = node
        self._commits = node.watch
        self._streams_max = streams_max
        self._slow_reader_s = slow_reader_s
        self._open = 0
        self._closing = asyncio.Event()

    def close(self) -> None:
        """End every stream: the node stops."""
        self._closing.set()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Serve one stream, until the client disconnects or the node stops."""
        media_type = negotiated(request.headers.get("Accept"), (SSE, MSGPACK))
        declared = (*STREAM_PARAMETERS, CONSISTENCY)
        values = read_parameters(declared, {}, list(request.query.items()))
        await wait_for(self._node, values[CONSISTENCY.name], request.path_qs)
        last_event_id = request.headers.get("Last-Event-ID")
        position = start_offset(last_event_id, values["from"], self._node.committed_end)
        # Raises for a bad position, before the answer begins.
        committed_records(self._node, position)
        if self._open >= self._streams_max:
            raise Problem(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"{self._streams_max} streams are open, which is the limit of a node",
            )
        response = web.StreamResponse(
            headers={
                "Content-Type": media_type,
                "Cache-Control": "no-store",
                "X-Content-Type-Options": "nosniff",
            }
        )
        self._open += 1
        try:
            await response.prepare(request)
            await self._run(response, media_type, position)
        except ConnectionError:
            pass  # the client disconnected, the usual end of a stream
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
        finally:
            self._open -= 1
        return response

    async def _run(self, response: web.StreamResponse, media_type: str, position: int) -> None:
        encode = _encode_msgpack if media_type == MSGPACK else _encode_event
        if media_type == SSE:
            await self._write(response, b": stream of committed records\n\n")
        while not self._closing.is_set():
            try:
                records = committed_records(self._node, position)
            except Problem as problem:
                await self._write(response, _end(media_type, "log_truncated", problem.body.detail))
                return
            start = position
            while chunk := list(islice(records, RECORDS_PER_WRITE)):
                await self._write(response, b"".join(map(encode, chunk)))
                position = chunk[-1].offset + 1
                await asyncio.sleep(0)  # lets the driver run: a write to a fast reader never yields
            if position == start and not await self._next_commit() and media_type == SSE:
                await self._write(response, b": keep-alive\n\n")
        await self._write(response, _end(media_type, "shutting_down", "the node stops"))

    async def _write(self, response: web.StreamResponse, content: bytes) -> None:
        async with asyncio.timeout(self._slow_reader_s):
            await response.write(content)

    async def _next_commit(self) -> bool:
        """Wait for a commit or the close of all streams; False when a keep-alive is due."""
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        wake = _resolver(woken)
        self._commits.call_next(wake)
        closing = asyncio.ensure_future(self._closing.wait())
        try:
            done, _ = await asyncio.wait(
                (woken, closing), timeout=KEEP_ALIVE_S, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            self._commits.forget(wake)
            closing.cancel()
            with suppress(asyncio.CancelledError):
                await closing
        return bool(done)


def _resolver(future: "asyncio.Future[None]") -> Callable[[], None]:
    def wake() -> None:
        if not future.done():
            future.set_result(None)

    return wake


def start_offset(last_event_id: str | None, start: int | None, end: int) -> int:
    """First offset of a stream: after the client's last event, as requested, or at the end.

    Raises:
        Problem: 400, the header is not an offset.
    """
    if last_event_id:
        if not (last_event_id.isascii() and last_event_id.isdecimal() and len(last_event_id) < 19):
            raise Problem(
                HTTPStatus.BAD_REQUEST,
                f"Last-Event-ID is {last_event_id[:80]!r}; allowed: the offset of a record",
                parameter="Last-Event-ID",
                value=last_event_id[:80],
                allowed="the offset of a record",
            )
        return int(last_event_id) + 1
    return end if start is None else start


def _encode_event(record: RecordView) -> bytes:
    return b"id: %d\nevent: record\ndata: %b\n\n" % (record.offset, _json.encode(record))


def _encode_msgpack(record: RecordView) -> bytes:
    return _msgpack.encode(record)


def _end(media_type: str, reason: str, detail: str) -> bytes:
    end: dict[str, Any] = {"reason": reason, "detail": detail}
    if media_type == MSGPACK:
        return _msgpack.encode({"end": end})
    return b"event: end\ndata: %b\n\n" % _json.encode(end)
