"""The time of the handlers of requests leaves with their answers; a step answers so many bytes."""

from typing import Any

from kernel.serving.dispatch import APIS
from network import connections
from network.clock import Clock, Now
from network.connection_limits import ConnectionLimits
from network.connections import Connections
from network.effects import SendBytes
from wire.api_keys import API_VERSIONS
from wire.api_table import ListenerKind, api_versions_body
from wire.connections.framing import frame
from wire.messages import codec

REQUEST = frame(codec.encode_request(API_VERSIONS, 4, 1, "a", codec.default_request(API_VERSIONS)))
BODY = api_versions_body(APIS[ListenerKind.BROKER])


class Served:
    """Connections whose requests are answered at once after a time, or kept."""

    def __init__(self) -> None:
        self.now_ns = 5
        self.kept: list[Any] = []
        self.handling_ns: list[int | None] = []
        self.effects: list[Any] = []
        limits, clock = ConnectionLimits(), Clock(Now(0, 0))
        self.connections = Connections(APIS, (), limits, clock, self.effects, self._serve)
        self.connections.serve_clients()
        self.connections.opened(1, "PLAINTEXT", "127.0.0.1")

    def _serve(self, client: object, request: object, answered: Any) -> None:
        handling_ns = self.handling_ns.pop(0)
        if handling_ns is None:
            self.kept.append(answered)
        else:
            self.now_ns += handling_ns
            answered(BODY)

    def receive(self, *handling_ns: int | None) -> list[int]:
        """Times of the answers to requests that take these."""
        self.handling_ns = list(handling_ns)
        self.connections.received(1, REQUEST * len(handling_ns))
        return self.sent()

    def sent(self) -> list[int]:
        found = [effect.spent_ns for effect in self.effects if isinstance(effect, SendBytes)]
        self.effects.clear()
        return found


def timed() -> Served:
    served = Served()
    served.connections.nanoseconds = lambda: served.now_ns
    return served


def test_each_answer_has_the_time_of_its_handler() -> None:
    served = timed()
    assert served.receive(10, 300) == [10, 300]
    assert served.receive(7) == [7]


def test_answers_that_wait_for_an_earlier_one_leave_with_their_time() -> None:
    served = timed()
    assert served.receive(None, 20, 30) == []
    served.now_ns += 1_000
    served.kept[0](BODY)
    assert served.sent() == [50], "not the time for which the first waited"


def test_a_step_ends_behind_the_answer_that_exceeds_its_bytes(monkeypatch: Any) -> None:
    served = timed()
    served.receive(0)
    answer = frame(codec.encode_response(API_VERSIONS, 4, 1, BODY))
    monkeypatch.setattr(connections, "RESPONSE_BYTES_PER_STEP", len(answer))
    assert len(served.receive(0, 0, 0)) == 2


def test_without_a_clock_no_time_is_measured() -> None:
    assert Served().receive(10) == [0]
