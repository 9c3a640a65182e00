"""Timers of a broker: the time of its next request, and none while it waits for an answer."""

import dataclasses
import errno
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from kernel.effects import Effect, Exit, Log, LogLevel
from kernel.lifecycle.broker_lifecycle import (
    REGISTRATION_BACKOFF_MS,
    BrokerLifecycle,
    BrokerState,
    Incarnation,
)
from kernel.lifecycle.controlled_shutdown import (
    SHUTDOWN_MS_MAX,
    SHUTDOWN_POLL_MS,
    UNHEARD_MS_MAX,
)
from kernel.lifecycle.controller_link import ControllerLink
from kernel.lifecycle.controller_registration import BACKOFF_MS_MIN, ControllerRegistration
from kernel.lifecycle.isr_expansion import IsrExpansion
from metadata.delta import MetadataDelta
from metadata.image import EMPTY, METADATA_VERSION, Image
from network.clock import Clock, Now
from network.peers import Failure, Peers
from network.timers import (
    FOLDERS,
    FULL_DISK,
    HEARTBEAT,
    ISR_EXPANSION,
    NEVER_MS,
    REGISTRATION,
    REGISTRATION_TIMEOUT,
    SHUTDOWN_CHECK,
)
from quorum_controller.result import RequestContext
from storage.errors import OutOfSpaceError
from tests.kernel.harness import CLUSTER_ID, LATENCY_MS, World, config_of, create_topic_body
from tests.kernel.test_kernel import ready_world
from wire.api_keys import BROKER_HEARTBEAT, BROKER_REGISTRATION
from wire.errors import ErrorCode
from wire.messages.codec import newest
from wire.messages.conversion import default_entity
from wire.types import DirectoryId, LeaderAndEpoch, LeaderEpoch, NodeId, TopicId

SELF = NodeId(1)
START_MS = 1_000
EPOCH = 7
KEY = (TopicId(bytes(16)), 0)
RUNS = {"is_caught_up": True, "is_fenced": False}


class Local:
    """The active controller, on this node: holds what is submitted until it is told to answer."""

    def __init__(self) -> None:
        self.is_active = True
        self.held: list[tuple[int, Callable[[Any], None]]] = []

    def submit(
        self, api_key: int, body: object, answered: Callable[[Any], None], context: RequestContext
    ) -> None:
        del body, context
        self.held.append((api_key, answered))


class Rig:
    """A broker's life cycle and a controller's registration, with their clock."""

    def __init__(self) -> None:
        self.clock = Clock(Now(START_MS, START_MS))
        self.local = Local()
        self.states: list[BrokerState] = []
        self.effects: list[Effect] = []
        config = config_of(SELF)
        leader = LeaderAndEpoch(SELF, LeaderEpoch(1))
        addresses = {NodeId(i): (str(i), 9093) for i in (1, 2, 3)}
        self.peers = Peers(addresses, SELF, self.clock, [], lambda: leader, print)
        link = ControllerLink(SELF, self.local, self.peers, lambda: SELF)
        self.lifecycle = BrokerLifecycle(
            config,
            CLUSTER_ID,
            incarnation=Incarnation(UUID(int=1), {"/data": DirectoryId(bytes(16))}, -1),
            controller=link,
            clock=self.clock,
            effects=self.effects,
            on_state=lambda: self.states.append(self.lifecycle.state),
            on_shut_down=lambda: None,
        )
        self.registration = ControllerRegistration(config, UUID(int=1), link, self.clock)

    def due_ms(self, name: int) -> int | None:
        """Time from now until a timer is due; None: not set."""
        at_ms = self.clock.timers.at_ms[name]
        return None if at_ms == NEVER_MS else at_ms - self.clock.now_ms

    def pass_time(self, duration_ms: int) -> None:
        now_ms = self.clock.now_ms + duration_ms
        self.clock.set(Now(now_ms, now_ms))
        self.lifecycle.tick()
        self.registration.tick()

    def answer(self, error: ErrorCode = ErrorCode.none, **fields: Any) -> None:
        """Answer the one request that is held."""
        ((api_key, answered),) = self.local.held
        self.local.held.clear()
        name = "BrokerHeartbeat" if api_key == BROKER_HEARTBEAT else "BrokerRegistration"
        body = default_entity(getattr(newest(api_key, "response"), f"{name}Response"))
        answered(dataclasses.replace(body, error_code=error, **fields))

    def given_up(self) -> list[object]:
        """Reasons for which a controlled shutdown was given up."""
        logs = (effect for effect in self.effects if isinstance(effect, Log))
        return [log.fields["reason"] for log in logs if log.event == "controlled_shutdown_given_up"]

    def register(self) -> None:
        self.lifecycle.start()
        self.lifecycle.tick()
        self.answer(broker_epoch=EPOCH)

    def run(self) -> None:
        self.register()
        self.lifecycle.tick()
        self.answer(**RUNS)
        assert self.lifecycle.state is BrokerState.RUNNING

    def publish(self, image: Image) -> None:
        self.registration.publish(EMPTY, image, MetadataDelta())


