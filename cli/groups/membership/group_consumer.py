"""Blocking consumer with a place in a group: what a member wants is done between two fetches.

Offsets travel with topic ids (Kafka 4.1 and later). Everything happens within `poll`: whoever does
not call it for the rebalance timeout is taken for dead by the coordinator.
"""

import contextlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from cli.connect import ClusterError, UnreachableError
from cli.groups.clients.coordinators import (
    WITH_IDS,
    Coordinators,
    GroupError,
)
from cli.groups.clients.group_admin import commit_code
from cli.groups.membership.actions import (
    AGAIN,
    RETRY_BACKOFF_MS,
    Assign,
    ConsumerHeartbeat,
    GroupConfig,
    Heartbeat,
    Join,
    Leave,
    LookUp,
    Lose,
    MemberError,
    NameTopics,
    Revoke,
    Sync,
)
from cli.groups.membership.classic import ClassicMember
from cli.groups.membership.consumer import ConsumerMember
from cli.groups.membership.coordinator_link import CoordinatorLink, NobodyError
from cli.groups.membership.held import HeldRequest
from cli.groups.membership.requests import (
    OFFSET_COMMIT,
    OFFSET_FETCH,
    beaten_of,
    code_of,
    commit_request,
    committed_request,
    joined_of,
    partitions_of,
    request_of,
)
from cli.kafka_errors import message_of
from cli.records.clients.clock import Clock
from cli.records.clients.fetcher import Fetched, Fetcher, FetcherConfig, FetchError
from cli.records.clients.offsets import READ_COMMITTED
from cli.records.clients.records_api import RecordsApi
from cli.records.clients.topic_metadata import Partition, Topic, described_topics

COMMIT_TIMEOUT_MS: Final = 5_000
"""Of a commit with its repetitions: less than any session."""
NO_TOPICS_BACKOFF_MS: Final = 1_000
STALE_MEMBER_EPOCH: Final = 113
NOT_YET: Final = frozenset({88, STALE_MEMBER_EPOCH}) | AGAIN
"""UNSTABLE_OFFSET_COMMIT too: the request succeeds later."""

Told = Callable[[frozenset[Partition]], None]


class Subscription:
    """The topics that a consumer reads: named, or those that match a pattern."""

    def __init__(self, topic: str | None, pattern: re.Pattern[str] | None = None) -> None:
        """Exactly one of both."""
        assert (topic is None) != (pattern is None)
        self._topic = topic
        self._pattern = pattern

    def topics(self, api: RecordsApi) -> tuple[str, ...]:
        """Names, ascending; of a pattern those that exist.

        Raises:
            ClusterError: the brokers cannot be asked.
        """
        if self._pattern is None:
            assert self._topic is not None
            return (self._topic,)
        found = described_topics(api).values()
        matches = self._pattern.fullmatch
        return tuple(sorted(t.name for t in found if not t.is_internal and matches(t.name)))


