"""Checks that look at what is there, not only at where it ends; each refuses what was made up."""

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from metadata.delta import MetadataDelta, delta_between
from metadata.image import EMPTY, Image
from metadata.loader import CommittedBatch
from metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from simulator.checks.liveness.convergence import Convergence, converge, why_logs_differ
from simulator.checks.liveness.liveness import (
    bound_elections,
    epochs_of_lost_connections,
    highest_epoch,
    why_not_at_rest,
)
from simulator.checks.metadata.partition_index import PartitionIndexCheck, why_index_is_wrong
from simulator.checks.metadata.publications import (
    COMPARED_EVERY,
    PublicationWatch,
    why_delta_is_wrong,
)
from simulator.checks.operations.clients import ClientChecks
from simulator.checks.operations.committed_writes import CommittedWrites
from simulator.checks.violation import Violation
from simulator.cluster.requests import CONFIG, TOPIC_RESOURCE, Operation
from simulator.mutants.hunt import mutant_of
from tests.simulator.checks.test_invariants import write_snapshot
from tests.simulator.worlds import (
    BUSIER,
    append,
    broken,
    follower,
    leader,
    log_of,
    look,
    past_of,
    quiet_world,
    state_of,
)
from wire.types import OffsetAndEpoch

ID, OTHER = b"\x01" * 16, b"\x02" * 16


@pytest.fixture
def world():
    return quiet_world()


# ---- I10: a voter counts with the same entry only ------------------------------------------------


def append_at_all(world, contents):
    """One durable batch of the leader's epoch at each voter; node -> its content."""
    epoch = leader(world).kernel.core.epoch
    for number in world.voters:
        machine = world.machines[number]
        append(machine, epoch, contents[number])
        log_of(machine).flush_plan().run()
    machine = leader(world)
    state_of(machine).log.extend(log_of(machine).end_offset)
    state_of(machine).high_watermark = log_of(machine).end_offset
    return machine


def test_i10_voters_that_have_something_else_there_do_not_count(world):
    contents = dict.fromkeys(world.voters, b"other") | {leader(world).id: b"its own"}
    machine = append_at_all(world, contents)
    assert "durable there at the voters" in broken(world, machine, "I10")


def test_i10_voters_with_the_same_entry_count(world):
    machine = append_at_all(world, dict.fromkeys(world.voters, b"same"))
    end = log_of(machine).end_offset
    mirrors = world.invariants.mirrors
    held = {n: mirrors[n].durable_entry(world.machines[n].vfs, end) for n in world.voters}
    assert len(set(held.values())) == 1
    assert None not in held.values()
    assert mirrors[machine.id].durable_entry(machine.vfs, end + 1) is None


# ---- I12: what was acknowledged is committed, what failed is not ---------------------------------


def asked(kind, name="topic-0", **more):
    more = {"target": 1, "called_us": 10, "returned_us": 20, "outcome": "ok"} | more
    return Operation(client=1_000, kind=kind, name=name, **more)


def writes_of(*records):
    writes = CommittedWrites()
    writes.take([CommittedBatch(0, len(records), 1, 0, records)])
    return writes


def checks_of(*records, partition_count=0):
    return ClientChecks(writes_of(*records), partition_count)


CREATED = TopicRecord(name="topic-0", topic_id=ID)
CONFIGURED = ConfigRecord(
    resource_type=TOPIC_RESOURCE, resource_name="register", name=CONFIG, value="7"
)


@pytest.mark.parametrize(
    ("operation", "record"),
    [
        (asked("create", topic_id=ID), CREATED),
        (asked("delete", topic_id=ID), RemoveTopicRecord(topic_id=ID)),
        (asked("write", "register", value="7"), CONFIGURED),
    ],
    ids=("create", "delete", "write"),
)
def test_i12_an_acknowledged_write_is_committed(operation, record):
    before = () if operation.kind in ("create", "write") else (CREATED,)
    wrong = checks_of(*before).on_acknowledged(operation)
    assert "was acknowledged and is not committed" in str(wrong)
    assert checks_of(*before, record).on_acknowledged(operation) is None


@pytest.mark.parametrize("numbers", [(), (0,), (0, 1), (0, 1, 2), (1, 2)])
def test_i12_an_acknowledged_topic_has_the_partitions_that_were_asked_for(numbers):
    created = [PartitionRecord(topic_id=ID, partition_id=number) for number in numbers]
    others = [PartitionRecord(topic_id=OTHER, partition_id=number) for number in (0, 1)]
    checks = checks_of(CREATED, *created, *others, partition_count=2)
    wrong = checks.on_acknowledged(asked("create", topic_id=ID))
    if numbers == (0, 1):
        assert wrong is None
    else:
        assert f"with 2 partitions, committed are {list(numbers)}" in str(wrong)


