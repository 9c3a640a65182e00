"""A broker says that its thread takes steps."""

from broker.awaited import Work
from broker.effects import Alive, Lane
from broker.events import Now, StopRequested, TimeAdvanced
from broker.pulse import ALIVE_MS, Pulse
from network.clock import Clock
from tests.broker.brokers import Driven


def test_a_sign_of_life_is_given_at_once_and_every_second():
    clock, effects = Clock(Now(5_000, 0)), []
    pulse = Pulse(clock, effects, Work([]))
    assert pulse.next_ms() is None
    pulse.begin()
    assert (pulse.next_ms(), effects) == (5_000, [])
    clock.set(Now(5_300, 0))
    pulse.tick()
    assert (pulse.next_ms(), effects) == (5_300 + ALIVE_MS, [Alive()])


def test_while_a_broker_stops_a_sign_is_that_work_ended():
    """A step is none: the disk may be stuck."""
    clock, effects, ran = Clock(Now(0, 0)), [], []
    work = Work(ran)
    pulse = Pulse(clock, effects, work)
    work.run(Lane.FILES, "/d", print, lambda _: None)
    pulse.stop()
    assert pulse.next_ms() == ALIVE_MS

    def tick():
        effects.clear()
        clock.set(Now(clock.now_ms + ALIVE_MS, 0))
        pulse.tick()
        assert pulse.next_ms() == clock.now_ms + ALIVE_MS
        return effects

    assert tick() == []
    work.went_on()
    assert tick() == [Alive()]
    assert tick() == []
    work.on_done(ran[0].token, None)
    assert tick() == [Alive()]
    assert tick() == []


def test_a_broker_gives_signs_while_it_serves():
    driven = Driven()
    assert Alive() not in driven.step(TimeAdvanced())
    driven.metadata.register(directories=tuple(driven.directory_ids.values()))
    begun = [*driven.publish(), *driven.step(TimeAdvanced())]
    assert begun.count(Alive()) == 1
    driven.now_ms += ALIVE_MS - 1
    assert driven.step(TimeAdvanced()) == []
    driven.now_ms += 1
    assert driven.step(TimeAdvanced()) == [Alive()]
    driven.step(StopRequested())
    effects = [None]
    for _ in range(3):  # the first may tell of what ended at the stop
        driven.now_ms += ALIVE_MS
        effects = driven.step(TimeAdvanced())
    assert Alive() not in effects
