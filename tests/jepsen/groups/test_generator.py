"""Changes of the members of a group, drawn from the seed."""

from collections import Counter
from random import Random

import pytest

from jepsen.groups.generator import (
    CHANGE_EVERY_S,
    CHANGES,
    MEMBERS_MAX,
    PAUSE_S,
    Change,
    next_change,
)
from jepsen.groups.names import SESSION_MS


def test_changes_come_from_the_seed_and_have_their_shares():
    assert next_change(Random(1)) == next_change(Random(1)) != next_change(Random(2))
    rng = Random(3)
    changes = [next_change(rng) for _ in range(1000)]
    kinds = Counter(change.kind for change in changes)
    assert set(kinds) == set(CHANGES)
    assert kinds["join"] > kinds["kill"] > kinds["leave"] > kinds["pause"] > 100
    mean_s = sum(change.pause_s for change in changes) / len(changes)
    assert 0.9 * CHANGE_EVERY_S < mean_s < 1.1 * CHANGE_EVERY_S
    assert all(0 <= change.choice < 1 for change in changes)


def test_a_pause_is_longer_than_a_session():
    assert PAUSE_S * 1000 > SESSION_MS


@pytest.mark.parametrize(
    ("kind", "alive", "able", "found"),
    [
        ("join", 0, 0, "join"),
        ("join", MEMBERS_MAX - 1, 1, "join"),
        ("join", MEMBERS_MAX, 1, "leave"),
        ("kill", 1, 1, "kill"),
        ("leave", 1, 1, "leave"),
        ("pause", MEMBERS_MAX, 1, "pause"),
        ("kill", 2, 0, "join"),
    ],
)
def test_a_full_group_gets_no_more_and_an_empty_one_gets_one(kind, alive, able, found):
    assert Change(1.0, kind, 0.5).kind_for(alive, able) == found
