"""I13: content of snapshot files, checked when one appears.

Snapshots of one offset are the same bytes on most nodes: what was once found equal to the image at
its offset is not decoded again.
"""

import zlib

from metadata.loader import image_of
from metadata.snapshot import decode_snapshot
from simulator.campaign.probes import Probes
from simulator.checks.metadata.image_equality import image_difference
from simulator.checks.metadata.ledger import Ledger
from simulator.checks.raft.log_mirror import FOLDER
from simulator.cluster.machine import Machine
from simulator.cluster.memory_vfs import MemoryVfs
from storage.log_dir.snapshot_files import CHECKPOINT_SUFFIX, PART_SUFFIX, parse_snapshot_name
from wire.types import OffsetAndEpoch


class SnapshotChecks:
    """Memory of the files seen on each node."""

    def __init__(self, ledger: Ledger, probes: Probes) -> None:
        self._ledger = ledger
        self._probes = probes
        self._seen: dict[int, frozenset[str]] = {}
        self._disks: dict[int, MemoryVfs] = {}
        self._verified: set[tuple[str, int]] = set()

    def broken(self, machine: Machine, log_start: int) -> tuple[str, str] | None:
        """Return `I13` and what is wrong with a running node's snapshots, None if nothing is.

        Call it when a name appeared or went (`MemoryVfs.name_changes`), and for a new process. A
        snapshot that another thread ended after a fetched one took its place is there, below the
        log start, until the node takes the event of its end.

        Args:
            machine: the node.
            log_start: first offset of its log.
        """
        number, vfs = machine.id, machine.vfs
        assert machine.kernel is not None
        obsolete = machine.kernel.snapshots.obsolete
        if not vfs.is_directory(FOLDER):
            return None
        names = frozenset(n for n in vfs.list(FOLDER) if CHECKPOINT_SUFFIX in n)
        is_same_disk = self._disks.get(number) is vfs
        self._disks[number] = vfs
        before = self._seen[number] if is_same_disk else frozenset()
        self._seen[number] = names
        for name in sorted(names - before):
            wrong = self._wrong_with(vfs, name)
            if wrong is not None:
                return "I13", wrong
        ids = [i for i in map(parse_snapshot_name, sorted(names)) if i is not None]
        ends = [i.offset for i in ids if i.offset > 0 and i != obsolete]
        if log_start > 0 and (not ends or min(ends) < log_start):
            return "I13", f"the log starts at {log_start}, snapshots: {sorted(names)}"
        return None

    def _wrong_with(self, vfs: MemoryVfs, name: str) -> str | None:
        snapshot_id = parse_snapshot_name(name.removesuffix(PART_SUFFIX))
        if snapshot_id is None or snapshot_id.offset == 0:
            return None
        if snapshot_id.offset > self._ledger.end_offset:
            return f"{name} holds what is not committed"
        if name.endswith(PART_SUFFIX):
            return None
        self._probes.hit("snapshot_appeared")
        content = vfs.written_content(f"{FOLDER}/{name}")
        assert content is not None
        key = (name, zlib.crc32(content))
        if key in self._verified:
            return None
        wrong = self._unlike_ledger(name, snapshot_id, bytes(content))
        if wrong is None:
            self._verified.add(key)
        return wrong

    def _unlike_ledger(self, name: str, snapshot_id: OffsetAndEpoch, content: bytes) -> str | None:
        last = self._ledger.entry_ending_at(snapshot_id.offset)
        if last is None:
            return f"{name}: no committed batch ends at {snapshot_id.offset}"
        if last.epoch != snapshot_id.epoch:
            return f"{name} is of another epoch than {last}"
        snapshot = decode_snapshot(content)
        image = image_of(snapshot.records, snapshot_id, snapshot.last_contained_timestamp_ms)
        expected = self._ledger.images.get(snapshot_id.offset)
        if expected is None:
            self._probes.hit("snapshot_not_compared")
            return None
        different = image_difference(image, expected)
        return None if different is None else f"{name} is not the image at its offset: {different}"