def test_the_first_registration_is_due_at_once_and_has_a_limit() -> None:
    rig = Rig()
    rig.lifecycle.start()
    assert rig.due_ms(HEARTBEAT) == 0
    assert rig.due_ms(REGISTRATION_TIMEOUT) == 60_000


def test_while_a_request_is_in_flight_none_is_due() -> None:
    rig = Rig()
    rig.lifecycle.start()
    rig.lifecycle.tick()
    assert [api_key for api_key, _ in rig.local.held] == [BROKER_REGISTRATION]
    assert rig.due_ms(HEARTBEAT) is None
    rig.lifecycle.on_leader_changed()
    assert rig.due_ms(HEARTBEAT) is None
    rig.pass_time(10_000)
    assert len(rig.local.held) == 1


def test_a_registered_broker_sends_its_first_heartbeat_at_once_and_has_no_limit() -> None:
    rig = Rig()
    rig.register()
    assert rig.due_ms(HEARTBEAT) == 0
    assert rig.due_ms(REGISTRATION_TIMEOUT) is None
    rig.lifecycle.tick()
    assert [api_key for api_key, _ in rig.local.held] == [BROKER_HEARTBEAT]


def test_without_a_controller_it_tries_again_after_a_pause() -> None:
    rig = Rig()
    rig.local.is_active = False
    rig.lifecycle.start()
    rig.lifecycle.tick()
    assert rig.due_ms(HEARTBEAT) == REGISTRATION_BACKOFF_MS


def test_a_refused_registration_is_repeated_after_a_pause_that_doubles() -> None:
    rig = Rig()
    rig.lifecycle.start()
    rig.lifecycle.tick()
    for pause_ms in (REGISTRATION_BACKOFF_MS, 2 * REGISTRATION_BACKOFF_MS):
        rig.answer(ErrorCode.not_controller)
        assert rig.due_ms(HEARTBEAT) == pause_ms
        rig.pass_time(pause_ms - 1)
        assert not rig.local.held
        rig.pass_time(1)
    rig.answer(ErrorCode.not_controller)
    rig.lifecycle.on_leader_changed()
    assert rig.due_ms(HEARTBEAT) == 0


def test_an_id_that_stays_in_use_ends_the_broker_with_an_error() -> None:
    rig = Rig()
    rig.lifecycle.start()
    rig.lifecycle.tick()
    rig.answer(ErrorCode.duplicate_broker_registration)
    rig.pass_time(59_999)  # initial.broker.registration.timeout.ms less 1
    rig.answer(ErrorCode.duplicate_broker_registration)
    assert not rig.effects
    rig.pass_time(2_000)
    rig.answer(ErrorCode.duplicate_broker_registration)
    reason = (
        "node.id=1 is used by another broker that is registered and alive;"
        " each node of a cluster needs its own id"
    )
    line = Log(LogLevel.ERROR, "node_id_in_use", {"error": reason})
    assert rig.effects == [line, Exit(1, reason)]


def test_a_new_leader_gives_an_id_in_use_its_whole_time_again() -> None:
    """The session of this node's former process begins anew with it."""
    rig = Rig()
    rig.lifecycle.start()
    rig.lifecycle.tick()
    rig.answer(ErrorCode.duplicate_broker_registration)
    rig.pass_time(59_999)
    rig.lifecycle.on_leader_changed()
    rig.answer(ErrorCode.duplicate_broker_registration)
    rig.pass_time(59_999)
    rig.answer(ErrorCode.duplicate_broker_registration)
    assert not rig.effects
    rig.pass_time(2_000)
    rig.answer(ErrorCode.duplicate_broker_registration)
    assert [type(effect) for effect in rig.effects] == [Log, Exit]


def test_a_broker_that_is_refused_for_another_reason_than_its_id_ends_after_the_limit() -> None:
    """At the limit its id was in use; what it waits for since then does not come."""
    rig = Rig()
    rig.lifecycle.start()
    rig.lifecycle.tick()
    rig.answer(ErrorCode.duplicate_broker_registration)
    rig.pass_time(60_000)
    assert rig.due_ms(REGISTRATION_TIMEOUT) == 2_000
    rig.answer(ErrorCode.not_controller)
    assert not rig.effects
    rig.pass_time(2_000)
    assert [type(effect) for effect in rig.effects] == [Log, Exit]
    assert rig.due_ms(REGISTRATION_TIMEOUT) is None


