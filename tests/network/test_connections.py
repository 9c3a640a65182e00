"""Connections of clients at the listeners: order, nonsense, floods, limits and rates."""

from kernel.effects import LogLevel, SendBytes, SetReading
from kernel.events import BytesReceived, ConnectionClosed, Now
from network.connection_limits import LOG_INTERVAL_MS, ConnectionLimits, RefusalLog
from network.connections import REQUESTS_PER_STEP
from network.timers import ADMISSION, BACKLOG, IDLE, NEVER_MS
from tests.kernel.harness import World, create_topic_body
from tests.network.raw_client import Raw, api_versions, ready_world
from wire.connections.framing import frame
from wire.errors import ErrorCode
from wire.messages.codec import encode_request, newest
from wire.messages.fetch_messages import FetchRequest
from wire.types import LeaderEpoch

FETCH = 1
CREATE_TOPICS = 19
ALTER_CLIENT_QUOTAS = 49

# ---- order and nonsense ----------------------------------------------------------------------


def test_what_was_asked_before_nonsense_is_answered() -> None:
    world = ready_world()
    follower = next(i for i in world.alive if i != world.active())
    raw = Raw(world, follower)
    create = frame(
        encode_request(CREATE_TOPICS, 7, 1, "c", create_topic_body("asked-before-nonsense"))
    )
    raw.send(create, api_versions(2), frame(b"nonsense"), api_versions(3))
    world.run_for(1_000)
    assert raw.correlation_ids == [1, 2]
    assert not raw.is_open
    assert "asked-before-nonsense" in world.kernel(follower).cache.image.topic_id_by_name


def test_a_flood_behind_a_slow_request_is_not_read_and_then_answered() -> None:
    world = ready_world()
    follower = next(i for i in world.alive if i != world.active())
    raw = Raw(world, follower)
    create = frame(encode_request(CREATE_TOPICS, 7, 0, "c", create_topic_body("slow")))
    raw.send(create, *(api_versions(number) for number in range(1, 1_000)))
    world.run_until(lambda: (follower, raw.pipe.server[2]) in world.unread)
    assert raw.correlation_ids == []
    world.run_until(lambda: len(raw.correlation_ids) == 1_000)
    assert raw.correlation_ids == list(range(1_000))
    assert (follower, raw.pipe.server[2]) not in world.unread


def test_a_flood_of_one_client_does_not_stop_others() -> None:
    """Its requests are served in parts, and between them whoever else asks."""
    world = ready_world(1)
    flood, other = Raw(world, 1), Raw(world, 1)
    content = b"".join(api_versions(number) for number in range(1_500))
    kernel = world.kernel(1)
    now = Now(world.now_ms, world.now_ms)
    effects = kernel.step(BytesReceived(flood.pipe.server[2], content), now)
    effects += kernel.step(BytesReceived(other.pipe.server[2], api_versions(1)), now)
    sent = [effect.connection_id for effect in effects if isinstance(effect, SendBytes)]
    assert sent.index(other.pipe.server[2]) <= 4 * REQUESTS_PER_STEP
    assert kernel.next_deadline_ms() == world.now_ms, "the rest goes on at once"
    assert SetReading(flood.pipe.server[2], is_wanted=False) in effects
    world.run_for(1_000)
    assert kernel.next_deadline_ms() != world.now_ms


def test_a_flood_ends_with_its_connection() -> None:
    world = ready_world(1)
    flood = Raw(world, 1)
    content = b"".join(api_versions(number) for number in range(1_500))
    kernel = world.kernel(1)
    now = Now(world.now_ms, world.now_ms)
    kernel.step(BytesReceived(flood.pipe.server[2], content), now)
    assert kernel._clock.timers.at_ms[BACKLOG] == world.now_ms
    kernel.take([ConnectionClosed(flood.pipe.server[2])], now)
    assert not kernel.connections._backlog
    assert kernel._clock.timers.at_ms[BACKLOG] == NEVER_MS


# ---- limits ----------------------------------------------------------------------------------


def test_what_a_closed_connection_still_had_to_ask_is_not_served() -> None:
    world = ready_world(1)
    raw = Raw(world, 1)
    connection_id = raw.pipe.server[2]
    create = frame(encode_request(CREATE_TOPICS, 7, 0, "c", create_topic_body("left")))
    content = b"".join(api_versions(number) for number in range(2 * REQUESTS_PER_STEP)) + create
    world.post_all(1, [BytesReceived(connection_id, content)])
    assert connection_id in world.kernel(1).connections._backlog
    world.post_all(1, [ConnectionClosed(connection_id)])
    world.run_for(1_000)
    assert "left" not in world.kernel(1).cache.image.topic_id_by_name


