"""Links to leaders, by the bytes of connections: replication, other addresses, failures."""

import msgspec
import pytest
from immutables import Map

from broker.leader_links import LeaderLinks
from metadata.image import Broker, RegisteredEndpoint
from network.clock import Clock, Now
from network.effects import ClosePeer, ConnectPeer, Log, SendPeerBytes
from network.sampled_rate import QuotaWindow
from network.turn_budget import TurnBudget
from replication.counters import Counters
from replication.follower.fetchers import Fetchers
from replication.follower.follower_broker import FollowerBroker, ReplicaFetchConfig
from replication.throttle import ReplicationQuota
from tests.replication.fetching import BACKOFF_MS, NAME, Leader, Pair, key
from tests.replication.partitions import WALL_MS
from tests.wire.connections.test_follower_connection import versions_bytes
from wire.api_keys import API_VERSIONS
from wire.connections.framing import FrameReader, frame
from wire.messages.codec import split_request

TIMEOUT_MS = 30_000


def broker(node_id, host="host", port=9092, listener="INTERNAL"):
    endpoints = (
        RegisteredEndpoint(name="OTHER", host="other", port=1, security_protocol=0),
        RegisteredEndpoint(name=listener, host=host, port=port, security_protocol=0),
    )
    return Broker(
        id=node_id,
        epoch=1,
        incarnation_id=bytes(16),
        endpoints=endpoints,
        features=(),
        rack=None,
        fenced=False,
        in_controlled_shutdown=False,
        log_dirs=(),
        cordoned_log_dirs=None,
        registration_offset=0,
    )


class Node:
    """Broker 2 with its links and fetchers, and broker 1, which answers the bytes they send."""

    def __init__(self, records=0, fetch_max=18, **config):
        self.pair = Pair(records=records, count=2)
        self.leader = Leader(self.pair.led)
        self.clock = Clock(Now(0, WALL_MS))
        self.effects = []
        self.links = LeaderLinks(2, "INTERNAL", self.clock, self.effects, TIMEOUT_MS)
        self.fetchers = Fetchers(
            FollowerBroker(
                counters=Counters(),
                is_added=lambda _: False,
                quota=ReplicationQuota(QuotaWindow(), self.clock),
                node_id=2,
                config=ReplicaFetchConfig(backoff_ms=BACKOFF_MS, **config),
                clock=self.clock,
                effects=self.effects,
                budget=TurnBudget(1 << 30),
                broker_epoch=lambda: 12,
                partition_of=self.pair.followed.get,
                took=lambda _key, _raised: None,
                disk_failed=lambda _key, _error: None,
            ),
            self.links.send,
        )
        self.links.take_brokers(Map({1: broker(1), 2: broker(2)}))
        self.fetch_max = fetch_max

    def assign(self, *numbers):
        for number in numbers or (0,):
            self.fetchers.assign(key(number), NAME, 1, 1)
        self.fetchers.tick()

    def taken(self, kind):
        """The effects of a kind since the last look at them."""
        found = [effect for effect in self.effects if isinstance(effect, kind)]
        self.effects[:] = [effect for effect in self.effects if not isinstance(effect, kind)]
        return found

    def connect(self):
        """Open the connections that are asked for; their ids."""
        connects = self.taken(ConnectPeer)
        for effect in connects:
            self.links.on_connected(effect.peer_id)
        return [effect.peer_id for effect in connects]

    def exchange(self, size=1 << 20):
        """Answer what was sent, in pieces of a size."""
        for effect in self.taken(SendPeerBytes):
            reader = FrameReader(1 << 20)
            reader.feed(effect.data)
            while (request := reader.next_frame()) is not None:
                content = self.answer(request)
                for start in range(0, len(content), size):
                    self.links.on_bytes(effect.peer_id, content[start : start + size])

    def answer(self, request):
        header, position = split_request(request)
        if header.api_key == API_VERSIONS:
            return versions_bytes(header.correlation_id, self.fetch_max)
        body = self.leader.answer(header.api_version, header.api_key, request[position:])
        start = header.correlation_id.to_bytes(4, "big")
        if header.api_key == 1:
            return frame(start + b"\0" + body)
        return frame(start + body[4:])

    def is_same(self, number=0):
        return self.pair.is_same(number)


@pytest.mark.parametrize(("fetch_max", "size"), [(13, 1), (18, 7), (18, 1 << 20)])
def test_a_follower_replicates_over_its_link(fetch_max, size):
    node = Node(records=3, fetch_max=fetch_max)
    node.assign()
    (peer_id,) = node.connect()
    for _ in range(2):
        node.exchange(size)
    assert node.is_same()
    node.pair.append(2)
    node.exchange(size)
    assert node.is_same()
    assert peer_id == 1
    assert node.leader.requests[-1].session_epoch == 1