def test_i12_two_acknowledgements_need_two_records():
    checks = checks_of(CREATED)
    assert checks.on_acknowledged(asked("create", topic_id=ID)) is None
    assert "was acknowledged to 1000 before" in str(
        checks.on_acknowledged(asked("create", topic_id=ID))
    )


def test_i12_an_acknowledgement_names_the_topic_that_was_asked_for():
    checks = checks_of(CREATED)
    other = asked("create", "topic-1", topic_id=ID)
    assert "that topic is named topic-0" in str(checks.on_acknowledged(other))
    assert "without a topic id" in str(checks.on_acknowledged(asked("create")))


def test_i12_the_world_asks_when_a_client_is_told(world):
    with pytest.raises(Violation, match="I12: delete of topic-0"):
        world._on_acknowledged(asked("delete", topic_id=OTHER))


def refused(kind, name="topic-0", **more):
    return asked(kind, name, outcome="fail", error="REFUSED", **more)


def test_i12_what_failed_is_not_committed():
    checks = checks_of(CREATED, CONFIGURED)
    assert checks.failed_but_committed([asked("create", topic_id=ID)], {}) is None
    assert "1 times create of topic-0 is committed" in str(
        checks.failed_but_committed([refused("create")], {})
    )
    made = asked("create", topic_id=ID)
    failed = refused("write", "register", value="7")
    assert "write of register=7 failed" in str(checks.failed_but_committed([made, failed], {}))


def test_i12_a_config_is_written_as_often_as_it_was_sent():
    checks = checks_of(CONFIGURED, CONFIGURED)
    write = asked("write", "register", value="7")
    assert checks.on_acknowledged(write) is None
    wrong = checks.failed_but_committed([write], {})
    assert wrong == "write of register=7 was sent 1 times and is committed 2 times"
    assert checks.failed_but_committed([write], {1: [15]}) is None, "a broker sent it once more"


def test_i12_a_refusal_by_the_state_did_nothing():
    checks = checks_of(CREATED, RemoveTopicRecord(topic_id=ID))
    made = asked("create", topic_id=ID)
    gone = asked("delete", outcome="info", error="unknown_topic_or_partition")
    assert "delete of topic-0" in str(checks.failed_but_committed([made, gone], {}))
    observed = asked("delete", outcome="info", error=gone.error, is_observation=True)
    assert "delete of topic-0" in str(checks.failed_but_committed([made, observed], {}))


def test_i12_what_nobody_knows_or_was_sent_again_may_be_committed():
    checks = checks_of(CREATED, TopicRecord(name="topic-0", topic_id=OTHER))
    made = asked("create", topic_id=ID)
    lost = asked("create", outcome="info", error="TIMED_OUT")
    assert checks.failed_but_committed([made, lost], {}) is None
    assert "2 times create" in str(checks.failed_but_committed([made], {}))
    assert checks.failed_but_committed([made], {1: [15]}) is None


def test_the_records_of_a_transaction_count_when_it_ends():
    begun = (BeginTransactionRecord(), CREATED)
    assert writes_of(*begun).created == {}
    assert writes_of(*begun, EndTransactionRecord()).created == {ID: "topic-0"}
    aborted = writes_of(*begun, AbortTransactionRecord(), CONFIGURED)
    assert aborted.created == {}
    assert len(aborted.configs) == 1


# ---- I13: a snapshot ends where a batch does -----------------------------------------------------


def test_i13_a_snapshot_that_ends_inside_a_batch(world):
    machine = follower(world)
    entry = next(e for e in world.invariants.ledger.entries if e.end_offset - e.base_offset > 1)
    write_snapshot(machine, OffsetAndEpoch(entry.end_offset - 1, entry.epoch), Image())
    text = broken(world, machine, "I13")
    assert f"no committed batch ends at {entry.end_offset - 1}" in text


def test_a_snapshot_whose_image_is_not_kept_is_counted(world):
    machine = follower(world)
    image = machine.kernel.cache.image
    world.invariants.ledger.images.clear()
    write_snapshot(machine, image.provenance.snapshot_id, image)
    look(world, machine)
    assert world.probes.counts["snapshot_not_compared"] == 1


# ---- I14: nobody is left without an answer -------------------------------------------------------


def test_i14_a_request_that_outlives_the_controller(world):
    machine = leader(world)
    state = machine.kernel.state
    look(world, machine)
    state._replies.expect(lambda _: None)
    look(world, machine)  # active: it may still answer
    state.controller.resign()
    assert "1 requests were not answered" in broken(world, machine, "I14")


