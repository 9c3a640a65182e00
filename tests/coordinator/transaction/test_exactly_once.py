"""Loss and delay: committed transactions are whole, aborted ones are never seen."""

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.coordinator.transaction.world import FATES, PARTITIONS, Producer, World
from wire.errors import ErrorCode

NUMBERS = st.integers(0, PARTITIONS - 1)


class Transactions(RuleBasedStateMachine):
    """Producers of one transactional id, of which each new one fences those before."""

    world: World

    @initialize(version=st.sampled_from([1, 2]))
    def begin(self, version: int) -> None:
        self.world = World(version)
        self.world.start()

    def _one(self, index: int) -> Producer:
        return self.world.producers[index % len(self.world.producers)]

    @rule()
    def another_client(self) -> None:
        self.world.start()

    @precondition(lambda self: self.world.producers)
    @rule(index=st.integers(0, 5), number=NUMBERS)
    def write(self, index: int, number: int) -> None:
        producer = self._one(index)
        self.world.verify(producer, number)
        self._append(producer)

    @precondition(lambda self: self.world.producers)
    @rule(index=st.integers(0, 5), number=NUMBERS)
    def write_later(self, index: int, number: int) -> None:
        self.world.verify(self._one(index), number)

    @precondition(lambda self: self.world.producers)
    @rule(index=st.integers(0, 5))
    def late_append(self, index: int) -> None:
        self._append(self._one(index))

    def _append(self, producer: Producer) -> None:
        before = {number for number in range(PARTITIONS) if self._has_newer(number, producer)}
        number = None if producer.sent is None else producer.sent[0]
        is_taken = self.world.append(producer)
        assert not (is_taken and number in before), "a fenced producer writes"

    def _has_newer(self, number: int, producer: Producer) -> bool:
        entry = self.world.logs[number].producers.entry(producer.id_and_epoch.producer_id)
        return entry is not None and entry.producer_epoch > producer.id_and_epoch.producer_epoch

    @precondition(lambda self: self.world.producers)
    @rule(index=st.integers(0, 5), is_commit=st.booleans())
    def end(self, index: int, is_commit: bool) -> None:
        self.world.end(self._one(index), is_commit=is_commit)

    @rule(fate=FATES, index=st.integers(0, 3))
    def deliver(self, fate: str, index: int) -> None:
        self.world.deliver(fate, index)

    @rule(ms=st.sampled_from([60, 150, 600]))
    def time(self, ms: int) -> None:
        self.world.advance(ms)

    @rule(loses=st.booleans())
    def another_coordinator(self, loses: bool) -> None:
        self.world.move(loses=loses)

    @precondition(lambda self: self.world.producers)
    @rule(index=st.integers(0, 5), is_commit=st.booleans())
    def end_without_commit(self, index: int, is_commit: bool) -> None:
        """The coordinator moves before the end is committed: the client does not know."""
        producer = self._one(index)
        if producer.transaction is not None:
            self.world.end_uncommitted(producer, is_commit=is_commit)

    @invariant()
    def nothing_undecided_is_seen(self) -> None:
        if hasattr(self, "world"):
            for log in self.world.logs:
                for transaction in self.world.visible(log):
                    assert self.world.outcomes[transaction] not in ("open", "aborted")

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        world = self.world
        world.settle()
        seen: dict[int, set[int]] = {}
        for number, log in enumerate(world.logs):
            assert log.producers.first_undecided_offset is None, "a transaction hangs"
            for transaction in set(world.visible(log)):
                seen.setdefault(transaction, set()).add(number)
        for transaction, outcome in world.outcomes.items():
            whole, found = world.written[transaction], seen.get(transaction, set())
            if outcome == "committed":
                assert found == whole
            elif outcome == "unknown":
                assert found in (set(), whole)
            else:
                assert found == set(), f"{outcome} and seen"


TestTransactions: Any = Transactions.TestCase
TestTransactions.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("seed", range(30))
def test_a_walk_with_few_clients(seed: int, version: int) -> None:
    """Hypothesis likes short histories; these are long, and most of what is sent arrives."""
    rng, machine = random.Random(seed), Transactions()
    machine.begin(version)
    world = machine.world
    fates = ["answered"] * 5 + ["answer lost", "lost", "late", "late"]
    for _ in range(60):
        index, number = rng.randrange(6), rng.randrange(2)
        if not world.producers:
            if rng.random() < 0.3:
                world.settle()
            world.start()
            continue
        steps: list[tuple[int, Callable[[], None]]] = [
            (25, partial(machine.write, index, number)),
            (10, partial(machine.write_later, index, number)),
            (10, partial(machine.late_append, index)),
            (20, partial(machine.end, index, is_commit=rng.random() < 0.5)),
            (5, partial(machine.end_without_commit, index, is_commit=rng.random() < 0.5)),
            (18, partial(machine.deliver, rng.choice(fates), index)),
            (6, partial(machine.time, rng.choice([60, 150, 600]))),
            (3, partial(machine.another_coordinator, loses=rng.random() < 0.5)),
            (6, machine.another_client),
        ]
        rng.choices([step for _, step in steps], [weight for weight, _ in steps])[0]()
        machine.nothing_undecided_is_seen()
    machine.teardown()


def test_a_fenced_producer_cannot_write() -> None:
    for version in (1, 2):
        world = World(version)
        world.start()
        (first,) = world.producers
        world.verify(first, 0)
        world.start()
        world.settle()
        world.start()
        assert len(world.producers) == 2
        assert not world.append(first), "its verification was made void by the marker"
        world.verify(first, 1)
        assert first.sent is None
        world.end(first, is_commit=True)
        assert world.outcomes[0] == "unknown"
        world.settle()
        assert [world.visible(log) for log in world.logs] == [[], [], []]
        assert world.coordinator.coordinator.find("x") is not ErrorCode.not_coordinator
