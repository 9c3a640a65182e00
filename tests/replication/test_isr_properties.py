"""A leader whose controller answers late or not at all: nothing uncommitted counts as committed.

After each step: every replica in the ISR that the controller has (it elects from that one) holds
all below the high watermark, the leader counts every one of them, and the high watermark is never
lowered. In the end, when all answers and metadata have come and everyone has fetched, it is the log
end.
"""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from replication.leader.alter_partition import AnsweredProposal
from replication.leader.isr import (
    CommittedPartitionState,
    Epochs,
    LeaderAndIsr,
    Outcome,
    PendingExpandIsr,
    PendingShrinkIsr,
    adopted,
    effective_min_isr,
    expand,
    high_watermark,
    maximal_isr,
    needs_expansion,
    out_of_sync_replicas,
    outcome_of,
    shrink,
)
from replication.leader.replica import new_replica
from replication.log_offsets import LogOffsetMetadata
from wire.errors import ErrorCode

LEADER, FOLLOWERS = 1, (2, 3)
LEADER_EPOCH = 4
LAG_MS = 10


@dataclass
class Broker:
    epoch: int = 1
    fenced: bool = False
    in_controlled_shutdown: bool = False


class Controller:
    """The ISR that counts, and answers on their way."""

    def __init__(self):
        self.isr = (LEADER, *FOLLOWERS)
        self.partition_epoch = 0
        self.fenced = set()

    def change(self, isr):
        self.isr = isr
        self.partition_epoch += 1

    def handle(self, proposed):
        members = tuple(member for member, _ in proposed.isr)
        if proposed.partition_epoch != self.partition_epoch:
            return ErrorCode.invalid_update_version
        if self.fenced & set(members):
            return ErrorCode.ineligible_replica
        self.change(members)
        return LeaderAndIsr(
            leader_id=LEADER,
            leader_epoch=LEADER_EPOCH,
            partition_epoch=self.partition_epoch,
            isr=self.isr,
            leader_recovery_state=0,
        )


class Cluster:
    def __init__(self, min_insync_replicas):
        self.controller = Controller()
        self.min_isr = effective_min_isr(min_insync_replicas, 3)
        self.now_ms = 0
        self.ends = dict.fromkeys(FOLLOWERS, 0)  # of the followers' logs
        self.log_end = self.high_watermark = 0
        self.replicas = {one: new_replica(0, is_in_sync=True) for one in FOLLOWERS}
        self.brokers = {one: Broker() for one in FOLLOWERS}  # as the leader knows them
        self.state = CommittedPartitionState(self.controller.isr)
        self.partition_epoch = 0
        self.request = None  # on its way to the controller
        self.answer = None

    # the leader

    def append(self, count):
        self.log_end += count
        self.raise_high_watermark()

    def fetch(self, follower, part):
        """A follower has written what it read before; it reads some of what is there."""
        self.replicas[follower] = self.replicas[follower].after_fetch(
            LogOffsetMetadata(self.ends[follower]),
            0,
            leader_end_offset=self.log_end,
            broker_epoch=1,
            now_ms=self.now_ms,
        )
        if needs_expansion(
            self.state,
            follower,
            self.replicas[follower],
            self.brokers[follower],
            high_watermark=self.high_watermark,
            epoch_start_offset=0,
        ):
            self.propose(expand(self.state, follower, Epochs(**self.epochs(), broker_epochs={})))
        self.raise_high_watermark()
        missing = self.log_end - self.ends[follower]
        self.ends[follower] += missing if part else missing // 2

    def pass_time(self, ms):
        self.now_ms += ms
        leaving = out_of_sync_replicas(
            self.state,
            LEADER,
            self.replicas,
            leader_end_offset=self.log_end,
            now_ms=self.now_ms,
            lag_ms_max=LAG_MS,
        )
        if leaving:
            self.propose(shrink(self.state, leaving, Epochs(**self.epochs(), broker_epochs={})))

    def propose(self, pending):
        if self.request is None and self.answer is None:
            self.state, self.request = pending, pending.proposed

    def epochs(self):
        return {"leader_epoch": LEADER_EPOCH, "partition_epoch": self.partition_epoch}

    def raise_high_watermark(self):
        raised = high_watermark(
            self.state,
            LogOffsetMetadata(self.high_watermark),
            LogOffsetMetadata(self.log_end),
            self.replicas,
            self.brokers.get,
            min_isr=self.min_isr,
            now_ms=self.now_ms,
            lag_ms_max=LAG_MS,
        )
        if raised is not None:
            assert raised.offset > self.high_watermark
            self.high_watermark = raised.offset

    # the controller and the way to it

    def fence(self, follower):
        self.controller.fenced.add(follower)
        if follower in self.controller.isr:
            self.controller.change(tuple(one for one in self.controller.isr if one != follower))

    def unfence(self, follower):
        self.controller.fenced.discard(follower)

    def decide(self, is_late):
        if self.request is not None:
            answer = ErrorCode.not_controller if is_late else self.controller.handle(self.request)
            self.request, self.answer = None, AnsweredProposal((b"", 0), self.request, answer)

    def deliver(self):
        if self.answer is None:
            return
        answered, self.answer = self.answer, None
        outcome = outcome_of(self.state, answered.proposed, answered.answer, **self.epochs())
        match outcome:
            case Outcome.ADOPTED:
                self.partition_epoch = answered.answer.partition_epoch
                self.state = adopted(answered.answer)
            case Outcome.ROLLED_BACK:
                self.state = self.state.last_committed
            case Outcome.TO_RETRY:
                self.request = answered.proposed
        self.raise_high_watermark()

    def publish(self):
        """Metadata comes: all that the controller has by now."""
        for one in FOLLOWERS:
            self.brokers[one].fenced = one in self.controller.fenced
        if self.controller.partition_epoch > self.partition_epoch:
            self.state = CommittedPartitionState(self.controller.isr)
            self.partition_epoch = self.controller.partition_epoch
        self.raise_high_watermark()

    def check(self, before):
        assert before <= self.high_watermark <= self.log_end
        for one in self.controller.isr:
            assert one in maximal_isr(self.state)
            assert one == LEADER or self.ends[one] >= self.high_watermark, f"{one=}"

    def calm_down(self):
        for one in FOLLOWERS:
            self.unfence(one)
        for _ in range(8):
            self.decide(is_late=False)
            self.deliver()
            self.publish()
            for one in FOLLOWERS:
                self.fetch(one, part=True)


