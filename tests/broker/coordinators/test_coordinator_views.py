"""Views of the coordinators of a broker, for another thread."""

from coordinator.records.kinds import CONSUMER_OFFSETS
from coordinator.runtime.shards import partition_for
from tests.broker.coordinators.coordinated import PARTITIONS
from tests.broker.coordinators.test_classic_apis import CONFIG, Members
from tests.broker.metadata_log import A, B
from tests.storage.test_unified_log import produced
from wire.types import TopicId


def test_images_are_those_of_the_loaded_partitions() -> None:
    broker = Members(groups=CONFIG)
    views = broker.broker.coordinators
    assert (views.groups().partition_count, views.groups().images) == (0, {})
    broker.metadata.topic(CONSUMER_OFFSETS, b"o" * 16, partitions=PARTITIONS)
    broker.publish()
    assert views.groups().partition_count == PARTITIONS
    broker.settle()
    broker.commit({"a": [(0, 3)]})
    held = views.groups()
    assert (sorted(held.images), held.loading_count) == ([0, 1, 2], 0)
    assert list(held.images[partition_for("g", PARTITIONS)].groups) == ["g"]
    assert views.transactions().partition_count == 0
    assert views.default_assignor == "uniform"


def test_states_of_classic_groups_are_those_of_the_moment() -> None:
    broker = Members(groups=CONFIG)
    broker.offsets()
    broker.commit({"a": [(0, 3)]}, group="simple")
    broker.stable("g")
    broker.join(group_id="g", version=3)
    views = broker.broker.coordinators
    assert views.classic_states(("g", "simple", "none")) == {
        "g": "PreparingRebalance", "simple": "Empty",
    }  # fmt: skip
    assert Members(groups=CONFIG).broker.coordinators.classic_states(("g",)) == {}


def test_ends_are_high_watermarks_of_logs_here() -> None:
    broker = Members(groups=CONFIG)
    broker.broker._replicas.append(
        {(A, 1): produced(1, 2, 3)}, required_acks=1, timeout_ms=0, answer=lambda _: None
    )
    broker.settle()
    wanted = ((A, 0), (A, 1), (B, 0), (TopicId(b"x" * 16), 0))
    assert broker.broker.coordinators.ends(wanted) == {(A, 0): 0, (A, 1): 3, (B, 0): 0}