def test_a_running_broker_does_not_hurry_to_a_new_leader() -> None:
    rig = Rig()
    rig.run()
    rig.pass_time(10)
    rig.lifecycle.on_leader_changed()
    assert rig.due_ms(HEARTBEAT) == 1_990


def test_states_have_the_numbers_of_kafkas_broker_state() -> None:
    assert {state.name: state.value for state in BrokerState} == {
        "NOT_RUNNING": 0,
        "STARTING": 1,
        "RECOVERY": 2,
        "RUNNING": 3,
        "PENDING_CONTROLLED_SHUTDOWN": 6,
        "SHUTTING_DOWN": 7,
    }


def test_every_state_is_told() -> None:
    rig = Rig()
    rig.run()
    rig.pass_time(2_000)
    rig.answer(ErrorCode.stale_broker_epoch)
    assert rig.due_ms(HEARTBEAT) == REGISTRATION_BACKOFF_MS
    rig.pass_time(REGISTRATION_BACKOFF_MS)
    rig.answer(broker_epoch=EPOCH + 1)
    rig.lifecycle.request_shutdown()
    rig.answer(should_shut_down=True)
    began = [BrokerState.STARTING, BrokerState.RECOVERY, BrokerState.RUNNING]
    left = [BrokerState.PENDING_CONTROLLED_SHUTDOWN, BrokerState.SHUTTING_DOWN]
    assert rig.states == [*began, BrokerState.STARTING, *left]


@pytest.mark.parametrize("is_waiting", [False, True])
def test_a_controlled_shutdown_asks_at_once_and_is_checked_after_a_pause(is_waiting: bool) -> None:
    rig = Rig()
    rig.run()
    rig.pass_time(2_000 * is_waiting)
    rig.lifecycle.request_shutdown()
    assert len(rig.local.held) == 1
    assert rig.due_ms(HEARTBEAT) is None
    assert rig.due_ms(SHUTDOWN_CHECK) == SHUTDOWN_POLL_MS
    rig.pass_time(SHUTDOWN_POLL_MS)
    assert rig.due_ms(SHUTDOWN_CHECK) == SHUTDOWN_POLL_MS
    rig.answer()
    assert rig.due_ms(HEARTBEAT) == SHUTDOWN_POLL_MS


def test_a_controlled_shutdown_is_given_up_at_a_check() -> None:
    rig = Rig()
    rig.run()
    assert not rig.peers.is_quorum_refused()
    for peer_id in (1, 2):
        rig.peers.on_disconnected(peer_id, refused=True)
    rig.lifecycle.request_shutdown()
    assert rig.lifecycle.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
    rig.pass_time(SHUTDOWN_POLL_MS - 1)
    assert rig.lifecycle.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
    rig.pass_time(1)
    assert rig.lifecycle.state is BrokerState.SHUTTING_DOWN


