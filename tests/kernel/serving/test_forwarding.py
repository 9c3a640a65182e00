"""No end of a forwarded request leaks its place among those on their way.

`FORWARDS_MAX` of them may be on their way at once: were one place lost per failure, all forwarding
would stop after 10,000 failures and every later request end REQUEST_TIMED_OUT. So each way in which
a request ends is gone through more often than there are places, and then one more is answered.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from kernel.lifecycle.controller_link import ControllerLink
from kernel.serving import forwarding
from kernel.serving.dispatch import APIS
from kernel.serving.forwarding import Forwarding
from network import effects as out
from network import peers
from network.answers import Encoded
from network.clock import Clock, Now
from network.peers import GIVE_UP_MS, Peers
from network.timers import FORWARDING
from quorum_controller.result import RequestContext
from tests.kernel.harness import World, create_topic_body
from wire.api_keys import ENVELOPE
from wire.api_table import Api, ListenerKind, api_versions_body
from wire.connections.client_connection import ClientConnection
from wire.connections.connection import Request, ServerConnection
from wire.errors import ErrorCode
from wire.messages import codec
from wire.types import LeaderAndEpoch, LeaderEpoch, NodeId

CREATE_TOPICS = 19
PLACES = 2
ROUNDS = 3 * PLACES
SELF, OTHER, WITHOUT_ADDRESS = NodeId(1), NodeId(2), NodeId(3)
DEADLINE_MS = 10_000
"""Of a request: what `create_topic_body` says."""
CONTROLLER_APIS = APIS[ListenerKind.CONTROLLER]
NONSENSE = b"\xff\xff\xff\xff"


class Local:
    """The controller of this node: holds what is submitted until it is told to answer."""

    def __init__(self) -> None:
        self.is_active = False
        self.held: list[Callable[[Any], None]] = []

    def submit(
        self, api_key: int, body: Any, answered: Callable[[Any], None], context: RequestContext
    ) -> None:
        assert api_key == CREATE_TOPICS
        assert body.topics
        assert context.is_forwarded
        self.held.append(answered)


class Rig:
    """A broker's forwarding with its links, and the other node played with a real connection."""

    def __init__(self) -> None:
        self.clock = Clock(Now(1_000, 1_000))
        self.effects: list[Any] = []
        self.leader_id: NodeId | None = OTHER
        self.local = Local()
        self.apis: dict[int, Api] = dict(CONTROLLER_APIS)
        self.peers = Peers(
            {SELF: ("1", 9093), OTHER: ("2", 9093)},
            SELF,
            self.clock,
            self.effects,
            lambda: LeaderAndEpoch(self.leader_id, LeaderEpoch(1)),
            lambda _: None,
        )
        link = ControllerLink(SELF, self.local, self.peers, lambda: self.leader_id)
        self.forwarding = Forwarding(link, self.clock)
        self.request = request()
        self.answers: list[Any] = []
        self.asked_count = 0
        self.peer_id = 0
        self.server: ServerConnection | None = None
        self.received: list[Request] = []

    @property
    def in_flight_count(self) -> int:
        return self.forwarding._in_flight_count

    def ask(self) -> None:
        self.asked_count += 1
        self.forwarding.forward(self.request, b"\x7f\x00\x00\x01", self.answers.append)

    def pass_time(self, duration_ms: int) -> None:
        now_ms = self.clock.now_ms + duration_ms
        self.clock.set(Now(now_ms, now_ms))

    def connect(self) -> None:
        """The connection that was asked for stands."""
        (self.peer_id,) = [e.peer_id for e in self.effects if isinstance(e, out.ConnectPeer)]
        self.effects.clear()
        self.server = ServerConnection(self.apis, 1 << 20)
        self.peers.on_connected(self.peer_id)
        self.deliver()

    def deliver(self) -> None:
        """Deliver all sent bytes; ApiVersions is answered."""
        assert self.server is not None
        while sent := [e.data for e in self.effects if isinstance(e, out.SendPeerBytes)]:
            self.effects.clear()
            for content in sent:
                for found in self.server.receive(content):
                    if found.api_key == ENVELOPE:
                        self.received.append(found)
                        continue
                    self.peers.on_bytes(
                        self.peer_id,
                        self.server.respond(found.reply_slot, api_versions_body(self.apis)),
                    )

    def reach(self) -> None:
        """A request is on the other node."""
        self.ask()
        if any(isinstance(e, out.ConnectPeer) for e in self.effects):
            self.connect()
        self.deliver()
        assert self.in_flight_count == 1

    def respond(self, error: ErrorCode, content: bytes | None = None) -> None:
        assert self.server is not None
        body = codec.newest(ENVELOPE, "response").EnvelopeResponse(
            response_data=content, error_code=error
        )
        envelope = self.received.pop()
        self.peers.on_bytes(self.peer_id, self.server.respond(envelope.reply_slot, body))

    def lose(self, *, refused: bool = False) -> None:
        self.peers.on_disconnected(self.peer_id, refused=refused)
        self.received.clear()

    def give_up(self) -> None:
        """Until everything that waits is late; nobody takes a connection meanwhile."""
        self.leader_id = None
        self.pass_time(DEADLINE_MS)
        self.forwarding.tick()
        self.effects.clear()
        self.leader_id = OTHER


