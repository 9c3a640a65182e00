"""The wait for a group at the end of a run."""

from jepsen.groups.patience import CAUGHT_UP_S, Patience


def test_the_wait_begins_anew_when_a_group_has_committed_more_than_ever():
    patience = Patience(100.0)
    assert not patience.is_over({}, 100.0 + CAUGHT_UP_S - 1)
    assert not patience.is_over({"log-0": 3, "log-1": None}, 150.0)
    assert not patience.is_over({"log-0": 3, "log-1": None}, 150.0 + CAUGHT_UP_S - 1)
    assert not patience.is_over({"log-0": 3, "log-1": 1}, 200.0)
    assert not patience.is_over({"log-0": 3, "log-1": 1}, 200.0 + CAUGHT_UP_S - 1)
    assert patience.is_over({"log-0": 3, "log-1": 1}, 200.0 + CAUGHT_UP_S)


def test_a_group_that_commits_nothing_is_waited_for_once():
    assert Patience(0.0).is_over({"log-0": None}, CAUGHT_UP_S)


def test_offsets_that_went_back_and_rise_again_are_no_progress():
    patience = Patience(0.0)
    assert not patience.is_over({"log-0": 5}, 10.0)
    assert not patience.is_over({"log-0": 2}, 20.0)
    assert not patience.is_over({"log-0": 5}, 60.0)
    assert patience.is_over({"log-0": 5}, 10.0 + CAUGHT_UP_S)


def test_progress_at_the_last_moment_is_progress():
    assert not Patience(0.0).is_over({"log-0": 1}, CAUGHT_UP_S)
