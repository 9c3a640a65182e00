"""Run of one seed with records: faults, then rest, in which everything is answered and equal."""

from typing import Final

import msgspec

from simulator.campaign.draw import Options
from simulator.campaign.run import CPU_SECONDS_MAX, final_digest, prepare
from simulator.checks.liveness import why_not_at_rest
from simulator.checks.violation import Violation
from simulator.cluster.scheduler import EndlessStepError, StuckError, returning_within
from simulator.cluster.world import Traced
from simulator.faults.decision import Decision
from simulator.records.clients import RecordConsumer
from simulator.records.world import TOPIC, RecordsWorld

FAULTS: Final = (
    "kill", "power_failure", "pause", "partition", "one_way", "clog", "reset",
    "crash_at_operation", "all_down", "terminate", "slow_disk", "clock_jump", "depose_leader",
    "swizzle", "lost_messages", "full_link", "restart_storm", "crash_at_start",
    "kill_at_operation", "uneven_links",
)  # fmt: skip
"""Faults that a cluster with records must survive so far."""
OPTIONS: Final = Options(
    node_count=3, observer_count=0, faults=FAULTS, duration_us=15_000_000, write_count=10
)
VARIED: Final = msgspec.structs.replace(OPTIONS, node_count=None, observer_count=None)
"""Options with which the seed decides the number of nodes, and which are brokers."""
REST_US: Final = 60_000_000
ASKED_EVERY: Final = 16


class RecordsOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of a seed."""

    seed: int
    invariant: str | None
    text: str
    at_us: int
    event_count: int
    digest: int
    acknowledged: int
    """Records that producers have the acknowledgement of."""
    marks: dict[str, int]
    faults: dict[str, int]


def options_of(seed: int) -> Options:
    """Three nodes with both roles for every second seed, whatever is drawn for the others."""
    return OPTIONS if seed % 4 < 2 else VARIED


def run_records(
    seed: int,
    options: Options = OPTIONS,
    *,
    plan: list[Decision] | None = None,
    trace: Traced | None = None,
) -> RecordsOutcome:
    """Run one seed to its end or to the first violation."""
    settings, streams, drawn = prepare(seed, options)
    settings = msgspec.structs.replace(settings, hands_over=False)
    used = drawn if plan is None else plan
    world = RecordsWorld(settings, streams, used, trace, min_insync_replicas=1 + seed % 2)
    invariant, text = None, ""
    try:
        with returning_within(CPU_SECONDS_MAX):
            world.start()
            world.run(settings.duration_us)
            come_to_rest(world)
    except Violation as violation:
        invariant, text = violation.invariant, str(violation)
    except (StuckError, EndlessStepError) as error:
        invariant, text = "I20", str(error)
    except Exception as error:  # noqa: BLE001 - any exception of the code under test is a finding
        invariant, text = "I20", f"{type(error).__name__}: {error}"
    return RecordsOutcome(
        seed=seed,
        invariant=invariant,
        text=text,
        at_us=world.scheduler.now_us,
        event_count=world.event_count,
        digest=final_digest(world),
        acknowledged=sum(each.acknowledged for each in world.producers),
        marks=world.marks,
        faults=world.nemesis.struck,
    )


def come_to_rest(world: RecordsWorld) -> None:
    """End the faults; then all that was sent is acknowledged, and all replicas join the ISR.

    Raises:
        Violation: they do not within `REST_US`, or an invariant is broken.
    """
    world.workload.is_stopped = True
    world.nemesis.stop()
    world.network.calm()
    end_us = world.scheduler.now_us + REST_US
    for producer in world.producers:
        producer.is_stopped = True
    if not world.run_until(lambda: why_unfinished(world) == "", end_us, ASKED_EVERY):
        raise Violation("liveness", why_unfinished(world))
    for consumer in world.consumers:
        consumer.is_stopped = True
    world.run_until(
        lambda: not any(each.is_waiting for each in world.consumers), end_us, ASKED_EVERY
    )
    world.record_checks.check_at_rest()


def why_unfinished(world: RecordsWorld) -> str:
    """Describe what is not done; empty when nothing."""
    wrong = why_not_at_rest(world, tuple(world.machines)) or _why_not_in_sync(world)
    if wrong:
        return wrong
    busy = [each.host for each in world.producers if not each.is_idle]
    if busy:
        return f"producers {busy} are not answered"
    left = (_why_unread(world, consumer) for consumer in world.consumers)
    return next(filter(None, left), "")


def _why_not_in_sync(world: RecordsWorld) -> str:
    for topic in world.ledger.image.topics.values():
        for number, partition in topic.partitions.items():
            if len(partition.isr) < len(partition.replicas):
                return f"{topic.name}-{number}: ISR {partition.isr} of {partition.replicas}"
    return ""


def _why_unread(world: RecordsWorld, consumer: RecordConsumer) -> str:
    """Describe what a consumer has not read; empty when it is at the end."""
    image, number = world.ledger.image, consumer.partition
    topic_id = image.topic_id_by_name[TOPIC.name]
    leader = int(image.topics[topic_id].partitions[number].leader)
    at_leader = world.record_checks.partition_at(leader, (topic_id, number))
    if at_leader is None or at_leader.log is None:
        return f"partition {number} is not open at its leader"
    log = at_leader.log
    end = int(log.end_offset)
    if log.high_watermark != end:
        return f"partition {number} is not committed to its end"
    if consumer.position < end:
        return f"the consumer of partition {number} has read up to {consumer.position} of {end}"
    return ""
