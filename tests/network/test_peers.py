"""Links to other nodes: when they connect again."""

from dataclasses import replace

import pytest

from network.clock import Clock, Now
from network.effects import ClosePeer, ConnectPeer, SendPeerBytes
from network.peers import FETCHERS, GIVE_UP_MS, PROBES_MAX, Channel, Failure, Peers
from network.timers import LINKS, NEVER_MS
from wire.api_table import ListenerKind, api_versions_body, apis
from wire.connections.connection import ServerConnection
from wire.connections.framing import frame
from wire.connections.headers import parse_request_header
from wire.errors import ErrorCode
from wire.messages.codec import default_request, encode_response, newest
from wire.messages.conversion import default_entity
from wire.types import LeaderAndEpoch, LeaderEpoch

FETCH, API_VERSIONS, VOTE = 1, 18, 52
NOBODY = LeaderAndEpoch(None, LeaderEpoch(0))


class Links:
    """The peers of node 1 with one other node, and what became of its requests."""

    def __init__(self, followed=NOBODY):
        self.clock = Clock(Now(1_000, 1_000))
        self.effects = []
        self.answers = []
        self.peers = Peers(
            {1: ("a", 1), 2: ("b", 2)}, 1, self.clock, self.effects, lambda: followed, print
        )

    def send(self, channel=Channel.RAFT, timeout_ms=5_000, api_key=FETCH):
        """Send a request; whether that made a connection."""
        before = len(self.effects)
        body = default_request(api_key)
        self.peers.send(2, channel, api_key, body, timeout_ms, self.answers.append)
        return [type(effect) for effect in self.effects[before:]] == [ConnectPeer]

    def answer(self, server):
        """Answer what was sent last."""
        sent = [e.data for e in self.effects if isinstance(e, SendPeerBytes)][-1]
        for request in server.receive(sent):
            if request.api_key == FETCH:
                body = default_entity(newest(FETCH, "response").FetchResponse)
            else:
                body = api_versions_body(apis(ListenerKind.CONTROLLER, [FETCH]))
            self.peers.on_bytes(self.peer_id, server.respond(request.reply_slot, body))

    @property
    def peer_id(self):
        return [e.peer_id for e in self.effects if isinstance(e, ConnectPeer)][-1]


def open_link(links):
    """Connect, and have the queued requests sent."""
    links.peers.on_connected(links.peer_id)
    links.answer(ServerConnection(apis(ListenerKind.CONTROLLER, [FETCH]), 1 << 20))


def test_after_an_established_connection_the_next_one_is_made_at_once():
    links = Links()
    assert links.send()
    links.peers.on_connected(links.peer_id)
    links.peers.on_disconnected(links.peer_id, refused=False)
    assert links.answers == [Failure.DISCONNECTED]
    assert links.send()


def test_a_connection_that_closes_without_an_answer_again_has_a_pause():
    links = Links()
    for _ in range(2):
        assert links.send()
        links.peers.on_connected(links.peer_id)
        links.peers.on_disconnected(links.peer_id, refused=False)
    assert not links.send()


@pytest.mark.parametrize("answers", [0, 1])
def test_what_the_other_side_answers_forgives_the_failures(answers):
    """Its versions when something waits for them, or the answer to a request."""
    links = Links()
    assert links.send()
    links.peers.on_disconnected(links.peer_id, refused=True)
    links.clock.now_ms += 50
    assert links.send()
    server = ServerConnection(apis(ListenerKind.CONTROLLER, [FETCH]), 1 << 20)
    links.peers.on_connected(links.peer_id)
    for _ in range(1 + answers):
        links.answer(server)
    links.peers.on_disconnected(links.peer_id, refused=False)
    assert links.send()


@pytest.mark.parametrize("channel", [each for each in Channel if each is not Channel.RAFT])
@pytest.mark.parametrize("is_open", [False, True])
def test_the_oldest_of_requests_with_one_time_out_is_the_first(channel, is_open):
    links = Links()
    links.send(channel)
    links.clock.now_ms += 10
    links.send(channel)
    if is_open:
        open_link(links)
    assert links.clock.timers.at_ms[LINKS] == 6_000
    links.clock.now_ms = 6_000
    links.peers.tick()
    assert links.answers == [Failure.TIMED_OUT] * 2


