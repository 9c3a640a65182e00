"""A deterministic cluster in memory: virtual time, a lossy network, logs that lose unflushed data.

One seed gives one run. After every event the invariants of docs/invariants.md are checked.
"""

import heapq
import random
from itertools import count

import msgspec

from raft import effects as fx
from raft import events as ev
from raft.config import RaftConfig
from raft.core import RaftCore
from raft.messages import (
    BeginQuorumEpochRequest,
    FetchSnapshotResponse,
    VoteRequest,
    VoteResponse,
)
from wire.types import Endpoint, LeaderAndEpoch, NodeId, OffsetAndEpoch

Record = tuple[int, str]


class Node:
    """A node's disk (kept over a crash) and its core (lost)."""

    def __init__(self, world, node_id):
        self.world, self.id = world, node_id
        self.election = (0, None, None)
        self.records: list[Record] = []
        self.flushed_count = 0
        self.core = None
        self.incarnation = 0
        self.timer = None
        self.high_watermark = 0
        self.last_epoch_seen = 0
        self.claimed: int | None = None
        self.is_shut_down = False

    def start(self):
        self.incarnation += 1
        self.is_shut_down = False
        epoch, leader, voted = self.election
        self.core = RaftCore(
            self.world.config(self.id),
            election_epoch=epoch,
            election_leader_id=leader,
            election_voted_key=voted,
            log_end_offset=len(self.records),
            epoch_entries=self.epochs(0, len(self.records)),
            rng=random.Random(self.world.rng.random()),
            now_ms=self.world.now_ms,
        )
        self.high_watermark = 0
        self.timer = None
        self.claimed = None
        self.step(ev.TimeAdvanced())

    def crash(self):
        """Stop; a random part of what was not flushed is lost."""
        self.core = None
        lost_from = self.world.rng.randrange(self.flushed_count, len(self.records) + 1)
        del self.records[lost_from:]
        self.flushed_count = len(self.records)

    def epochs(self, start, end):
        found, last = [], (self.records[start - 1][0] if start else None)
        for offset in range(start, end):
            if self.records[offset][0] != last:
                last = self.records[offset][0]
                found.append(ev.EpochStart(last, offset))
        return tuple(found)

    def step(self, event):
        if self.core is None:
            return
        effects = self.core.step(event, self.world.now_ms)
        follow_up = []
        for effect in effects.persist:
            follow_up += self._persist(effect)
        assert not (effects.send and follow_up and self.core._state.pending_append)
        for effect in effects.send:
            self._send(effect)
        for effect in effects.notify:
            self._notify(effect)
        for answer in follow_up:
            self.step(answer)
        self.world.check(self)
        self._arm()

    def _arm(self):
        if self.core is None:
            return
        deadline = self.core.next_deadline_ms()
        if deadline is None or deadline == self.timer:
            return
        assert deadline > self.world.now_ms, f"busy loop {deadline=} {self.core.role=}"
        self.timer = deadline
        incarnation = self.incarnation

        def fire():
            if self.incarnation == incarnation and self.core and self.timer == deadline:
                self.timer = None
                self.step(ev.TimeAdvanced())

        self.world.at(deadline, fire)

    def _persist(self, effect):
        before = len(self.records)
        if isinstance(effect, fx.PersistElection):
            self.election = (effect.epoch, effect.leader_id, effect.voted_key)
            if effect.voted_key is not None and effect.voted_key.id == self.id:
                self.world.candidate_appeared(self)
            return []
        if isinstance(effect, fx.TruncateLog):
            assert effect.end_offset >= self.high_watermark, "INV-HW-4"
            assert not self.core.is_leader, "a leader only appends"
            del self.records[effect.end_offset :]
            self.flushed_count = min(self.flushed_count, effect.end_offset)
            return []
        assert effect.base_offset == before, f"{effect=} {before=}"
        if isinstance(effect, fx.AppendLeaderChange):
            self.world.check_complete(self)
            self.records.append((effect.epoch, f"leader {effect.leader_id}"))
        elif isinstance(effect, fx.AppendBatch):
            self.records += [(effect.epoch, value.decode()) for value in effect.values]
        else:
            fetched = msgspec.json.decode(effect.records, type=list[Record])
            self.records += [record for record in fetched if record[0] <= effect.epoch]
        self.world.check_matching(self, before)
        self._plan_flush()
        return [
            ev.Appended(
                end_offset=len(self.records),
                last_epoch=self.records[-1][0],
                generation=self.core.log_generation,
                epochs=self.epochs(before, len(self.records)),
            )
        ]

    def _plan_flush(self):
        flushed = ev.Flushed(
            end_offset=len(self.records),
            epoch=self.core.epoch,
            generation=self.core.log_generation,
        )
        incarnation = self.incarnation

        def done():
            if self.incarnation != incarnation or self.core is None:
                return
            if flushed.generation == self.core.log_generation:
                self.flushed_count = max(self.flushed_count, flushed.end_offset)
            self.step(flushed)

        self.world.after(self.world.flush_delay_ms(), done)

    def _send(self, effect):
        world = self.world
        if isinstance(effect, fx.SendRequest):
            world.check_sent(self, effect.request)
            world.request(self, effect)
            return
        response = effect.response
        if isinstance(effect, fx.ReadAndSendFetch):
            offset = effect.request.fetch_offset
            cut = self.records[offset : offset + 1 + world.rng.randrange(8)]
            assert cut, f"{effect=}"
            response = msgspec.structs.replace(response, records=msgspec.json.encode(cut))
        world.check_answered(self, effect.reply_token, response)
        world.respond(effect.reply_token, response)

    def _notify(self, effect):
        if isinstance(effect, fx.HighWatermarkAdvanced):
            assert effect.high_watermark > self.high_watermark
            self.high_watermark = effect.high_watermark
            self.world.committed_to(self, effect.high_watermark)
        elif isinstance(effect, fx.Claimed):
            self.claimed = effect.epoch
        elif isinstance(effect, fx.ShutdownComplete):
            self.is_shut_down = True


