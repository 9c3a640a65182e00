"""Deadlines of a kernel, computed anew from the state of its parts."""

from kernel.lifecycle.broker_lifecycle import BrokerState
from network import timers as names
from network.timers import NEVER_MS
from raft.poll import next_deadline_ms


def first(deadlines_ms):
    return min((each for each in deadlines_ms if each is not None), default=NEVER_MS)


def links_deadline_ms(peers):
    found = [NEVER_MS]
    for link in peers._links.values():
        waiting = [*link.in_flight.values(), *link.queued]
        if waiting:
            found.append(first([*(each.deadline_ms for each in waiting), link.give_up_ms]))
    return min(found)


def controller_deadline_ms(controller):
    if controller is None or not controller.is_active:
        return NEVER_MS
    controller._liveness._deadline_of = None
    controller._no_op._known_for = None
    due_ms = [each.deadline_ms for each in controller._elections._rounds]
    assert first([controller._elections.deadline_ms]) == first(due_ms)
    return first([controller.next_deadline_ms()])


def isr_expansion_deadline_ms(expansion):
    is_running = expansion._lifecycle.state is BrokerState.RUNNING
    is_due = expansion._ready and not expansion._is_waiting and is_running
    return expansion._not_before_ms if is_due else NEVER_MS


def folders_deadline_ms(folders):
    """True if it is the retry's."""
    if folders._has_failed:
        return True
    return folders._due_ms if folders._waiting and not folders._is_running else NEVER_MS


def heartbeat_is_set(lifecycle):
    has_begun = lifecycle.state not in (BrokerState.NOT_RUNNING, BrokerState.SHUTTING_DOWN)
    return has_begun and not lifecycle._is_waiting


def deadlines(kernel):
    """Every deadline from the state of its part; one stored nowhere else: whether it is set."""
    connections, snapshots = kernel.connections, kernel.snapshots
    used_ms = [client.used_ms for client in connections._clients.values()]
    idle_ms_max, job = connections._idle_ms_max, snapshots._job
    gates_ms = [gate.first_ms for gate in connections._gates.values()]
    found = {
        names.RAFT: first([next_deadline_ms(kernel.core._state)]),
        names.LINKS: links_deadline_ms(kernel.peers),
        names.CONTROLLER: controller_deadline_ms(kernel.state.controller),
        names.FORWARDING: first([each.retry_ms for each in kernel.forwarding._waiting.values()]),
        names.BACKLOG: kernel._clock.now_ms if connections._backlog else NEVER_MS,
        names.IDLE: min(used_ms) + idle_ms_max if used_ms and idle_ms_max else NEVER_MS,
        names.ADMISSION: first([*gates_ms, *(at_ms for at_ms, _ in connections._leaving)]),
        names.FULL_DISK: kernel.writer.is_disk_full,
        names.SNAPSHOT_READING: kernel.replica._reading._held is not None,
        names.SNAPSHOT_WRITING: job is not None and job.parts is not None,
        names.SNAPSHOT_INTERVAL: NEVER_MS,
        names.RETENTION: True,
        names.DEPARTURE: kernel.core._state.shutdown_deadline_ms is not None,
    }
    if job is None and snapshots._refused_count:
        pauses_ms = [500, 1_000, 2_000, 4_000, 8_000, 16_000, *[30_000] * 20]
        pause_ms = pauses_ms[snapshots._refused_count - 1]
        found[names.SNAPSHOT_INTERVAL] = snapshots._last_ms + pause_ms
    elif job is None and snapshots._interval_ms:
        found[names.SNAPSHOT_INTERVAL] = snapshots._last_ms + snapshots._interval_ms
    if kernel.registration is not None:
        registration = kernel.registration
        found[names.REGISTRATION] = registration._is_wanted and not registration._is_waiting
    if kernel.lifecycle is not None:
        found[names.HEARTBEAT] = heartbeat_is_set(kernel.lifecycle)
        found[names.DIRECTORY_REPORT] = first(kernel.lifecycle._unreported.values())
        found[names.SHUTDOWN_CHECK] = kernel.lifecycle._shutdown_deadline_ms is not None
    if kernel.folders is not None:
        found[names.ISR_EXPANSION] = isr_expansion_deadline_ms(kernel.isr_expansion)
        found[names.FOLDERS] = folders_deadline_ms(kernel.folders)
    return found


def check_deadlines(kernel):
    """Every part has the deadline that its state asks for, and the kernel has the first."""
    at_ms = kernel._clock.timers.at_ms
    for name, deadline_ms in deadlines(kernel).items():
        found = at_ms[name] if type(deadline_ms) is int else at_ms[name] != NEVER_MS
        assert found == deadline_ms, f"{name=} {found=} {deadline_ms=}"
    assert kernel.next_deadline_ms() == min(at_ms)