follower = st.sampled_from(FOLLOWERS)
steps = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 3)),
    st.tuples(st.just("fetch"), follower, st.booleans()),
    st.tuples(st.just("fetch"), follower, st.just(True)),
    st.tuples(st.just("pass_time"), st.sampled_from([1, 6, 11])),
    st.tuples(st.just("fence"), follower),
    st.tuples(st.just("unfence"), follower),
    st.tuples(st.just("decide"), st.sampled_from([False, False, True])),
    st.tuples(st.just("deliver")),
    st.tuples(st.just("publish")),
)


@given(st.integers(1, 3), st.lists(steps, max_size=40))
def test_what_is_committed_is_in_every_replica_that_can_be_elected(min_insync_replicas, run):
    cluster = Cluster(min_insync_replicas)
    for name, *arguments in run:
        before = cluster.high_watermark
        getattr(cluster, name)(*arguments)
        cluster.check(before)
    cluster.calm_down()
    assert isinstance(cluster.state, CommittedPartitionState)
    assert set(cluster.controller.isr) == {LEADER, *FOLLOWERS}
    assert cluster.high_watermark == cluster.log_end


def test_the_run_that_shows_why_a_joining_replica_counts_before_the_answer():
    cluster = Cluster(1)
    for one in FOLLOWERS:
        cluster.fence(one)
    cluster.publish()
    cluster.append(1)
    assert cluster.high_watermark == 1
    cluster.unfence(2)
    cluster.publish()
    cluster.fetch(2, True)
    cluster.fetch(2, True)
    assert isinstance(cluster.state, PendingExpandIsr)
    cluster.decide(False)
    assert cluster.controller.isr == (1, 2)
    cluster.append(1)
    cluster.pass_time(LAG_MS + 1)
    cluster.raise_high_watermark()
    assert cluster.high_watermark == 1
    cluster.check(1)


def test_the_run_that_shows_why_a_replica_must_have_what_is_committed_to_join():
    cluster = Cluster(1)
    for one in FOLLOWERS:
        cluster.fence(one)
    cluster.publish()
    cluster.append(1)
    cluster.unfence(2)
    cluster.publish()
    cluster.fetch(2, True)
    assert cluster.request is None
    cluster.decide(False)
    cluster.check(1)


def test_the_run_that_shows_why_a_leaving_replica_counts_until_the_answer():
    cluster = Cluster(1)
    cluster.append(1)
    cluster.pass_time(LAG_MS + 1)
    assert isinstance(cluster.state, PendingShrinkIsr)
    cluster.raise_high_watermark()
    assert cluster.high_watermark == 0
    cluster.decide(True)  # no controller: it is in the ISR still
    cluster.deliver()
    cluster.check(0)
    cluster.decide(False)
    cluster.deliver()
    assert cluster.high_watermark == 1