@pytest.mark.parametrize("is_open", [False, True])
def test_requests_of_the_life_cycle_time_out_by_their_own_limits(is_open):
    """The registration of a controller behind that of a broker has the shorter one."""
    links = Links()
    links.send(Channel.LIFECYCLE, 9_000)
    links.send(Channel.LIFECYCLE, 5_000)
    if is_open:
        open_link(links)
    assert links.clock.timers.at_ms[LINKS] == 6_000
    links.clock.now_ms = 5_999
    links.peers.tick()
    assert links.answers == []
    links.clock.now_ms = 6_000
    links.peers.tick()
    assert links.answers == [Failure.TIMED_OUT] * 2
    assert links.clock.timers.at_ms[LINKS] == NEVER_MS


@pytest.mark.parametrize(("waited_ms", "connects"), [(0, False), (49, False), (50, True)])
def test_after_a_failure_to_connect_there_is_a_pause(waited_ms, connects):
    links = Links()
    assert links.send()
    links.peers.on_disconnected(links.peer_id, refused=True)
    links.clock.now_ms += waited_ms
    assert links.send() is connects
    assert links.answers == [Failure.UNREACHABLE] * (2 - connects)


@pytest.mark.parametrize(("leader_id", "asks"), [(2, True), (3, False)])
def test_a_leader_whose_connection_is_lost_is_asked_at_once_whether_it_is_there(leader_id, asks):
    links = Links(LeaderAndEpoch(leader_id, LeaderEpoch(1)))
    assert links.send()
    links.peers.on_connected(links.peer_id)
    before = len(links.effects)
    links.peers.on_disconnected(links.peer_id, refused=False)
    assert [type(effect) for effect in links.effects[before:]] == [ConnectPeer] * asks


def test_a_leader_that_is_silent_is_probed_a_few_times():
    links = Links(LeaderAndEpoch(2, LeaderEpoch(1)))
    assert links.send()
    links.peers.on_connected(links.peer_id)
    links.peers.on_disconnected(links.peer_id, refused=False)
    for _ in range(9):
        links.peers.on_disconnected(links.peer_id, refused=False)
    connects = [effect for effect in links.effects if isinstance(effect, ConnectPeer)]
    assert len(connects) == 2 + PROBES_MAX


def test_a_new_leader_shortens_the_time_of_what_former_ones_were_asked():
    links = Links()
    links.send(Channel.FORWARDING, timeout_ms=30_000)
    for leader_id, due_ms in ((3, 1_000 + GIVE_UP_MS), (2, 31_000)):
        links.peers.on_leader_changed(leader_id)
        assert links.clock.timers.at_ms[LINKS] == due_ms


def test_a_connection_goes_on_with_the_versions_that_the_other_side_has():
    """UNSUPPORTED_VERSION: ApiVersions is asked again, in version 0."""
    links = Links()
    links.send()
    links.peers.on_connected(links.peer_id)
    asked = parse_request_header(links.effects[-1].data[4:])[0]
    body = api_versions_body(apis(ListenerKind.CONTROLLER, [FETCH]))
    refused = replace(body, error_code=ErrorCode.unsupported_version)
    answer = encode_response(API_VERSIONS, 0, asked.correlation_id, refused)
    before = len(links.effects)
    links.peers.on_bytes(links.peer_id, frame(answer))
    (sent,) = links.effects[before:]
    assert (asked.api_version > 0, parse_request_header(sent.data[4:])[0].api_version) == (True, 0)


@pytest.mark.parametrize(
    ("channel", "client_id"),
    [
        (Channel.RAFT, "raft-client-1"),
        (Channel.LIFECYCLE, "1"),
        (Channel.FORWARDING, "1"),
        (FETCHERS, "broker-1-fetcher-0"),
        (FETCHERS + 2, "broker-1-fetcher-2"),
    ],
)
def test_a_link_has_the_client_id_of_its_channel(channel, client_id):
    links = Links()
    links.send(channel)
    links.peers.on_connected(links.peer_id)
    sent = [e.data for e in links.effects if isinstance(e, SendPeerBytes)][-1]
    assert parse_request_header(sent[4:])[0].client_id == client_id