def test_offsets_out_of_range_are_asked_for_over_the_link():
    node = Node(records=3)
    log = node.pair.led[key()].log
    log.set_high_watermark(3)
    log.raise_log_start_to(2)
    node.assign()
    node.connect()
    for _ in range(6):
        node.exchange()
    assert node.is_same()
    assert node.pair.followed[key()].log.log_start_offset == 2


def test_each_fetcher_has_its_connection_to_the_inter_broker_listener():
    node = Node(records=1, fetchers=2)
    node.assign(0, 1)
    connects = [effect for effect in node.effects if isinstance(effect, ConnectPeer)]
    assert [(effect.host, effect.port) for effect in connects] == [("host", 9092)] * 2
    node.connect()
    for _ in range(2):
        node.exchange()
    assert node.is_same(0)
    assert node.is_same(1)


def test_a_broker_that_comes_back_elsewhere_is_connected_to_there():
    node = Node(records=1)
    node.assign()
    (peer_id,) = node.connect()
    node.exchange()
    node.links.take_brokers(Map({1: broker(1, port=9093), 2: broker(2)}))
    assert [effect.peer_id for effect in node.taken(ClosePeer)] == [peer_id]
    assert node.fetchers.next_ms() == BACKOFF_MS
    node.clock.now_ms += BACKOFF_MS
    node.fetchers.tick()
    (connect,) = [effect for effect in node.effects if isinstance(effect, ConnectPeer)]
    assert connect.port == 9093
    node.effects[:] = [connect]
    node.connect()
    for _ in range(2):
        node.exchange()
    assert node.is_same()


@pytest.mark.parametrize(
    "brokers", [{2: broker(2)}, {1: broker(1, listener="EXTERNAL"), 2: broker(2)}]
)
def test_a_broker_that_is_gone_or_has_no_such_listener_is_not_connected_to(brokers):
    node = Node()
    node.links.take_brokers(Map(brokers))
    node.assign()
    assert node.taken(ConnectPeer) == []
    assert node.fetchers.next_ms() == BACKOFF_MS
    (log,) = node.taken(Log)
    assert (log.event, log.fields["reason"], log.fields["leader"]) == (
        "fetch_failed",
        "unreachable",
        1,
    )
    node.links.take_brokers(Map({1: broker(1), 2: broker(2)}))
    node.clock.now_ms += BACKOFF_MS
    node.fetchers.tick()
    assert len(node.taken(ConnectPeer)) == 1


def test_this_broker_itself_has_no_address():
    node = Node()
    node.links.send(2, 0, 1, None, node.effects.append)
    assert node.effects[-1] is None


@pytest.mark.parametrize("is_open", [False, True])
def test_a_leader_that_is_gone_is_tried_again_and_followed_when_it_is_back(is_open):
    node = Node(records=1)
    node.assign()
    if is_open:
        (peer_id,) = node.connect()
        node.exchange()
    else:
        (peer_id,) = [effect.peer_id for effect in node.taken(ConnectPeer)]
    node.links.on_disconnected(peer_id, refused=not is_open)
    assert node.fetchers.next_ms() == BACKOFF_MS
    assert node.taken(ConnectPeer) == []
    node.clock.now_ms += BACKOFF_MS
    node.fetchers.tick()
    node.effects[:] = [effect for effect in node.effects if isinstance(effect, ConnectPeer)]
    assert node.connect() != [peer_id]
    for _ in range(2):
        node.exchange()
    assert node.is_same()


def test_a_leader_that_does_not_answer_loses_its_connection():
    node = Node()
    assert node.links.next_ms() is None
    node.assign()
    (peer_id,) = node.connect()
    assert node.links.next_ms() == TIMEOUT_MS
    node.clock.now_ms = TIMEOUT_MS
    node.links.tick()
    assert [effect.peer_id for effect in node.taken(ClosePeer)] == [peer_id]
    assert node.links.next_ms() is None
    assert node.fetchers.next_ms() == TIMEOUT_MS + BACKOFF_MS


def test_a_leader_that_is_too_old_is_asked_again_and_again():
    node = Node(fetch_max=12)
    node.assign()
    node.connect()
    node.exchange()
    (log,) = node.taken(Log)
    assert log.fields["reason"] == "unsupported version"
    assert node.fetchers.next_ms() == BACKOFF_MS


def test_an_image_with_the_same_brokers_is_not_looked_at_again():
    node = Node()
    brokers = {1: broker(1), 2: broker(2)}
    node.links.take_brokers(brokers)
    brokers[1] = msgspec.structs.replace(brokers[1], endpoints=())
    node.links.take_brokers(brokers)
    node.assign()
    assert len(node.taken(ConnectPeer)) == 1
