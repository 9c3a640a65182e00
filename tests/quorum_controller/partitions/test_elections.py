"""Elections that are asked for and those the controller holds by itself; ELR (KIP-966)."""

from types import SimpleNamespace

import pytest
from kio.schema.broker_registration.v4.request import Feature

from metadata.image import CONFIG_BROKER, CONFIG_TOPIC
from metadata.records import (
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
)
from quorum_controller.config import ElectionIntervals
from quorum_controller.partitions.electorate import PartitionDefaults
from quorum_controller.partitions.elr import (
    clear_elr_records,
    elr_activation_records,
    min_isr_change_error,
)
from quorum_controller.result import RECORDS_PER_SLICE_MAX, Draft
from tests.quorum_controller.controller_harness import SECOND, Harness, incarnation, manual
from wire.api_keys import ELECT_LEADERS

INTERVAL_MS = 300_000
UNCLEAN = {"unclean.leader.election.enable": "true"}


def started(level=21, *, elr=False, brokers=(1, 2, 3), **config):
    """Unfenced brokers that support everything; sessions never end."""
    cluster = Harness(level, session_timeout_ms=10**9, **config)
    if elr:
        emit(cluster, FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1))
    for broker_id in brokers:
        register(cluster, broker_id)
        cluster.heartbeat(broker_id)
    return cluster


def emit(cluster, *records):
    draft = Draft(cluster.image, cluster.controller.next_offset)
    for record in records:
        draft.emit(record)
    cluster.take_draft(draft)


def register(cluster, broker_id, **more):
    features = [("metadata.version", 1, 29), ("eligible.leader.replicas.version", 0, 1)]
    ranges = tuple(
        Feature(name=name, min_supported_version=low, max_supported_version=high)
        for name, low, high in features
    )
    return cluster.register(broker_id, features=ranges, **more)


def run_until_quiet(cluster):
    """Do what is due now, until nothing is."""
    while cluster.controller.next_deadline_ms() <= cluster.now_ms:
        cluster.tick()
        cluster.commit()


def elect(cluster, kind, topics):
    body = SimpleNamespace(election_type=kind, topic_partitions=topics, timeout=SECOND)
    return cluster.call(ELECT_LEADERS, body)


def named(name, *numbers):
    return SimpleNamespace(topic=name, partitions=numbers)


def codes(response):
    return [
        (row.topic, [(p.partition_id, int(p.error_code)) for p in row.partition_result])
        for row in response.replica_election_results
    ]


def fence(cluster, *broker_ids):
    for broker_id in broker_ids:
        cluster.heartbeat(broker_id, fence=True)


def end_sessions(cluster):
    """Let the sessions of fenced brokers end: another incarnation need not wait any more."""
    cluster.now_ms += cluster.config.session_timeout_ms + 1


def test_election_types_and_what_they_answer():
    cluster = started()
    cluster.create(manual("t", (1, 2), (2, 1)))
    fence(cluster, 1)
    assert codes(elect(cluster, 0, (named("t", 0, 1, 9), named("u", 0)))) == [
        ("t", [(0, 80), (1, 84), (9, 3)]),
        ("u", [(0, 3)]),
    ]
    unknown = elect(cluster, 7, (named("t", 0),))
    assert (int(unknown.error_code), codes(unknown)) == (42, [("t", [(0, 42)])])
    assert unknown.replica_election_results[0].partition_result[0].error_message == (
        "Unknown election type 7"
    )
    fence(cluster, 2)
    assert codes(elect(cluster, 1, (named("t", 0),))) == [("t", [(0, 83)])]
    assert codes(elect(cluster, 0, None)) == [("t", [(0, 80), (1, 80)])]


def test_an_explicit_unclean_election_needs_no_permission_of_the_topic():
    cluster = started()
    cluster.create(manual("t", (1, 2)))
    fence(cluster, 2)  # the ISR is [1]
    fence(cluster, 1)
    cluster.heartbeat(2)
    assert not cluster.partition("t").has_leader
    assert codes(elect(cluster, 1, (named("t", 0),))) == [("t", [(0, 0)])]
    partition = cluster.partition("t")
    assert (partition.leader, partition.isr, partition.leader_recovery_state) == (2, (2,), 1)


def test_leaders_go_back_to_the_first_replica_after_an_interval():
    cluster = started()
    cluster.create(manual("t", (1, 2)))
    fence(cluster, 1)
    cluster.heartbeat(1)
    emit_isr(cluster, "t", (1, 2))
    assert cluster.partition("t").leader == 2
    cluster.tick(INTERVAL_MS - 1)
    cluster.commit()
    assert cluster.partition("t").leader == 2
    cluster.tick(1)
    assert cluster.partition("t").leader == 1


def emit_isr(cluster, name, isr):
    topic_id = cluster.image.topic_id_by_name[name]
    emit(
        cluster,
        *(
            PartitionChangeRecord(partition_id=number, topic_id=topic_id, isr=isr)
            for number in cluster.image.topics[topic_id].partitions
        ),
    )


def test_a_topic_that_is_gone_waits_for_no_balance():
    cluster = started()
    cluster.create(manual("t", (1, 2)))
    fence(cluster, 1)
    cluster.heartbeat(1)
    assert cluster.controller._index.imbalanced
    cluster.delete("t")
    assert not cluster.controller._index.imbalanced


def test_balancing_can_be_switched_off():
    cluster = started(elections=ElectionIntervals(preferred_ms=None, unclean_ms=None))
    cluster.create(manual("t", (1, 2)))
    fence(cluster, 1)
    cluster.heartbeat(1)
    emit_isr(cluster, "t", (1, 2))
    cluster.tick(10 * INTERVAL_MS)
    assert cluster.partition("t").leader == 2


