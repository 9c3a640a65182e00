"""Random walks of whole nodes whose voters are added, removed, killed, stopped and wiped.

After every event: one leader in an epoch, one batch at a committed offset, committed sets of voters
that differ in one of them. At the end all run, and the quorum goes on.
"""

import random
from itertools import pairwise

import pytest

from kernel.quorum.voter_records import voter_records
from raft.membership.voter_history import VotersAt
from simulator.cluster.memory_vfs import MemoryVfs
from tests.kernel.dynamic import add_body, directory_of, dynamic_world, leader_of, remove_body
from wire.batches.batch import iterate_batches

STEPS = 40


class Walk:
    """One walk: the world, what happens to it, and what was committed in it."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.world = dynamic_world(5, 1, 2, 3, seed=seed, is_broker=True)
        self.world.start_all()
        self.leaders: dict[int, int] = {}
        self.committed: dict[int, bytes] = {}
        self.sets: dict[int, frozenset] = {}
        self.ends: dict[int, tuple[int, int]] = {}
        """Committed end that was looked at, by node and its life."""
        self.changes = 0

    def look(self) -> None:
        for node_id in self.world.alive:
            core = self.world.kernel(node_id).core
            if core.is_leader:
                assert self.leaders.setdefault(core.epoch, node_id) == node_id, "two leaders"
            self._look_at_log(node_id)

    def _look_at_log(self, node_id: int) -> None:
        kernel, life = self.world.kernel(node_id), self.world.nodes[node_id].life
        high_watermark = kernel.core.high_watermark or 0
        seen_life, seen = self.ends.get(node_id, (0, 0))
        start = max(seen if seen_life == life else 0, kernel.log.log_start_offset)
        if high_watermark <= start:
            return
        content = kernel.log.read(start, 1 << 24, high_watermark)
        for batch in iterate_batches(content):
            base, end = batch.header.base_offset, batch.header.end_offset
            assert end <= high_watermark, "a batch is committed as a whole"
            found = bytes(batch.buffer)
            assert self.committed.setdefault(base, found) == found, f"{node_id=} {base=}"
            if batch.header.is_control:
                for record in voter_records([batch]):
                    if isinstance(record, VotersAt):
                        self.sets[record.offset] = frozenset(record.voters.keys)
        self.ends[node_id] = (life, high_watermark)

    def run(self, duration_ms: int) -> None:
        end_ms = self.world.now_ms + duration_ms
        while self.world._next_ms() <= end_ms:
            self.world.advance_once()
            self.look()
        self.world.now_ms = end_ms

    def act(self) -> None:
        world, rng = self.world, self.rng
        down = [n for n in world.nodes if n not in world.alive]
        act = rng.choice(("add", "add", "remove", "remove", "kill", "start", "start", "wipe"))
        if act == "start" and down:
            world.start(rng.choice(down))
        elif act == "kill" and len(world.alive) > 2:
            world.kill(rng.choice(world.alive))
        elif act == "wipe" and down:
            self.wipe(rng.choice(down))
        elif act in ("add", "remove"):
            self.change(act)

    def wipe(self, node_id: int) -> None:
        """A new disk for a node that no voter set names: a majority keeps its records."""
        world, own = self.world, directory_of(self.world, node_id)
        known = [key for n in world.alive for key in world.kernel(n).core.voter_keys]
        known += [key for each in self.sets.values() for key in each][-5:]
        if own in [key.directory_id for key in known]:
            return
        node = world.nodes[node_id]
        node.wipes += 1
        node.vfs = MemoryVfs()
        node.vfs.make_directory("/data")
        node.vfs.sync_directory("/")

    def change(self, act: str) -> None:
        world, rng = self.world, self.rng
        leaders = [n for n in world.alive if world.kernel(n).core.is_leader]
        if not leaders:
            return
        leader = rng.choice(leaders)
        keys = {key.id: key for key in world.kernel(leader).core.voter_keys}
        client = world.client(leader, "CONTROLLER")
        if act == "add":
            node_id = rng.choice([*world.nodes])
            own = directory_of(world, node_id)
            client.send(80, add_body(node_id, directory_id=own, ack=rng.random() < 0.5))
        elif len(keys) > 2:
            key = keys[rng.choice([*keys])]
            client.send(81, remove_body(key.id, key.directory_id))
        self.changes += 1

    def finish(self) -> None:
        world = self.world
        for node_id in [n for n in world.nodes if n not in world.alive]:
            world.start(node_id)
        self.run(5_000)
        leader = leader_of(world)
        end = world.kernel(leader).core.high_watermark
        assert end is not None, "a leader that commits"
        self.run(2_000)
        core = world.kernel(leader_of(world)).core
        assert core.high_watermark is not None
        assert core.high_watermark > end, "no-op records are committed"
        sets = {world.kernel(n).core.voters.ids for n in world.alive}
        assert len(sets) == 1, f"{sets=}"
        ordered = [self.sets[offset] for offset in sorted(self.sets)]
        for before, after in pairwise(ordered):
            assert len(before - after) + len(after - before) <= 1, f"{before=} {after=}"


def walk(seed: int) -> Walk:
    walked = Walk(seed)
    walked.run(1_500)
    for _ in range(STEPS):
        walked.act()
        walked.run(walked.rng.choice((0, 1, 2, 3, 5, 10, 50, 300)))
    walked.finish()
    return walked


@pytest.mark.parametrize("seed", range(2))
def test_a_walk(seed: int) -> None:
    walked = walk(seed)
    assert walked.changes >= 10
    assert len(walked.sets) > 2
