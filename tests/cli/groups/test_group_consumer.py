"""The consumer with a place in a group, and `console-consumer --group`, at a broker in memory."""

import msgspec
import pytest

from cli.connect import ClusterError
from cli.groups.membership.actions import GroupConfig, MemberError
from cli.groups.membership.group_consumer import GroupConsumer, Subscription
from cli.groups.membership.subscriptions import subscription_bytes
from cli.records.clients.fetcher import Fetched, FetcherConfig, FetchError
from cli.records.clients.offsets import EARLIEST, LATEST, READ_COMMITTED
from cli.records.clients.topic_metadata import Partition
from cli.records.partition_rules import topic_pattern
from tests.cli.groups.group_broker import FIND_COORDINATOR, OFFSET_COMMIT, OFFSET_FETCH
from tests.cli.groups.member_broker import (
    CONSUMER_GROUP_HEARTBEAT,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    SYNC_GROUP,
    MemberBroker,
)
from tests.cli.records.broker import METADATA, Log

CLASSIC = GroupConfig(group_id="g")
KIP_848 = GroupConfig(group_id="g", is_consumer_protocol=True)
BOTH = pytest.mark.parametrize("config", [CLASSIC, KIP_848], ids=["classic", "consumer"])
FROM_START = FetcherConfig(reset_to=EARLIEST)
NAMED = Subscription("t")
changed = msgspec.structs.replace


def broker(*counts: int) -> MemberBroker:
    """A topic `t` with so many records in its partitions, three in the first by default."""
    logs = [Log() for _ in counts or (0, 0)]
    for log, count in zip(logs, counts or (3, 0), strict=True):
        for number in range(count):
            log.append(b"value %d" % number, leader_epoch=7)
    return MemberBroker(t=logs)


class Reader:
    """A consumer, and what it told."""

    def __init__(
        self, made: MemberBroker, config: GroupConfig, fetching: FetcherConfig = FROM_START,
        subscription: Subscription = NAMED,
    ) -> None:  # fmt: skip
        self.broker = made
        self.told: list[object] = []
        self.consumer = GroupConsumer(
            made, config, fetching, subscription, made.clock, member_id="mine"
        )
        self.consumer.on_assigned = lambda found: self.told.append(sorted(map(str, found)))
        self.consumer.on_revoked = lambda found: self.told.append(("-", *sorted(map(str, found))))
        self.consumer.on_problem = self.told.append

    def poll(self, timeout_ms: int = 1000) -> list[str]:
        return [shown(fetched) for fetched in self.consumer.poll(timeout_ms)]

    def offsets(self) -> object:
        group = self.broker.groups.get("g")
        return None if group is None else group.offsets


def shown(fetched: Fetched) -> str:
    return f"{fetched.partition} {(fetched.record.value or b'').decode()}"


THREE = [f"t-0 value {number}" for number in range(3)]


@BOTH
def test_it_joins_reads_commits_and_leaves(config: GroupConfig) -> None:
    reader = Reader(broker(), config)
    assert reader.poll() == THREE
    assert reader.told == [["t-0", "t-1"]]
    assert sorted(map(str, reader.consumer.assigned)) == ["t-0", "t-1"]
    assert reader.offsets() is None
    reader.consumer.close()
    assert reader.offsets() == {("t", 0): (3, 7), ("t", 1): (0, -1)}
    assert reader.told == [["t-0", "t-1"], ("-", "t-0", "t-1")]
    assert reader.broker.left == ["me" if config is CLASSIC else -1]


@BOTH
def test_another_goes_on_where_the_last_ended(config: GroupConfig) -> None:
    made = broker()
    first = Reader(made, config)
    records = first.consumer.poll(1000)
    first.consumer.put_back(records[2:])
    first.consumer.close()
    assert first.offsets() == {("t", 0): (2, 7), ("t", 1): (0, -1)}
    second = Reader(made, config, FetcherConfig(reset_to=LATEST))
    assert second.poll() == THREE[2:]


@BOTH
def test_nothing_is_committed_of_what_was_put_back_whole(config: GroupConfig) -> None:
    reader = Reader(broker(3), config)
    reader.consumer.put_back(reader.consumer.poll(1000))
    reader.consumer.close()
    assert reader.offsets() == {("t", 0): (0, -1)}


