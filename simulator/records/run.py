"""Run of one seed with records: faults, then rest, in which everything is answered and equal."""

from typing import Final

from broker_publisher.local_changes import local_partitions
from simulator.campaign.draw import RECORDS_STANDARD, Options, Until
from simulator.campaign.early_stop import ReachedError, stop_at
from simulator.campaign.recording import Recording
from simulator.campaign.run import CPU_SECONDS_MAX, Outcome, final_digest, prepare
from simulator.checks.liveness.liveness import why_not_at_rest
from simulator.checks.violation import Violation
from simulator.cluster.node_states import states_of
from simulator.cluster.scheduler import EndlessStepError, StuckError, returning_within
from simulator.cluster.world import Traced
from simulator.faults.decision import Decision
from simulator.records.consumers import RecordConsumer
from simulator.records.machine import RecordsMachine
from simulator.records.world import TOPIC, RecordsWorld
from storage.log_dir.partition_directories import STRAY_SUFFIX, scan_partition_directories

OPTIONS: Final = RECORDS_STANDARD
REST_US: Final = 60_000_000
ASKED_EVERY: Final = 16


def run_records(
    seed: int,
    options: Options = OPTIONS,
    *,
    plan: list[Decision] | None = None,
    trace: Traced | None = None,
    recording: Recording | None = None,
    until: Until | None = None,
) -> Outcome:
    """Run one seed to its end or to the first violation; arguments as of `run_seed`."""
    settings, streams, drawn = prepare(seed, options)
    used = drawn if plan is None else plan
    world = RecordsWorld(
        settings,
        streams,
        used,
        trace,
        recording,
        min_insync_replicas=1 + seed % 2,
        has_transactions=options.has_transactions,
    )
    invariant, text, is_complete = None, "", True
    if until is not None:
        stop_at(world.scheduler, until, lambda: world.event_count)
    try:
        with returning_within(CPU_SECONDS_MAX):
            world.start()
            world.run(settings.duration_us)
            come_to_rest(world)
    except ReachedError:
        is_complete = False
    except Violation as violation:
        invariant, text = violation.invariant, str(violation)
    except (StuckError, EndlessStepError) as error:
        invariant, text = "I20", str(error)
    except BrokenPipeError:
        raise  # nobody reads the trace any more
    except Exception as error:  # noqa: BLE001 - any exception of the code under test is a finding
        invariant, text = "I20", f"{type(error).__name__}: {error}"
    if trace is not None and invariant is not None:
        trace(world.scheduler.now_us, f"VIOLATION {text.partition(chr(10))[0]}")
    return Outcome(
        seed=seed,
        invariant=invariant,
        text=text,
        at_us=world.scheduler.now_us,
        event_count=world.event_count,
        events_by_kind=world.events_by_kind,
        virtual_us=world.scheduler.now_us,
        digest=final_digest(world),
        marks=world.marks,
        skips=world.probes.skips,
        faults=world.nemesis.fired,
        effective_faults=world.nemesis.struck,
        elections=world.invariants.elections,
        acknowledged=sum(each.acknowledged for each in world.all_producers),
        operations=sum(each.asked for each in world.clients),
        definite=sum(each.answered for each in world.clients),
        verdict=None,
        messages=world.network.sent,
        plan=used,
        settings=settings,
        is_complete=is_complete,
        nodes=states_of(world.machines.values()),
    )