def request() -> Request:
    """A CreateTopics as it arrives from a client."""
    client, server = ClientConnection("c"), ServerConnection(APIS[ListenerKind.BROKER], 1 << 20)
    (opening,) = server.receive(client.opening_bytes())
    client.receive(server.respond(opening.reply_slot, api_versions_body(APIS[ListenerKind.BROKER])))
    _, content = client.request(CREATE_TOPICS, create_topic_body("t"))
    (found,) = server.receive(content)
    return found


# ---- ways to end ---------------------------------------------------------------------------------


def answered(rig: Rig) -> None:
    rig.reach()
    rig.respond(ErrorCode.none, b"answer")
    assert rig.answers[-1] == Encoded(b"answer")


def refused_there(rig: Rig) -> None:
    rig.reach()
    rig.respond(ErrorCode.cluster_authorization_failed)
    assert rig.answers[-1].topics[0].error_code is ErrorCode.cluster_authorization_failed


def answered_without_content(rig: Rig) -> None:
    rig.reach()
    rig.respond(ErrorCode.none)


def no_longer_the_controller(rig: Rig) -> None:
    rig.reach()
    rig.respond(ErrorCode.not_controller)


def disconnected(rig: Rig) -> None:
    rig.reach()
    rig.lose()


def nonsense(rig: Rig) -> None:
    rig.reach()
    rig.peers.on_bytes(rig.peer_id, NONSENSE)
    rig.received.clear()


def timed_out(rig: Rig) -> None:
    rig.reach()
    rig.pass_time(forwarding.REQUEST_TIMEOUT_MS)
    rig.peers.tick()
    rig.received.clear()


def given_up_after_a_change_of_the_leader(rig: Rig) -> None:
    rig.reach()
    rig.peers.on_leader_changed(SELF)
    rig.pass_time(GIVE_UP_MS)
    rig.peers.tick()
    rig.received.clear()


def connection_refused(rig: Rig) -> None:
    rig.ask()
    (rig.peer_id,) = [e.peer_id for e in rig.effects if isinstance(e, out.ConnectPeer)]
    assert rig.in_flight_count == 1
    rig.lose(refused=True)
    assert rig.in_flight_count == 0
    rig.ask()  # within the pause before the next connection
    assert rig.in_flight_count == 0


def connection_lost_before_versions_are_agreed(rig: Rig) -> None:
    rig.ask()
    (rig.peer_id,) = [e.peer_id for e in rig.effects if isinstance(e, out.ConnectPeer)]
    rig.peers.on_connected(rig.peer_id)
    assert rig.in_flight_count == 1
    rig.lose()


def never_connected(rig: Rig) -> None:
    rig.ask()
    assert rig.in_flight_count == 1
    rig.pass_time(forwarding.REQUEST_TIMEOUT_MS)
    rig.peers.tick()


def envelope_unknown_there(rig: Rig) -> None:
    rig.apis.pop(ENVELOPE, None)
    rig.ask()
    rig.connect()
    rig.lose()
    rig.apis = dict(CONTROLLER_APIS)


def leader_unknown(rig: Rig) -> None:
    rig.leader_id = None
    rig.ask()


def leader_not_active_yet(rig: Rig) -> None:
    rig.leader_id = SELF
    rig.ask()


def leader_without_address(rig: Rig) -> None:
    rig.leader_id = WITHOUT_ADDRESS
    rig.ask()


def in_a_full_queue(rig: Rig) -> None:
    queued_max, peers.QUEUED_REQUESTS_MAX = peers.QUEUED_REQUESTS_MAX, 0  # type: ignore[misc]
    rig.ask()
    peers.QUEUED_REQUESTS_MAX = queued_max  # type: ignore[misc]


