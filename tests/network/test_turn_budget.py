"""The budget of a turn, and the parts that share it."""

import pytest

from network.turn_budget import TurnBudget, Turns


class Pieces:
    """A part with pieces that cost as much as they say; done ones are noted."""

    def __init__(self, budget: TurnBudget, done: list[tuple[str, int]], name: str) -> None:
        self.waiting: list[int] = []
        self._budget, self._done, self._name = budget, done, name

    @property
    def is_busy(self) -> bool:
        return bool(self.waiting)

    def go_on(self) -> None:
        assert self._budget.has_room, "the share of a part has room for a piece"
        assert self.waiting, "it is busy"
        while self.waiting and self._budget.has_room:
            units = self.waiting.pop(0)
            self._budget.spend(units)
            self._done.append((self._name, units))


class Shared:
    """Three parts that share turns of 12 units."""

    def __init__(self) -> None:
        self.budget = TurnBudget(12)
        self.done: list[tuple[str, int]] = []
        self.a, self.b, self.c = (Pieces(self.budget, self.done, name) for name in "abc")
        self.turns = Turns(self.budget, (self.a, self.b, self.c))

    def turn(self) -> dict[str, list[int]]:
        """Units of the pieces that each part did in one turn."""
        self.done.clear()
        self.budget.begin()
        self.turns.go_on()
        return {name: [n for who, n in self.done if who == name] for name in "abc"}


def test_a_budget_is_spent_by_pieces_and_begins_anew() -> None:
    budget = TurnBudget(10)
    assert (budget.left, budget.has_room, budget.is_spent) == (10, True, False)
    budget.spend(9)
    assert (budget.left, budget.has_room, budget.is_spent) == (1, True, False)
    budget.spend(1)
    assert (budget.left, budget.has_room, budget.is_spent) == (0, False, True)
    budget.spend(5)
    assert (budget.left, budget.spent) == (0, 15), "the last piece may be larger than what is left"
    budget.begin()
    assert (budget.left, budget.spent, budget.has_room) == (10, 0, True)


@pytest.mark.parametrize(("spent", "count", "left"), [(0, 1, 10), (0, 3, 4), (4, 2, 3), (9, 3, 1)])
def test_a_share_is_of_what_is_left(spent: int, count: int, left: int) -> None:
    budget = TurnBudget(10)
    budget.spend(spent)
    budget.share(count)
    assert (budget.left, budget.is_spent) == (left, False)
    budget.spend(left)
    assert not budget.has_room
    budget.begin()
    assert budget.left == 10


def test_what_fits_is_done_in_one_turn_in_the_order_of_parts() -> None:
    shared = Shared()
    shared.c.waiting, shared.a.waiting = [1, 1], [3]
    assert shared.turns.is_busy
    shared.turn()
    assert shared.done == [("a", 3), ("c", 1), ("c", 1)]
    assert not shared.turns.is_busy
    shared.b.waiting = [12]
    assert shared.turn()["b"] == [12], "a part that is alone has the whole turn"


def test_parts_share_a_turn_and_leave_what_they_do_not_need() -> None:
    shared = Shared()
    shared.a.waiting, shared.b.waiting, shared.c.waiting = [1] * 20, [1], [1] * 20
    assert shared.turn() == {"a": [1] * 4, "b": [1], "c": [1] * 7}
    assert shared.turns.is_busy


def test_what_is_left_of_a_turn_goes_round_again() -> None:
    shared = Shared()
    shared.a.waiting, shared.c.waiting = [1] * 20, [1]
    assert shared.turn() == {"a": [1] * 11, "b": [], "c": [1]}


def test_the_next_turn_begins_behind_the_part_that_spent_the_last() -> None:
    shared = Shared()
    for part in (shared.a, shared.b, shared.c):
        part.waiting = [20, 20]
    turns = [shared.turn() for _ in range(6)]
    assert [next(name for name in turn if turn[name]) for turn in turns] == list("abcabc")
    assert not shared.turns.is_busy


def test_a_turn_that_is_spent_begins_nothing() -> None:
    shared = Shared()
    shared.a.waiting = [1]
    shared.budget.spend(12)
    shared.turns.go_on()
    assert (shared.done, shared.a.waiting) == ([], [1])


def test_what_a_part_makes_another_do_is_done_in_the_same_turn() -> None:
    shared = Shared()

    class Asks(Pieces):
        def go_on(self) -> None:
            super().go_on()
            shared.a.waiting = [1]

    asks = Asks(shared.budget, shared.done, "b")
    turns = Turns(shared.budget, (shared.a, asks))
    asks.waiting = [1]
    turns.go_on()
    assert shared.done == [("b", 1), ("a", 1)]


def test_a_pause_ends_the_first_half_of_a_step_and_no_other() -> None:
    budget = TurnBudget(10)
    budget.spend(3)
    budget.pause()
    assert (budget.left, budget.has_room, budget.is_spent) == (0, False, True)
    budget.resume()
    assert (budget.left, budget.has_room, budget.is_spent) == (7, True, False)
    budget.pause()
    assert not budget.is_spent, "in the second half nobody would go on before the next step"
    budget.begin()
    budget.pause()
    assert budget.is_spent, "another step has a first half again"
    budget.begin()
    assert (budget.left, budget.is_spent) == (10, False)


def test_what_a_pause_holds_back_is_the_rest_which_goes_on_behind_it() -> None:
    shared = Shared()

    class Pauses(Pieces):
        def go_on(self) -> None:
            super().go_on()
            shared.budget.pause()

    pauses = Pauses(shared.budget, shared.done, "b")
    turns = Turns(shared.budget, (shared.a, pauses, shared.c))
    shared.a.waiting, pauses.waiting, shared.c.waiting = [1], [2], [3]
    turns.go_on()
    assert (shared.done, turns.has_rest) == ([("a", 1), ("b", 2)], True)
    shared.budget.resume()
    shared.a.waiting = [4]
    turns.go_on()
    assert shared.done[2:] == [("c", 3), ("a", 4)], "behind the part that paused"
    assert not turns.has_rest


def test_the_rest_of_a_turn_that_is_spent_is_what_is_left() -> None:
    shared = Shared()
    shared.a.waiting = [12]
    shared.turn()
    assert not shared.turns.has_rest, "the last piece was done"
    shared.a.waiting = [12, 1]
    shared.turn()
    assert shared.turns.has_rest
    shared.turn()
    assert not shared.turns.has_rest


def test_a_part_that_another_has_left_nothing_to_do_is_passed_over() -> None:
    shared = Shared()

    class Takes(Pieces):
        def go_on(self) -> None:
            super().go_on()
            shared.c.waiting = []

    takes = Takes(shared.budget, shared.done, "a")
    takes.waiting, shared.c.waiting = [1], [1]
    Turns(shared.budget, (takes, shared.c)).go_on()
    assert shared.done == [("a", 1)]
