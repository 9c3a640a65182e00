# ruff: noqa: SLF001 - the measured tables are private to the node
"""I19: queues, tables and caches of a node stay within what can be under way.

The limits that protect a node from its peers (10,000 parked fetches and the like) are far above
what a few nodes and clients ever need, so the bounds here are tighter: the number of other nodes,
the requests that each of them may have open, the uncommitted part of the log. A table from which
nothing is removed exceeds them within seconds.
"""

from collections.abc import Iterable
from itertools import takewhile
from typing import Final

from kernel.config import QuorumConfig
from kernel.kernel import Kernel
from network.peers import Channel
from quorum_controller.controller import Controller
from raft.roles import Leader
from simulator.checks.raft.log_mirror import Entry, LogMirror
from simulator.cluster.machine import Machine
from storage.segments.segment import RECENT_MAX

OPEN_SEGMENTS_MAX: Final = 5
SLACK: Final = 16
"""Slack of tables of client requests: each waits for its time-out though its client has left."""

Row = tuple[str, int, int]
"""Name, size, bound (inclusive)."""


class ResourceChecks:
    """Checks of the sizes of a node; the world calls them once a second."""

    def __init__(self, machines: dict[int, Machine], mirrors: dict[int, LogMirror]) -> None:
        self._machines = machines
        self._others = len(machines) - 1
        self._mirrors = mirrors
        self._counted: dict[int, tuple[list[Entry], int, set[int]]] = {}
        """Node -> entries of its log, number of them that were counted, their epochs."""

    def broken(self, machine: Machine) -> str | None:
        """Describe what of a running node is too large, None if nothing is."""
        assert machine.kernel is not None
        return _first_above(self.rows(machine.id, machine.kernel))

    def broken_at_rest(self, machine: Machine) -> str | None:
        """Describe what is too large when all is quiet: nobody waits for anything but records."""
        kernel = machine.kernel
        assert kernel is not None
        parked = len(kernel.core._state.parked)
        return _first_above(
            [
                *self.rows(machine.id, kernel),
                ("replies outstanding at rest", len(kernel.replica.replies), parked),
                ("forwarded requests at rest", _forwarded(kernel), 0),
                ("stalled appends at rest", len(kernel.writer._stalled), 0),
                *_at_rest(kernel),
            ]
        )

    def are_requests_under_way(self) -> bool:
        """True if any node forwards a request of a client, or waits for its commit."""
        kernels = [each.kernel for each in self._machines.values() if each.kernel is not None]
        controllers = [kernel.state.controller for kernel in kernels]
        return any(_forwarded(kernel) for kernel in kernels) or any(
            controller is not None and controller._deadlines for controller in controllers
        )

    def _epoch_count(self, number: int, entries: list[Entry]) -> int:
        """Count the epochs of a log; a cut log is another list."""
        known = self._counted.get(number)
        if known is None or known[0] is not entries or known[1] > len(entries):
            known = (entries, 0, set())
        _, count, epochs = known
        epochs.update(entry.epoch for entry in entries[count:])
        self._counted[number] = (entries, len(entries), epochs)
        return len(epochs)

    def rows(self, number: int, kernel: Kernel) -> list[Row]:
        """Tables of a node with their sizes and bounds."""
        others, core, writer = self._others, kernel.core, kernel.writer
        state, log, role = core._state, kernel.log, core.role
        entries = self._mirrors[number].entries
        epochs = self._epoch_count(number, entries)
        watermark = core.high_watermark or 0
        uncommitted = sum(
            1 for _ in takewhile(lambda e: e.end_offset > watermark, reversed(entries))
        )
        # A node that comes back with another disk is another observer, and the old one expires.
        observers = others + sum(each.disk_count - 1 for each in self._machines.values())
        links, asked_max = kernel.peers._links.values(), _asked_max(kernel.config.quorum)
        own = [len(each.in_flight) for each in links if each.channel != Channel.FORWARDING]
        sent_on = sum(len(each.in_flight) for each in links) - sum(own)
        rows = [
            ("parked fetches", len(state.parked), 4 * others + 4),
            ("connections of raft", len(state.request_manager._by_id), others),
            ("epochs of raft", len(state.log.epochs), epochs + 1),
            ("epochs of the log", len(log.epoch_entries), epochs + 1),
            ("observers", len(role.observers) if type(role) is Leader else 0, observers),
            ("replies outstanding", len(kernel.replica.replies), 8 * others + SLACK),
            ("links", len(links), 4 * (others + 1)),
            ("requests queued for a peer", _largest(len(each.queued) for each in links), 4 * SLACK),
            ("requests in flight", _largest(own), asked_max),
            # As many as clients ask while a leader is silent; each has one that waits for it.
            ("requests sent on", sent_on, kernel.forwarding._in_flight_count),
            ("forwarded requests", len(kernel.forwarding._waiting), 2 * SLACK),
            ("append times", len(writer._timestamps), uncommitted + SLACK),
            ("stalled appends", len(writer._stalled), 4 * SLACK),
            ("flush plans", len(log._flushing.outstanding), 2),
            ("open segments", len(log._open.used), OPEN_SEGMENTS_MAX),
            ("recent batches", _largest(len(each._recent) for each in log._segments), RECENT_MAX),
        ]
        rows += self._rows_of_connections(number, kernel)
        rows += _rows_of_publishers(kernel, others)
        if kernel.state.controller is not None:
            # Requests share batches, a full disk holds batches back, but each batch has a record.
            records = max(0, core.log_end_offset - watermark)
            rows += self._rows_of_controller(kernel.state.controller, records)
        return rows

    def _rows_of_connections(self, number: int, kernel: Kernel) -> list[Row]:
        connections = kernel.connections
        count = len(connections._clients)
        return [
            ("connections", count, self._machines[number].connection_count),
            ("connections with a backlog", len(connections._backlog), count),
        ]

    def _rows_of_controller(self, controller: Controller, records: int) -> list[Row]:
        nodes = self._others + 1
        return [
            ("pending batches", len(controller._batches), records + SLACK),
            ("deadlines", len(controller._deadlines), 4 * SLACK),
            ("sweeps", len(controller._sweeps), nodes + SLACK),
            ("contacts of brokers", len(controller._liveness._contacts), nodes),
        ]


