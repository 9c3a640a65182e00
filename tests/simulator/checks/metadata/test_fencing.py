"""I14: sessions that end too early. A controller is told the time, and whom it hears."""

import pytest

from quorum_controller.bodies import BrokerHeartbeatRequest
from quorum_controller.result import ControllerRequest
from tests.simulator.worlds import broken, leader, look, quiet_world
from wire.api_keys import BROKER_HEARTBEAT


@pytest.fixture
def found():
    """The machine that leads, its controller, and a time by its clock."""
    world = quiet_world()
    machine = leader(world)
    return world, machine, machine.kernel.state.controller, machine.now().monotonic_ms


def heartbeat(controller, now_ms, *, epoch=None, **wants):
    """Of the observer, as if it sent one; its broker."""
    broker = max(controller.latest.brokers.values(), key=lambda broker: broker.id)
    assert not broker.fenced
    body = BrokerHeartbeatRequest(
        broker_id=broker.id,
        broker_epoch=broker.epoch if epoch is None else epoch,
        current_metadata_offset=10**6,
        want_fence=wants.get("want_fence", False),
        want_shut_down=wants.get("want_shut_down", False),
        offline_log_dirs=(),
    )
    request = ControllerRequest(api_key=BROKER_HEARTBEAT, body=body, reply_token=0)
    controller.submit(request, now_ms, 0)
    return broker


def session_ms(machine):
    return machine.config.broker.session_timeout_ms


def is_fenced(controller, broker):
    return controller.latest.brokers[broker.id].fenced


def end_session(controller, broker, now_ms):
    """Tick until this broker is fenced: one is at a time."""
    for _ in range(len(controller.latest.brokers)):
        controller.tick(now_ms, 0)
    assert is_fenced(controller, broker)


def test_a_session_that_ends_before_its_time(found):
    world, machine, controller, now_ms = found
    broker = heartbeat(controller, now_ms)
    controller._liveness.session_timeout_ms //= 3
    look(world, machine)
    end_session(controller, broker, now_ms + session_ms(machine) - 1)
    assert "after its heartbeat; the session is" in broken(world, machine, "I14")


def test_a_session_that_ends_in_time(found):
    world, machine, controller, now_ms = found
    broker = heartbeat(controller, now_ms)
    end_session(controller, broker, now_ms + session_ms(machine) + 1)
    look(world, machine)


def test_a_heartbeat_of_a_former_registration_keeps_no_session(found):
    world, machine, controller, now_ms = found
    broker = heartbeat(controller, now_ms)
    later_ms = now_ms + session_ms(machine) + 1
    heartbeat(controller, later_ms, epoch=broker.epoch - 1)
    end_session(controller, broker, later_ms)
    look(world, machine)


@pytest.mark.parametrize("wants", ["want_fence", "want_shut_down"])
def test_who_asks_for_it_is_not_judged(found, wants):
    world, machine, controller, now_ms = found
    broker = heartbeat(controller, now_ms, **{wants: True})
    later = controller.latest.brokers[broker.id]
    assert later.fenced or later.in_controlled_shutdown
    look(world, machine)