def here(rig: Rig, body: Any) -> None:
    rig.local.is_active = True
    rig.ask()
    assert rig.in_flight_count == 1
    rig.local.is_active = False
    rig.local.held.pop()(body)


def answered_here(rig: Rig) -> None:
    here(rig, "answer")
    assert rig.answers[-1] == "answer"


def resigned_here(rig: Rig) -> None:
    here(rig, forwarding.refusal(rig.request, ErrorCode.not_controller))


def one_too_many(rig: Rig) -> None:
    """Only those that have a place lose one."""
    for _ in range(PLACES + 2):
        rig.ask()
    assert rig.in_flight_count == PLACES
    assert len(rig.answers) == rig.asked_count - PLACES
    rig.connect()
    while rig.received:
        rig.respond(ErrorCode.none, b"answer")


ENDS = (
    answered,
    refused_there,
    answered_without_content,
    no_longer_the_controller,
    disconnected,
    nonsense,
    timed_out,
    given_up_after_a_change_of_the_leader,
    connection_refused,
    connection_lost_before_versions_are_agreed,
    never_connected,
    envelope_unknown_there,
    leader_unknown,
    leader_not_active_yet,
    leader_without_address,
    in_a_full_queue,
    answered_here,
    resigned_here,
    one_too_many,
)


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
def test_every_end_gives_its_place_back(
    end: Callable[[Rig], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarding, "FORWARDS_MAX", PLACES)
    rig = Rig()
    for _ in range(ROUNDS):
        end(rig)
        assert rig.in_flight_count == 0
        rig.give_up()
        assert len(rig.answers) == rig.asked_count, "each is answered once"
        if rig.server is not None:
            rig.lose()
            rig.server = None
        rig.effects.clear()
        rig.pass_time(peers.RECONNECT_MS_MAX)
    answered(rig)


def test_those_that_wait_for_a_leader_have_places_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "FORWARDS_MAX", PLACES)
    rig = Rig()
    for _ in range(PLACES):
        leader_unknown(rig)
    assert rig.answers == []
    leader_unknown(rig)
    assert len(rig.answers) == 1
    assert rig.answers[0].topics[0].error_code is ErrorCode.request_timed_out


def is_led_by_another(world: World, node_id: int) -> bool:
    return any(world.kernel(i).state.is_active for i in world.alive if i != node_id)


def test_in_a_quorum_whose_leaders_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that leave, leaders that stop, die and resign: after all of it places are free."""
    monkeypatch.setattr(forwarding, "FORWARDS_MAX", PLACES)
    world = World(3)
    world.start_all()
    world.run_until(world.is_ready)
    for number in range(ROUNDS):
        leader = world.active()
        assert leader is not None
        clients = [world.client(node_id, "PLAINTEXT") for node_id in world.alive]
        for place, client in enumerate(clients):
            client.send(CREATE_TOPICS, create_topic_body(f"t{number}-{place}", 1, 1))
        world.run_for(2)
        for client in clients[: number % 3]:
            world._close(client.pipe, from_peer=False)
        if number % 2:
            world.pause(leader)
            world.run_until(partial(is_led_by_another, world, leader))
            world.resume(leader)
        else:
            world.kill(leader)
            world.run_until(lambda: world.active() is not None)
            world.start(leader)
        world.run_until(world.is_ready)
        world.run_for(DEADLINE_MS + 1_000)
        counts = {i: world.kernel(i).forwarding._in_flight_count for i in world.alive}
        assert counts == dict.fromkeys(world.alive, 0)
    for node_id in world.alive:
        assert world.client(node_id).create_topic(f"last-{node_id}").error_code == 0


def waiting() -> Rig:
    """A request that found no leader; by now this node leads."""
    rig = Rig()
    rig.leader_id = None
    rig.ask()
    assert rig.clock.timers.at_ms[FORWARDING] == rig.clock.now_ms + forwarding.RETRY_MS
    rig.leader_id, rig.local.is_active = SELF, True
    return rig


def test_a_waiting_request_is_tried_again_when_it_is_due() -> None:
    rig = waiting()
    rig.clock.now_ms += forwarding.RETRY_MS - 1
    rig.forwarding.tick()
    assert not rig.local.held
    rig.clock.now_ms += 1
    rig.forwarding.tick()
    assert len(rig.local.held) == 1


def test_a_waiting_request_is_tried_at_once_with_a_new_leader() -> None:
    rig = waiting()
    rig.forwarding.on_leader_changed()
    assert len(rig.local.held) == 1
