"""Heartbeats and registrations of a broker with records, one request after the other."""

import dataclasses
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from kernel.effects import Effect, Log, LogLevel
from kernel.lifecycle.broker_lifecycle import (
    CATCH_UP_POLL_MS,
    BrokerLifecycle,
    BrokerState,
    Incarnation,
)
from kernel.lifecycle.controller_link import ControllerLink
from metadata.apply import apply
from metadata.delta import MetadataDelta
from metadata.image import EMPTY, Image, Provenance
from metadata.records import RegisterBrokerRecord
from network.clock import Clock, Now
from network.peers import Peers
from network.timers import DIRECTORY_REPORT, HEARTBEAT, NEVER_MS
from quorum_controller.result import RequestContext
from tests.kernel.harness import CLUSTER_ID, config_of
from wire.api_keys import BROKER_HEARTBEAT
from wire.errors import ErrorCode
from wire.messages.codec import newest
from wire.messages.conversion import default_entity
from wire.types import BrokerEpoch, DirectoryId, LeaderAndEpoch, LeaderEpoch, NodeId, Offset

SELF = NodeId(1)
EPOCH = 7
ME = UUID(int=1)
DIRECTORIES = {path: DirectoryId(bytes(15) + bytes([n])) for n, path in enumerate("abc", 1)}
A, B, C = (UUID(int=n) for n in (1, 2, 3))


class Controller:
    """The active controller, on this node: holds what it is asked until it is told to answer."""

    def __init__(self) -> None:
        self.is_active = True
        self.held: list[tuple[int, Any, Callable[[Any], None]]] = []

    def submit(
        self, api_key: int, body: Any, answered: Callable[[Any], None], context: RequestContext
    ) -> None:
        del context
        self.held.append((api_key, body, answered))


class Rig:
    """A broker's life cycle with its clock; `epochs` are those that the records were told."""

    def __init__(self, *, has_records: bool = True) -> None:
        self.clock = Clock(Now(1_000, 1_000))
        self.controller = Controller()
        self.epochs: list[int] = []
        self.are_silent = False
        self.effects: list[Effect] = []
        leader = LeaderAndEpoch(SELF, LeaderEpoch(1))
        peers = Peers({}, SELF, self.clock, [], lambda: leader, print)
        self.lifecycle = BrokerLifecycle(
            config_of(SELF),
            CLUSTER_ID,
            incarnation=Incarnation(ME, DIRECTORIES, -1),
            controller=ControllerLink(SELF, self.controller, peers, lambda: SELF),
            clock=self.clock,
            effects=self.effects,
            on_state=lambda: None,
            on_shut_down=lambda: None,
        )
        if has_records:
            self.lifecycle.wait_for_records(self.epochs.append, lambda: self.are_silent)
        self.lifecycle.start()
        self.lifecycle.tick()

    @property
    def due_ms(self) -> int | None:
        """Time until the next request; None if one is in flight."""
        at_ms = self.clock.timers.at_ms[HEARTBEAT]
        return None if at_ms == NEVER_MS else at_ms - self.clock.now_ms

    def answer(self, error: ErrorCode = ErrorCode.none, **fields: Any) -> None:
        """Answer the one request that is held."""
        ((api_key, _, answered),) = self.controller.held
        self.controller.held.clear()
        name = "BrokerHeartbeat" if api_key == BROKER_HEARTBEAT else "BrokerRegistration"
        body = default_entity(getattr(newest(api_key, "response"), f"{name}Response"))
        answered(dataclasses.replace(body, error_code=error, **fields))

    def ask(self) -> Any:
        """The next request, which is due by now or later."""
        due_ms = self.due_ms
        assert due_ms is not None
        now_ms = self.clock.now_ms + due_ms
        self.clock.set(Now(now_ms, now_ms))
        self.lifecycle.tick()
        return self.asked

    @property
    def asked(self) -> Any:
        ((_, body, _),) = self.controller.held
        return body

    def publish(self, end_offset: int = EPOCH + 1) -> None:
        """Publish an image that holds the registration."""
        self.lifecycle.publish(EMPTY, image_with_self(end_offset), MetadataDelta())

    def recover(self) -> None:
        """Register, publish the registration, and be told of having caught up."""
        self.answer(broker_epoch=EPOCH)
        self.publish()
        self.ask()
        self.answer(is_caught_up=True, is_fenced=True)
        assert self.lifecycle.state is BrokerState.RECOVERY


