"""Requests of Kafka's admin client about groups: lists, descriptions, offsets, deletions.

Offsets travel with topic ids (OffsetFetch 10, OffsetCommit 10: Kafka 4.1 and later).
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from cli.connect import ClusterError, check, described_cluster, newest
from cli.groups.clients.coordinators import WITH_IDS, Coordinators, GroupError
from cli.groups.clients.descriptions import (
    Committed,
    Described,
    Listed,
    classic_group,
    consumer_group,
    type_named,
)
from cli.records.clients.clock import Clock
from cli.records.clients.records_api import RecordsApi
from cli.records.clients.topic_metadata import Partition, Topic, described_topics

OFFSET_COMMIT: Final = 8
OFFSET_FETCH: Final = 9
DESCRIBE_GROUPS: Final = 15
LIST_GROUPS: Final = 16
DELETE_GROUPS: Final = 42
OFFSET_DELETE: Final = 47
CONSUMER_GROUP_DESCRIBE: Final = 69
UNSUPPORTED_VERSION: Final = 35
GROUP_ID_NOT_FOUND: Final = 69
CONSUMER_TYPES: Final = ("Consumer", "Classic")
CONSUMER_PROTOCOL_TYPES: Final = ("", "consumer")
"""Of groups that are consumer groups to Kafka's tools: commits without members have no type."""


