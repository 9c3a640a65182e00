"""Shutdown of a broker with records: they stop behind the controlled shutdown, before the exit."""

import pytest

from kernel import events
from kernel.effects import Exit, PublishImage, StopRecords
from kernel.lifecycle.broker_lifecycle import BrokerState
from kernel.lifecycle.records import STOP_MS_MAX
from network.timers import NEVER_MS, RECORDS_STOP
from tests.kernel.harness import World
from tests.kernel.port import PORT, broker_of, lifecycle_of, post, serving_world, told

TWO = ("/data", "/more")
FILES = tuple(f"{path}/.kafka_cleanshutdown" for path in TWO)
DONE = Exit(0, "shut down")


def stopping_world(count: int = 1) -> World:
    """Node 1 has left, and waits for its records."""
    world = serving_world(count, log_dirs=TWO)
    world.terminate(1)
    world.run_until(lambda: bool(told(world, 1, StopRecords)))
    return world


def run_to_exit(world: World) -> int:
    return world.run_until(lambda: world.nodes[1].kernel is None, 30_000)


def found_files(world: World) -> list[bool]:
    return [world.nodes[1].vfs.exists(path) for path in FILES]


def test_the_records_stop_once_the_broker_has_left() -> None:
    world = serving_world(3)
    world.terminate(1)
    assert told(world, 1, StopRecords) == []
    assert lifecycle_of(world, 1).state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
    world.run_until(lambda: bool(told(world, 1, StopRecords)))
    assert lifecycle_of(world, 1).state is BrokerState.SHUTTING_DOWN
    world.terminate(1)
    world.run_for(5_000)
    assert world.nodes[1].exit is None, "it waits for them"
    assert len(told(world, 1, StopRecords)) == 1
    post(world, 1, events.RecordsStopped(()))
    assert run_to_exit(world) <= 500
    assert world.nodes[1].exit == DONE


@pytest.mark.parametrize("clean", [(), TWO[:1], TWO[1:], TWO])
def test_only_clean_directories_get_the_file(clean: tuple[str, ...]) -> None:
    world = stopping_world()
    epoch = broker_of(world).epoch
    post(world, 1, events.RecordsStopped(clean))
    run_to_exit(world)
    assert found_files(world) == [path in clean for path in TWO]
    for path in clean:
        content = world.nodes[1].vfs.read(f"{path}/.kafka_cleanshutdown")
        assert content == b'{"version":0,"brokerEpoch":%d}' % epoch
    world.start(1)
    assert world.kernel(1).clean_log_dirs == frozenset(clean)
    assert found_files(world) == [False, False]


def test_a_directory_that_was_clean_and_is_not_any_more_gets_no_file() -> None:
    world = stopping_world()
    post(world, 1, events.RecordsStopped(TWO))
    run_to_exit(world)
    world.start(1)
    assert world.kernel(1).clean_log_dirs == frozenset(TWO)
    world.terminate(1)
    world.run_until(lambda: bool(told(world, 1, StopRecords)))
    post(world, 1, events.RecordsStopped(TWO[1:]))
    run_to_exit(world)
    assert found_files(world) == [False, True]


def test_a_directory_that_takes_no_file_does_not_keep_the_next_from_it() -> None:
    world = stopping_world()
    post(world, 1, events.RecordsStopped(TWO))
    world.nodes[1].vfs.failing = lambda _, path: 5 if path.startswith(FILES[0]) else None
    run_to_exit(world)
    assert world.nodes[1].exit == DONE
    assert found_files(world) == [False, True]


def test_a_node_that_never_registered_stops_its_records_too() -> None:
    world = World(3, 1, port=PORT)
    world.start(1)
    world.run_for(100)
    world.terminate(1)
    assert told(world, 1, StopRecords) == [StopRecords()]
    world.run_for(1_000)
    assert world.nodes[1].exit is None
    post(world, 1, events.RecordsStopped(("/data",)))
    assert run_to_exit(world) <= 5_000
    assert world.nodes[1].exit == DONE
    content = world.nodes[1].vfs.read("/data/.kafka_cleanshutdown")
    assert content == b'{"version":0,"brokerEpoch":-1}'


def test_records_that_do_not_stop_are_given_up() -> None:
    world = stopping_world()
    assert world.kernel(1)._clock.timers.at_ms[RECORDS_STOP] == world.now_ms + STOP_MS_MAX
    world.run_for(STOP_MS_MAX - 1)
    assert world.nodes[1].exit is None
    assert run_to_exit(world) <= 100
    assert world.nodes[1].exit == DONE
    assert found_files(world) == [False, False]
    [line] = [log for log in world.nodes[1].logs if log.event == "records_stop_given_up"]
    assert line.fields == {"waited_ms": STOP_MS_MAX}


def test_records_that_go_on_closing_are_waited_for() -> None:
    world = stopping_world()
    for _ in range(5):
        world.run_for(STOP_MS_MAX - 1_000)
        assert world.nodes[1].exit is None
        post(world, 1, events.RecordsAlive())
    world.run_for(STOP_MS_MAX - 1)
    assert world.nodes[1].exit is None
    assert run_to_exit(world) <= 100
    assert found_files(world) == [False, False]


def test_a_sign_behind_their_end_does_not_wait_again() -> None:
    world = stopping_world(3)
    world.run_for(STOP_MS_MAX)
    kernel = world.kernel(1)
    post(world, 1, events.RecordsAlive())
    assert kernel._clock.timers.at_ms[RECORDS_STOP] == NEVER_MS


def test_records_that_stop_after_they_were_given_up_are_clean_all_the_same() -> None:
    world = stopping_world(3)
    records = world.kernel(1)._broker.records
    assert records is not None
    calls: list[None] = []
    records._on_stopped = lambda: calls.append(None)
    world.run_for(STOP_MS_MAX)
    assert len(calls) == 1
    post(world, 1, events.RecordsStopped(TWO))
    assert len(calls) == 1, "the replica shuts down once"
    assert records.clean == TWO


def test_no_image_follows_the_stop() -> None:
    world = stopping_world()
    given = len(told(world, 1, PublishImage))
    world.run_for(3_000)
    assert len(told(world, 1, PublishImage)) == given
    assert type(world.nodes[1].told[-1]) is StopRecords


def test_records_stop_once() -> None:
    records = stopping_world().kernel(1)._broker.records
    with pytest.raises(AssertionError, match="they stop once"):
        records.stop()


def test_records_stop_only_when_asked() -> None:
    world = serving_world()
    with pytest.raises(AssertionError, match="nobody asked"):
        post(world, 1, events.RecordsStopped(()))