def test_balancing_works_in_slices():
    cluster = started()
    cluster.create(manual("t", *[(1, 2)] * 2_500))
    fence(cluster, 1)
    run_until_quiet(cluster)
    cluster.heartbeat(1)
    emit_isr(cluster, "t", (1, 2))
    before = len(cluster.batches)
    cluster.tick(INTERVAL_MS)
    run_until_quiet(cluster)
    sizes = [len(b.records) for b in cluster.batches[before:] if len(b.records) > 1]
    assert (sum(sizes), max(sizes)) == (2_500, RECORDS_PER_SLICE_MAX)
    assert all(p.leader == 1 for p in cluster.image.topic_named("t").partitions.values())


@pytest.mark.parametrize(("properties", "leader"), [(UNCLEAN, 2), ({}, -1)])
def test_leaderless_partitions_where_topics_allow_it(properties, leader):
    cluster = started()
    cluster.create(manual("t", (1, 2)))
    fence(cluster, 2)
    fence(cluster, 1)
    cluster.heartbeat(2)
    records = [
        ConfigRecord(resource_type=CONFIG_TOPIC, resource_name="t", name=name, value=value)
        for name, value in properties.items()
    ]
    if records:
        emit(cluster, *records)
    cluster.tick(INTERVAL_MS)
    run_until_quiet(cluster)
    assert cluster.partition("t").leader == leader


# --- ELR ----------------------------------------------------------------------------------------


def eligible(**config):
    cluster = started(29, elr=True, properties={"min.insync.replicas": "2"}, **config)
    cluster.create(manual("t", (1, 2, 3)))
    return cluster


def lists(cluster):
    partition = cluster.partition("t")
    return partition.leader, partition.isr, partition.elr, partition.last_known_elr


def test_who_leaves_a_small_isr_stays_eligible():
    cluster = eligible()
    fence(cluster, 3)
    assert lists(cluster) == (1, (1, 2), (), ())
    fence(cluster, 2)
    assert lists(cluster) == (1, (1,), (2,), ())
    fence(cluster, 1)
    assert lists(cluster) == (-1, (), (1, 2), (1,))
    cluster.heartbeat(2)
    assert lists(cluster) == (2, (2,), (1,), ())
    assert cluster.partition("t").leader_recovery_state == 0, "nothing was lost"


@pytest.mark.parametrize("is_clean", [True, False])
def test_an_unclean_shutdown_ends_eligibility(is_clean):
    cluster = eligible()
    fence(cluster, 3)
    fence(cluster, 2)
    epoch = cluster.image.brokers[2].epoch if is_clean else -1
    end_sessions(cluster)
    register(cluster, 2, incarnation_id=incarnation(77), previous_broker_epoch=epoch)
    assert lists(cluster) == (1, (1,), (2,) if is_clean else (), ())


def test_the_last_known_leader_is_elected_when_it_comes_back():
    cluster = eligible()
    fence(cluster, 3)
    fence(cluster, 2)
    fence(cluster, 1)
    end_sessions(cluster)
    for broker_id in (1, 2):
        register(cluster, broker_id, incarnation_id=incarnation(100 + broker_id))
    assert lists(cluster) == (-1, (), (), (1,))
    cluster.heartbeat(2)
    assert cluster.partition("t").leader == -1
    cluster.heartbeat(1)
    assert lists(cluster) == (1, (1,), (), ())
    assert cluster.partition("t").leader_recovery_state == 1


@pytest.mark.parametrize(("text", "minimum"), [("\x013", 3), ("+3 ", 3), ("x", 2), ("-1", 2)])
def test_the_minimum_is_read_as_its_check_reads_it(text, minimum):
    """Java trims what it accepted; a text that only another implementation wrote is no minimum."""
    cluster = eligible()
    emit(cluster, config(CONFIG_TOPIC, "t", text))
    fence(cluster, 3)
    assert lists(cluster) == (1, (1, 2), (3,) if minimum == 3 else (), ())


def config(kind, name, value="2"):
    return ConfigRecord(
        resource_type=kind, resource_name=name, name="min.insync.replicas", value=value
    )


def test_another_minimum_clears_the_lists():
    image = eligible().image
    assert clear_elr_records(image, [config(CONFIG_TOPIC, "t")]) == [ClearElrRecord(topic_name="t")]
    both = [config(CONFIG_TOPIC, "t"), config(CONFIG_BROKER, "")]
    assert clear_elr_records(image, both) == [ClearElrRecord(topic_name="")]
    assert clear_elr_records(image, []) == []
    assert clear_elr_records(started().image, both) == []


def test_the_minimum_of_the_cluster_is_fixed_while_elr_is_on():
    image = eligible().image
    assert min_isr_change_error(image, CONFIG_TOPIC, "t", None) is None
    assert min_isr_change_error(image, CONFIG_BROKER, "", "3") is None
    for name, value in (("", None), ("1", "3"), ("1", None)):
        assert min_isr_change_error(image, CONFIG_BROKER, name, value) is not None
    assert min_isr_change_error(started().image, CONFIG_BROKER, "1", None) is None


def test_switching_elr_on_gives_the_cluster_one_minimum():
    cluster = started()
    emit(cluster, config(CONFIG_BROKER, "1", "3"))
    assert elr_activation_records(cluster.image, PartitionDefaults(min_insync_replicas=1)) == [
        config(CONFIG_BROKER, "", "1"),
        config(CONFIG_BROKER, "1", None),
    ]
