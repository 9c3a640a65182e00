"""Records that take no steps: others have to lead what this broker leads."""

import pytest
from msgspec.structs import replace

from kernel import events
from kernel.effects import Effect, Log
from kernel.lifecycle.controller_link import ControllerLink
from kernel.lifecycle.records import SILENT_MS_MIN, Records
from network.clock import Clock, Now
from network.peers import Peers
from tests.kernel.harness import config_of
from tests.kernel.port import broker_of, post, serving_world
from wire.types import LeaderAndEpoch, LeaderEpoch, NodeId

SESSION_MS = 9_000


class Rig:
    """Records as the kernel sees them, with their clock."""

    def __init__(self, session_ms: int = SESSION_MS) -> None:
        self.clock = Clock(Now(1_000, 1_000))
        self.effects: list[Effect] = []
        config = config_of(NodeId(1))
        broker = replace(config.broker, session_timeout_ms=session_ms)
        nobody = LeaderAndEpoch(NodeId(1), LeaderEpoch(1))
        peers = Peers({}, NodeId(1), self.clock, [], lambda: nobody, print)
        self.records = Records(
            replace(config, broker=broker),
            bytes(16),
            ControllerLink(NodeId(1), None, peers, lambda: None),
            clock=self.clock,
            effects=self.effects,
            on_stopped=lambda: None,
        )

    def are_silent(self, at_ms: int) -> bool:
        self.clock.set(Now(at_ms, at_ms))
        return self.records.are_silent()

    @property
    def told(self) -> list[tuple[str, object]]:
        logs = [effect for effect in self.effects if isinstance(effect, Log)]
        return [(log.event, log.fields["silent_ms"]) for log in logs]


def test_records_are_silent_when_a_session_without_a_sign_is_found_twice() -> None:
    rig = Rig()
    rig.records.note_alive()
    assert [rig.are_silent(1_000 + ms) for ms in (2_000, 8_999, 9_000)] == [False] * 3
    assert rig.told == []
    assert [rig.are_silent(1_000 + ms) for ms in (9_500, 11_000)] == [True, True]
    assert rig.told == [("records_silent", 9_500)]
    rig.records.note_alive()
    assert not rig.are_silent(12_001)
    assert rig.told[1:] == [("records_not_silent", 1)]
    assert not rig.are_silent(21_000)
    rig.records.note_alive()
    assert not rig.are_silent(29_999)
    assert not rig.are_silent(30_001), "another silence"
    assert rig.are_silent(30_002)


def test_records_that_gave_no_sign_yet_are_waited_for() -> None:
    rig = Rig()
    assert [rig.are_silent(at_ms) for at_ms in (50_000, 60_000)] == [False, False]


@pytest.mark.parametrize(("session_ms", "limit_ms"), [(10, SILENT_MS_MIN), (6_000, 6_000)])
def test_a_short_session_is_no_measure(session_ms: int, limit_ms: int) -> None:
    rig = Rig(session_ms)
    rig.records.note_alive()
    assert not rig.are_silent(1_000 + limit_ms - 1)
    assert not rig.are_silent(1_000 + limit_ms)
    assert rig.are_silent(1_000 + limit_ms)


def test_a_broker_whose_records_are_silent_is_fenced_until_they_go_on() -> None:
    world = serving_world()
    post(world, 1, events.RecordsAlive())
    world.run_until(lambda: broker_of(world).fenced, 20_000)
    post(world, 1, events.RecordsAlive())
    world.run_until(lambda: not broker_of(world).fenced, 5_000)
