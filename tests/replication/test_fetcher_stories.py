"""Fetchers of three brokers through changes of leaders: KIP-101, KIP-279, a random walk."""

import random
from itertools import combinations

import pytest

from replication.leader.leadership import Leadership
from tests.replication.fetching import BACKOFF_MS, NAME, Follower, Leader, key
from tests.replication.partition_cluster import NODES, Cluster
from tests.replication.partitions import LAG_MS


class FetchingCluster(Cluster):
    """Brokers whose followers fetch by fetchers, whose requests wait until `deliver`."""

    def __init__(self):
        self.followers, self.sides = {}, {}
        super().__init__()

    def start(self, node):
        hosted = {}
        self.followers[node] = Follower(node, hosted, self.brokers)
        self.sides[node] = Leader(hosted, lambda _, changed: self.note(node, changed))
        super().start(node)
        hosted[key()] = self.partitions[node]
        self.assign(node)

    def stop(self, node, high_watermark=None):
        super().stop(node, high_watermark)
        del self.followers[node], self.sides[node]

    def publish(self, node):
        super().publish(node)
        self.assign(node)

    def assign(self, node):
        """Fetch as the metadata say that the broker has."""
        partition, follower = self.partitions[node], self.followers[node]
        if key() not in follower.partitions:
            return
        role = partition.role
        if isinstance(role, Leadership) or role.leader_id is None:
            follower.fetchers.remove(key())
        else:
            follower.fetchers.assign(key(), NAME, role.leader_id, role.leader_epoch)
        follower.fetchers.tick()

    def deliver(self, node, *, loses=False):
        """Answer the oldest request of a follower; False without any."""
        follower = self.followers[node]
        if not follower.sent:
            return False
        sent = follower.sent.pop(0)
        leader_id, _, api_key, encoded, _ = sent
        answer = None
        if leader_id in self.sides and not loses:
            answer = self.sides[leader_id].answer(18, api_key, encoded, self.now_ms)
        follower.respond(sent, answer)
        return True

    def replicate(self, *followers, rounds=4):
        for _ in range(rounds):
            for node in followers:
                self.followers[node].advance(BACKOFF_MS)
                self.deliver(node)


def replicated(records=3):
    cluster = FetchingCluster()
    cluster.elect(1)
    for _ in range(records):
        cluster.append(1)
    cluster.replicate(2, 3)
    return cluster


def test_followers_have_what_the_leader_has():
    cluster = replicated()
    assert cluster.bytes_of(1) == cluster.bytes_of(2) == cluster.bytes_of(3)
    assert [cluster.logs[node].high_watermark for node in NODES] == [3, 3, 3]


def test_a_restart_with_an_old_high_watermark_loses_nothing():
    """Story B: with the high watermark alone, records 1 and 2 would be cut and lost."""
    cluster = replicated()
    before = cluster.bytes_of(1)
    cluster.stop(2, high_watermark=0)
    cluster.stop(3)
    cluster.start(2)
    cluster.replicate(2)
    cluster.stop(1)
    cluster.elect(2, isr=(2,))
    assert cluster.bytes_of(2) == before
    assert cluster.logs[2].high_watermark == 3


def test_a_leader_that_returns_truncates_what_it_alone_had():
    """Story B2, KIP-101."""
    cluster = replicated()
    cluster.append(1)
    cluster.stop(1)
    cluster.elect(2, isr=(2, 3))
    cluster.append(2)
    cluster.replicate(3)
    cluster.start(1)
    cluster.replicate(1)
    assert cluster.bytes_of(1) == cluster.bytes_of(2) == cluster.bytes_of(3)
    assert cluster.epochs(1) == cluster.epochs(2)
    assert cluster.followers[1].logged().count("replica_truncated") == 1


def test_an_epoch_that_the_leader_never_saw_is_truncated_to_the_one_before():
    """Story B3, KIP-279: three changes of leader, two of them unclean."""
    cluster = replicated(2)
    cluster.elect(1)
    cluster.append(1, acks=1)  # offset 2 of epoch 2
    cluster.stop(1)
    cluster.elect(2, isr=(2,))
    cluster.append(2)  # offsets 2 and 3 of epoch 3
    cluster.append(2)
    cluster.stop(2)
    cluster.start(1)
    cluster.elect(1, isr=(1,))
    cluster.append(1)  # offset 3 of epoch 4
    cluster.start(2)
    assert cluster.epochs(2) == [(1, 0), (3, 2)]
    cluster.deliver(2)
    assert cluster.logs[2].end_offset == 2
    cluster.replicate(2)
    assert cluster.bytes_of(2) == cluster.bytes_of(1)
    assert cluster.epochs(2) == cluster.epochs(1) == [(1, 0), (2, 2), (4, 3)]