@BOTH
def test_commits_come_at_their_interval_and_not_twice(config: GroupConfig) -> None:
    reader = Reader(broker(3), config)
    reader.poll()
    reader.broker.clock.at_ms = 4999
    reader.poll(0)
    assert reader.broker.asked_for(OFFSET_COMMIT) == []
    reader.broker.clock.at_ms = 5000
    reader.poll(0)
    assert reader.offsets() == {("t", 0): (3, 7)}
    reader.broker.clock.at_ms = 9999
    reader.broker.topics["t"].logs[0].append(b"more")
    assert reader.poll(0) == ["t-0 more"]
    assert len(reader.broker.asked_for(OFFSET_COMMIT)) == 1
    reader.broker.clock.at_ms = 10_000
    reader.poll(0)
    reader.poll(0)
    reader.consumer.close()
    assert len(reader.broker.asked_for(OFFSET_COMMIT)) == 2


@BOTH
def test_without_automatic_commits_only_those_asked_for(config: GroupConfig) -> None:
    reader = Reader(broker(3), changed(config, enable_auto_commit=False))
    reader.poll()
    reader.broker.clock.at_ms = 6000
    reader.poll(0)
    assert reader.offsets() is None
    assert reader.consumer.commit() == {Partition("t", 0): 3}
    assert reader.consumer.commit() == {}
    reader.broker.topics["t"].logs[0].append(b"more")
    reader.poll()
    reader.consumer.close()
    assert reader.offsets() == {("t", 0): (3, 7)}


def test_heartbeats_go_between_fetches() -> None:
    reader = Reader(broker(0), CLASSIC)
    reader.poll(8000)
    assert reader.broker.clock.at_ms == 8000
    assert len(reader.broker.asked_for(HEARTBEAT)) == 2
    assert len(reader.broker.asked_for(JOIN_GROUP)) == 2
    other = Reader(broker(0), KIP_848)
    other.poll(11_000)
    assert len(other.broker.asked_for(CONSUMER_GROUP_HEARTBEAT)) == 4


def test_a_rebalance_commits_and_shares_with_others() -> None:
    made = broker()
    reader = Reader(made, CLASSIC)
    reader.poll()
    made.others = {"you": subscription_bytes(("t",))}
    made.errors = [(HEARTBEAT, 27)]
    reader.poll(3500)
    assert reader.offsets() == {("t", 0): (3, 7), ("t", 1): (0, -1)}
    assert reader.told == [["t-0", "t-1"], ("-", "t-0", "t-1"), ["t-0"]]
    assert sorted(map(str, reader.consumer.assigned)) == ["t-0"]
    (_, last) = made.asked_for(SYNC_GROUP)
    assert [row.member_id for row in last.assignments] == ["me", "you"]


def test_a_member_that_was_forgotten_does_not_commit() -> None:
    made = broker()
    reader = Reader(made, CLASSIC)
    reader.poll()
    made.errors = [(HEARTBEAT, 25)]
    assert reader.poll(3500) == THREE
    assert reader.offsets() is None
    assert reader.told == [["t-0", "t-1"], ("-", "t-0", "t-1"), ["t-0", "t-1"]]
    assert [request.member_id for request in made.asked_for(JOIN_GROUP)] == ["", "me", "", "me"]


def test_a_new_assignment_of_the_coordinator_revokes_and_adds() -> None:
    made = broker()
    reader = Reader(made, changed(KIP_848, group_remote_assignor="range"))
    made.assigned = {"t": (0,)}
    assert reader.poll() == THREE
    made.assigned = {"t": (1,)}
    reader.poll(5500)
    assert reader.told == [["t-0"], ("-", "t-0"), ["t-1"]]
    assert reader.offsets() == {("t", 0): (3, 7)}
    beats = made.asked_for(CONSUMER_GROUP_HEARTBEAT)
    assert [beat.member_epoch for beat in beats] == [0, 1, 1, 1]
    assert [beat.server_assignor for beat in beats] == ["range", None, None, None]
    assert [beat.subscribed_topic_names for beat in beats] == [("t",), None, None, None]
    owned = [
        None if beat.topic_partitions is None else [row.partitions for row in beat.topic_partitions]
        for beat in beats
    ]
    assert owned == [[], [(0,)], None, [(1,)]]


