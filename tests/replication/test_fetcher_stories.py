"""Fetchers of three brokers through changes of leaders: KIP-101, KIP-279, a random walk."""

import pytest

from replication.leader.leadership import Leadership
from tests.replication.fetching import BACKOFF_MS, NAME, Follower, Leader, key
from tests.replication.partition_cluster import NODES, Cluster
from tests.replication.walks import Walk, with_records


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
    return with_records(FetchingCluster(), records)


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


class FetcherWalk(Walk):
    """Followers fetch by fetchers, whose requests arrive later or are lost."""

    KINDS = ("deliver",) * 12 + ("lose",)

    def __init__(self, seed):
        super().__init__(seed, FetchingCluster())

    def carry_out(self, kind, node):
        self.cluster.followers[node].advance(self.rng.choice((0, BACKOFF_MS)))
        self.cluster.deliver(node, loses=kind == "lose")

    def stop(self, node):
        self.count_truncations(node)
        super().stop(node)

    def count_truncations(self, node):
        self.truncations += self.cluster.followers[node].logged().count("replica_truncated")

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
    walk = FetcherWalk(seed)
    walk.run()
    walk.settle()
    walk.check()


def test_the_walks_see_logs_that_diverge():
    walks = [FetcherWalk(seed) for seed in range(4)]
    for walk in walks:
        walk.run()
        for node in walk.cluster.followers:
            walk.count_truncations(node)
    assert sum(walk.truncations for walk in walks) > 2