def test_a_controlled_shutdown_lasts_minutes_while_the_controller_answers() -> None:
    """apache/kafka: KafkaBroker.shutdown. Each answer says that it may not stop yet."""
    rig = Rig()
    rig.run()
    rig.lifecycle.request_shutdown()
    for _ in range(SHUTDOWN_MS_MAX // 4_000):
        rig.pass_time(4_000 - SHUTDOWN_POLL_MS)
        assert rig.lifecycle.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
        rig.answer()
        rig.pass_time(SHUTDOWN_POLL_MS)
    assert rig.lifecycle.state is BrokerState.SHUTTING_DOWN
    assert rig.given_up() == ["time-out"]


@pytest.mark.parametrize("code", [None, ErrorCode.not_controller])
def test_a_controlled_shutdown_ends_some_seconds_after_the_last_answer(code: Any) -> None:
    """A refusal is none."""
    rig = Rig()
    rig.run()
    rig.pass_time(100_000)
    rig.answer()
    rig.lifecycle.request_shutdown()
    rig.answer()
    rig.pass_time(3_000)
    if code is not None:
        rig.answer(code)
    rig.pass_time(UNHEARD_MS_MAX - 3_000 - SHUTDOWN_POLL_MS)
    assert rig.lifecycle.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
    rig.pass_time(SHUTDOWN_POLL_MS)
    assert rig.lifecycle.state is BrokerState.SHUTTING_DOWN
    assert rig.given_up() == ["the controller does not answer"]


@pytest.mark.parametrize("begin", [Rig.run, lambda rig: rig.lifecycle.start()])
def test_a_broker_that_has_left_has_no_timer(begin: Callable[[Rig], None]) -> None:
    rig = Rig()
    begin(rig)
    rig.lifecycle.request_shutdown()
    if rig.local.held:
        rig.answer(should_shut_down=True)
    assert rig.lifecycle.state is BrokerState.SHUTTING_DOWN
    names = (HEARTBEAT, REGISTRATION_TIMEOUT, SHUTDOWN_CHECK)
    assert [rig.due_ms(name) for name in names] == [None] * 3


def test_a_publication_does_not_hurry_a_registration_that_pauses() -> None:
    rig = Rig()
    rig.local.is_active = False
    image = replace(EMPTY, features=EMPTY.features.set(METADATA_VERSION, 15))
    rig.publish(image)
    assert rig.due_ms(REGISTRATION) == 0
    rig.registration.tick()
    assert rig.due_ms(REGISTRATION) == BACKOFF_MS_MIN
    rig.publish(image)
    assert rig.due_ms(REGISTRATION) == BACKOFF_MS_MIN
    rig.publish(EMPTY)
    assert rig.due_ms(REGISTRATION) is None


def expansion_of(world: World) -> IsrExpansion:
    """Of node 1, which has a partition to ask for; nobody knows it."""
    expansion = world.kernel(1).isr_expansion
    assert expansion is not None
    expansion._ready[KEY] = None
    expansion.set_timer()
    return expansion


def due_ms(world: World, name: int) -> int | None:
    """Time from now until a timer of node 1 is due; None: not set."""
    at_ms = world.kernel(1)._clock.timers.at_ms[name]
    return None if at_ms == NEVER_MS else at_ms - world.kernel(1)._clock.now_ms


def test_only_a_running_broker_asks_for_replicas() -> None:
    world = ready_world(1)
    expansion_of(world)
    assert due_ms(world, ISR_EXPANSION) is not None
    lifecycle = world.kernel(1).lifecycle
    assert lifecycle is not None
    lifecycle.request_shutdown()
    assert due_ms(world, ISR_EXPANSION) is None


def test_what_was_refused_is_asked_again_after_a_pause_that_doubles() -> None:
    world = ready_world(1)
    expansion = expansion_of(world)
    for pause_ms in (50, 100, 200):
        expansion._ready.clear()
        expansion._on_answer([KEY], Failure.TIMED_OUT)
        assert list(expansion._ready) == [KEY]
        assert due_ms(world, ISR_EXPANSION) == pause_ms


def test_an_answer_without_refusals_ends_the_doubling() -> None:
    world = ready_world(1)
    expansion = expansion_of(world)
    expansion._on_answer([KEY], Failure.TIMED_OUT)
    expansion._ready.clear()
    expansion._on_answer([KEY], default_entity(newest(56, "response").AlterPartitionResponse))
    assert not expansion._ready
    assert due_ms(world, ISR_EXPANSION) is None
    expansion._on_answer([KEY], Failure.TIMED_OUT)
    assert due_ms(world, ISR_EXPANSION) == 50


def test_a_failed_task_on_folders_is_repeated_after_a_pause() -> None:
    world = ready_world(1)
    folders, vfs = world.kernel(1).folders, world.nodes[1].vfs
    assert folders is not None
    vfs.failing = lambda _, path: errno.EIO if path.endswith("partition.metadata") else None
    world.client(1).create_topic("a")
    world.run_until(lambda: folders._has_failed)
    assert due_ms(world, FOLDERS) == 1_000
    vfs.failing = None
    world.run_for(1_000 + LATENCY_MS)
    assert due_ms(world, FOLDERS) is None
    assert vfs.exists("/data/a-0/partition.metadata")


def test_what_waits_for_a_failed_task_comes_after_it() -> None:
    world = ready_world(1)
    folders, vfs = world.kernel(1).folders, world.nodes[1].vfs
    assert folders is not None
    vfs.failing = lambda _, path: errno.EIO if path.endswith("partition.metadata") else None
    world.client(1).create_topic("a")
    world.run_until(lambda: folders._has_failed)
    at_ms = world.kernel(1)._clock.timers.at_ms
    retry_ms = at_ms[FOLDERS]
    world.client(1).create_topic("b")
    assert folders._waiting
    assert at_ms[FOLDERS] == retry_ms


def test_a_full_disk_is_tried_again_after_a_pause() -> None:
    world = ready_world(1)
    vfs = world.nodes[1].vfs
    assert due_ms(world, FULL_DISK) is None
    vfs.bytes_max = vfs.used_bytes()
    world.client(1).send(19, create_topic_body("a"))
    writer = world.kernel(1).writer
    world.run_until(lambda: writer.is_disk_full)
    writer._note_full(OutOfSpaceError("/data"))
    assert due_ms(world, FULL_DISK) == 500
    world.run_for(500)
    assert due_ms(world, FULL_DISK) == 500
    vfs.bytes_max = None
    world.run_for(500)
    assert due_ms(world, FULL_DISK) is None