def image_with_self(end_offset: int) -> Image:
    record = RegisterBrokerRecord(
        broker_id=SELF,
        incarnation_id=ME.bytes,
        broker_epoch=BrokerEpoch(EPOCH),
        end_points=(),
        features=(),
        rack=None,
        fenced=True,
        log_dirs=tuple(DIRECTORIES.values()),
    )
    image = apply(EMPTY, record, Offset(EPOCH), MetadataDelta())
    return replace(image, provenance=Provenance(Offset(end_offset), LeaderEpoch(1), 0))


def test_a_broker_with_records_wants_to_be_fenced_until_they_are_ready() -> None:
    rig = Rig()
    rig.recover()
    assert rig.ask().want_fence
    rig.answer(is_caught_up=True, is_fenced=True)
    rig.lifecycle.become_ready()
    assert rig.due_ms == 0
    assert not rig.ask().want_fence
    rig.answer(is_caught_up=True, is_fenced=False)
    assert rig.lifecycle.is_settled


def test_records_that_are_ready_do_not_unfence_a_broker_that_has_not_caught_up() -> None:
    rig = Rig()
    rig.answer(broker_epoch=EPOCH)
    rig.lifecycle.become_ready()
    assert rig.ask().want_fence


def test_readiness_is_told_behind_the_heartbeat_in_flight() -> None:
    rig = Rig()
    rig.recover()
    assert rig.ask().want_fence
    rig.lifecycle.become_ready()
    assert rig.due_ms is None
    rig.answer(is_caught_up=True, is_fenced=True)
    assert rig.due_ms == 0
    assert not rig.ask().want_fence


@pytest.mark.parametrize("is_ready", [True, False])
def test_heartbeats_are_quick_only_while_the_controller_is_waited_for(is_ready: bool) -> None:
    """Logs may take minutes to load."""
    rig = Rig()
    rig.recover()
    if is_ready:
        rig.lifecycle.become_ready()
        rig.ask()
        rig.answer(is_caught_up=True, is_fenced=True)
    interval_ms = config_of(1).broker.heartbeat_interval_ms
    assert rig.due_ms == (CATCH_UP_POLL_MS if is_ready else interval_ms)
    rig.publish(EPOCH + 2)
    assert rig.due_ms == (0 if is_ready else interval_ms), "an image is told at once"


def test_a_broker_without_records_waits_for_none() -> None:
    rig = Rig(has_records=False)
    rig.recover()
    assert not rig.ask().want_fence
    assert rig.epochs == []


def test_the_epoch_of_every_registration_is_told() -> None:
    rig = Rig()
    rig.answer(ErrorCode.not_controller)
    assert rig.epochs == []
    rig.ask()
    rig.answer(broker_epoch=EPOCH)
    rig.ask()
    rig.answer(ErrorCode.stale_broker_epoch)
    rig.ask()
    rig.answer(broker_epoch=EPOCH + 5)
    assert rig.epochs == [EPOCH, EPOCH + 5]


def test_an_epoch_that_comes_while_the_broker_leaves_is_not_told() -> None:
    rig = Rig()
    rig.lifecycle.request_shutdown()
    rig.answer(broker_epoch=EPOCH)
    assert rig.epochs == []


def test_failed_directories_are_in_every_heartbeat_and_in_no_registration() -> None:
    rig = Rig()
    assert rig.asked.log_dirs == (A, B, C)
    rig.recover()
    assert rig.ask().offline_log_dirs == ()
    rig.answer(is_caught_up=True, is_fenced=True)
    rig.lifecycle.directory_failed("c")
    assert rig.due_ms == 0
    assert rig.ask().offline_log_dirs == (C,)
    rig.lifecycle.directory_failed("a")
    rig.answer(is_caught_up=True, is_fenced=True)
    assert rig.due_ms == 0, "the heartbeat in flight lacks it"
    assert rig.ask().offline_log_dirs == (A, C)
    rig.answer(is_caught_up=True, is_fenced=True)
    assert rig.ask().offline_log_dirs == (A, C)
    rig.answer(ErrorCode.stale_broker_epoch)
    assert rig.ask().log_dirs == (B,)
    rig.answer(broker_epoch=EPOCH + 1)
    assert rig.ask().offline_log_dirs == (A, C)


def test_a_directory_that_fails_before_the_registration_is_left_out_of_the_next_attempt() -> None:
    rig = Rig()
    rig.lifecycle.directory_failed("b")
    assert rig.due_ms is None
    rig.answer(ErrorCode.not_controller)
    assert rig.ask().log_dirs == (A, C)