def test_i14_an_image_that_is_not_the_committed_one(world):
    machine = leader(world)
    look(world, machine)
    controller = machine.kernel.state.controller
    controller.committed = replace(controller.committed, topics=Image().topics)
    controller.latest = controller.committed
    controller._batches.clear()
    assert "is not: topics" in broken(world, machine, "I14")


# ---- I14: the index of partitions ----------------------------------------------------------------


def index_of(machine):
    return machine.kernel.state.controller._index


@pytest.mark.parametrize("name", ["leaderless", "imbalanced", "reassigning"])
@pytest.mark.parametrize("is_missing", [True, False])
def test_i14_an_index_that_is_not_that_of_a_scan(world, name, is_missing):
    machine = leader(world)
    look(world, machine)
    assert why_index_is_wrong(index_of(machine), machine.kernel.state.controller.latest) is None
    members = getattr(index_of(machine), name)
    if is_missing:
        (topic_id, topic), *_ = machine.kernel.state.controller.latest.topics.items()
        odd = replace(topic.partitions[0], leader=-1, isr=(), adding_replicas=(1,))
        odd_topic = replace(topic, partitions=topic.partitions.set(0, odd))
        change_topics(machine, lambda topics: topics.set(topic_id, odd_topic))
        for other in {"leaderless", "imbalanced", "reassigning"} - {name}:
            getattr(index_of(machine), other).add((topic_id, 0))
        members.discard((topic_id, 0))
    else:
        change_topics(machine, lambda topics: topics.set(ID, first_topic(machine)))
        members.add((OTHER, 0))
    assert f"its partition index has {name} " in broken(world, machine, "I14")


def test_i14_an_index_that_lacks_a_topic_of_a_broker(world):
    machine = leader(world)
    look(world, machine)
    index = index_of(machine)
    broker_id, topics = next(iter(index._topics_by_broker.items()))
    topics.pop()
    look(world, machine)  # nothing changed since the index was compared
    change_topics(machine, lambda topics: topics.set(ID, first_topic(machine)).delete(ID))
    text = broken(world, machine, "I14")
    assert f"its partition index lacks topics of broker {broker_id}: " in text


def test_i14_an_index_is_compared_again_in_a_new_epoch(world):
    controller = leader(world).kernel.state.controller
    check = PartitionIndexCheck()
    assert check.broken(controller) is None
    controller._index.leaderless.add((ID, 0))
    assert check.broken(controller) is None
    controller._epoch += 1
    assert "leaderless" in str(check.broken(controller))


def test_an_index_may_have_topics_that_a_broker_left(world):
    machine = leader(world)
    index = index_of(machine)
    next(iter(index._topics_by_broker.values())).add(OTHER)
    assert why_index_is_wrong(index, machine.kernel.state.controller.latest) is None


def first_topic(machine):
    return next(iter(machine.kernel.state.controller.latest.topics.values()))


def change_topics(machine, change):
    """The latest image of the controller has other topics, of which its index knows nothing."""
    controller = machine.kernel.state.controller
    latest = controller.latest
    controller.latest = replace(latest, topics=change(latest.topics))


# ---- I17: what publishers are told ---------------------------------------------------------------


def test_i17_a_delta_that_lacks_what_differs(world):
    after = leader(world).kernel.cache.image
    exact = delta_between(EMPTY, after)
    assert exact.topics_created
    assert exact.partitions_changed
    assert why_delta_is_wrong(EMPTY, after, exact) is None
    for name in ("topics_created", "partitions_changed", "brokers", "features"):
        poor = replace(exact, **{name: set()})
        assert f"has {name} set()" in str(why_delta_is_wrong(EMPTY, after, poor))
    more = replace(exact, configs=exact.configs | {(2, "nothing")})
    assert why_delta_is_wrong(EMPTY, after, more) is None
    deleted = replace(exact, topics_deleted={ID})
    assert "topics_deleted" in str(why_delta_is_wrong(EMPTY, after, deleted))


def test_i17_the_deltas_that_a_node_publishes_are_looked_at(world):
    machine = follower(world)
    kernel, watch = machine.kernel, world.invariants._publications[machine.id]
    image = kernel.cache.image
    for _ in range(COMPARED_EVERY):
        kernel.publishers.image = EMPTY
        watch.publish(EMPTY, image, MetadataDelta())
    past_of(world, machine).applied -= 1
    assert "the images differ in" in broken(world, machine, "I17")