def come_to_rest(world: RecordsWorld) -> None:
    """End the faults; then all that was sent is acknowledged, and all replicas join the ISR.

    Raises:
        Violation: they do not within `REST_US`, or an invariant is broken.
    """
    world.workload.is_stopped = True
    world.repair_directories()
    world.nemesis.stop()
    world.network.calm()
    end_us = world.scheduler.now_us + REST_US
    for producer in world.producers:
        producer.is_stopped = True
    for room in world.rooms:
        room.stop_writing()
    if world.groups is not None:
        world.groups.settle()
    if not world.run_until(lambda: why_unfinished(world) == "", end_us, ASKED_EVERY):
        raise Violation("liveness", why_unfinished(world))
    for consumer in world.consumers:
        consumer.is_stopped = True
    for room in world.rooms:
        room.stop_reading()
    if world.groups is not None:
        world.group_checks.check_at_rest()
        world.groups.stop()
    if not world.run_until(lambda: _why_not_quiet(world) == "", end_us, ASKED_EVERY):
        raise Violation("liveness", _why_not_quiet(world))
    _check_at_rest(world)


def _check_at_rest(world: RecordsWorld) -> None:
    world.record_checks.check_at_rest()
    world.compacted.look(world.ledger.image)
    for room in world.rooms:
        room.check_at_rest()
    if world.copies is not None:
        world.copies.check_at_rest()


def _why_not_quiet(world: RecordsWorld) -> str:
    """Describe what is not done, or not any more; empty when nothing."""
    waiting = [each.host for each in world.consumers if each.is_waiting]
    if waiting:
        return f"consumers {waiting} are not answered"
    of_rooms = next(filter(None, (room.why_waiting() for room in world.rooms)), "")
    if of_rooms:
        return of_rooms
    return why_not_at_rest(world, tuple(world.machines)) or _why_not_in_sync(world)


def why_unfinished(world: RecordsWorld) -> str:
    """Describe what is not done; empty when nothing."""
    wrong = why_not_at_rest(world, tuple(world.machines)) or _why_not_in_sync(world)
    if wrong:
        return wrong
    if not world.chores.is_idle:
        return "administrators are not answered"
    wrong = "" if world.groups is None else world.groups.why_unfinished()
    if wrong:
        return wrong
    busy = [each.host for each in world.producers if not each.is_idle]
    if busy:
        return f"producers {busy} are not answered"
    of_rooms = next(filter(None, (room.why_unfinished() for room in world.rooms)), "")
    if of_rooms:
        return of_rooms
    left = (_why_unread(world, consumer) for consumer in world.consumers)
    wrong = next(filter(None, left), "")
    return wrong or next(filter(None, (_why_left(world, m) for m in world.nodes.values())), "")


def _why_left(world: RecordsWorld, machine: RecordsMachine) -> str:
    """Describe directories of partitions that a broker has and should not, or the reverse."""
    if not machine.config.is_broker:
        return ""
    found = {
        (each.topic_id, each.partition) if not each.suffix else (each.suffix, each.partition)
        for log_dir in machine.config.log_dirs
        for each in scan_partition_directories(machine.vfs, log_dir)
        if each.suffix != STRAY_SUFFIX
    }
    hosted = local_partitions(world.ledger.image, machine.config.node_id)
    wanted = {(each.topic_id, each.partition) for each in hosted}
    if found == wanted:
        return ""
    return f"node {machine.id} has the partitions {found - wanted}, lacks {wanted - found}"


def _why_not_in_sync(world: RecordsWorld) -> str:
    for topic_id, topic in world.ledger.image.topics.items():
        for number, partition in topic.partitions.items():
            if len(partition.isr) < len(partition.replicas):
                return f"{topic.name}-{number}: ISR {partition.isr} of {partition.replicas}"
            leader, epoch = int(partition.leader), partition.leader_epoch
            reign = world.record_checks.reign_of(leader, (bytes(topic_id), number))
            if reign is None or reign.leader_epoch != epoch:
                return f"{topic.name}-{number}: node {leader} does not lead epoch {epoch} yet"
    return ""


def _why_unread(world: RecordsWorld, consumer: RecordConsumer) -> str:
    """Describe what a consumer has not read; empty when it is at the end."""
    image, number = world.ledger.image, consumer.partition
    topic_id = image.topic_id_by_name.get(TOPIC.name)
    if topic_id is None:
        return f"there is no topic {TOPIC.name}"
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
