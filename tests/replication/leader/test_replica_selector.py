"""The replica that a consumer reads from: of which it may choose, and which it is."""

import pytest

from replication.leader.replica_selector import ReplicaView, select_in_rack


def view(replica_id, rack="a", end=5, caught_up_ms=100):
    return ReplicaView(replica_id, rack, end, caught_up_ms)


@pytest.mark.parametrize(
    ("rack", "leader_rack", "followers", "selected"),
    [
        ("a", "b", [view(2)], 2),
        ("a", None, [view(2), view(3, "c")], 2),
        ("a", "a", [view(2)], None),
        ("a", "b", [view(2, "b"), view(3, None)], None),
        ("a", "b", [], None),
        ("", "b", [view(2, "")], None),
        ("", "b", [view(2, None)], None),
        ("a", "b", [view(2, end=6), view(3)], 2),
        ("a", "b", [view(2, end=6, caught_up_ms=0), view(3)], 2),
        ("a", "b", [view(2), view(3, end=6)], 3),
        ("a", "b", [view(2, caught_up_ms=101), view(3)], 2),
        ("a", "b", [view(3, caught_up_ms=99), view(2)], 2),
        ("a", "b", [view(3), view(2)], 3),
        ("a", "b", [view(2), view(3)], 3),
    ],
)
def test_the_most_caught_up_follower_in_the_rack_unless_the_leader_is_there(
    rack, leader_rack, followers, selected
):
    assert select_in_rack(rack, leader_rack, followers) == selected
