"""Assignors of clients, and the bytes of a subscription."""

import base64

from hypothesis import given
from hypothesis import strategies as st

from cli.groups.membership.assignors import assign_range, assign_round_robin, ordered
from cli.groups.membership.subscriptions import subscription_bytes
from coordinator.group.consumer.client_protocol import subscription_of

TWO = {"b": (None, ("t", "u")), "a": (None, ("t", "u"))}
NAMES = st.sampled_from("tuvw")
SUBSCRIPTIONS = st.dictionaries(
    st.text("abc", min_size=1, max_size=2),
    st.tuples(st.none(), st.lists(NAMES, unique=True).map(tuple)),
    max_size=5,
)
COUNTS = st.dictionaries(NAMES, st.integers(0, 7))


def test_static_members_come_first_in_the_order_of_their_instances() -> None:
    members = {"a": (None, ()), "z": ("2", ()), "y": ("3", ()), "b": (None, ())}
    assert ordered(members) == ["z", "y", "a", "b"]


def test_range_gives_neighbours_of_each_topic() -> None:
    assert assign_range(TWO, {"t": 3, "u": 2}) == {
        "a": {"t": (0, 1), "u": (0,)},
        "b": {"t": (2,), "u": (1,)},
    }
    assert assign_range(TWO, {"t": 1}) == {"a": {"t": (0,)}, "b": {}}
    assert assign_range({"a": (None, ("t",)), "b": (None, ("u",))}, {"t": 2, "u": 1, "v": 4}) == {
        "a": {"t": (0, 1)},
        "b": {"u": (0,)},
    }


def test_round_robin_goes_on_over_topics() -> None:
    assert assign_round_robin(TWO, {"t": 3, "u": 2}) == {
        "a": {"t": (0, 2), "u": (1,)},
        "b": {"t": (1,), "u": (0,)},
    }
    only = {"a": (None, ("t",)), "b": (None, ("u",))}
    assert assign_round_robin(only, {"t": 2, "u": 1, "v": 1}) == {
        "a": {"t": (0, 1)},
        "b": {"u": (0,)},
    }


@given(SUBSCRIPTIONS, COUNTS)
def test_every_partition_that_somebody_reads_has_one_reader(members, counts) -> None:
    for assign in (assign_range, assign_round_robin):
        found = assign(members, counts)
        assert found.keys() == members.keys()
        given_out = sorted((t, n) for topics in found.values() for t, ns in topics.items()
                           for n in ns)  # fmt: skip
        read = {topic for _, topics in members.values() for topic in topics}
        assert given_out == sorted((t, n) for t in counts if t in read for n in range(counts[t]))
        assert all(topic in members[m][1] for m, topics in found.items() for topic in topics)


def test_a_subscription_is_that_of_kafkas_consumer() -> None:
    recorded = "AAMAAAABAAZvcmRlcnP/////AAAAAP///////w=="
    assert subscription_bytes(("orders",)) == base64.b64decode(recorded)
    assert subscription_of(subscription_bytes(("a", "ü"))).topics == ("a", "ü")