def _rows_of_publishers(kernel: Kernel, others: int) -> list[Row]:
    """Tables of work that metadata changes leave; what a full disk holds back has slack."""
    state, replica = kernel.state, kernel.replica
    loader, log = kernel.loader, kernel.log
    # Not the high watermark of raft: a node that resigns between the halves of a step has none.
    unread = max(0, state._committed_end_offset - loader.end_offset)
    retention = kernel.snapshots._retention
    controller = state.controller
    held = 0
    if controller is not None and kernel.core.is_handing_over:
        held = len(controller._batches)
    rows = [
        ("adopted batches", len(state._adopted), unread),
        ("events of raft", len(replica._queue), 0),
        ("proposals", len(replica._proposals), held),
        ("unsynced segments", len(log._flushing.unsynced), len(log._segments)),
        # Those that a fetched snapshot removed are forgotten at the next look at retention.
        ("times of snapshots", len(retention._timestamps_ms), len(retention._files.list()) + SLACK),
    ]
    partitions = sum(len(topic.partitions) for topic in loader.image.topics.values())
    if kernel.isr_expansion is not None:
        expansion = kernel.isr_expansion
        absent = _largest(len(each) for each in expansion._absent.values())
        rows += [
            ("partitions to expand", len(expansion._ready), partitions + SLACK),
            ("absent brokers", len(expansion._absent), others),
            # A topic that was deleted is forgotten when the broker is back.
            ("partitions of an absent broker", absent, partitions + 4 * SLACK),
        ]
    if kernel.folders is not None:
        rows += [
            ("changes of folders", len(kernel.folders._waiting), 4 * SLACK),
            ("folders that go", len(kernel.folders._going), 4 * SLACK),
        ]
    return rows


def _at_rest(kernel: Kernel) -> list[Row]:
    """Tables that are empty when all is quiet."""
    rows = [
        ("backlogs at rest", len(kernel.connections._backlog), 0),
        ("adopted batches at rest", len(kernel.state._adopted), 0),
    ]
    if kernel.state.controller is not None:
        rows += [
            ("deadlines at rest", len(kernel.state.controller._deadlines), 0),
            ("sweeps at rest", len(kernel.state.controller._sweeps), 0),
        ]
    folders = kernel.folders
    if folders is not None:
        rows.append(("changes of folders at rest", len(folders._waiting), 0))
        if not folders._is_running and not folders._has_failed:  # deleted ones take longer
            rows.append(("folders that go at rest", len(folders._going), 0))
    if kernel.isr_expansion is not None:
        rows.append(("partitions to expand at rest", len(kernel.isr_expansion._ready), 0))
    return rows


def _forwarded(kernel: Kernel) -> int:
    """Count the requests of clients that wait for an answer of the active controller."""
    return len(kernel.forwarding._waiting) + kernel.forwarding._in_flight_count


def _asked_max(quorum: QuorumConfig) -> int:
    """Bound on the requests to one silent peer within the time-out of the first.

    Every change of role forgets what is in flight and asks anew; a node whose peers are silent goes
    through a fetch and a vote or two in each of its time-outs.
    """
    shortest_ms = min(quorum.fetch_timeout_ms, quorum.election_timeout_ms)
    return SLACK + 4 * quorum.request_timeout_ms // shortest_ms


def _largest(sizes: Iterable[int]) -> int:
    return max(sizes, default=0)


def _first_above(rows: list[Row]) -> str | None:
    for name, size, bound in rows:
        if size > bound:
            return f"{size} {name}, at most {bound} can be under way"
    return None