def test_the_settings_of_the_join() -> None:
    config = GroupConfig(
        group_id="g", group_instance_id="i", session_timeout_ms=7000, max_poll_interval_ms=9000,
        assignors=("roundrobin", "range"),
    )  # fmt: skip
    reader = Reader(broker(), config)
    reader.poll()
    (_, join) = reader.broker.asked_for(JOIN_GROUP)
    assert (join.group_id, join.group_instance_id, join.protocol_type) == ("g", "i", "consumer")
    assert join.session_timeout.total_seconds() == 7
    assert join.rebalance_timeout.total_seconds() == 9
    assert [protocol.name for protocol in join.protocols] == ["roundrobin", "range"]
    reader.consumer.close()
    assert reader.broker.asked_for(LEAVE_GROUP) == []
    other = Reader(broker(), changed(config, is_consumer_protocol=True))
    other.poll()
    first = other.broker.asked_for(CONSUMER_GROUP_HEARTBEAT)[0]
    assert (first.member_id, first.instance_id) == ("mine", "i")
    assert first.rebalance_timeout.total_seconds() == 9
    other.consumer.close()
    assert other.broker.left == [-2]


def test_a_reader_of_what_is_committed_waits_for_stable_offsets() -> None:
    reader = Reader(broker(), CLASSIC, FetcherConfig(isolation_level=READ_COMMITTED))
    reader.broker.errors = [(OFFSET_FETCH, 88)]
    reader.poll(1000)
    first, second = reader.broker.asked_for(OFFSET_FETCH)
    assert first.require_stable
    assert first == second
    assert [group.member_id for group in first.groups] == [None]
    other = Reader(broker(), KIP_848)
    other.poll()
    (asked,) = other.broker.asked_for(OFFSET_FETCH)
    assert not asked.require_stable
    assert [(group.member_id, group.member_epoch) for group in asked.groups] == [("mine", 1)]


@BOTH
def test_offsets_that_are_not_known_yet_are_asked_for_again(config: GroupConfig) -> None:
    reader = Reader(broker(), config)
    reader.broker.errors = [(OFFSET_FETCH, 14), (OFFSET_FETCH, 16), (OFFSET_FETCH, 113)]
    assert reader.poll() == THREE
    assert reader.broker.clock.at_ms == 300
    assert len(reader.broker.asked_for(FIND_COORDINATOR)) == 2
    reader = Reader(broker(), config)
    reader.broker.errors = [(OFFSET_FETCH, 30)]
    with pytest.raises(MemberError, match="Group authorization failed"):
        reader.poll()


@BOTH
def test_without_an_offset_and_a_policy_there_is_no_position(config: GroupConfig) -> None:
    reader = Reader(broker(), config, FetcherConfig(reset_to=None))
    with pytest.raises(FetchError, match=r"no reset policy for partitions: \[t-0, t-1\]"):
        reader.poll()


@BOTH
def test_connections_that_break_are_made_again(config: GroupConfig) -> None:
    made = broker()
    reader = Reader(made, config)
    beat = HEARTBEAT if config is CLASSIC else CONSUMER_GROUP_HEARTBEAT
    made.refused = [JOIN_GROUP, SYNC_GROUP, beat, OFFSET_FETCH]
    assert reader.poll() == THREE
    reader.poll(9000)
    assert made.refused == ([] if config is CLASSIC else [JOIN_GROUP, SYNC_GROUP])


@BOTH
def test_a_coordinator_that_cannot_be_asked_for_its_versions_is_found_again(
    config: GroupConfig,
) -> None:
    made = broker(3)
    reader = Reader(made, changed(config, enable_auto_commit=False))
    made.refused_count = 1
    assert reader.poll(1000) == THREE
    assert len(made.asked_for(FIND_COORDINATOR)) == 2
    made.refused_count = 1
    reader.consumer.commit()
    assert len(made.asked_for(FIND_COORDINATOR)) == 3
    assert reader.offsets() == {("t", 0): (3, 7)}


