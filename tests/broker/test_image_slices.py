"""Images of many partitions are applied in slices, counted in steps, and later ones behind them."""

from broker.effects import Ready
from broker.replicas.image_queue import Change, ImageQueue
from metadata.delta import MetadataDelta
from metadata.image import EMPTY, Image
from network.turn_budget import TurnBudget
from replication.leader.leadership import Leadership
from replication.roles import Following
from tests.broker.metadata_log import A, B, MetadataLog
from tests.broker.record_hosts import SLICE_UNITS, Host, registered, with_topics

PER_SLICE = SLICE_UNITS // Change.PARTITION
MANY = 2 * PER_SLICE + 10


def publish(host: Host, log: MetadataLog | None = None) -> None:
    """Publish without a step."""
    host.local.publish(*(log or host.log).take())


def hosted_by_step(host: Host) -> list[int]:
    """Number of partitions hosted after each step, until nothing is left to apply."""
    counts = []
    while host.local.is_busy:
        host.turn()
        counts.append(len(host.replicas.partitions))
    return counts


# ---- the queue ---------------------------------------------------------------------------------


def test_a_slice_ends_when_its_cost_is_reached_and_the_next_goes_on() -> None:
    done: list[str] = []

    def applying(_image: Image, delta: MetadataDelta):  # type: ignore[no-untyped-def]
        for number in range(PER_SLICE + 1):
            done.append(f"{min(delta.features)}{number}")
            yield Change.PARTITION

    budget = TurnBudget(SLICE_UNITS)
    queue = ImageQueue(applying, budget)
    for name in "ab":
        queue.put(EMPTY, MetadataDelta(features={name}))
    assert (queue.count, done) == (2, [])
    assert queue.apply_slice() == 0
    assert budget.spent == SLICE_UNITS
    budget.begin()
    assert (queue.count, len(done)) == (2, PER_SLICE)
    assert queue.apply_slice() == 1
    assert queue.count == 1
    budget.begin()
    assert len(done) == 2 * PER_SLICE, "the end of an image costs, too"
    assert queue.apply_slice() == 1
    assert (queue.count, queue.apply_slice()) == (0, 0)
    assert done == [f"{name}{number}" for name in "ab" for number in range(PER_SLICE + 1)]


def test_images_without_changes_cost_too() -> None:
    queue = ImageQueue(lambda _image, _delta: iter(()), TurnBudget(SLICE_UNITS))
    for _ in range(SLICE_UNITS):
        queue.put(EMPTY, MetadataDelta())
    assert queue.apply_slice() == SLICE_UNITS // Change.SETTINGS
    assert queue.count == SLICE_UNITS - SLICE_UNITS // Change.SETTINGS


# ---- local replicas ----------------------------------------------------------------------------


def test_a_step_hosts_some_partitions_of_an_image() -> None:
    host = Host(registered()).started()
    host.log.topic("a", partitions=MANY)
    publish(host)
    assert host.local.is_busy
    assert host.replicas.partitions == {}, "the step that publishes has other work"
    counts = hosted_by_step(host)
    assert counts[-1] == MANY
    steps = [after - before for before, after in zip([0, *counts], counts, strict=False)]
    assert max(steps) == PER_SLICE
    assert len(counts) == 3
    assert [call[1] for call in host.replicas.calls if call[0] == "host"] == [
        (A, number) for number in range(MANY)
    ]


def test_a_step_looks_at_some_partitions_that_are_not_here() -> None:
    host = Host(registered()).started()
    host.log.topic("a", partitions=SLICE_UNITS + 1, replicas=(2,), leader=2)
    publish(host)
    assert hosted_by_step(host) == [0, 0]


def test_a_step_drops_some_partitions() -> None:
    host = Host(registered()).started()
    host.log.topic("a", partitions=MANY)
    publish(host)
    hosted_by_step(host)
    host.log.remove()
    publish(host)
    counts = hosted_by_step(host)
    assert (len(counts), counts[-1]) == (3, 0)
    assert counts[0] > counts[1] >= MANY - 2 * PER_SLICE