def test_a_leader_that_is_gone_is_followed_when_it_is_back():
    cluster = replicated()
    cluster.stop(1)
    cluster.deliver(2)
    assert cluster.followers[2].sent == []
    cluster.start(1)
    cluster.publish(2)
    cluster.append(1)
    cluster.replicate(2)
    assert cluster.bytes_of(1) == cluster.bytes_of(2)


class Walk:
    """Steps drawn from a seed: appends, requests that arrive or are lost, elections, restarts."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.cluster = FetchingCluster()
        self.cluster.elect(1)
        self.acknowledged = 0
        self.content = b""
        self.truncations = 0

    def step(self):
        cluster, rng = self.cluster, self.rng
        cluster.now_ms += rng.choice((1, 1, 1, 10, LAG_MS))
        node = rng.choice(NODES)
        if node not in cluster.partitions:
            if rng.randrange(4) == 0:
                cluster.start(node)
            return
        partition = cluster.partitions[node]
        kinds = ("append",) * 3 + ("deliver",) * 12 + ("answer",) * 2
        kind = rng.choice((*kinds, "lose", "publish", "publish", "shrink", "other"))
        if kind == "append" and isinstance(partition.role, Leadership):
            cluster.append(node, acks=rng.choice((1, -1)))
        elif kind in ("deliver", "lose"):
            cluster.followers[node].advance(rng.choice((0, BACKOFF_MS)))
            cluster.deliver(node, loses=kind == "lose")
        elif kind == "answer" and node in cluster.proposals:
            cluster.answer(node)
        elif kind == "publish":
            cluster.publish(node)
        elif kind == "shrink":
            cluster.note(node, partition.maybe_shrink_isr(cluster.now_ms))
        elif kind == "other" and rng.randrange(3) == 0:
            self.change_leader(node)

    def change_leader(self, node):
        """Kill a node, or not, and elect one of the ISR that is up; some brokers hear it later."""
        cluster, rng = self.cluster, self.rng
        if rng.randrange(2):
            self.count_truncations(node)
            cluster.stop(node, rng.randrange(cluster.logs[node].end_offset + 1))
        up = [each for each in cluster.metadata.isr if each in cluster.partitions]
        if up:
            told = rng.sample(NODES, rng.randrange(len(NODES) + 1))
            cluster.elect(rng.choice(up), isr=tuple(up), told=told)

    def count_truncations(self, node):
        self.truncations += self.cluster.followers[node].logged().count("replica_truncated")

    def check(self):
        cluster = self.cluster
        for leader in cluster.leaders():
            log = cluster.logs[leader]
            if log.high_watermark > self.acknowledged:
                self.acknowledged = log.high_watermark
                self.content = cluster.committed(leader)
            if cluster.partitions[leader].leader_epoch == cluster.metadata.leader_epoch:
                written = cluster.bytes_of(leader)
                assert written.startswith(self.content), "D1: what was acknowledged is lost"
        for one, other in combinations(NODES, 2):
            first, second = sorted((cluster.committed(one), cluster.committed(other)), key=len)
            assert second.startswith(first), "D3: replicas differ below both high watermarks"

    def settle(self):
        """Let all brokers run under a leader that stays: the followers have the same in the end."""
        cluster = self.cluster
        for node in NODES:
            if node not in cluster.partitions:
                cluster.start(node)
        (leader, *_) = cluster.metadata.isr
        cluster.elect(leader)
        cluster.append(leader, acks=1)
        others = [node for node in NODES if node != leader]
        cluster.replicate(*others, rounds=12)
        for node in others:
            assert cluster.followers[node].fetchers.failed == {}
            assert cluster.bytes_of(node) == cluster.bytes_of(leader)
            assert cluster.epochs(node) == cluster.epochs(leader)


@pytest.mark.parametrize("seed", range(12))
def test_what_is_committed_stays_and_replicas_become_the_same(seed):
    walk = Walk(seed)
    for _ in range(300):
        walk.step()
        walk.check()
    assert walk.acknowledged > 0
    walk.settle()
    walk.check()


def test_the_walks_see_logs_that_diverge():
    walks = [Walk(seed) for seed in range(4)]
    for walk in walks:
        for _ in range(300):
            walk.step()
        for node in walk.cluster.followers:
            walk.count_truncations(node)
    assert sum(walk.truncations for walk in walks) > 2