class GroupConsumer:
    """Records of the partitions that a group gives to this member."""

    def __init__(
        self,
        api: RecordsApi,
        config: GroupConfig,
        fetching: FetcherConfig,
        subscription: Subscription,
        clock: Clock,
        *,
        member_id: str,
    ) -> None:
        """A consumer that has not joined.

        Args:
            api: The cluster; it stays the caller's.
            config: Of the member.
            fetching: Of the fetcher.
            subscription: Topics to read.
            clock: Time.
            member_id: An id of its own, for the consumer protocol.

        Raises:
            ClusterError: the brokers cannot be asked for topics.
        """
        self._api = api
        self._config = config
        self._fetching = fetching
        self._subscription = subscription
        self._clock = clock
        self._coordinators = Coordinators(api, clock, COMMIT_TIMEOUT_MS)
        self._fetcher = Fetcher(api, fetching, clock)
        topics = subscription.topics(api)
        self._member: ClassicMember | ConsumerMember = (
            ConsumerMember(config, topics, member_id)
            if config.is_consumer_protocol
            else ClassicMember(config, topics)
        )
        self._refresh_ms = clock.now_ms() + self._refresh_after_ms(topics)
        self._commit_ms = clock.now_ms() + config.auto_commit_interval_ms
        self._unread: list[Fetched] = []
        """Returned by the last poll: read when the next begins."""
        self._unplaced: frozenset[Partition] = frozenset()
        """Assigned, and not read yet: the committed offsets are not known."""
        self._place_ms = 0
        self._held: HeldRequest | None = None
        """On its way; until it is answered the member does nothing else."""
        self._epochs: dict[Partition, int] = {}
        self._committed: dict[Partition, int] = {}
        self.on_assigned: Told = lambda _partitions: None
        self.on_revoked: Told = lambda _partitions: None
        self.on_problem: Callable[[str], None] = lambda _text: None
        """Told of what is tried again: a commit that failed."""
        self._link = CoordinatorLink(api, config, clock, self._coordinators, self._tell_problem)

    def _tell_problem(self, text: str) -> None:
        self.on_problem(text)

    @property
    def assigned(self) -> Collection[Partition]:
        """The partitions that it reads now."""
        return self._positions().keys()

    def _positions(self) -> dict[Partition, int]:
        return self._fetcher.positions

    def poll(self, timeout_ms: int) -> list[Fetched]:
        """Records of its partitions; none if there were none in time.

        Raises:
            MemberError: the group refuses this member.
            FetchError: a partition cannot be read.
            ClusterError: a broker is too old.
        """
        self._count_as_read()
        limit_ms = self._clock.now_ms() + timeout_ms
        while True:
            self._do_due()
            now_ms = self._clock.now_ms()
            if self._held is not None:
                beat_ms = self._beat_ms()
                wake_ms = limit_ms if beat_ms is None else min(limit_ms, beat_ms)
                self._await(self._held, max(0, wake_ms - now_ms))
            else:
                due_ms = min(self._member.due_ms(), self._refresh_ms)
                if self._unplaced:
                    due_ms = min(due_ms, self._place_ms)
                wake_ms = max(now_ms, min(limit_ms, due_ms))
                self._unread = self._fetcher.poll(wake_ms - now_ms)
            if self._unread or self._clock.now_ms() >= limit_ms:
                return list(self._unread)

    def put_back(self, unread: Sequence[Fetched]) -> None:
        """The last records of the last poll were not read: they are not to be committed."""
        self._unread = self._unread[: len(self._unread) - len(unread)]
        for fetched in reversed(unread):
            if fetched.partition in self._positions():
                self._fetcher.assign(fetched.partition, int(fetched.record.offset))

    def commit(self, partitions: Collection[Partition] | None = None) -> dict[Partition, int]:
        """Commit what was read, as far as it is not committed; returns the offsets.

        Args:
            partitions: None for all of its own.

        Raises:
            GroupError: the coordinator refuses, or there is none.
        """
        self._count_as_read()
        return self._commit(self.assigned if partitions is None else partitions)

    def close(self) -> None:
        """Commit what was read if that is automatic, and leave the group."""
        self._count_as_read()
        if self._config.enable_auto_commit:
            self._commit_or_tell(self.assigned)
        revoked = frozenset(self.assigned) | self._unplaced
        if revoked:
            self.on_revoked(revoked)
        if self._held is not None:
            self._end_held(self._held)
        goodbye = self._member.leave()
        if goodbye is not None:
            assert isinstance(goodbye, Leave | ConsumerHeartbeat)
            # without an answer the session ends by itself
            with contextlib.suppress(ClusterError, MemberError, NobodyError):
                self._link.ask(request_of(goodbye, self._config))

    def _refresh_after_ms(self, topics: tuple[str, ...]) -> int:
        return self._config.metadata_max_age_ms if topics else NO_TOPICS_BACKOFF_MS

    def _do_due(self) -> None:
        """Do all that is due now."""
        if self._is_held():
            return
        self._refresh()
        if self._config.enable_auto_commit and self._clock.now_ms() >= self._commit_ms:
            self._commit_ms = self._clock.now_ms() + self._config.auto_commit_interval_ms
            self._commit_or_tell(self.assigned)
        while (action := self._member.next(self._clock.now_ms())) is not None:
            match action:
                case Assign():
                    self._unplaced |= action.partitions
                    self._place_ms = 0
                    self.on_assigned(action.partitions)
                case Revoke():
                    if self._config.enable_auto_commit:
                        self._commit_or_tell(action.partitions)
                    self._give_up(action.partitions)
                case Lose():
                    self._give_up(action.partitions)
                case _:
                    self._perform(action)
                    if self._is_held():
                        return
        self._place()

    def _is_held(self) -> bool:
        """True if a request is not answered yet; a heartbeat beside it is sent if one is due."""
        if self._held is not None:
            self._await(self._held, 0)
        if self._held is not None:
            self._beat(self._held)
        return self._held is not None

    def _beat_ms(self) -> int | None:
        assert isinstance(self._member, ClassicMember), "only its requests are held"
        return self._member.beat_ms()

    def _beat(self, held: HeldRequest) -> None:
        """Send the heartbeat that is due beside a request; it ends if the member is forgotten.

        Raises:
            MemberError: the member has no place.
        """
        assert isinstance(self._member, ClassicMember), "only its requests are held"
        action = self._member.beat(self._clock.now_ms())
        if action is None:
            return
        try:
            answer = self._link.ask(request_of(action, self._config))
        except NobodyError as error:
            self._link.tell_of_absence(error)
            self._member.unheard(self._clock.now_ms())
            return
        self._tell(action, answer)
        if self._member.beat_ms() is None:
            self._end_held(held)

    def _await(self, held: HeldRequest, wait_ms: int) -> None:
        """Wait so long for the answer to a request, and tell the member of it."""
        try:
            answer = self._link.answer(held, wait_ms)
        except NobodyError as error:
            self._end_held(held)
            self._fail(error)
            return
        if answer is not None:
            self._end_held(held)
            self._tell(held.action, answer)

    def _end_held(self, held: HeldRequest) -> None:
        held.close()
        self._held = None

    def _refresh(self) -> None:
        """Learn of new topics and partitions when that is due."""
        now_ms = self._clock.now_ms()
        if now_ms < self._refresh_ms:
            return
        self._refresh_ms = now_ms + NO_TOPICS_BACKOFF_MS
        with contextlib.suppress(ClusterError):
            topics = self._subscription.topics(self._api)
            if isinstance(self._member, ClassicMember):
                names = self._member.topics_of_group()
                counts = self._partition_counts(names) if names else {}
                self._member.noticed(counts.get, now_ms)
            self._member.subscribe(topics, now_ms)
            self._refresh_ms = now_ms + self._refresh_after_ms(topics)

    def _partition_counts(self, names: Collection[str]) -> dict[str, int]:
        found = described_topics(self._api, sorted(names)).values()
        return {topic.name: len(topic.leaders) for topic in found if not topic.error_code}

    def _perform(
        self, action: Join | LookUp | Sync | Heartbeat | ConsumerHeartbeat | NameTopics | Leave
    ) -> None:
        """Do what the member wants of a broker, and tell it."""
        try:
            if isinstance(action, LookUp):
                assert isinstance(self._member, ClassicMember)
                self._member.looked_up(self._partition_counts(action.topics))
                return
            if isinstance(action, NameTopics):
                assert isinstance(self._member, ConsumerMember)
                topics = described_topics(self._api).values()
                self._member.named({t.id: t.name for t in topics if t.id in action.ids})
                return
            if isinstance(action, Join | Sync):
                self._held = self._link.hold(action)
                return
            answer = self._link.ask(request_of(action, self._config))
        except (NobodyError, UnreachableError) as error:
            self._fail(error)
            return
        self._tell(action, answer)

    def _fail(self, error: Exception) -> None:
        """There is no coordinator: the member tries again."""
        self._link.tell_of_absence(error)
        self._member.failed(self._clock.now_ms())

    def _tell(
        self, action: Join | Sync | Heartbeat | ConsumerHeartbeat | Leave, answer: Any
    ) -> None:
        now_ms = self._clock.now_ms()
        match action, self._member:
            case Join(), ClassicMember() as member:
                member.joined(joined_of(answer), now_ms)
            case Sync(), ClassicMember() as member:
                partitions = frozenset() if code_of(answer) else partitions_of(answer.assignment)
                member.synced(code_of(answer), partitions, now_ms)
            case Heartbeat(), ClassicMember() as member:
                member.beaten(code_of(answer), now_ms)
            case ConsumerHeartbeat(), ConsumerMember() as member:
                member.beaten(beaten_of(answer), now_ms)
            case _:
                raise AssertionError(f"{action=}")

    def _place(self) -> None:
        """Read what is assigned from what is committed, or where the policy says."""
        now_ms = self._clock.now_ms()
        if not self._unplaced or now_ms < self._place_ms:
            return
        self._place_ms = now_ms + RETRY_BACKOFF_MS
        try:
            offsets = self._committed_offsets(self._unplaced)
        except (NobodyError, UnreachableError):
            return
        if offsets is None:
            return
        missing = sorted(self._unplaced - offsets.keys())
        place = self._fetching.reset_to
        if missing and place is None:
            names = ", ".join(map(str, missing))
            raise FetchError(f"Undefined offset with no reset policy for partitions: [{names}]")
        for partition in sorted(self._unplaced):
            position = offsets.get(partition, place)
            assert position is not None
            self._fetcher.assign(partition, position)
        self._committed |= offsets
        self._unplaced = frozenset()

    def _committed_offsets(self, partitions: Collection[Partition]) -> dict[Partition, int] | None:
        """Committed offsets of the partitions; None if they are not known yet.

        Raises:
            NobodyError: there is no coordinator now.
            MemberError: the coordinator refuses.
        """
        topics = self._topics(partitions)
        names = {topic.id: topic.name for topic in topics.values() if not topic.error_code}
        wanted: dict[UUID, list[int]] = {}
        for partition in sorted(partitions):
            if not topics[partition.topic].error_code:
                wanted.setdefault(topics[partition.topic].id, []).append(partition.number)
        request = committed_request(
            self._config, self._member.member_id, self._member.generation, wanted,
            is_stable=self._fetching.isolation_level == READ_COMMITTED,
        )  # fmt: skip
        answer = self._link.ask((OFFSET_FETCH, request), _fetch_code, WITH_IDS)
        code = _fetch_code(answer)
        if code in NOT_YET:
            return None
        if code:
            raise MemberError(code)
        return {
            Partition(names[topic.topic_id], int(row.partition_index)): int(row.committed_offset)
            for topic in answer.groups[0].topics
            for row in topic.partitions
            if int(row.committed_offset) >= 0
        }

    def _topics(self, partitions: Collection[Partition]) -> dict[str, Topic]:
        return described_topics(self._api, sorted({partition.topic for partition in partitions}))

    def _give_up(self, partitions: frozenset[Partition]) -> None:
        self._unplaced -= partitions
        for partition in partitions:
            self._fetcher.give_up(partition)
            self._committed.pop(partition, None)
            self._epochs.pop(partition, None)
        self.on_revoked(partitions)

    def _count_as_read(self) -> None:
        """All that was returned and not put back is read."""
        for fetched in self._unread:
            self._epochs[fetched.partition] = fetched.leader_epoch
        self._unread = []

    def _commit_or_tell(self, partitions: Collection[Partition]) -> None:
        try:
            self._commit(partitions)
        except ClusterError as error:
            self.on_problem(f"Offset commit failed: {error}")

    def _commit(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Commit the positions of partitions that differ from what is committed.

        Raises:
            GroupError: the coordinator refuses, or there is none.
            ClusterError: it is too old.
        """
        positions = self._positions()
        offsets = {
            partition: positions[partition]
            for partition in sorted(partitions)
            if positions.get(partition, -1) >= 0
            and positions[partition] != self._committed.get(partition)
        }
        if not offsets:
            return {}
        group = self._config.group_id
        places = self._by_id(offsets)
        request = commit_request(
            self._config, self._member.member_id, self._member.generation, places
        )
        answer = self._coordinators.ask(group, OFFSET_COMMIT, request, commit_code, WITH_IDS)
        names = {topic.id: name for name, topic in self._topics(offsets.keys()).items()}
        taken = {
            Partition(names[topic.topic_id], int(row.partition_index))
            for topic in answer.topics
            for row in topic.partitions
            if not int(row.error_code)
        }
        done = {partition: offset for partition, offset in offsets.items() if partition in taken}
        self._committed |= done
        code = commit_code(answer)
        if code:
            raise GroupError(code, message_of(code))
        return done

    def _by_id(self, offsets: Mapping[Partition, int]) -> dict[UUID, dict[int, tuple[int, int]]]:
        """Offset and leader epoch by topic id and number."""
        topics = self._topics(offsets.keys())
        found: dict[UUID, dict[int, tuple[int, int]]] = {}
        for partition, offset in offsets.items():
            if topics[partition.topic].error_code:  # deleted meanwhile
                continue
            place = offset, self._epochs.get(partition, -1)
            found.setdefault(topics[partition.topic].id, {})[partition.number] = place
        return found


def _fetch_code(answer: Any) -> int:
    """The first error of an OffsetFetch of one group, of the group or of a partition."""
    (group,) = answer.groups
    codes = (int(row.error_code) for topic in group.topics for row in topic.partitions)
    return int(group.error_code) or next(filter(None, codes), 0)