@BOTH
def test_a_commit_that_fails_is_told_and_made_later(config: GroupConfig) -> None:
    reader = Reader(broker(3), config)
    reader.poll()
    reader.broker.clock.at_ms = 5000
    reader.broker.errors = [(OFFSET_COMMIT, 12)]
    reader.poll(0)
    assert str(reader.told[-1]).startswith("Offset commit failed: ")
    assert "The metadata field of the offset request was too large." in str(reader.told[-1])
    reader.consumer.close()
    assert reader.offsets() == {("t", 0): (3, 7)}


@BOTH
def test_a_commit_that_is_refused_in_part_is_made_later_in_that_part(config: GroupConfig) -> None:
    reader = Reader(broker(3, 3), changed(config, enable_auto_commit=False))
    reader.poll()
    reader.broker.errors = [(OFFSET_COMMIT, 0), (OFFSET_COMMIT, 12)]
    with pytest.raises(ClusterError, match="too large"):
        reader.consumer.commit()
    assert reader.offsets() == {("t", 0): (3, 7)}
    assert reader.consumer.commit() == {Partition("t", 1): 3}


@BOTH
def test_a_coordinator_without_topic_ids_is_refused(config: GroupConfig) -> None:
    for api_key in (OFFSET_FETCH, OFFSET_COMMIT):
        reader = Reader(broker(), changed(config, enable_auto_commit=False))
        reader.broker.versions[api_key] = 9
        is_read = api_key == OFFSET_COMMIT and reader.poll() != []
        act = reader.consumer.commit if is_read else reader.poll
        with pytest.raises(ClusterError, match="broker 1 does not know Offset"):
            act()


@BOTH
def test_a_pattern_finds_topics_that_are_made_later(config: GroupConfig) -> None:
    made = broker(3)
    reader = Reader(made, config, subscription=Subscription(None, topic_pattern("t|late.*")))
    assert reader.poll() == THREE
    made.topics |= broker(3).topics | MemberBroker(later=1, other=1).topics
    made.clock.at_ms = 299_000
    reader.poll(0)
    assert sorted(map(str, reader.consumer.assigned)) == ["t-0"]
    made.clock.at_ms = 300_000
    made.assigned = {"t": (0,), "later": (0,)}
    reader.poll(5500)
    assert sorted(map(str, reader.consumer.assigned)) == ["later-0", "t-0"]


def test_a_pattern_without_topics_is_looked_at_each_second() -> None:
    made = MemberBroker(other=1)
    reader = Reader(made, KIP_848, subscription=Subscription(None, topic_pattern("t")))
    reader.poll(900)
    made.topics |= broker(3).topics
    made.assigned = {"t": (0,)}
    assert reader.poll(300) == THREE


def test_a_leader_joins_again_for_new_partitions() -> None:
    made = broker(3)
    reader = Reader(made, changed(CLASSIC, metadata_max_age_ms=2000))
    reader.poll()
    made.topics["t"].logs.append(Log())
    made.clock.at_ms = 2000
    reader.poll(200)
    assert reader.told == [["t-0"], ("-", "t-0"), ["t-0", "t-1"]]
    asked = len(made.asked_for(METADATA))
    reader.poll(1500)
    assert len(made.asked_for(METADATA)) == asked


def test_closing_does_not_wait_for_an_answer() -> None:
    for refused in ([LEAVE_GROUP], [OFFSET_COMMIT] * 99):
        reader = Reader(broker(3), CLASSIC)
        reader.poll()
        reader.broker.refused = refused
        reader.consumer.close()
        assert reader.broker.clock.at_ms <= 5100
    reader = Reader(broker(3), KIP_848)
    reader.consumer.close()
    assert reader.broker.left == []


def test_topics_that_are_gone_are_not_committed() -> None:
    made = broker(3)
    made.topics |= MemberBroker(u=[Log()]).topics
    reader = Reader(made, KIP_848, subscription=Subscription(None, topic_pattern("t|u")))
    reader.poll()
    del made.topics["u"]
    reader.consumer.close()
    assert reader.offsets() == {("t", 0): (3, 7)}


def test_a_partition_that_is_revoked_before_it_could_be_read_is_not_read() -> None:
    made = broker()
    made.errors = [(OFFSET_FETCH, 14)] * 30 + [(HEARTBEAT, 27)]
    made.others = {"a": subscription_bytes(("t",))}
    reader = Reader(made, CLASSIC)
    reader.poll(2000)
    assert reader.told == [["t-1"]]
    made.others = {"a": subscription_bytes(("t",)), "b": subscription_bytes(("t",))}
    reader.poll(2000)
    reader.poll(2000)
    assert reader.told == [["t-1"], ("-", "t-1"), []]
    assert not reader.consumer.assigned


