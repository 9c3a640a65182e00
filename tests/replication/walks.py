"""Random walks over three replicas: what they have in common, whoever carries the records."""

import random
from itertools import combinations

from replication.leader.leadership import Leadership
from tests.replication.partition_cluster import NODES
from tests.replication.partitions import LAG_MS

STEPS = 300


def with_records(cluster, records=3):
    """The cluster, whose leader 1 has records, which all have and know to be committed."""
    cluster.elect(1)
    for _ in range(records):
        cluster.append(1)
    cluster.replicate(2, 3)
    return cluster


class Walk:
    """Steps drawn from a seed: appends, answers, elections from the ISR, kills, starts.

    `KINDS` are those that a walk has beside them, by `carry_out`.
    """

    KINDS = ()

    def __init__(self, seed, cluster):
        self.rng = random.Random(seed)
        self.cluster = cluster
        self.cluster.elect(1)
        self.acknowledged = 0
        self.content = b""
        self.truncations = 0

    def carry_out(self, kind, node):
        """Do a step of a kind of this walk alone."""

    def stop(self, node):
        self.cluster.stop(node, self.rng.randrange(self.cluster.logs[node].end_offset + 1))

    def step(self):
        cluster, rng = self.cluster, self.rng
        cluster.now_ms += rng.choice((1, 1, 1, 10, LAG_MS))
        node = rng.choice(NODES)
        if node not in cluster.partitions:
            if rng.randrange(4) == 0:
                cluster.start(node)
            return
        partition = cluster.partitions[node]
        kinds = ("append",) * 3 + ("answer",) * 2 + ("publish", "publish", "shrink", "other")
        kind = rng.choice((*kinds, *self.KINDS))
        if kind == "append" and isinstance(partition.role, Leadership):
            cluster.append(node, acks=rng.choice((1, -1)))
        elif kind == "answer" and node in cluster.proposals:
            cluster.answer(node)
        elif kind == "publish":
            cluster.publish(node)
        elif kind == "shrink":
            cluster.note(node, partition.maybe_shrink_isr(cluster.now_ms))
        elif kind == "other" and rng.randrange(3) == 0:
            self.change_leader(node)
        elif kind in self.KINDS:
            self.carry_out(kind, node)

    def change_leader(self, node):
        """Kill a node, or not, and elect one of the ISR that is up; some brokers hear it later."""
        cluster, rng = self.cluster, self.rng
        if rng.randrange(2):
            self.stop(node)
        up = [each for each in cluster.metadata.isr if each in cluster.partitions]
        if up:
            told = rng.sample(NODES, rng.randrange(len(NODES) + 1))
            cluster.elect(rng.choice(up), isr=tuple(up), told=told)

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

    def run(self):
        """Make all steps, with the checks behind each."""
        for _ in range(STEPS):
            self.step()
            self.check()
        assert self.acknowledged > 0
