"""One request about records, for a handler to answer now or later, once.

A handler reads the request from its frame: with `body()` as kio's newest class, `body_as_sent()` as
that of its version, or with a decoder of its own from `frame` and `position`. It answers with a
body of the newest shape or of that version, with parts in it, or, where a request has no response,
with nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Final

from broker.clients.throttling import Throttle
from broker.effects import Part
from quorum_controller.security.authorization import Caller
from wire.api_table import Api
from wire.connections.headers import RequestHeader, parse_request_header
from wire.errors import ErrorCode, LocalProtocolError, RemoteProtocolError
from wire.messages import codec
from wire.messages.codec import Body, Entity
from wire.messages.error_codes import error_codes
from wire.messages.response_steps import write_response
from wire.primitives import skip_tagged_fields
from wire.steps import Steps, finished

PIECE_UNITS: Final = 200
"""Cost from which on a piece of a handler ends: a request below it is one piece."""
_CODES_PIECE: Final = 512
"""Errors of an answer that are counted in one piece."""
_CODES_PER_UNIT: Final = 4


def served_header(frame: bytearray, apis: Mapping[int, Api]) -> tuple[RequestHeader, int] | None:
    """Header of a request about records and the position of its body, None for any other."""
    try:
        header, position = parse_request_header(frame)
        api = apis.get(header.api_key)
        if api is None or not api.min_version <= header.api_version <= api.max_version:
            return None
        if codec.is_flexible(header.api_key, header.api_version):
            position = skip_tagged_fields(frame, position)
    except (RemoteProtocolError, LookupError):  # LookupError: offered, but has no schema
        return None
    return header, position


Respond = Callable[[Sequence[Part] | None, str | None], None]
"""Takes the parts of a response, or a reason to close the connection, or neither."""


def forget() -> None:
    """Let a call go whose client has gone: what it asked for is done all the same."""


def _held_by_nobody() -> Callable[[Callable[[], None] | None], None]:
    return lambda _withdraw: None


class Call:
    """A request with its client.

    Args:
        header: of the request, in a version that is served.
        frame: header and body; a handler may write to it.
        position: of the body in it.
        caller: the client's principal and host.
        listener: at which it is connected.
        respond: called once, with the parts of the response frame without its length; None for no
            response, and then the reason to close the connection, if it is to be closed.
        throttle: the quotas that the answer counts for; None if there are none.
        errors: counts by API key and code, to which those of the answer are added.
    """

    __slots__ = (
        "_errors",
        "_respond",
        "caller",
        "frame",
        "header",
        "hold",
        "kind",
        "listener",
        "partition_count",
        "position",
        "run",
        "throttle",
        "units",
        "withdraw",
    )

    def __init__(
        self,
        header: RequestHeader,
        *,
        frame: bytearray,
        position: int,
        caller: Caller,
        listener: str,
        respond: Respond,
        throttle: Throttle | None = None,
        errors: dict[tuple[int, int], int] | None = None,
    ) -> None:
        self.header = header
        self.kind = header.api_key
        """Of its metrics."""
        self.frame = frame
        self.position = position
        self.caller = caller
        self.listener = listener
        self._respond = respond
        self.run: Callable[[Steps[None]], None] = finished
        """Does pieces, which a front does over turns."""
        self.hold: Callable[[], Callable[[Callable[[], None] | None], None]] = _held_by_nobody
        """Holds up later requests of the connection, until the function that it returns is called
        with what `park` takes."""
        self.throttle = throttle
        self._errors = {} if errors is None else errors
        self.partition_count = 0
        """Partitions that its handler looked at, by which it costs."""
        self.units = 0
        """Cost of what its handler did beside, and has not yielded."""
        self.withdraw: Callable[[], None] | None = None
        """Ends the wait for the answer when the client has gone; None if nobody can."""

    def park(self, withdraw: Callable[[], None] | None) -> None:
        """Let the frame go while the answer waits for others; ignored without `withdraw`.

        Args:
            withdraw: ends the wait of a call; None if it is answered.
        """
        if withdraw is not None:
            self.frame, self.withdraw = bytearray(), withdraw

    def answer_by(self, way: Callable[[Respond, Sequence[Part] | None, str | None], None]) -> None:
        """Have the answer go through a function, with the way that it would have gone."""
        self._respond = partial(way, self._respond)

    def take_withdraw(self) -> Callable[[], None] | None:
        """Return what ends the wait for the answer, for the caller to keep instead of this call.

        It leads to the request that waits, and that to this call: a cycle, which only a search for
        garbage would free.
        """
        withdraw, self.withdraw = self.withdraw, None
        return withdraw

    def go_on(self, steps: Steps[None]) -> None:
        """Do the rest in pieces over turns, before later requests of the connection.

        The pieces are done to the last, also if the client goes. They may raise
        RemoteProtocolError, as the handler.
        """
        self.run(steps)

    def spend(self, units: int) -> None:
        """Note what a piece of the handler cost."""
        self.units += units

    def take_units(self) -> int:
        """Cost of the piece that ends here."""
        units, self.units = self.units, 0
        return units

    def answer_from(self, steps: Steps[Entity]) -> None:
        """Answer with the body that some pieces make: at once, or over turns behind the first.

        Each notes its cost, and yields it (`take_units`) from `PIECE_UNITS` on; the last does not.
        """
        try:
            piece = next(steps)
        except StopIteration as end:
            self.answer(end.value)
            return
        assert isinstance(piece, int), "others would not wait for it"
        self.units += piece
        self.go_on(self._from_rest(steps))

    def _from_rest(self, steps: Steps[Entity]) -> Steps[None]:
        body = yield from steps
        yield from self.answer_in_steps(body)

    def body(self) -> Body:
        """The request as kio's newest class.

        Raises:
            RemoteProtocolError: the bytes are no such request.
        """
        return codec.read_request(
            self.header.api_key, self.header.api_version, bytes(self.frame), self.position
        )

    def body_as_sent(self) -> Body:
        """The request in the class of its own version, where the newest lacks some of its fields.

        Raises:
            RemoteProtocolError: the bytes are no such request.
        """
        header = self.header
        body = bytes(memoryview(self.frame)[self.position :])
        return codec.decode_body_as_sent(header.api_key, header.api_version, body)

    def count(self, code: ErrorCode, rows: int = 1) -> None:
        """Count an error of so many rows of an answer in parts, `none` too."""
        errors, key = self._errors, (self.header.api_key, int(code))
        errors[key] = errors.get(key, 0) + rows

    def answer(self, body: Entity) -> None:
        """Answer with a body of the newest shape, or of the version of the request.

        One that cannot be said in the version of the request closes the connection instead.
        """
        header = self.header
        body = self._throttled(body)
        for code in error_codes(body):
            self.count(code)
        try:
            encoded = codec.encode_response(
                header.api_key, header.api_version, header.correlation_id, body
            )
        except LocalProtocolError as error:
            self._respond(None, f"the answer cannot be said in this version: {error}")
        else:
            self._respond((encoded,), None)

    def answer_in_steps(self, body: Entity) -> Steps[None]:
        """As `answer`, in pieces, for a body of many rows."""
        header = self.header
        for count, code in enumerate(error_codes(body), 1):
            self.count(code)
            if count % _CODES_PIECE == 0:
                yield _CODES_PIECE // _CODES_PER_UNIT
        writing = write_response(
            header.api_key, header.api_version, header.correlation_id, self._throttled(body)
        )
        try:
            encoded = yield from writing
        except LocalProtocolError as error:
            self._respond(None, f"the answer cannot be said in this version: {error}")
        else:
            self._respond((encoded,), None)

    def _throttled(self, body: Entity) -> Entity:
        """The body with the throttle time of the client, which counts from now on."""
        throttle_ms = 0 if self.throttle is None else self.throttle.answered()
        if not throttle_ms or not hasattr(body, "throttle_time"):  # the first versions have none
            return body
        return replace(body, throttle_time=timedelta(milliseconds=throttle_ms))

    def answer_parts(self, parts: Sequence[Part]) -> None:
        """Answer with an encoded body, without a header, in the version of the request.

        Its quotas are the caller's business, as with `answer_nothing`.
        """
        header = self.header
        start = header.correlation_id.to_bytes(4, "big", signed=True)
        if codec.has_flexible_response_header(header.api_key, header.api_version):
            start += b"\0"
        self._respond((start, *parts), None)

    def answer_nothing(self, close_reason: str | None = None) -> None:
        """End a request that has no response; with a reason the connection is closed."""
        self._respond(None, close_reason)


Handler = Callable[[Call], None]
"""Answers the calls of an API."""