def test_an_idle_connection_is_closed_and_one_in_use_is_not() -> None:
    world = ready_world(1, connection_limits=ConnectionLimits(idle_ms_max=1_000))
    idle, used = Raw(world, 1), Raw(world, 1)
    for number in range(4):
        used.send(api_versions(number))
        world.run_for(400)
    assert not idle.is_open
    assert used.is_open
    assert len(world.kernel(1).connections) == 1
    assert world.kernel(1).connections.expired == {"PLAINTEXT": 1}


def test_an_answer_begins_the_idle_time_anew() -> None:
    world = ready_world(1, connection_limits=ConnectionLimits(idle_ms_max=1_000))
    raw = Raw(world, 1, "CONTROLLER")
    fetch = FetchRequest(
        fetch_offset=world.kernel(1).log.end_offset,
        current_leader_epoch=LeaderEpoch(1),
        last_fetched_epoch=LeaderEpoch(1),
        max_wait_ms=400,
        max_bytes=1,
    )
    raw.send(frame(encode_request(FETCH, 17, 7, "c", fetch)))
    began_ms = world.now_ms
    world.run_until(lambda: raw.correlation_ids == [7])
    assert world.now_ms - began_ms >= 400
    world.run_for(900)
    assert raw.is_open
    world.run_for(200)
    assert not raw.is_open


def test_connections_over_the_limit_are_closed_with_one_line() -> None:
    world = ready_world(1, connection_limits=ConnectionLimits(connections_max=3))
    raws = [Raw(world, 1) for _ in range(10)]
    world.run_for(10)
    assert [raw.is_open for raw in raws] == [True] * 3 + [False] * 7
    assert Raw(world, 1, "CONTROLLER").is_open, "controllers are counted apart"
    refused = [log for log in world.nodes[1].logs if log.event == "connections_refused"]
    assert [log.fields["count"] for log in refused] == [1]
    world.run_for(LOG_INTERVAL_MS)
    Raw(world, 1)
    refused = [log for log in world.nodes[1].logs if log.event == "connections_refused"]
    assert [log.fields["count"] for log in refused] == [1, 7]


def test_a_refusal_is_logged_again_when_the_interval_is_over() -> None:
    log = RefusalLog()
    times_ms = (5, 6, 4 + LOG_INTERVAL_MS, 5 + LOG_INTERVAL_MS, 6 + LOG_INTERVAL_MS)
    assert [log.count_to_log(now_ms) for now_ms in times_ms] == [1, None, None, 3, None]


def test_a_closed_connection_makes_room() -> None:
    limits = ConnectionLimits(per_address_max=0, per_address_overrides=(("127.0.0.1", 2),))
    world = ready_world(1, connection_limits=limits)
    first, second, third = (Raw(world, 1) for _ in range(3))
    assert (first.is_open, second.is_open, third.is_open) == (True, True, False)
    first.send(frame(b"nonsense"))
    world.run_for(10)
    assert not first.is_open
    assert Raw(world, 1).is_open
    (line,) = [log for log in world.nodes[1].logs if log.event == "connections_refused"]
    assert "127.0.0.1 already has the configured maximum of 2" in str(line.fields["reason"])
    assert line.level is LogLevel.WARN


def test_the_inter_broker_listener_takes_the_place_of_another() -> None:
    limits = ConnectionLimits(connections_max=2, protected_listener="INTERNAL")
    world = ready_world(1, connection_limits=limits)
    old, new = Raw(world, 1), Raw(world, 1)
    world.run_for(1)
    old.send(api_versions(1))
    world.run_for(10)
    internal = Raw(world, 1, "INTERNAL")
    assert (old.is_open, new.is_open, internal.is_open) == (True, False, True)


def test_both_kinds_of_listener_at_their_limit() -> None:
    """`max.connections` holds for each kind: one that goes makes room for its own only."""
    world = ready_world(1, connection_limits=ConnectionLimits(connections_max=2))
    brokers = [Raw(world, 1) for _ in range(3)]
    controllers = [Raw(world, 1, "CONTROLLER") for _ in range(3)]
    world.run_for(10)
    assert [raw.is_open for raw in brokers] == [True, True, False]
    assert [raw.is_open for raw in controllers] == [True, True, False]
    controllers[0].send(frame(b"nonsense"))
    world.run_for(10)
    assert not controllers[0].is_open
    assert not Raw(world, 1).is_open
    assert Raw(world, 1, "CONTROLLER").is_open
    assert not Raw(world, 1, "CONTROLLER").is_open
    brokers[0].send(frame(b"nonsense"))
    world.run_for(10)
    assert not brokers[0].is_open
    assert not Raw(world, 1, "CONTROLLER").is_open
    assert Raw(world, 1).is_open


def test_the_inter_broker_listener_takes_no_place_of_a_controller() -> None:
    limits = ConnectionLimits(connections_max=2, protected_listener="INTERNAL")
    world = ready_world(1, connection_limits=limits)
    controllers = [Raw(world, 1, "CONTROLLER") for _ in range(2)]
    world.run_for(1)
    old, new = Raw(world, 1), Raw(world, 1)
    world.run_for(1)
    internal = Raw(world, 1, "INTERNAL")
    assert (old.is_open, new.is_open, internal.is_open) == (False, True, True)
    assert all(raw.is_open for raw in controllers), "the least recently used of all"
    others = [Raw(world, 1, "INTERNAL") for _ in range(2)]
    assert [raw.is_open for raw in (new, *others)] == [False, True, True]
    assert internal.is_open, "it goes over the limit rather than close its like"


