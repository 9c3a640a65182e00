"""Damage to the synced bytes of a disk, and the stops of a node that it explains.

Three kinds: a bit rots, a write was acknowledged and never happened (zeros, or the end is missing),
a write went to another place of its file (what belongs there is gone). Most strike while the
process is down: the next start has to refuse, at the damaged batch, and must not change the file.
Some bits rot under a running process: it may go on as long as it does not read them; then it has
to stop. Until the bytes are restored (the end of the fault) every start is refused.

At any time only a minority of the voters is damaged, for the protocol promises nothing beyond that,
and only bytes that the node had recorded as flushed: above them damage cannot be told from a torn
write, and is cut (docs/formats/damage.md). No checksum covers the leader epoch of a batch, four
bytes, in Kafka's format too: it is not damaged. Nor is a batch that a misdirected write would turn
into another whole one at the same offset, which any checksum accepts, nor the base offsets of a
snapshot's batches, which no checksum covers and nothing uses.
"""

import json
from collections.abc import Callable
from random import Random
from typing import Final

import crc32c
import msgspec

from simulator.campaign.probes import Probes
from simulator.checks.raft.log_mirror import (
    FOLDER,
    QUORUM_STATE,
    LogMirror,
    batches_of,
    segment_paths,
)
from simulator.cluster.machine import Machine
from simulator.cluster.memory_vfs import MemoryVfs
from storage.errors import CorruptFileError, CorruptLogError
from storage.log_dir.snapshot_files import CHECKPOINT_SUFFIX

SECTOR_BYTES: Final = 512
_FLUSHED_END: Final = f"{FOLDER}/flushed-end-offset"
_RECORDS_AT: Final = 61
_EPOCH: Final = range(12, 16)
_CHECKED_FROM: Final = 17  # the checksum itself and what it covers
_CHECKED_BEHIND: Final = 21
_BASE_OFFSET_BYTES: Final = 8


class Damage(msgspec.Struct, frozen=True):
    """One damaged file."""

    path: str
    before: bytes
    """Content of the whole file."""
    after: bytes
    batch_position: int | None
    """Position of the damaged batch of a segment; None: a file that is refused as a whole."""
    is_at_rest: bool
    """True: done while no process ran."""

    @property
    def position(self) -> int:
        """Position of the first byte that is changed or missing."""
        shorter = min(len(self.before), len(self.after))
        same = (n for n in range(shorter) if self.before[n] != self.after[n])
        return next(same, shorter)


