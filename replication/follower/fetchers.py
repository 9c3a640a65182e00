"""The fetchers of a follower: for each leader `num.replica.fetchers`, which share its partitions.

A fetcher has its own connection, since a Fetch waits at the leader for records. What is assigned in
one step is asked for together: requests leave at `tick`, and behind each response.

apache/kafka: core/.../server/AbstractFetcherManager.scala, RemoteLeaderEndPoint.scala (4.x)
"""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, Final

from replication.follower.fetch_state import OffsetQuestion
from replication.follower.fetcher import Fetcher
from replication.follower.follower_broker import FollowerBroker
from wire.api_keys import FETCH, LIST_OFFSETS
from wire.errors import ErrorCode
from wire.messages.codec import Body, newest
from wire.messages.replica_fetch import ReplicaFetchResponse
from wire.types import LeaderEpoch, NodeId, Offset, TopicIdPartition

Answered = Callable[[Any], None]
"""Function called once with the response body, None if there is none."""
Send = Callable[[NodeId, int, int, Body, Answered], None]
"""Function of a leader, the number of the fetcher, an API key, a body and `Answered`."""
_HASH_FACTOR: Final = 31
_INT32_COUNT: Final = 1 << 32


class Fetchers:
    """All fetchers of a broker.

    Args:
        broker: this one.
        send: sends a request to a leader; requests of one number are answered in order.
    """

    def __init__(self, broker: FollowerBroker, send: Send) -> None:
        self._broker = broker
        self.count = broker.config.fetchers
        """Fetchers of each leader."""
        self._budget = broker.budget
        self._send = send
        self._fetchers: dict[tuple[NodeId, int], Fetcher] = {}
        self._assigned: dict[TopicIdPartition, tuple[NodeId, int]] = {}
        self._taking: dict[tuple[NodeId, int], Fetcher] = {}
        """Those that have taken a part of a response, by turns."""
        self._is_held = False
        self.failed: dict[TopicIdPartition, str] = {}
        """Partitions that are not replicated until they are assigned again, with the reason."""

    # -- partitions -----------------------------------------------------------------------------

    def assign(
        self,
        key: TopicIdPartition,
        topic_name: str,
        leader_id: NodeId,
        leader_epoch: LeaderEpoch,
    ) -> None:
        """Replicate a partition, which has its log open, from a leader from now on."""
        assert leader_id != self._broker.node_id, f"{key=} is led here"
        place = (leader_id, fetcher_number(topic_name, key[1], self.count))
        if self._assigned.get(key, place) != place:
            self.remove(key)
        self.failed.pop(key, None)
        self._assigned[key] = place
        fetcher = self._fetchers.get(place)
        if fetcher is None:
            fetcher = self._fetchers[place] = Fetcher(self._broker, self.failed)
        fetcher.assign(key, topic_name, leader_epoch)
        if fetcher.is_taking:
            self._taking[place] = fetcher

    def move(self, key: TopicIdPartition, topic_name: str, leader_epoch: LeaderEpoch) -> None:
        """Replicate a partition by the fetcher that has it since `count` is another, if it is."""
        place = self._assigned.get(key)
        if place is not None and key not in self.failed:
            self.assign(key, topic_name, place[0], leader_epoch)

    def remove(self, key: TopicIdPartition) -> None:
        """Replicate a partition no more, also one that has failed."""
        self.failed.pop(key, None)
        place = self._assigned.pop(key, None)
        if place is None:
            return
        fetcher = self._fetchers.get(place)
        if fetcher is not None:
            fetcher.remove(key)
            self._end_if_idle(place)

    def log_start_raised(self, key: TopicIdPartition) -> None:
        """Tell the leader where a log begins since retention: consumers read below that there."""
        place, partition = self._assigned.get(key), self._broker.partition_of(key)
        fetcher = None if place is None else self._fetchers.get(place)
        if fetcher is not None and partition is not None and partition.log is not None:
            fetcher.session.tell_log_start(key, Offset(partition.log.log_start_offset))

    def _end_if_idle(self, place: tuple[NodeId, int]) -> None:
        """End a fetcher without partitions, unless that has ended it which it called meanwhile."""
        fetcher = self._fetchers.get(place)
        if fetcher is not None and fetcher.is_idle:
            del self._fetchers[place]

    def lag(self, key: TopicIdPartition) -> int | None:
        """Lag of one partition; None before the first answer, or if it is not fetched."""
        place = self._assigned.get(key)
        fetcher = None if place is None else self._fetchers.get(place)
        return None if fetcher is None else fetcher.lag(key)

    def failure(self, key: TopicIdPartition) -> str | None:
        """Reason for which a partition is not replicated any more; None if it is."""
        return self.failed.get(key)

    @property
    def lag_max(self) -> int:
        """The largest lag (MaxLag); 0 without one."""
        return max((fetcher.lag_max for fetcher in self._fetchers.values()), default=0)

    # -- requests -------------------------------------------------------------------------------

    def hold(self, *, is_wanted: bool) -> None:
        """Send nothing at `tick` while more partitions are about to be assigned; or go on."""
        self._is_held = is_wanted

    def next_ms(self) -> int | None:
        """Time of the next request; None until something is assigned or answered."""
        if self._is_held:
            return None
        times = [fetcher.next_ms() for fetcher in self._fetchers.values()]
        return min((at_ms for at_ms in times if at_ms is not None), default=None)

    def tick(self) -> None:
        """Send what is due, unless that is held."""
        if self._is_held:
            return
        for place in list(self._fetchers):
            self._send_due(place)

    def _send_due(self, place: tuple[NodeId, int]) -> None:
        """Send the questions of a fetcher, then its next Fetch."""
        fetcher, (leader_id, number) = self._fetchers[place], place
        for question in fetcher.take_questions():
            body = _list_offsets(self._broker.node_id, question)
            answered = partial(self._on_offset, place, fetcher, question)
            self._send(leader_id, number, LIST_OFFSETS, body, answered)
        request = fetcher.next_request()
        if request is not None:
            self._send(leader_id, number, FETCH, request, partial(self._on_fetched, place, fetcher))

    def _on_fetched(
        self, place: tuple[NodeId, int], fetcher: Fetcher, response: ReplicaFetchResponse | None
    ) -> None:
        """Take a response and send the next request; after a failure that is left to `tick`."""
        if response is None:
            fetcher.on_failure()
            if fetcher.is_taking:
                self._taking[place] = fetcher
            self._end_if_idle(place)
            return
        fetcher.on_response(response)
        self._went_on(place, fetcher)

    @property
    def is_busy(self) -> bool:
        """True if responses, or their absence, are not taken, or only in part."""
        return bool(self._taking)

    def go_on(self) -> None:
        """Go on with responses while the budget has room."""
        taking, budget = self._taking, self._budget
        while taking and budget.has_room:
            place = next(iter(taking))
            fetcher = taking.pop(place)
            fetcher.go_on()
            self._went_on(place, fetcher)

    def _went_on(self, place: tuple[NodeId, int], fetcher: Fetcher) -> None:
        """Send the next request behind a response; or go on with that in another turn."""
        if fetcher.is_taking:
            self._taking[place] = fetcher
            return
        self._end_if_idle(place)
        if place in self._fetchers:
            self._send_due(place)

    def _on_offset(
        self, place: tuple[NodeId, int], fetcher: Fetcher, question: OffsetQuestion, body: Any
    ) -> None:
        fetcher.on_offset(question, None if body is None else _answer_of(question, body))
        if fetcher.is_taking:
            self._taking[place] = fetcher
        if body is not None and self._fetchers.get(place) is fetcher:
            self._send_due(place)


