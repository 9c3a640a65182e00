"""A group whose coordinator is not there: told once, when it lasts."""

import pytest

from cli.groups.membership.actions import GroupConfig, MemberError
from cli.groups.membership.coordinator_link import PATIENCE_MS
from tests.cli.groups.group_broker import FIND_COORDINATOR
from tests.cli.groups.member_broker import HEARTBEAT
from tests.cli.groups.test_group_consumer import BOTH, CLASSIC, THREE, Reader, broker, changed


@BOTH
def test_a_coordinator_that_is_not_there_is_told_once_and_waited_for(config: GroupConfig) -> None:
    reader = Reader(broker(), config)
    reader.broker.errors = [(FIND_COORDINATOR, 15)] * 3
    assert reader.poll(2000) == THREE
    assert reader.told == [["t-0", "t-1"]], "its topic may just have been created"
    reader = Reader(reader.broker, config)
    reader.broker.errors = [(FIND_COORDINATOR, 15)] * 60
    assert reader.poll(9000) == THREE
    (first, assigned) = reader.told
    assert str(first).startswith("No coordinator of group g yet: ")
    assert ("CoordinatorNotAvailableException" in str(first), assigned) == (True, ["t-0", "t-1"])
    reader.broker.errors = [(FIND_COORDINATOR, 30)]
    with pytest.raises(MemberError, match="Group authorization failed"):
        Reader(reader.broker, config).poll()


def test_each_time_without_a_coordinator_is_told() -> None:
    made = broker()
    reader = Reader(made, changed(CLASSIC, enable_auto_commit=False))
    made.errors = [(FIND_COORDINATOR, 15)] * 60
    reader.poll(9000)
    made.errors = [(HEARTBEAT, 16), *[(FIND_COORDINATOR, 15)] * 60]
    reader.poll(20_000)
    texts = [str(text)[:14] for text in reader.told if isinstance(text, str)]
    assert (texts, made.errors) == (["No coordinator"] * 2, [])


@pytest.mark.parametrize(("after_ms", "count"), [(PATIENCE_MS - 1, 0), (PATIENCE_MS, 1)])
def test_a_coordinator_may_be_absent_for_some_seconds(after_ms: int, count: int) -> None:
    """Its topic is created behind the first look for it."""
    reader = Reader(broker(), CLASSIC)
    for at_ms in (0, after_ms):
        reader.broker.clock.at_ms = at_ms
        reader.broker.errors = [(FIND_COORDINATOR, 15)]
        reader.poll(0)
    assert len(reader.told) == count