class World:
    """Nodes, clock and network of one run."""

    def __init__(self, seed=0, voters=3, observers=0, *, loss=0.0, evidence=True):
        self.rng = random.Random(seed)
        self.now_ms = 0
        self.events_count = 0
        self.loss, self.evidence = loss, evidence
        self.voter_ids = tuple(range(1, voters + 1))
        self.queue, self.sequence, self.tokens = [], count(), count(1)
        self.pending, self.cut = {}, set()
        self.committed: list[Record] = []
        self.leader_of: dict[int, int] = {}
        self.vote_of: dict[tuple[int, int], int] = {}
        """(voter, epoch) -> candidate."""
        self.history: dict[tuple[int, int], tuple[str, int]] = {}
        """(offset, epoch) -> value, and the epoch of the record before."""
        self.nodes = {i: Node(self, i) for i in range(1, voters + observers + 1)}

    def config(self, node_id):
        endpoints = tuple(
            (NodeId(i), Endpoint("CONTROLLER", f"n{i}", 9093)) for i in self.voter_ids
        )
        return RaftConfig(node_id=node_id, cluster_id="c", voters=endpoints, evidence=self.evidence)

    def at(self, at_ms, action):
        heapq.heappush(self.queue, (at_ms, next(self.sequence), action))

    def after(self, delay_ms, action):
        self.at(self.now_ms + delay_ms, action)

    def run(self, *, until_ms=None, events=None, done=None):
        limit = None if events is None else self.events_count + events
        while self.queue and (limit is None or self.events_count < limit):
            if done is not None and done():
                return True
            if until_ms is not None and self.queue[0][0] > until_ms:
                self.now_ms = until_ms
                return False
            at_ms, _, action = heapq.heappop(self.queue)
            self.now_ms = at_ms
            self.events_count += 1
            action()
        return done() if done is not None else False

    def start_all(self):
        for node in self.nodes.values():
            self.after(self.rng.randrange(5), node.start)

    def _is_lost(self, a, b):
        return (a, b) in self.cut or (self.loss > 0 and self.rng.random() < self.loss)

    def _delay(self):
        return 1 + self.rng.randrange(3) + (self.rng.randrange(30) if self.loss else 0)

    def flush_delay_ms(self):
        """Mostly quick; while there are faults now and then so slow that elections come between."""
        if self.loss and self.rng.random() < 0.05:
            return 400
        return self.rng.choice((0, 1, 1, 4))

    def candidate_appeared(self, node):
        """Some die while they stand, and are back before the round is over."""
        if self.loss and self.rng.random() < 0.3:
            incarnation = node.incarnation

            def die():
                if node.core and node.incarnation == incarnation:
                    node.crash()
                    self.after(self.rng.randrange(20), lambda: node.core or node.start())

            self.after(1 + self.rng.randrange(8), die)

    def request(self, sender, effect):
        target = self.nodes[effect.destination_id]
        incarnation = sender.incarnation

        def failed():
            if sender.incarnation == incarnation and sender.core:
                sender.step(
                    ev.RequestFailed(
                        destination_id=effect.destination_id,
                        correlation_id=effect.correlation_id,
                        error_code=8,
                    )
                )

        def arrive():
            if target.core is None:
                self.after(1, failed)
                return
            token = next(self.tokens)
            self.pending[token] = (sender, incarnation, effect, target.id)
            target.step(
                ev.RequestReceived(reply_token=token, request=effect.request, wall_ms=self.now_ms)
            )

        for _ in range(2 if self.loss and self.rng.random() < 0.05 else 1):
            if not self._is_lost(sender.id, target.id):
                self.after(self._delay(), arrive)

    def respond(self, token, response):
        sender, incarnation, effect, source_id = self.pending.pop(token)

        def arrive():
            if sender.incarnation == incarnation and sender.core:
                sender.step(
                    ev.ResponseReceived(
                        destination_id=effect.destination_id,
                        correlation_id=effect.correlation_id,
                        response=response,
                    )
                )

        if not self._is_lost(source_id, sender.id):
            self.after(self._delay(), arrive)

    def crash(self, node_id):
        """SIGKILL: followers learn of the refused reconnect after 1 to 3 ms."""
        self.nodes[node_id].crash()
        for node in self.nodes.values():
            if node.core and node.core.leader.leader_id == node_id:
                followed = node.core.leader
                self.after(1 + self.rng.randrange(3), lambda n=node, f=followed: self._lost(n, f))

    def _lost(self, node, followed):
        if self.nodes[followed.leader_id].core is None:
            node.step(ev.LeaderUnreachable(leader_id=followed.leader_id, epoch=followed.epoch))

    def leader(self):
        """The claimed leader of the largest epoch, or None."""
        leading = [
            n
            for n in self.nodes.values()
            if n.core and n.core.is_leader and n.claimed == n.core.epoch
        ]
        return max(leading, key=lambda n: n.core.epoch, default=None)

    def propose(self, value="x"):
        node = self.leader()
        if node is not None:
            node.step(ev.Propose(epoch=node.core.epoch, values=(value.encode(),)))
        return node

    def committed_to(self, node, high_watermark):
        """INV-COMMIT: what one node holds as committed is what every node holds."""
        start = max(0, min(len(self.committed), high_watermark) - 20)
        known = self.committed[start:high_watermark]
        assert node.records[start : start + len(known)] == known, f"{node.id=} {high_watermark=}"
        if high_watermark > len(self.committed):
            self.committed += node.records[len(self.committed) : high_watermark]
            holders = [
                n for i in self.voter_ids if (n := self.nodes[i]).flushed_count >= high_watermark
            ]
            assert len(holders) > len(self.voter_ids) // 2, f"INV-HW-1 {high_watermark=}"

    def check_matching(self, node, start):
        """Log matching: offset and epoch name one record, and with it all that are before."""
        for offset in range(start, len(node.records)):
            epoch, value = node.records[offset]
            found = (value, node.records[offset - 1][0] if offset else 0)
            known = self.history.setdefault((offset, epoch), found)
            assert known == found, f"log matching {node.id=} {offset=} {epoch=} {known=} {found=}"

    def check_complete(self, node):
        """Leader completeness: a new leader has everything that was ever committed."""
        end = len(self.committed)
        assert node.records[:end] == self.committed, f"leader completeness {node.id=} {end=}"

    def check_sent(self, node, request):
        """INV-DURABLE-1: what a request claims is in the quorum-state file."""
        epoch, leader_id, voted_key = node.election
        match request:
            case VoteRequest(pre_vote=False):
                assert (epoch, voted_key.id) == (request.replica_epoch, node.id)
                self.note_vote(node, epoch, node.id)
            case BeginQuorumEpochRequest():
                assert (epoch, leader_id) == (request.leader_epoch, node.id)

    def check_answered(self, node, token, response):
        """INV-VOTE-1, INV-DURABLE-1: a vote is in the file, and the only one of its epoch."""
        assert response.leader_epoch <= node.election[0], "INV-DURABLE-1"
        if isinstance(response, VoteResponse) and response.vote_granted:
            request = self.pending[token][2].request
            if not request.pre_vote:
                epoch, _, voted_key = node.election
                assert (epoch, voted_key.id) == (request.replica_epoch, request.replica_id)
                self.note_vote(node, epoch, request.replica_id)

    def note_vote(self, node, epoch, candidate_id):
        known = self.vote_of.setdefault((node.id, epoch), candidate_id)
        assert known == candidate_id, f"INV-VOTE-1 {node.id=} {epoch=} {known=} {candidate_id=}"

    def check(self, node):
        """INV-EPOCH-1, INV-LEADER-1 (one leader per epoch), stored = in memory."""
        if node.core is None:
            return
        epoch, leader_id, _ = node.election
        assert epoch >= node.last_epoch_seen
        assert epoch == node.core.epoch
        node.last_epoch_seen = epoch
        if leader_id is not None:
            known = self.leader_of.setdefault(epoch, leader_id)
            assert known == leader_id, f"two leaders in {epoch=}"
        if node.core.is_leader and node.core.log_end_offset:
            assert len(node.records) <= node.core.log_end_offset


def elected(voters=3, observers=0, seed=1, **options):
    """A started world with a claimed leader."""
    world = World(seed, voters, observers, **options)
    world.start_all()
    assert world.run(until_ms=10_000, done=lambda: world.leader() is not None)
    return world


__all__ = ["FetchSnapshotResponse", "LeaderAndEpoch", "OffsetAndEpoch", "World", "elected"]