def fetcher_number(topic_name: str, partition: int, count: int) -> int:
    """The number of the fetcher of a partition, as in Kafka: by Java's hash of the topic."""
    number = 0
    for unit in topic_name.encode():
        number = (_HASH_FACTOR * number + unit) % _INT32_COUNT
    number = (_HASH_FACTOR * number + partition) % _INT32_COUNT
    if number >= _INT32_COUNT // 2:
        number = _INT32_COUNT - number
    return 0 if number == _INT32_COUNT // 2 else number % count


def _list_offsets(node_id: NodeId, question: OffsetQuestion) -> Body:
    new = newest(LIST_OFFSETS, "request")
    partition = new.ListOffsetsPartition(
        partition_index=question.key[1],
        current_leader_epoch=question.leader_epoch,
        timestamp=question.timestamp,
    )
    return new.ListOffsetsRequest(
        replica_id=node_id,
        isolation_level=0,
        topics=(new.ListOffsetsTopic(name=question.topic_name, partitions=(partition,)),),
        timeout=timedelta(0),
    )


def _answer_of(question: OffsetQuestion, body: Any) -> Offset | ErrorCode | None:
    """The offset or the error that a ListOffsets response has for a question."""
    for topic in body.topics:
        for partition in topic.partitions:
            if (topic.name, partition.partition_index) == (question.topic_name, question.key[1]):
                if partition.error_code is ErrorCode.none:
                    return Offset(partition.offset)
                return ErrorCode(partition.error_code)
    return None