def test_without_a_limit_no_connection_becomes_idle() -> None:
    world = ready_world(1, connection_limits=ConnectionLimits(idle_ms_max=0))
    raw = Raw(world, 1)
    world.run_for(700_000)  # the default is 600 s
    assert raw.is_open
    assert world.kernel(1)._clock.timers.at_ms[IDLE] == NEVER_MS


# ---- rates of new connections ----------------------------------------------------------------


def answered(raws: list[Raw]) -> int:
    return sum(raw.correlation_ids == [1] for raw in raws)


def crowd(world: World, count: int, listener: str = "PLAINTEXT") -> list[Raw]:
    raws = [Raw(world, 1, listener) for _ in range(count)]
    for raw in raws:
        raw.send(api_versions(1))
    return raws


def test_connections_faster_than_the_rate_wait_at_the_listener() -> None:
    """Ten seconds' worth may come at once; the rest goes in slowly, and nobody is refused."""
    world = ready_world(1, connection_limits=ConnectionLimits(creation_rate=5))
    world.run_for(12_000)  # the node's own connections are no longer counted
    raws = crowd(world, 80)
    world.run_for(100)
    assert answered(raws) == 50
    controllers = crowd(world, 10, "CONTROLLER")
    world.run_for(100)
    assert answered(controllers) == 10, "controllers are counted apart"
    world.run_for(5_000)
    assert 55 <= answered(raws) < 65
    world.run_for(10_000)
    assert answered(raws) == 80
    said = [log for log in world.nodes[1].logs if log.event == "connections_delayed"]
    assert "more than 5 new connections a second" in str(said[0].fields["reason"])


def test_who_goes_away_while_it_waits_leaves_the_queue() -> None:
    world = ready_world(1, connection_limits=ConnectionLimits(creation_rate=1))
    world.run_for(12_000)
    raws = crowd(world, 14)
    world.run_for(50)
    kernel = world.kernel(1)
    for raw in raws[10:13]:
        kernel.step(ConnectionClosed(raw.pipe.server[2]), Now(world.now_ms, world.now_ms))
    world.run_for(1_500)
    assert raws[13].correlation_ids == [1]
    assert answered(raws) == 11


def test_where_nobody_waits_any_more_nothing_is_due() -> None:
    world = ready_world(1, connection_limits=ConnectionLimits(creation_rate=1))
    world.run_for(12_000)
    raws = crowd(world, 12)
    world.run_for(50)
    kernel = world.kernel(1)
    at_ms = kernel._clock.timers.at_ms
    for raw in raws[10:]:
        assert at_ms[ADMISSION] != NEVER_MS
        kernel.step(ConnectionClosed(raw.pipe.server[2]), Now(world.now_ms, world.now_ms))
    assert at_ms[ADMISSION] == NEVER_MS


def test_the_inter_broker_listener_does_not_wait() -> None:
    limits = ConnectionLimits(creation_rate=0, protected_listener="INTERNAL")
    world = ready_world(1, connection_limits=limits)
    outside, inside = crowd(world, 1), crowd(world, 1, "INTERNAL")
    world.run_for(100)
    assert (answered(outside), answered(inside)) == (0, 1)
    world.run_for(1_000)
    assert answered(outside) == 1, "a second is the longest wait"


def test_an_address_above_its_quota_is_closed_after_a_while() -> None:
    world = ready_world(1)
    quota = {"entity_type": "ip", "entity_name": None}
    new = newest(ALTER_CLIENT_QUOTAS, "request")
    entry = new.EntryData(
        entity=(new.EntityData(**quota),),
        ops=(new.OpData(key="connection_creation_rate", value=2.0, remove=False),),
    )
    body = new.AlterClientQuotasRequest(entries=(entry,), validate_only=False)
    answer = world.client(1).call(ALTER_CLIENT_QUOTAS, body)
    assert answer.entries[0].error_code is ErrorCode.none
    world.run_for(12_000)
    raws = crowd(world, 25)
    world.run_for(50)
    assert answered(raws) == 20
    assert all(raw.is_open for raw in raws), "closed at once it would only come again at once"
    world.run_for(2_000)
    assert [raw.is_open for raw in raws] == [True] * 20 + [False] * 5
    (line,) = [log for log in world.nodes[1].logs if log.event == "connections_refused"]
    assert "127.0.0.1 makes more than 2 connections a second" in str(line.fields["reason"])
    world.run_for(12_000)
    last = crowd(world, 1)
    world.run_for(50)
    assert answered(last) == 1
