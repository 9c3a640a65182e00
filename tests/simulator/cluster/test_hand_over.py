"""Bodies that stay in memory: the same run as over bytes, and the same bodies as from bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import simulator.cluster.world
from simulator.campaign.draw import WIRE_ONE_IN, Options
from simulator.campaign.run import run_seed, settings_of
from simulator.cluster.hand_over import HandedServerConnection, HandOver
from tests.selection import thinned
from wire.api_keys import API_VERSIONS, DESCRIBE_QUORUM, FETCH
from wire.api_table import ListenerKind, api_versions_body, apis
from wire.connections.client_connection import ClientConnection
from wire.messages.codec import (
    default_request,
    encode_request,
    encode_response,
    read_request,
    read_response,
    split_request,
)
from wire.messages.fetch_messages import FetchRequest, FetchResponse

FAST = Options(node_count=3, duration_us=4_000_000, write_count=15)
IDLE = FetchRequest(fetch_offset=1, max_wait_ms=500, max_bytes=1000)


def hands_over(seed):
    return settings_of(seed, FAST)[0].hands_over


def test_one_of_ten_seeds_has_every_message_on_the_wire():
    count = sum(not settings_of(seed, Options())[0].hands_over for seed in range(1_200))
    assert 90 <= count <= 150
    assert WIRE_ONE_IN == 10
    assert not settings_of(1, Options(draws=5))[0].hands_over


@pytest.mark.parametrize("seed", thinned([s for s in range(800, 830) if hands_over(s)], 30))
def test_the_run_is_the_same_as_over_bytes(seed):
    now, before = (run_seed(seed, replace(FAST, draws=draws)) for draws in (6, 5))
    assert now.invariant is None
    assert now.digest != before.digest, "the bytes are others"
    same = {"digest": 0, "settings": before.settings}
    assert replace(now, **same) == replace(before, **same)


@pytest.mark.parametrize("seed", thinned([s for s in range(830, 860) if not hands_over(s)], 30))
def test_a_seed_on_the_wire_has_the_digest_that_it_had(seed):
    digests = {run_seed(seed, replace(FAST, draws=draws)).digest for draws in (6, 5)}
    assert len(digests) == 1


class Proving(HandOver):
    """Encodes and decodes what is handed over: no reader of its bytes would have another body."""

    def __init__(self):
        super().__init__()
        self.proven = []
        made.append(self)

    def put_request(self, api_key, version, correlation_id, client_id, body):
        content = encode_request(api_key, version, correlation_id, client_id, body)
        header, position = split_request(content)
        decoded = read_request(api_key, version, content, position)
        assert (header.client_id, type(decoded), decoded) == (client_id, type(body), body)
        self.proven.append(api_key)
        return super().put_request(api_key, version, correlation_id, client_id, body)

    def server_connection(self, apis, bytes_max):
        return ProvingServerConnection(self, apis, bytes_max)


class ProvingServerConnection(HandedServerConnection):
    def respond(self, reply_slot, body):
        api_key, version, correlation_id = self._awaited[reply_slot]
        handed = len(self._hand_over._known)
        written = super().respond(reply_slot, body)
        if len(self._hand_over._known) > handed:
            content = encode_response(api_key, version, correlation_id, body)
            assert read_response(api_key, version, content) == (correlation_id, body)
            self._hand_over.proven.append(-api_key)
        return written


made = []


@pytest.mark.parametrize("seed", thinned([s for s in range(860, 890) if hands_over(s)], 30))
def test_what_is_handed_over_is_what_its_bytes_mean(seed, monkeypatch):
    made.clear()
    monkeypatch.setattr(simulator.cluster.world, "HandOver", Proving)
    outcome = run_seed(seed, FAST)
    assert (outcome.invariant, outcome.text) == (None, "")
    (hand_over,) = made
    assert {FETCH, -FETCH} <= set(hand_over.proven)


# ---- connections ---------------------------------------------------------------------------------

TABLE = apis(ListenerKind.CONTROLLER, [API_VERSIONS, FETCH, DESCRIBE_QUORUM])


def connected():
    hand_over = HandOver()
    server = hand_over.server_connection(TABLE, 10_000)
    client = hand_over.client_connection("raft-client-1")
    (request,) = server.receive(client.opening_bytes())
    answer = server.respond(request.reply_slot, api_versions_body(TABLE))
    assert len(answer) > 30, "ApiVersions is always encoded"
    assert client.receive(answer) == []
    return server, client


def test_a_body_is_the_object_that_was_sent():
    server, client = connected()
    _, sent = client.request(FETCH, IDLE)
    (request,) = server.receive(sent)
    assert request.body is IDLE
    assert (request.api_key, request.client_id) == (FETCH, "raft-client-1")
    answer = FetchResponse(high_watermark=7)
    (response,) = client.receive(server.respond(request.reply_slot, answer))
    assert response.body is answer


@given(order=st.permutations(range(6)), size=st.integers(1, 70))
def test_any_portions_in_any_order_give_the_same(order, size):
    server, client = connected()
    sent = [client.request(FETCH, replace(IDLE, fetch_offset=n)) for n in range(5)]
    usual = default_request(FETCH)  # about no partition: encoded
    sent.append(client.request(FETCH, usual))
    stream = b"".join(content for _, content in sent)
    requests = []
    for start in range(0, len(stream), size):
        requests += server.receive(stream[start : start + size])
    assert [getattr(request.body, "fetch_offset", None) for request in requests] == [
        *range(5),
        None,
    ]
    assert requests[5].body == usual
    answered = []
    for index in order:
        answer = FetchResponse(high_watermark=index)
        answered += client.receive(server.respond(requests[index].reply_slot, answer))
    assert [response.body.high_watermark for response in answered] == list(range(6))
    assert [response.correlation_id for response in answered] == [number for number, _ in sent]


def test_chunks_that_wait_are_taken_in_order():
    server, client = connected()
    for number in range(3):
        server.feed(client.request(FETCH, replace(IDLE, fetch_offset=number))[1])
    assert [server.next_request().body.fetch_offset for _ in range(3)] == [0, 1, 2]
    assert server.next_request() is None


def test_who_speaks_in_bytes_is_answered_in_bytes():
    server = HandOver().server_connection(TABLE, 10_000)
    client = ClientConnection("a client")
    (request,) = server.receive(client.opening_bytes())
    client.receive(server.respond(request.reply_slot, api_versions_body(TABLE)))
    (request,) = server.receive(client.request(FETCH, IDLE)[1])
    assert request.body == IDLE
    answer = FetchResponse(high_watermark=7)
    (response,) = client.receive(server.respond(request.reply_slot, answer))
    assert response.body == answer


def test_after_nonsense_nothing_is_taken():
    server, client = connected()
    (request,) = server.receive(client.request(FETCH, IDLE)[1])
    server.feed(b"\xff" * 8)
    assert server.next_request() is None
    assert server.receive(client.request(FETCH, IDLE)[1]) == []
    assert server.failure is not None
    assert server.respond(request.reply_slot, FetchResponse())
