"""A broker says that its thread takes steps."""

from broker.effects import Alive
from broker.events import Now, TimeAdvanced
from broker.pulse import ALIVE_MS, Pulse
from network.clock import Clock
from tests.broker.brokers import Driven


def test_a_sign_of_life_is_given_at_once_and_every_second():
    clock, effects = Clock(Now(5_000, 0)), []
    pulse = Pulse(clock, effects)
    assert pulse.next_ms() is None
    pulse.begin()
    assert (pulse.next_ms(), effects) == (5_000, [])
    clock.set(Now(5_300, 0))
    pulse.tick()
    assert (pulse.next_ms(), effects) == (5_300 + ALIVE_MS, [Alive()])


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
