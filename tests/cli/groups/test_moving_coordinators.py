"""`kraftline groups` while a coordinator moves, loads, or cannot be reached."""

import pytest

from tests.cli.groups.group_broker import (
    CONSUMER_GROUP_DESCRIBE,
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    FIND_COORDINATOR,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
)
from tests.cli.groups.test_consumer_groups import broker, ran, told


@pytest.mark.parametrize("code", [14, 15, 16])
def test_a_coordinator_that_moves_or_loads_is_asked_again(code: int) -> None:
    made = broker()
    asked = [CONSUMER_GROUP_DESCRIBE, DESCRIBE_GROUPS, OFFSET_FETCH, FIND_COORDINATOR]
    made.errors = [(key, code) for key in asked]
    assert told(made, "--describe", "--group", "idle")["groups"][0]["state"] == "Empty"
    made.errors = [(OFFSET_COMMIT, code), (DELETE_GROUPS, code), (OFFSET_DELETE, code)]
    told(made, "--reset-offsets", "--group", "idle", "--topic", "t", "--to-latest", "--execute")
    assert made.groups["idle"].offsets[("t", 0)] == (10, -1)
    told(made, "--delete-offsets", "--group", "idle", "--topic", "t")
    assert made.groups["idle"].offsets == {}
    told(made, "--delete", "--group", "idle")
    assert "idle" not in made.groups
    finds = sum(key == FIND_COORDINATOR for key, _ in made.asked)
    assert finds == (5 if code == 14 else 11)


def test_it_is_asked_until_the_timeout() -> None:
    for api_key, said in ((FIND_COORDINATOR, "No coordinator of group idle in time: "),
                          (DELETE_GROUPS, "No answer about group idle in time: ")):  # fmt: skip
        made = broker()
        made.errors = [(api_key, 15)] * 99
        _, out, _ = ran(made, "--delete", "--group", "idle", "--timeout", "2000")
        assert f"TimeoutException: {said}" in out
        assert "CoordinatorNotAvailableException: The coordinator is not available." in out
        assert made.clock.at_ms == 2000
    made.errors, made.refused = [], [DELETE_GROUPS] * 99
    _, out, _ = ran(made, "--delete", "--group", "idle", "--timeout", "500")
    assert "No answer about group idle in time: h:1: Connection refused" in out


@pytest.mark.parametrize(("action", "asked"), [("--delete", 0), ("--describe", 1)])
def test_a_coordinator_that_cannot_be_reached_is_found_again(action: str, asked: int) -> None:
    """Nor for its version, where that matters."""
    made = broker()
    made.refused = [FIND_COORDINATOR]
    made.refused_count = 1
    assert "refused" not in told(made, action, "--group", "idle")
    assert (made.refused, made.refused_count) == ([], 1 - asked)