def test_only_a_directory_of_the_broker_can_fail() -> None:
    with pytest.raises(AssertionError):
        Rig().lifecycle.directory_failed("d")


# ---- failures that the controller does not learn of ----------------------------------------------


def run_and_fail(*paths: str) -> Rig:
    rig = Rig()
    rig.recover()
    for path in paths:
        rig.lifecycle.directory_failed(path)
    return rig


def pass_time(rig: Rig, duration_ms: int) -> None:
    now_ms = rig.clock.now_ms + duration_ms
    rig.clock.set(Now(now_ms, now_ms))
    rig.lifecycle.tick()


def report_due_ms(rig: Rig) -> int | None:
    at_ms = rig.clock.timers.at_ms[DIRECTORY_REPORT]
    return None if at_ms == NEVER_MS else at_ms - rig.clock.now_ms


def test_a_failure_that_is_not_confirmed_in_time_ends_the_broker() -> None:
    """Source: apache/kafka: BrokerLifecycleManager.scala (OfflineDirBrokerFailureEvent)."""
    rig = run_and_fail("c")
    assert report_due_ms(rig) == 30_000
    pass_time(rig, 29_999)
    rig.answer(ErrorCode.not_controller)
    assert rig.lifecycle.state is BrokerState.RECOVERY
    pass_time(rig, 1)
    assert rig.lifecycle.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
    assert report_due_ms(rig) is None
    [line] = [each for each in rig.effects if isinstance(each, Log)]
    assert (line.level, line.event) == (LogLevel.ERROR, "log_dir_failure_not_reported")
    assert line.fields == {
        "error": "Shutting down because couldn't communicate offline log dir c with controllers"
    }
    assert rig.asked.want_shut_down


def test_a_heartbeat_that_had_it_confirms_a_failure() -> None:
    rig = run_and_fail("c")
    rig.ask()
    pass_time(rig, 10_000)
    rig.lifecycle.directory_failed("b")
    rig.answer(is_caught_up=True, is_fenced=True)
    assert report_due_ms(rig) == 30_000, "the next heartbeat has the other one"
    rig.ask()
    rig.answer(is_caught_up=True, is_fenced=True)
    assert report_due_ms(rig) is None
    pass_time(rig, 40_000)
    assert rig.lifecycle.state is BrokerState.RECOVERY


def test_the_first_failure_sets_the_limit() -> None:
    rig = run_and_fail("c")
    pass_time(rig, 10_000)
    rig.lifecycle.directory_failed("b")
    rig.lifecycle.directory_failed("c")
    assert report_due_ms(rig) == 20_000


def test_a_failure_that_is_told_again_is_none() -> None:
    rig = run_and_fail("c")
    rig.ask()
    rig.answer(is_caught_up=True, is_fenced=True)
    due_ms = rig.due_ms
    assert due_ms
    rig.lifecycle.directory_failed("c")
    assert (report_due_ms(rig), rig.due_ms) == (None, due_ms)


def test_a_broker_that_has_left_reports_no_failure() -> None:
    rig = run_and_fail("c")
    rig.lifecycle.request_shutdown()
    rig.answer(should_shut_down=True)
    assert rig.lifecycle.state is BrokerState.SHUTTING_DOWN
    assert report_due_ms(rig) is None
    rig.lifecycle.directory_failed("b")
    assert report_due_ms(rig) is None


def test_the_first_image_is_told_at_once() -> None:
    rig = Rig()
    rig.answer(broker_epoch=EPOCH)
    rig.ask()
    rig.answer(is_fenced=True)
    assert (rig.lifecycle.state, rig.due_ms) == (BrokerState.STARTING, CATCH_UP_POLL_MS)
    rig.publish()
    assert rig.due_ms == 0


def test_a_broker_that_has_started_does_not_begin_to_wait_for_records() -> None:
    with pytest.raises(AssertionError):
        Rig(has_records=False).lifecycle.wait_for_records(print, bool)


def test_a_broker_wants_to_be_fenced_while_its_records_are_silent() -> None:
    rig = Rig()
    rig.recover()
    rig.lifecycle.become_ready()
    assert rig.ask().want_fence is False
    rig.answer(is_caught_up=True)
    rig.are_silent = True
    assert rig.ask().want_fence is True
    rig.answer(is_caught_up=True, is_fenced=True)
    rig.are_silent = False
    assert rig.ask().want_fence is False