@pytest.mark.parametrize("address", [("b", 9), None])
@pytest.mark.parametrize("is_open", [False, True])
def test_the_links_to_a_node_end_when_its_address_changes(address, is_open):
    links = Links()
    links.send(Channel.RAFT)
    if is_open:
        open_link(links)
    links.send(FETCHERS)
    peer_ids = [e.peer_id for e in links.effects if isinstance(e, ConnectPeer)]
    links.peers.set_address(2, address)
    assert [e.peer_id for e in links.effects if isinstance(e, ClosePeer)] == peer_ids
    assert links.answers == [Failure.DISCONNECTED] * 2
    assert links.send() is (address is not None)
    if address is not None:
        assert (links.effects[-1].host, links.effects[-1].port) == address
    links.peers.on_disconnected(peer_ids[0], refused=True)  # it was under way


def test_an_address_that_stays_or_that_of_another_node_ends_nothing():
    links = Links()
    links.send()
    links.peers.set_address(2, ("b", 2))
    links.peers.set_address(1, ("c", 3))
    links.peers.set_address(3, None)
    assert links.answers == []
    assert [type(effect) for effect in links.effects] == [ConnectPeer]


def test_a_link_that_is_closed_forgets_its_pause_with_its_address():
    links = Links()
    links.send()
    links.peers.on_disconnected(links.peer_id, refused=True)
    links.peers.set_address(2, ("b", 9))
    assert not any(isinstance(effect, ClosePeer) for effect in links.effects)
    assert links.send()


@pytest.mark.parametrize(
    ("others", "expected"), [((), False), ((2,), True), ((2, 3), False), ((2, 3, 4, 5), False)]
)
def test_the_voters_whose_processes_are_gone_are_those_of_the_quorum(others, expected):
    """As the log names them: the addresses have others too, and miss some."""
    clock, effects = Clock(Now(1_000, 1_000)), []
    known = {number: ("h", number) if number != 3 else None for number in others}
    voters = known | ({1: None} if others else {})
    peers = Peers(
        {-2: ("bootstrap", 1), 9: ("gone", 9)}, 1, clock, effects, lambda: NOBODY, print,
        voters=lambda: voters,
    )  # fmt: skip
    assert not peers.is_quorum_refused()
    asked = [(e.host, e.port) for e in effects if isinstance(e, ConnectPeer)]
    assert asked == [("h", number) for number in others if number != 3]
    for effect in [e for e in effects if isinstance(e, ConnectPeer)][:1]:
        peers.on_disconnected(effect.peer_id, refused=True)
    assert peers.is_quorum_refused() == expected


def test_a_link_whose_fetch_was_given_up_is_closed_before_another_fetch():
    links = Links()
    links.send()
    open_link(links)
    abandoned, before = links.peer_id, len(links.effects)
    links.send()
    first, second = links.effects[before:]
    assert first == ClosePeer(abandoned)
    assert isinstance(second, ConnectPeer)
    assert links.answers == [Failure.DISCONNECTED]


def test_a_fetch_that_waits_for_the_connection_gives_way_to_the_next_one():
    links = Links()
    links.send(timeout_ms=1_000)
    links.clock.set(Now(1_500, 1_500))
    assert not links.send(timeout_ms=2_000)
    assert links.answers == [Failure.DISCONNECTED]
    assert links.clock.timers.at_ms[LINKS] == 3_500
    links.clock.set(Now(3_500, 3_500))
    links.peers.tick()
    assert links.answers == [Failure.DISCONNECTED, Failure.TIMED_OUT]


@pytest.mark.parametrize(
    ("channel", "api_keys"),
    [(Channel.RAFT, (FETCH, VOTE)), (Channel.RAFT, (VOTE, FETCH)), (FETCHERS, (FETCH, FETCH))],
)
def test_other_requests_share_a_link(channel, api_keys):
    """Fetches of records too: they are no sign of an epoch, and their sender takes turns."""
    links = Links()
    for api_key in api_keys:
        links.send(channel, api_key=api_key)
    assert not links.answers
    links.peers.on_connected(links.peer_id)
    assert not [effect for effect in links.effects if isinstance(effect, ClosePeer)]