def unsound(image):
    """The image with a leader outside the ISR in one partition of one topic."""
    topic_id, topic = next(iter(image.topics.items()))
    bad = replace(topic.partitions[0], leader=topic.partitions[0].replicas[0], isr=())
    bad_topic = replace(topic, partitions=topic.partitions.set(0, bad))
    return replace(image, topics=image.topics.set(topic_id, bad_topic))


@pytest.mark.parametrize("first", [True, False])
def test_i17_an_image_that_breaks_an_invariant_of_metadata(world, first):
    """By the process that publishes it: the first one and every later one."""
    machine = follower(world)
    image = machine.kernel.cache.image
    watch = world.invariants._publications[machine.id] = PublicationWatch()
    if not first:
        watch.publish(EMPTY, image, delta_between(EMPTY, image))
    assert watch.broken is None
    bad = unsound(image)
    watch.publish(image, bad, delta_between(image, bad))
    for _ in range(COMPARED_EVERY):  # what was wrong first is kept
        watch.publish(bad, image, delta_between(bad, image))
    past_of(world, machine).applied -= 1
    end_offset = image.provenance.end_offset
    text = f"the image of {end_offset} breaks INV-MD-3 the leader is not in the ISR"
    assert text in broken(world, machine, "I17")


def test_i17_a_node_publishes_what_it_applied(world):
    machine = follower(world)
    world.invariants.compare_image(machine, machine.kernel)
    loader = machine.kernel.loader
    end_offset = loader.end_offset
    later = replace(loader.image.provenance, end_offset=end_offset + 1)
    loader.adopt(replace(loader.image, provenance=later), MetadataDelta())
    with pytest.raises(Violation, match=f"applied {end_offset + 1} and publishes .* {end_offset}"):
        world.invariants.compare_image(machine, machine.kernel)


def test_a_node_whose_image_lags_is_not_at_rest(world):
    machine = follower(world)
    assert why_not_at_rest(world, tuple(world.machines)) == ""
    image = machine.kernel.cache.image
    earlier = replace(image.provenance, end_offset=image.provenance.end_offset - 1)
    machine.kernel.cache.image = replace(image, provenance=earlier)
    assert f"published {earlier.end_offset} of" in why_not_at_rest(world, tuple(world.machines))


def test_elections_after_the_heal_are_bounded(world):
    """Ten a minute, and two for each leader that a connection lost without a word may mute."""
    core = tuple(world.machines)
    lost = epochs_of_lost_connections(world.settings)
    settings = world.settings
    assert lost * settings.fetch_timeout_ms * 3 // 4 >= settings.request_timeout_ms
    reached = highest_epoch(world, core)
    bound_elections(world, core, reached - 10 - lost, world.scheduler.now_us)
    with pytest.raises(Violation, match=f"{11 + lost} epochs within 1 min without new faults"):
        bound_elections(world, core, reached - 11 - lost, world.scheduler.now_us)


# ---- liveness: logs and snapshots ----------------------------------------------------------------


def test_logs_that_end_elsewhere_have_not_converged(world):
    converge(world)
    assert Convergence(world).is_reached()
    machine = follower(world)
    append(machine, machine.kernel.core.epoch)
    state_of(machine).log.extend(log_of(machine).end_offset)
    assert "log ends and high watermarks differ" in why_logs_differ(world)


def is_judged_at_its_best_moment(keeping):
    """Snapshots that were right while the logs did not agree need not be right again."""
    strict = keeping.settings
    keeping.settings = replace(strict, retention_bytes=-1, record_bytes_between_snapshots=1_000_000)
    found = Convergence(keeping)
    machine = next(iter(keeping.machines.values()))
    kernel, machine.kernel = machine.kernel, None
    assert not found.is_reached()
    assert found.why_not() == f"node {machine.id} is down"
    machine.kernel, keeping.settings = kernel, strict
    assert found.is_reached()
    assert not Convergence(keeping).is_reached()


def test_snapshots_that_fall_behind_have_not_converged():
    often = BUSIER | {"record_bytes_between_snapshots": 1_000, "retention_bytes": 3_000}
    world = quiet_world(**often)
    converge(world)
    assert max(m.kernel.core.log_start_offset for m in world.machines.values()) > 0
    assert Convergence(world).why_not() == ""
    keeping = SimpleNamespace(
        settings=replace(world.settings, retention_bytes=0, record_bytes_between_snapshots=100),
        machines=world.machines,
    )
    assert "one is due every 100" in Convergence(keeping).why_not()
    is_judged_at_its_best_moment(keeping)
    with mutant_of(42).apply():
        lagging = quiet_world(**often)
    assert "one is due every 1000" in Convergence(lagging).why_not()