class DiskDamages:
    """Damages of all disks; at most one file of a machine at a time.

    Args:
        machines, voters: the world's.
        mirrors: of the logs, as the invariants keep them.
        committed_end: end offset of what is committed.
        probes: marks to hit.
    """

    def __init__(
        self,
        machines: dict[int, Machine],
        voters: frozenset[int],
        mirrors: dict[int, LogMirror],
        committed_end: Callable[[], int],
        probes: Probes,
    ) -> None:
        self._machines = machines
        self._voters = voters
        self._mirrors = mirrors
        self._committed_end = committed_end
        self._probes = probes
        self._damages: dict[int, Damage] = {}

    # ---- striking ------------------------------------------------------------------------------

    def strike(self, kind: str, machine: Machine, rng: Random) -> bool:
        """Damage something of a machine that runs; False if the limits forbid it.

        Args:
            kind: one of `DAMAGES`.
            machine: owner of the disk; killed first where the damage is one at rest.
            rng: chooses file and place.
        """
        if not self._may_strike(machine):
            return False
        is_at_rest = kind != "bit_rot" or rng.random() < 0.6
        if is_at_rest:
            machine.kill()
            damage = self._at_rest(kind, machine.vfs, rng)
        else:
            damage = self._while_running(machine, rng)
        if damage is None or damage.before == damage.after:
            return is_at_rest
        mirror = self._mirrors[machine.id]
        if is_at_rest:
            mirror.frozen_end = mirror.durable_end(machine.vfs)
        else:
            mirror.forgiven.add((damage.path, damage.batch_position))
        machine.vfs.rewrite(damage.path, damage.after)
        self._damages[machine.id] = damage
        self._probes.hit(kind)
        return True

    def what(self, machine: Machine) -> str:
        """Describe the present damage of a machine's disk."""
        damage = self._damages.get(machine.id)
        if damage is None:
            return "killed, nothing to damage"
        return f"{damage.path.removeprefix(FOLDER + '/')} at byte {damage.position}"

    def _may_strike(self, machine: Machine) -> bool:
        vfs = machine.vfs
        if not machine.is_up or machine.id in self._damages or machine.is_terminating:
            return False
        if vfs.failing is not None or vfs.crash_at is not None or vfs.bytes_max is not None:
            return False
        damaged = len(self._voters & self._damages.keys())
        return machine.id not in self._voters or damaged < (len(self._voters) - 1) // 2

    def _while_running(self, machine: Machine, rng: Random) -> Damage | None:
        """Flip a bit of a committed, durable record, preferably of one that another node lacks."""
        vfs, places = machine.vfs, []
        lacking = min(m.end_offset for n, m in self._mirrors.items() if n != machine.id)
        wanted = 0
        for path in segment_paths(vfs):
            durable = vfs.durable_content(path)
            for position, end, entry in batches_of(durable or bytearray()):
                if entry.end_offset <= self._committed_end() and end - position > _RECORDS_AT:
                    places.append((path, position, end))
                    wanted += entry.base_offset >= lacking
        if not places:
            return None
        path, position, end = rng.choice(places[-wanted:])
        before = bytes(vfs.written_content(path) or b"")
        after = _flipped(before, rng.randrange(position + _RECORDS_AT, end), rng)
        return Damage(path, before, after, position, is_at_rest=False)

    def _at_rest(self, kind: str, vfs: MemoryVfs, rng: Random) -> Damage | None:
        """Damage flushed bytes of the log, of quorum-state or of a snapshot."""
        snapshots = [n for n in vfs.list(FOLDER) if n.endswith(CHECKPOINT_SUFFIX)]
        what = rng.choice(("log", "log", "log", "quorum-state", "snapshot"))
        stored = bytes(vfs.written_content(QUORUM_STATE) or b"")
        if what == "quorum-state" and stored:
            after = _damaged_whole(kind, stored, rng)
            return Damage(QUORUM_STATE, stored, after, None, is_at_rest=True)
        if what == "snapshot" and snapshots and not max(snapshots).startswith("0" * 20):
            path = f"{FOLDER}/{max(snapshots)}"
            ranges = [(start, end) for start, end, _ in batches_of(vfs.written_content(path))]
            return _damaged(kind, path, vfs, ranges, rng, is_segment=False)
        flushed = recorded_end(vfs)
        places = []
        for path in segment_paths(vfs):
            ranges = [
                (start, end)
                for start, end, entry in batches_of(vfs.written_content(path))
                if entry.end_offset <= flushed
            ]
            places += [(path, ranges)] if ranges else []
        if not places:
            return None
        path, ranges = rng.choice(places)
        return _damaged(kind, path, vfs, ranges, rng, is_segment=True)

    # ---- what it explains ----------------------------------------------------------------------

    def wrong_with_stop(self, machine: Machine, error: BaseException) -> str | None:
        """Describe why no damage explains the error that ended a process, None if one does."""
        damage = self._damages.get(machine.id)
        if damage is None or not isinstance(error, CorruptLogError | CorruptFileError):
            return "its disk is not damaged"
        if error.path != damage.path:
            return f"damaged is {damage.path}"
        if isinstance(error, CorruptLogError) and error.position != damage.batch_position:
            return f"the damaged batch is at position {damage.batch_position}"
        now = machine.vfs.written_content(damage.path)
        if damage.is_at_rest and bytes(now or b"") != damage.after:
            return f"it changed {damage.path}"
        self._probes.hit("damage_refused" if damage.is_at_rest else "damage_stopped_a_node")
        return None

    def wrong_with_start(self, machine: Machine) -> str | None:
        """Describe why a process must not have started, None if it may."""
        damage = self._damages.get(machine.id)
        if damage is None or not damage.is_at_rest:
            return None
        return f"it started with {damage.path} damaged at position {damage.position}"

    # ---- the end -------------------------------------------------------------------------------

    def process_ended(self, machine: Machine) -> None:
        """End damage under a process with it: it was a bit of memory, not of the disk."""
        damage = self._damages.get(machine.id)
        if damage is not None and not damage.is_at_rest:
            self.restore(machine)

    def restore(self, machine: Machine) -> None:
        """Restore the bytes, as an operator does; what was written since stays."""
        damage = self._damages.pop(machine.id, None)
        if damage is None:
            return
        mirror, vfs = self._mirrors[machine.id], machine.vfs
        mirror.frozen_end = None
        mirror.forgiven.clear()
        mirror.forget_durable()
        if damage.is_at_rest:
            vfs.rewrite(damage.path, damage.before)
            return
        now = vfs.written_content(damage.path)
        position = damage.position
        same_batch = slice(damage.batch_position, position + 1)  # its checksum is at its front
        if now is not None and now[same_batch] == damage.after[same_batch]:
            vfs.damage(damage.path, position, damage.before[position : position + 1])

    def restore_all(self) -> None:
        """Restore all disks."""
        for number in list(self._damages):
            self.restore(self._machines[number])


