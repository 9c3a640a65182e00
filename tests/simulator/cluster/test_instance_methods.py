import pytest

from simulator.cluster.instance_methods import replace_method
from simulator.cluster.scheduler import Scheduler


def test_one_object_has_another_method_and_the_others_keep_theirs():
    watched, other = Scheduler(), Scheduler()
    replace_method(watched, "place", lambda: 7)
    assert (watched.place(), other.place()) == (7, 1)


def test_a_method_that_the_class_does_not_have_cannot_be_replaced():
    with pytest.raises(AssertionError, match="Scheduler has no method plaice"):
        replace_method(Scheduler(), "plaice", print)
