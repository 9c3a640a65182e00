"""`kraftline groups --reset-offsets`: where to, and the commit.

apache/kafka: tools/.../consumer/group/ConsumerGroupCommand.java, tools/.../OffsetsUtils.java
"""

from argparse import Namespace
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from cli.arguments import UsageError
from cli.connect import ClusterError
from cli.groups.clients.coordinators import GroupError
from cli.groups.clients.group_admin import GROUP_ID_NOT_FOUND, GroupAdmin
from cli.groups.consumer_groups import named_groups
from cli.groups.deleting import named_partitions
from cli.groups.report import Report
from cli.groups.reset_places import csv_lines
from cli.groups.tables import reset_table
from cli.kafka_errors import exception_text, message_of
from cli.records.clients.clock import Clock
from cli.records.clients.leader_calls import Failed, Rows, answers_of_leaders
from cli.records.clients.offsets import EARLIEST, LATEST, NO_OFFSET, Listed, offsets_of_leader
from cli.records.clients.records_api import RecordsApi
from cli.records.clients.topic_metadata import NO_LEADER, Partition, Topic, described_topics

INACTIVE: Final = ("Empty", "Dead")
EXECUTION: Final = "java.util.concurrent.ExecutionException: "
_UNKNOWN_TOPIC: Final = 3


def reset(
    admin: GroupAdmin, api: RecordsApi, options: Namespace, clock: Clock, report: Report
) -> None:
    """Find the new offsets of the groups without members, commit them with --execute, print them.

    Raises:
        ClusterError: a topic or partition does not exist, or nobody answers.
        UsageError: an offset shall be shifted that is not committed.
    """
    groups = named_groups(admin, options)
    streams = {row.group for row in admin.listed(types=("Streams",))}
    offsets: dict[str, Mapping[Partition, int]] = {}
    for group in groups:
        why = None
        if group in streams:
            why = (f"Group '{group}' is a streams group. Use kafka-streams-groups.sh to reset its "
                   "offsets.")  # fmt: skip
        else:
            state = _state(admin, group)
            if state not in INACTIVE:
                why = (f"Assignments can only be reset if the group '{group}' is inactive, but "
                       f"the current state is {state}.")  # fmt: skip
        if why is not None:
            report.error(why)
            offsets[group] = {}
            continue
        offsets[group] = dict(sorted(_Reset(admin, api, options, clock, report).of(group).items()))
        if options.execute and offsets[group]:
            admin.commit(group, offsets[group])
    if options.export:
        report.say(csv_lines(offsets, has_group=len(options.group) != 1) + "\n")
    else:
        report.say(reset_table(offsets))
    report.tell(
        is_executed=options.execute,
        offsets=[
            {"group": group, "topic": p.topic, "partition": p.number, "offset": offset}
            for group, of_group in offsets.items()
            for p, offset in of_group.items()
        ],
    )


def _state(admin: GroupAdmin, group: str) -> str:
    try:
        return admin.described(group).state
    except GroupError as error:
        if error.code != GROUP_ID_NOT_FOUND:
            raise
        return INACTIVE[0]  # the commit makes it