def make_older(vfs: MemoryVfs) -> None:
    """Put the quorum-state of the epoch before in place of the newest."""
    content = vfs.written_content(QUORUM_STATE)
    assert content is not None
    stored = json.loads(bytes(content))
    older = {**stored, "leaderEpoch": stored["leaderEpoch"] - 1, "leaderId": -1, "votedId": -1}
    file = vfs.open(QUORUM_STATE)
    file.truncate(0)
    file.pwrite(json.dumps(older).encode(), 0)
    file.sync()
    file.close()


def recorded_end(vfs: MemoryVfs) -> int:
    """End offset that the node recorded as flushed; 0 for none."""
    content = vfs.written_content(_FLUSHED_END)
    fields = bytes(content or b"").split()
    return int(fields[1]) if len(fields) == 3 else 0


def _flipped(content: bytes, position: int, rng: Random) -> bytes:
    changed = bytearray(content)
    changed[position] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _damaged_whole(kind: str, content: bytes, rng: Random) -> bytes:
    """Damage the first byte of a small file, or all of them."""
    if kind == "bit_rot":
        return _flipped(content, 0, rng)
    return b"" if kind == "lost_write" else bytes(len(content))


def _damaged(
    kind: str,
    path: str,
    vfs: MemoryVfs,
    ranges: list[tuple[int, int]],
    rng: Random,
    *,
    is_segment: bool,
) -> Damage | None:
    """Damage one of these batches of a file."""
    before = bytes(vfs.written_content(path) or b"")
    start, end = rng.choice(ranges)
    first = _EPOCH.start - 4 if is_segment else _CHECKED_FROM  # from the length on
    if kind == "bit_rot":
        at = rng.choice([n for n in range(start + first, end) if n - start not in _EPOCH])
        after = _flipped(before, at, rng)
    else:
        sector = (start + _RECORDS_AT) // SECTOR_BYTES * SECTOR_BYTES
        length = len(before[sector : sector + SECTOR_BYTES])
        if kind == "misdirected_write":
            source = rng.randrange(len(before) // SECTOR_BYTES + 1) * SECTOR_BYTES
            landed = before[source : source + length]
        elif end == len(before) and rng.random() < 0.5:
            landed, before_end = b"", rng.randrange(start + 1, end)
            after = before[:before_end]
            return Damage(path, before, after, start if is_segment else None, is_at_rest=True)
        else:
            landed = bytes(length)
        after = before[:sector] + landed + before[sector + len(landed) :]
    damage = Damage(path, before, after, None, is_at_rest=True)
    if not is_segment:
        return damage if _has_checked_bytes(damage, ranges) else None
    if before == after:
        return damage
    first = damage.position  # a walk over the whole file: once
    hit = [s for s, e, _ in batches_of(bytearray(before)) if s <= first < e]
    is_recorded = hit and any(s == hit[0] for s, _ in ranges)
    if not is_recorded or _looks_sound(before, after, hit[0]):
        return None
    return Damage(path, before, after, hit[0], is_at_rest=True)


def _has_checked_bytes(damage: Damage, ranges: list[tuple[int, int]]) -> bool:
    """True if a byte differs that a length or a checksum of these batches covers."""
    if len(damage.before) != len(damage.after):
        return True
    unchecked = {start + n for start, _ in ranges for n in (*range(_BASE_OFFSET_BYTES), *_EPOCH)}
    pairs = enumerate(zip(damage.before, damage.after, strict=True))
    return any(one != other and n not in unchecked for n, (one, other) in pairs)


def _looks_sound(before: bytes, after: bytes, start: int) -> bool:
    """True if a whole batch with its own checksum and the same offset still begins there."""
    offset = slice(start, start + _BASE_OFFSET_BYTES)
    found = next(batches_of(bytearray(after[start:])), None)
    if found is None or after[offset] != before[offset]:
        return False
    _, size, entry = found
    return crc32c.crc32c(after[start + _CHECKED_BEHIND : start + size]) == entry.crc