def test_deletions_then_leaders_then_followers_each_by_name() -> None:
    host = Host(with_topics("a", partitions=3)).started()
    host.replicas.calls.clear()
    host.log.topic("c", b"c" * 16, partitions=2, replicas=(1, 2), leader=2)
    host.log.topic("b", partitions=11)
    host.log.change(1, replicas=(2,), isr=(2,), leader=2)
    host.publish()
    named = [call[1] for call in host.replicas.calls if call[0] in ("drop", "host")]
    led = [(B, number) for number in range(11)]
    assert named == [(A, 1), *led, (b"c" * 16, 0), (b"c" * 16, 1)]


def test_a_newer_image_waits_behind_and_a_partition_has_the_older_until_then() -> None:
    host = Host(with_topics("b", replicas=(1, 2))).started()
    host.log.topic("a", partitions=MANY)
    publish(host)
    host.log.change(0, B, leader=2)
    publish(host)
    host.turn()
    assert isinstance(host.partition(0, B).role, Leadership)
    assert host.local.is_busy
    hosted_by_step(host)
    assert isinstance(host.partition(0, B).role, Following)
    assert host.partition(0, B).leader_epoch == 1
    assert not host.local.is_busy


def test_it_is_ready_when_all_images_that_came_by_then_are_applied() -> None:
    host = Host(with_topics("a", partitions=MANY))
    publish(host)
    host.log.topic("b", partitions=MANY)
    publish(host)
    _, _, scan, done = host.works.pop()
    scan()
    done(None)
    for _ in range(2):
        host.turn()
    while host.works:
        _, _, work, done = host.works.pop(0)
        work()
        done(None)
    assert host.taken(Ready) == [], "all logs so far are open"
    host.log.topic("c", b"c" * 16, partitions=MANY)
    publish(host)
    while not host.local.is_ready:
        assert (B, MANY - 1) not in host.replicas.partitions or host.works
        host.turn() if host.local.is_busy else host.work_one()
    assert host.taken(Ready) == [Ready()]


def test_it_does_not_wait_for_the_logs_of_later_images() -> None:
    host = Host(with_topics("a"))
    publish(host)
    host.log.topic("b")
    publish(host)
    host.work_one()
    assert len(host.works) == 2
    assert host.taken(Ready) == []
    host.work_one()
    assert host.taken(Ready) == [Ready()]


def test_fetchers_are_held_until_the_images_are_applied() -> None:
    host = Host(registered()).started()
    host.log.topic("a", partitions=MANY, replicas=(1, 2), leader=2)
    publish(host)
    held = []
    while host.local.is_busy:
        host.turn()
        held.append(host.replicas.is_held)
    assert held == [True, True, False]


def test_who_waits_is_tried_with_each_slice() -> None:
    host = Host(registered()).started()
    host.log.topic("a", partitions=MANY)
    publish(host)
    host.turn()
    first = [call for call in host.replicas.calls if call[0] == "check_all"]
    assert len(first) == 1
    assert 0 < len(first[0]) - 1 < PER_SLICE
    hosted_by_step(host)
    checked = [key for call in host.replicas.calls if call[0] == "check_all" for key in call[1:]]
    assert checked == [(A, number) for number in range(MANY)]


def test_a_log_that_is_created_while_its_topic_is_being_deleted() -> None:
    host = Host(registered()).started()
    host.log.topic("a", partitions=MANY)
    publish(host)
    hosted_by_step(host)
    host.log.remove()
    publish(host)
    host.turn()
    assert host.replicas.partitions, "some are left"
    while host.works:  # without a step
        _, _, work, done = host.works.pop(0)
        work()
        done(None)
    assert any(partition.log is not None for partition in host.replicas.partitions.values())
    host.apply()
    host.work()
    assert host.replicas.partitions == {}
    assert [name for name in host.vfs.list("/1") if not name.endswith("-delete")] == []


def test_settings_of_a_topic_are_applied_partition_by_partition() -> None:
    count = SLICE_UNITS // Change.SETTINGS + 10
    host = Host(registered()).started()
    host.log.topic("a", partitions=count)
    publish(host)
    hosted_by_step(host)
    host.replicas.calls.clear()
    host.log.config("a", min_insync_replicas="2")
    publish(host)
    host.turn()
    assert len(host.replicas.calls) < count
    hosted_by_step(host)
    assert len(host.replicas.calls) == count


def test_a_stop_leaves_the_images_that_wait() -> None:
    host = Host(registered()).started()
    host.log.topic("a", partitions=MANY)
    publish(host)
    host.turn()
    host.leave()
    assert not host.local.is_busy
    assert host.replicas.partitions == {}
