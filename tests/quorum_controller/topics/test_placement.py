import random
from collections import Counter

import pytest

from quorum_controller.topics.placement import UsableBroker, place
from wire.errors import ApiError, ErrorCode

pytestmark = pytest.mark.timeout(20)  # a placement that does not end takes memory, too


def brokers(*specs):
    return [UsableBroker(id_, rack, fenced) for id_, rack, fenced in specs]


PLAIN = brokers(*((i, None, False) for i in range(1, 4)))


@pytest.mark.parametrize(
    ("factor", "usable", "text"),
    [
        (0, PLAIN, "Invalid replication factor 0: the replication factor must be positive."),
        (1, brokers((1, None, True)), "All brokers are currently fenced."),
        (1, [], "All brokers are currently fenced."),
        (
            7,
            PLAIN,
            (
                "The target replication factor of 7 cannot be reached because only 3 broker(s) are "
                "registered or some brokers have all their log directories cordoned."
            ),
        ),
    ],
)
def test_impossible_placements_are_refused(factor, usable, text):
    error = place(1, factor, usable, random.Random(1))
    assert error == ApiError(ErrorCode.invalid_replication_factor, text)


def test_one_unfenced_broker_with_many_partitions_terminates():
    usable = brokers((1, None, False), (2, None, True))
    assert set(place(100, 2, usable, random.Random(1))) == {(1, 2)}


@pytest.mark.parametrize("seed", range(5))
def test_equal_racks_get_one_replica_each_and_leaders_are_balanced(seed):
    usable = brokers(*((i, "abc"[i % 3], False) for i in range(9)))
    placed = place(9, 3, usable, random.Random(seed))
    for replicas in placed:
        assert {replica % 3 for replica in replicas} == {0, 1, 2}
    racks = Counter(replicas[0] % 3 for replicas in placed)
    assert max(racks.values()) - min(racks.values()) <= 1


@pytest.mark.parametrize("seed", range(5))
def test_a_fenced_broker_is_the_last_choice_and_never_leads(seed):
    usable = brokers(
        (1, "a", False), (2, "a", True), (3, "b", False), (4, "b", False), (5, "c", True)
    )
    for replicas in place(50, 3, usable, random.Random(seed)):
        assert replicas[0] not in (2, 5)
        assert len(set(replicas)) == 3
    for replicas in place(50, 5, usable, random.Random(seed)):
        assert sorted(replicas) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("factor", [1, 2, 3, 4, 5, 6])
def test_every_placement_ends_with_distinct_brokers(seed, factor):
    rng = random.Random(seed)
    usable = brokers(
        *((i, rng.choice([None, "a", "b"]), i > 0 and rng.random() < 0.4) for i in range(6))
    )
    for replicas in place(60, factor, usable, rng):
        assert len(set(replicas)) == len(replicas) == factor


def test_a_seed_fixes_the_layout():
    usable = brokers((1, None, False), (2, "a", False), (3, "b", False))
    first, again = (place(20, 2, usable, random.Random(7)) for _ in range(2))
    assert first == again


class InOrder:
    """No chance: racks and brokers stay in their order, and every count starts at zero."""

    def randrange(self, _stop):
        return 0

    def shuffle(self, _values):
        pass


def test_brokers_without_a_rack_are_the_first_rack():
    usable = brokers((1, "a", False), (2, None, False), (3, "b", False))
    assert place(2, 3, usable, InOrder()) == [(2, 1, 3), (1, 3, 2)]


def test_a_rack_without_a_living_broker_has_its_leader_from_the_next():
    usable = brokers((1, "a", True), (2, "b", False), (3, "c", False), (4, "d", False))
    leaders = [replicas[0] for replicas in place(3, 1, usable, InOrder())]
    assert leaders == [2, 2, 3]  # racks a, b, c: b stands in for a


class Noting(InOrder):
    def __init__(self):
        self.shuffled = []

    def shuffle(self, values):
        self.shuffled.append(values)


@pytest.mark.parametrize(
    ("partitions", "shuffled"), [(2, []), (3, [[3], [1, 2]]), (5, [[3], [1, 2]] * 2)]
)
def test_brokers_are_shuffled_after_as_many_partitions_as_are_unfenced(partitions, shuffled):
    rng = Noting()
    place(partitions, 1, brokers((1, None, False), (2, None, False), (3, None, True)), rng)
    racks = [values for values in rng.shuffled if not isinstance(values[0], int)]
    assert len(racks) == len(shuffled) // 2
    assert [values for values in rng.shuffled if values not in racks] == shuffled
