"""Liveness, the last part: in a healthy cluster logs and snapshots converge too.

It runs after the digest of the run is taken, so a run is the same with and without it.

- Logs: all nodes have the same log end and high watermark, and nothing behind it.
- Snapshots: where the settings ask for them, the newest one of a node is not far behind.
- Log start: where retention is exceeded and an older snapshot can go, it goes.

All logs agree at one moment. Snapshots are judged node by node, each at its best moment: where a
snapshot ends beyond what the node has flushed, the older one is removed a look later, and others
may write theirs meanwhile.
"""

from collections.abc import Iterator
from typing import Final

from simulator.checks.raft.log_mirror import FOLDER, batches_of, segment_paths
from simulator.checks.violation import Violation
from simulator.cluster.machine import Machine
from simulator.cluster.world import World
from storage.log_dir.snapshot_files import CHECKPOINT_SUFFIX, parse_snapshot_name

CONVERGED_US: Final = 90_000_000
"""Retention is checked every minute, by clocks that may be slow."""
ASKED_EVERY: Final = 16
BEHIND_FACTOR: Final = 2
"""A node may have so many times the bytes between snapshots after its newest one: one that a kill
interrupted is not made up for before the log has grown again."""


class Convergence:
    """Convergence of a cluster, asked for again and again."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._lagging = list(world.machines.values())

    def is_reached(self) -> bool:
        """True if the logs agree now and the snapshots of every node were right at some look."""
        self._lagging = [each for each in self._lagging if why_snapshots_lag(each, self._world)]
        return not self._lagging and not why_logs_differ(self._world)

    def why_not(self) -> str:
        """Describe what is still missing; empty when nothing is."""
        lags = (why_snapshots_lag(each, self._world) for each in self._lagging)
        return "; ".join(filter(None, (*lags, why_logs_differ(self._world))))


def converge(world: World) -> None:
    """Run until logs and snapshots agree.

    Raises:
        Violation: `liveness`: something still differs when the time is over.
    """
    end_us = world.scheduler.now_us + CONVERGED_US
    found = Convergence(world)
    if not world.run_until(found.is_reached, end_us, ASKED_EVERY):
        raise Violation("liveness", found.why_not())


def why_logs_differ(world: World) -> str:
    """Describe how log ends and high watermarks of the nodes differ; empty when they do not."""
    ends = {}
    for number, machine in world.machines.items():
        if machine.kernel is None:
            return f"node {number} is down"
        core = machine.kernel.core
        ends[number] = (int(core.log_end_offset), core.high_watermark)
    if len(set(ends.values())) > 1 or any(end != watermark for end, watermark in ends.values()):
        return f"log ends and high watermarks differ: {ends}"
    return ""


def why_snapshots_lag(machine: Machine, world: World) -> str:
    """Describe how the snapshots of a node fall behind its settings; empty when they do not."""
    between = world.settings.record_bytes_between_snapshots
    retention = world.settings.retention_bytes
    offsets, snapshot_bytes = [], 0
    for offset, size in snapshots_of(machine):
        offsets.append(offset)
        snapshot_bytes += size
    newest = max(offsets, default=0)
    log_bytes = behind_bytes = 0
    for path in segment_paths(machine.vfs):
        for begin, end, entry in batches_of(machine.vfs.written_content(path)):
            log_bytes += end - begin
            behind_bytes += end - begin if entry.base_offset >= newest else 0
    if behind_bytes > BEHIND_FACTOR * between:
        held = f"{behind_bytes} bytes behind its newest snapshot, at {newest}"
        return f"node {machine.id} has {held}; one is due every {between}"
    # What was written after the last look at retention waits for the next snapshot.
    allowed = retention + (BEHIND_FACTOR + 1) * between
    if len(offsets) > 1 and log_bytes + snapshot_bytes > allowed:
        held = f"{log_bytes} bytes of log and {snapshot_bytes} of snapshots at {offsets}"
        return f"node {machine.id} keeps {held}; retention allows {retention}"
    return ""


def snapshots_of(machine: Machine) -> Iterator[tuple[int, int]]:
    """End offset and size of the snapshots on a disk, without the one of an empty log."""
    vfs = machine.vfs
    for name in vfs.list(FOLDER):
        if not name.endswith(CHECKPOINT_SUFFIX):
            continue
        snapshot_id = parse_snapshot_name(name)
        if snapshot_id is not None and snapshot_id.offset > 0:
            yield int(snapshot_id.offset), vfs.size(f"{FOLDER}/{name}")
