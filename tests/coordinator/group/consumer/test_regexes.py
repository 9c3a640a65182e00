"""Regular expressions: syntax, matching, and when a group's are resolved."""

import pytest

from coordinator.group.consumer.draft import GroupDraft
from coordinator.group.consumer.epochs import resolve_regexes
from coordinator.group.consumer.group import ResolvedRegex
from coordinator.group.consumer.heartbeat import HeartbeatResult
from coordinator.group.consumer.regexes import NAMES_PER_STEP, Resolution, regex_error
from coordinator.group.consumer.settings import ConsumerSettings
from tests.coordinator.group.consumer.driver import Driver, topic_id

A, B = topic_id("a1"), topic_id("b1")


@pytest.mark.parametrize(
    ("regex", "reason"),
    [
        ("[", "missing closing ]"),
        ("(", "missing closing )"),
        ("*a", "missing argument to repetition operator"),
        ("a**", "invalid nested repetition operator"),
        ("a{1001}", "invalid repeat count"),
        ("(?<n>a", "missing closing )"),
        ("(?=a)", "invalid or unsupported Perl syntax"),
        ("\\", "trailing backslash at end of expression"),
        ("\\8", "invalid escape sequence"),
        ("[b-a]", "invalid character class range"),
        ("a)", "unexpected )"),
    ],
)
def test_an_expression_that_is_none_is_refused_with_the_reason(regex: str, reason: str) -> None:
    error = regex_error(regex)
    assert error is not None
    assert error.code.name == "invalid_regular_expression"
    assert error.message == (
        f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {reason}."
    )


def test_expressions_that_are_valid() -> None:
    assert [regex_error(text) for text in ("", "a.*", "(?i)x|y", "[a-z]+\\d{2,3}$")] == [None] * 4


def resolution(regexes: list[str], names: list[str], denied: str = "") -> Resolution:
    return Resolution(
        regexes, names, version=7, wall_ms=9, may_describe=lambda name: name not in denied.split()
    )


def test_whole_names_match_of_topics_that_may_be_described() -> None:
    names = ["a", "ab", "abc", "x-a"]
    found = resolution(["a.*", "a", "[", "z"], names, denied="abc")
    assert found.step()
    assert found.result() == {
        "a.*": ResolvedRegex(("a", "ab"), 7, 9),
        "a": ResolvedRegex(("a",), 7, 9),
        "[": ResolvedRegex((), 7, 9),
        "z": ResolvedRegex((), 7, 9),
    }


def test_permission_is_asked_for_what_matches_only() -> None:
    asked = []
    found = Resolution(
        ["a", "a|b"],
        ["a", "b", "c"],
        version=7,
        wall_ms=9,
        may_describe=lambda name: bool(asked.append(name)),
    )
    assert found.step()
    assert asked == ["a", "b"]
    assert found.result()["a"].topic_names == ()


def test_a_step_looks_at_a_bounded_number_of_names() -> None:
    names = [f"t{number:04}" for number in range(NAMES_PER_STEP + 1)]
    found = resolution(["t.*"], names)
    assert not found.step()
    assert len(found.result()["t.*"].topic_names) == NAMES_PER_STEP
    assert found.step()
    assert found.result()["t.*"].topic_names == tuple(names)
    exact = resolution(["t.*"], names[:-1])
    assert not exact.step()
    assert exact.step()


def join(driver: Driver, member_id: str, regex: str, **fields: object) -> HeartbeatResult:
    return driver.beat(
        member_id, 0, owned={}, rebalance_timeout_ms=1, subscribed_topic_regex=regex, **fields
    )


def resolve(driver: Driver, result: HeartbeatResult) -> None:
    assert result.regexes is not None
    found = Resolution(
        result.regexes,
        sorted(driver.cluster.topic_id_by_name),
        version=driver.new_topics_version,
        wall_ms=driver.wall_ms,
        may_describe=lambda _: True,
    )
    assert found.step()
    draft = GroupDraft(driver.group)
    resolve_regexes(draft, found.result(), driver.hashes, driver.cluster)
    driver.take(tuple(draft.records))


@pytest.fixture
def driver() -> Driver:
    """A group of `m1`, which subscribes `a.*`, resolved."""
    driver = Driver({"a1": 2, "b1": 1})
    resolve(driver, join(driver, "m1", "a.*"))
    driver.beat("m1")
    return driver


def test_a_new_expression_waits_for_its_topics() -> None:
    driver = Driver({"a1": 2, "b1": 1})
    result = join(driver, "m1", "a.*")
    assert driver.kinds == ["member", "current"]
    assert result.regexes == {"a.*"}
    assert result.answer.member_epoch == 1
    resolve(driver, result)
    assert driver.kinds == ["regex", "epoch"]
    assert driver.beat("m1").answer.assignment == {A: (0, 1)}
    assert driver.kinds == ["target", "assignment", "current"]


