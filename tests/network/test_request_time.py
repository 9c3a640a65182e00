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

    def __init__(self, controllers: tuple[str, ...] = (), *, is_serving: bool = True) -> None:
        self.now_ns = 5
        self.kept: list[Any] = []
        self.handling_ns: list[int | None] = []
        self.effects: list[Any] = []
        limits, clock = ConnectionLimits(), Clock(Now(0, 0))
        self.connections = Connections(APIS, controllers, limits, clock, self.effects, self._serve)
        if is_serving:
            self.connections.serve_clients()
        self.connections.opened(1, *(controllers or ("PLAINTEXT",)), "127.0.0.1")

    def _serve(self, client: object, request: object, answered: Any) -> None:
        handling_ns = self.handling_ns.pop(0)
        if handling_ns is None or handling_ns < 0:
            self.now_ns -= handling_ns or 0
            self.kept.append(answered)
        else:
            self.now_ns += handling_ns
            answered(BODY)

    def receive(self, *handling_ns: int | None) -> list[int]:
        """Times of the answers to requests that take these; below 0 they are answered later."""
        self.handling_ns = list(handling_ns)
        self.connections.received(1, REQUEST * len(handling_ns))
        return self.sent()

    def sent(self) -> list[int]:
        found = [effect.spent_ns for effect in self.effects if isinstance(effect, SendBytes)]
        self.effects.clear()
        return found


def timed(controllers: tuple[str, ...] = (), *, is_serving: bool = True) -> Served:
    served = Served(controllers, is_serving=is_serving)
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


def test_what_is_answered_later_leaves_with_the_time_of_its_handler_alone() -> None:
    served = timed()
    assert served.receive(-40, -5, 20) == []
    served.now_ns += 1_000
    for kept in reversed(served.kept):
        kept(BODY)
    assert served.sent() == [65]
    assert served.receive(7) == [7]


def test_a_later_request_does_not_pay_for_the_wait_of_one_that_it_answers() -> None:
    served = timed()
    served.receive(-40)
    served.now_ns += 1_000
    kept = served.kept.pop()
    served.connections.opened(2, "PLAINTEXT", "127.0.0.1")
    client = served.connections
    serve = client._serve  # the answer comes while the handler of the next request runs

    def serving(of: Any, request: Any, answered: Any) -> None:
        client._serve = serve
        kept(BODY)
        serve(of, request, answered)

    client._serve = serving
    assert served.receive(5) == [40, 5]


def test_a_step_ends_behind_the_answer_that_exceeds_its_bytes(monkeypatch: Any) -> None:
    served = timed()
    served.receive(0)
    answer = frame(codec.encode_response(API_VERSIONS, 4, 1, BODY))
    monkeypatch.setattr(connections, "RESPONSE_BYTES_PER_STEP", len(answer))
    assert len(served.receive(0, 0, 0)) == 2


def test_requests_at_a_controller_have_times_and_others_do_not() -> None:
    served = timed()
    served.receive(10, 300)
    found = served.connections.served
    assert (found.requests, found.rows) == ({}, {})
    assert found.errors == {(API_VERSIONS, 0): 2}


def test_times_of_requests_at_a_controller() -> None:
    served = timed(("CONTROLLER",))
    served.receive(10, 300)
    served.now_ns = 1_000
    served.receive(None)
    served.now_ns += 70
    served.kept.pop()(BODY)
    found, size = served.connections.served, len(REQUEST) - 4
    assert found.requests == {(API_VERSIONS, 4): 3}
    assert found.count(API_VERSIONS) == 3
    assert found.count(API_VERSIONS + 1) == 0
    assert [*found.rows[API_VERSIONS]] == [
        (5, 5, 15, 15, size),
        (5, 15, 315, 315, size),
        (1_000, 1_000, 1_000, 1_070, size),
    ]


def test_a_request_that_waits_for_its_turn_is_received_before(monkeypatch: Any) -> None:
    monkeypatch.setattr(connections, "REQUESTS_PER_STEP", 1)
    served = timed(("CONTROLLER",))
    served.receive(10, 20)
    served.now_ns = 100
    served.connections.tick()
    assert [row[:2] for row in served.connections.served.rows[API_VERSIONS]] == [(5, 5), (5, 100)]


def test_what_was_held_is_received_when_it_is_served() -> None:
    served = timed(("CONTROLLER",), is_serving=False)
    served.handling_ns = [10]
    served.connections.opened(2, "PLAINTEXT", "127.0.0.1")
    served.connections.received(2, REQUEST)
    client = served.connections._clients[2]
    assert client.received_ns == 0
    served.now_ns = 70
    served.connections.serve_clients()
    assert client.received_ns == 70


def test_without_a_clock_no_time_is_measured() -> None:
    assert Served().receive(10) == [0]