class GroupAdmin:
    """Requests about groups to one cluster."""

    def __init__(self, api: RecordsApi, clock: Clock, timeout_ms: int) -> None:
        """Nothing is asked yet; `timeout_ms` is that of each request with its repetitions."""
        self._api = api
        self._coordinators = Coordinators(api, clock, timeout_ms)

    def listed(self, states: Collection[str] = (), types: Collection[str] = ()) -> list[Listed]:
        """The groups of all brokers by name, of these states and types; without: of any.

        Raises:
            ClusterError: a broker refuses or cannot be reached.
        """
        request = newest(LIST_GROUPS).ListGroupsRequest(
            states_filter=tuple(states), types_filter=tuple(types)
        )
        found = {}
        for node in described_cluster(self._api).brokers:
            answer = check(self._api.call(LIST_GROUPS, request, int(node.broker_id)))
            for row in answer.groups:
                found[str(row.group_id)] = Listed(
                    str(row.group_id),
                    row.protocol_type,
                    row.group_state,
                    type_named(row.group_type),
                )
        return [found[group] for group in sorted(found)]

    def listed_consumers(
        self, states: Collection[str] = (), types: Collection[str] = ()
    ) -> list[Listed]:
        """The consumer groups of all brokers by name.

        Raises:
            ClusterError: a broker refuses or cannot be reached.
        """
        found = self.listed(states, types or CONSUMER_TYPES)
        return [row for row in found if row.protocol_type in CONSUMER_PROTOCOL_TYPES]

    def described(self, group: str) -> Described:
        """A consumer group of either protocol.

        Raises:
            GroupError: there is none of this name, or it is of another kind.
        """
        why = None
        if self._api.supports(CONSUMER_GROUP_DESCRIBE):
            row = self._description(group, CONSUMER_GROUP_DESCRIBE)
            code = int(row.error_code)
            if not code:
                return consumer_group(row, self._coordinators.of(group))
            if code not in (GROUP_ID_NOT_FOUND, UNSUPPORTED_VERSION):
                raise GroupError(code, row.error_message)
            why = row.error_message if code == GROUP_ID_NOT_FOUND else None
        row = self._description(group, DESCRIBE_GROUPS)
        if int(row.error_code):
            raise GroupError(int(row.error_code), why or row.error_message)
        if row.protocol_type not in CONSUMER_PROTOCOL_TYPES:
            raise ClusterError(
                "java.lang.IllegalArgumentException: "
                f"GroupId {group} is not a consumer group ({row.protocol_type})."
            )
        return self._classic(group, row)

    def _description(self, group: str, api_key: int) -> Any:
        module = newest(api_key)
        if api_key == CONSUMER_GROUP_DESCRIBE:
            request = module.ConsumerGroupDescribeRequest(
                group_ids=(group,), include_authorized_operations=False
            )
        else:
            request = module.DescribeGroupsRequest(
                groups=(group,), include_authorized_operations=False
            )
        answer = self._coordinators.ask(
            group, api_key, request, lambda answer: int(answer.groups[0].error_code)
        )
        return answer.groups[0]

    def _classic(self, group: str, row: Any) -> Described:
        from coordinator.group.consumer.client_protocol import (  # noqa: PLC0415
            MalformedProtocolError,
        )

        try:
            return classic_group(row, self._coordinators.of(group))
        except MalformedProtocolError as error:
            raise ClusterError(f"Group {group}: an assignment cannot be read: {error}") from error

    def committed(self, group: str) -> dict[Partition, Committed]:
        """All committed offsets of a group by partition; not those of topics that are gone.

        Raises:
            GroupError: the coordinator refuses.
        """
        module = newest(OFFSET_FETCH)
        request = module.OffsetFetchRequest(
            groups=(
                module.OffsetFetchRequestGroup(
                    group_id=group, member_id=None, member_epoch=-1, topics=None
                ),
            ),
            require_stable=False,
        )
        answer = self._coordinators.ask(
            group, OFFSET_FETCH, request, lambda answer: int(answer.groups[0].error_code), WITH_IDS
        )
        (row,) = answer.groups
        if int(row.error_code):
            raise GroupError(int(row.error_code))
        names = _names(described_topics(self._api)) if row.topics else {}
        return {
            Partition(names[topic.topic_id], int(p.partition_index)): Committed(
                int(p.committed_offset), int(p.committed_leader_epoch)
            )
            for topic in row.topics
            if topic.topic_id in names
            for p in topic.partitions
            if not int(p.error_code)
        }

    def commit(self, group: str, offsets: Mapping[Partition, int]) -> None:
        """Set committed offsets of a group without members.

        Raises:
            GroupError: the coordinator refuses.
        """
        topics = described_topics(self._api, sorted({p.topic for p in offsets}))
        module = newest(OFFSET_COMMIT)
        request = module.OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            topics=tuple(
                module.OffsetCommitRequestTopic(
                    topic_id=topics[name].id,
                    partitions=tuple(
                        module.OffsetCommitRequestPartition(
                            partition_index=partition.number,
                            committed_offset=offset,
                            committed_leader_epoch=-1,
                            committed_metadata="",
                        )
                        for partition, offset in offsets.items()
                        if partition.topic == name
                    ),
                )
                for name in topics
            ),
        )
        answer = self._coordinators.ask(group, OFFSET_COMMIT, request, commit_code, WITH_IDS)
        names = _names(topics)
        failed = {
            Partition(names[topic.topic_id], int(row.partition_index)): int(row.error_code)
            for topic in answer.topics
            for row in topic.partitions
            if int(row.error_code)
        }
        if failed:
            shown = ", ".join(map(str, failed))
            raise GroupError(
                next(iter(failed.values())),
                f"Failed altering group offsets for the following partitions: [{shown}]",
            )

    def delete(self, group: str) -> int:
        """Delete a group; returns the error code.

        Raises:
            GroupError: there was no coordinator in time.
        """
        request = newest(DELETE_GROUPS).DeleteGroupsRequest(groups_names=(group,))
        answer = self._coordinators.ask(
            group, DELETE_GROUPS, request, lambda answer: int(answer.results[0].error_code)
        )
        return int(answer.results[0].error_code)

    def delete_offsets(
        self, group: str, partitions: Sequence[Partition]
    ) -> tuple[int, dict[Partition, int]]:
        """Delete committed offsets: the code of the whole request, and that of each partition.

        Raises:
            GroupError: there was no coordinator in time.
        """
        module = newest(OFFSET_DELETE)
        request = module.OffsetDeleteRequest(
            group_id=group,
            topics=tuple(
                module.OffsetDeleteRequestTopic(
                    name=name,
                    partitions=tuple(
                        module.OffsetDeleteRequestPartition(partition_index=partition.number)
                        for partition in partitions
                        if partition.topic == name
                    ),
                )
                for name in dict.fromkeys(partition.topic for partition in partitions)
            ),
        )
        answer = self._coordinators.ask(
            group, OFFSET_DELETE, request, lambda answer: int(answer.error_code)
        )
        return int(answer.error_code), {
            Partition(str(topic.name), int(row.partition_index)): int(row.error_code)
            for topic in answer.topics
            for row in topic.partitions
        }


def commit_code(answer: Any) -> int:
    """The first error code of an OffsetCommit: that of all rows if the coordinator refuses."""
    codes = (int(row.error_code) for topic in answer.topics for row in topic.partitions)
    return next((code for code in codes if code), 0)


def _names(topics: Mapping[str, Topic]) -> dict[Any, str]:
    return {topic.id: topic.name for topic in topics.values()}