class _Reset:
    """The offsets of one group."""

    def __init__(
        self,
        admin: GroupAdmin,
        api: RecordsApi,
        options: Namespace,
        clock: Clock,
        report: Report,
    ) -> None:
        self._admin = admin
        self._api = api
        self._options = options
        self._clock = clock
        self._report = report

    def of(self, group: str) -> dict[Partition, int]:
        """The new offsets."""
        options = self._options
        if options.from_file is not None:
            return self._from_plan(group, options.from_file)
        partitions = self._partitions(group)
        self._check(partitions)
        if options.to_offset is not None:
            return self._within(dict.fromkeys(partitions, options.to_offset))
        if options.to_earliest or options.to_latest:
            return self._at(partitions, EARLIEST if options.to_earliest else LATEST)
        return self._from_here(group, partitions)

    def _from_here(self, group: str, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """The new offsets by the time, or by what is committed."""
        options = self._options
        if options.to_datetime is not None:
            return self._since(partitions, options.to_datetime)
        if options.by_duration is not None:
            return self._since(partitions, self._clock.wall_ms() - options.by_duration)
        committed = {p: at.offset for p, at in self._admin.committed(group).items()}
        if options.shift_by is not None:
            return self._shifted(partitions, committed)
        known = {p: committed[p] for p in partitions if p in committed}
        return known | self._at([p for p in partitions if p not in committed], LATEST)

    def _shifted(
        self, partitions: Sequence[Partition], committed: Mapping[Partition, int]
    ) -> dict[Partition, int]:
        for partition in partitions:
            if partition not in committed:
                raise UsageError(
                    f"Cannot shift offset for partition {partition} since there is no current "
                    "committed offset"
                )
        return self._within({p: committed[p] + self._options.shift_by for p in partitions})

    def _from_plan(
        self, group: str, plan: Mapping[str, Mapping[Partition, int]]
    ) -> dict[Partition, int]:
        if group not in plan:
            self._report.error(f"No reset plan for group {group} found.")
            return {}
        self._check(sorted(plan[group]))
        return self._within(plan[group])

    def _partitions(self, group: str) -> list[Partition]:
        if self._options.all_topics:
            return sorted(self._admin.committed(group))
        found = []
        whole = [topic for topic in self._options.topic if ":" not in topic]
        for topic in self._options.topic:
            if ":" in topic:
                found += named_partitions(topic)
        topics = described_topics(self._api, whole) if whole else {}
        for name in whole:
            if topics[name].error_code:
                raise ClusterError(message_of(topics[name].error_code))
            found += [Partition(name, number) for number in topics[name].leaders]
        return sorted(set(found))

    def _check(self, partitions: Collection[Partition]) -> None:
        """Refuse partitions that do not exist or have no leader."""
        topics = self._topics(partitions)
        for topic in topics.values():
            if topic.error_code:
                raise ClusterError(EXECUTION + exception_text(topic.error_code))
        leaders = {p: topics[p.topic].leaders.get(p.number) for p in partitions}
        missing = _named(p for p, leader in leaders.items() if leader is None)
        if missing:
            raise ClusterError(f'The partitions "{missing}" do not exist')
        lost = _named(p for p, leader in leaders.items() if leader == NO_LEADER)
        if lost:
            raise ClusterError(f'The partitions "{lost}" have no leader')

    def _topics(self, partitions: Collection[Partition]) -> dict[str, Topic]:
        names = sorted({partition.topic for partition in partitions})
        return described_topics(self._api, names) if names else {}

    def _at(self, partitions: Collection[Partition], timestamp: int) -> dict[Partition, int]:
        """Offsets at a time or place; NO_OFFSET where no record is that late."""

        def ask(leader: int, wanted: dict[str, list[int]]) -> Rows[Listed]:
            listed = offsets_of_leader(self._api, leader, wanted, timestamp)
            for partition, answer in listed.items():
                yield partition, Failed(answer.error_code) if answer.error_code else answer

        topics = self._topics(partitions)
        found = answers_of_leaders(self._api, topics, partitions, ask, self._clock)
        offsets = {}
        for partition, answer in found.items():
            if isinstance(answer, Failed):
                raise ClusterError(EXECUTION + exception_text(answer.code))
            offsets[partition] = answer.offset
        return offsets

    def _since(self, partitions: Collection[Partition], timestamp_ms: int) -> dict[Partition, int]:
        """The first records from a time on, the end where there is none."""
        found = self._at(partitions, max(0, timestamp_ms))  # below 0 are names of places
        empty = sorted(p for p, offset in found.items() if offset == NO_OFFSET)
        for partition in empty:
            self._report.say(
                f"\nWarn: Partition {partition.number} from topic {partition.topic} is empty. "
                "Falling back to latest known offset.\n"
            )
        return found | self._at(empty, LATEST)

    def _within(self, offsets: Mapping[Partition, int]) -> dict[Partition, int]:
        """Offsets brought between the start and the end of their partitions."""
        ends = self._at(offsets.keys(), LATEST)
        starts = self._at(offsets.keys(), EARLIEST)
        found = {}
        for partition, offset in sorted(offsets.items()):
            found[partition] = min(max(offset, starts[partition]), ends[partition])
            if found[partition] == offset:
                continue
            word = "higher than latest" if offset > ends[partition] else "lower than earliest"
            self._report.notice(
                f"New offset ({offset}) is {word} offset for topic partition {partition}. "
                f"Value will be set to {found[partition]}\n"
            )
        return found


def _named(partitions: Iterable[Partition]) -> str:
    return ",".join(map(str, partitions))