def test_closing_tells_of_partitions_that_were_not_read_yet() -> None:
    made = broker()
    made.errors = [(OFFSET_FETCH, 14)] * 99
    reader = Reader(made, CLASSIC)
    reader.poll(500)
    reader.consumer.close()
    assert reader.told == [["t-0", "t-1"], ("-", "t-0", "t-1")]


def test_what_was_committed_before_a_partition_was_lost_does_not_count_later() -> None:
    made = broker(3)
    reader = Reader(made, CLASSIC, FetcherConfig(reset_to=LATEST))
    reader.poll(0)
    made.topics["t"].logs[0].append(b"more", leader_epoch=7)
    assert reader.poll(0) == ["t-0 more"]
    assert reader.consumer.commit() == {Partition("t", 0): 4}
    made.groups["g"].offsets = {}
    made.errors = [(HEARTBEAT, 25)]
    reader.poll(3500)
    assert reader.consumer.commit() == {Partition("t", 0): 4}
    assert reader.offsets() == {("t", 0): (4, -1)}


@BOTH
def test_what_was_committed_by_others_is_not_committed_again(config: GroupConfig) -> None:
    made = broker()
    reader = Reader(made, config)
    reader.poll()
    reader.consumer.close()
    reader = Reader(made, config)
    reader.poll(600)
    reader.consumer.close()
    assert len(made.asked_for(OFFSET_COMMIT)) == 1


def test_topics_that_cannot_be_looked_up_are_looked_up_a_second_later() -> None:
    made = broker(3)
    config = changed(CLASSIC, enable_auto_commit=False)
    reader = Reader(made, config, subscription=Subscription(None, topic_pattern("t")))
    reader.poll()
    made.clock.at_ms = 300_000
    made.refused = [METADATA] * 9
    for _ in range(3):
        reader.poll(300)
    assert made.refused == [METADATA] * 8


def test_a_connection_that_broke_may_mean_another_coordinator() -> None:
    made = broker()
    reader = Reader(made, CLASSIC)
    reader.poll(0)
    made.refused = [HEARTBEAT]
    reader.poll(3500)
    assert made.refused == []
    assert len(made.asked_for(FIND_COORDINATOR)) == 2


@BOTH
def test_a_topic_that_is_deleted_while_it_is_assigned(config: GroupConfig) -> None:
    made = broker(3)
    made.topics |= MemberBroker(u=[Log()]).topics
    pattern = Subscription(None, topic_pattern("t|u"))
    reader = Reader(made, config, subscription=pattern)
    made.errors = [(OFFSET_FETCH, 14)]
    reader.poll(0)
    del made.topics["u"]
    reader.poll(200)
    assert sorted(map(str, reader.consumer.assigned)) == ["t-0", "u-0"]
    last = made.asked_for(OFFSET_FETCH)[-1]
    assert [len(group.topics) for group in last.groups] == [1]


def test_only_the_first_heartbeat_has_the_rebalance_timeout() -> None:
    reader = Reader(broker(0), KIP_848)
    reader.poll(6000)
    beats = reader.broker.asked_for(CONSUMER_GROUP_HEARTBEAT)
    assert [beat.rebalance_timeout.total_seconds() for beat in beats] == [300, -0.001, -0.001]


@BOTH
def test_a_coordinator_that_goes_before_the_offsets_are_known(config: GroupConfig) -> None:
    made = broker()
    made.errors = [(OFFSET_FETCH, 16), (FIND_COORDINATOR, 0), (FIND_COORDINATOR, 15)]
    assert Reader(made, config).poll() == THREE
    assert made.errors == []
    made = broker()
    made.errors = [(OFFSET_FETCH, 16)]
    made.refused = [FIND_COORDINATOR]
    assert Reader(made, config).poll() == THREE


@BOTH
def test_topics_that_cannot_be_looked_up_while_joining(config: GroupConfig) -> None:
    made = broker()
    made.refused = [METADATA] * 3
    reader = Reader(made, config)
    assert reader.poll() == THREE
    assert made.refused == []