def test_a_bad_expression_is_refused(driver: Driver) -> None:
    joining = {"owned": {}, "rebalance_timeout_ms": 1}
    assert driver.refused("m2", 0, subscribed_topic_regex="[", **joining)[0] == (
        "invalid_regular_expression"
    )
    assert driver.refused("m1", subscribed_topic_regex="[")[0] == "invalid_regular_expression"


def test_a_second_member_with_it_needs_no_resolution(driver: Driver) -> None:
    driver.wall_ms += 20_000
    result = join(driver, "m2", "a.*")
    assert driver.kinds == ["member", "epoch", "target", "target", "assignment", "current"]
    assert result.regexes is None
    assert driver.group.is_homogeneous


def test_a_member_whose_expression_is_not_yet_resolved_raises_no_epoch(driver: Driver) -> None:
    driver.wall_ms += 20_000
    join(driver, "m2", "b.*")
    driver.wall_ms += 1
    result = join(driver, "m3", "b.*")
    assert driver.kinds == ["member", "current"]
    assert result.regexes == {"a.*", "b.*"}
    assert not driver.group.is_homogeneous


def test_another_expression_gives_up_the_topics_of_the_old_one(driver: Driver) -> None:
    driver.wall_ms += 10_001
    result = driver.beat("m1", subscribed_topic_regex="b.*", owned={A: (0, 1)})
    assert driver.kinds == ["member", "regex-", "current"]
    assert (result.answer.assignment, result.regexes) == ({}, {"b.*"})
    resolve(driver, result)
    assert driver.beat("m1", owned={}).answer.assignment == {B: (0,)}


def test_an_expression_that_others_subscribe_stays(driver: Driver) -> None:
    join(driver, "m2", "a.*")
    driver.beat("m2", subscribed_topic_regex="b.*")
    assert driver.kinds == ["member", "current"]
    assert "a.*" in driver.group.resolved


def test_names_in_place_of_an_expression_raise_the_epoch(driver: Driver) -> None:
    driver.beat("m1", subscribed_topic_regex="", owned={A: (0, 1)})
    assert driver.kinds == ["member", "regex-", "epoch", "target", "assignment", "current"]
    assert driver.group.metadata_hash == 0
    driver.beat("m1", subscribed_topic_regex="")
    assert driver.kinds == []


def test_names_and_an_expression_are_both_subscribed(driver: Driver) -> None:
    driver.beat("m1", subscribed_topic_names=("b1", "a1"))
    assert driver.group.targets["m1"] == {A: (0, 1), B: (0,)}
    assert not driver.group.is_homogeneous
    count = driver.group.topic_counts["a1"]
    assert (count.by_name, count.by_regex) == (1, 1)


def is_due(driver: Driver) -> bool:
    return driver.beat("m1").regexes is not None


def test_resolutions_are_ten_seconds_apart_and_due_behind_new_topics(driver: Driver) -> None:
    driver.new_topics_version = 1
    driver.wall_ms += 10_000
    assert not is_due(driver)
    driver.wall_ms += 1
    driver.is_resolving = True
    assert not is_due(driver)
    driver.is_resolving = False
    assert is_due(driver)
    driver.new_topics_version = 0
    assert not is_due(driver)


def test_resolutions_are_due_when_the_refresh_interval_is_over(driver: Driver) -> None:
    driver.settings = ConsumerSettings(regex_refresh_interval_ms=60_000)
    driver.wall_ms += 60_000
    assert not is_due(driver)
    driver.wall_ms += 1
    assert is_due(driver)


def test_the_same_topics_again_are_recorded_without_an_epoch(driver: Driver) -> None:
    driver.wall_ms += 600_001
    resolve(driver, driver.beat("m1"))
    assert driver.kinds == ["regex"]
    assert driver.group.resolved["a.*"].timestamp_ms == driver.wall_ms


def test_an_expression_that_nobody_subscribes_any_more_is_passed_over(driver: Driver) -> None:
    draft = GroupDraft(driver.group)
    gone = {"gone": ResolvedRegex(("b1",), 1, 1)}
    resolve_regexes(draft, gone, driver.hashes, driver.cluster)
    assert draft.records == []


def test_a_group_without_expressions_asks_for_no_resolution() -> None:
    driver = Driver({"a1": 2})
    assert driver.join("m1", "a1").regexes is None
    driver.wall_ms += 10**9
    assert driver.beat("m1").regexes is None
