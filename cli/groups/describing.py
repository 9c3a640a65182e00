"""`kraftline groups --describe`: offsets with lag, members, state.

apache/kafka: tools/.../consumer/group/ConsumerGroupCommand.java
"""

from argparse import Namespace
from collections.abc import Collection
from typing import Any

from cli.connect import ClusterError
from cli.groups.clients.descriptions import UNKNOWN, Described, Member
from cli.groups.clients.group_admin import GroupAdmin
from cli.groups.consumer_groups import named_groups
from cli.groups.report import Report
from cli.groups.tables import OffsetRow, members_table, offsets_table, state_notice, state_table
from cli.records.clients.offsets import LATEST, list_offsets
from cli.records.clients.records_api import RecordsApi
from cli.records.clients.topic_metadata import Partition, described_topics


def describe(admin: GroupAdmin, api: RecordsApi, options: Namespace, report: Report) -> None:
    """Describe the groups of the options, ascending.

    Raises:
        ClusterError: a group does not exist or is of another kind, or nobody answers.
    """
    found = [admin.described(group) for group in named_groups(admin, options)]
    shown: list[Any] = []
    for group in sorted(found, key=lambda group: group.group):
        if options.members:
            _notice(group, report)
            report.say(members_table(group, is_verbose=options.verbose))
            shown.append(_object(group, members=[_member(m, group) for m in group.members]))
        elif options.state is not None:
            if _notice(group, report):
                report.say(state_table(group, is_verbose=options.verbose))
            shown.append(_object(group))
        else:
            rows = offset_rows(admin, api, group)
            if _notice(group, report) and rows:
                report.say(offsets_table(group.group, rows, is_verbose=options.verbose))
            shown.append(_object(group, offsets=[_offset(row) for row in rows]))
    report.tell(groups=shown)


def offset_rows(admin: GroupAdmin, api: RecordsApi, group: Described) -> list[OffsetRow]:
    """Partitions of a group: of its members, those with most first, then what nobody has.

    Raises:
        ClusterError: the offsets cannot be asked for.
    """
    committed = admin.committed(group.group)
    assigned = {partition for member in group.members for partition in member.assigned}
    ends = _end_offsets(api, assigned | committed.keys())
    owners: list[tuple[Member | None, Collection[Partition]]] = [
        (member, member.assigned)
        for member in sorted(group.members, key=lambda member: -len(member.assigned))
    ]
    owners.append((None, committed.keys() - assigned))
    rows = []
    for member, partitions in owners:
        for partition in sorted(partitions):
            at = committed.get(partition)
            rows.append(
                OffsetRow(
                    partition=partition,
                    offset=None if at is None else at.offset,
                    leader_epoch=None if at is None or at.leader_epoch < 0 else at.leader_epoch,
                    end_offset=ends.get(partition),
                    member=member,
                )
            )
    return rows


def _end_offsets(api: RecordsApi, partitions: Collection[Partition]) -> dict[Partition, int]:
    """Ends of the partitions that have a leader."""
    if not partitions:
        return {}
    topics = described_topics(api, sorted({partition.topic for partition in partitions}))
    found = list_offsets(api, topics, sorted(partitions), LATEST)
    return {partition: row.offset for partition, row in found.items() if not row.error_code}


def _notice(group: Described, report: Report) -> bool:
    """Say that a group is not stable; False if it does not exist."""
    if group.state == UNKNOWN:
        raise ClusterError("Expected a valid consumer group state, but found 'Unknown'.")
    if group.state == "Dead":
        report.error(f"Consumer group '{group.group}' does not exist.")
        return False
    report.notice(state_notice(group.group, group.state))
    return True


def _object(group: Described, **fields: Any) -> dict[str, Any]:
    node = group.coordinator
    return {
        "group": group.group,
        "state": group.state,
        "coordinator": {"id": node.id, "host": node.host, "port": node.port},
        "assignor": group.assignor or None,
        "epoch": group.epoch,
        "target_epoch": group.target_epoch,
        "member_count": len(group.members),
        **fields,
    }


def _member(member: Member, group: Described) -> dict[str, Any]:
    return {
        "id": member.id,
        "instance_id": member.instance_id,
        "host": member.host,
        "client_id": member.client_id,
        "epoch": member.epoch,
        "assigned": [f"{p.topic}:{p.number}" for p in sorted(member.assigned)],
        "target": None
        if group.target_epoch is None
        else [f"{p.topic}:{p.number}" for p in sorted(member.target)],
    }


def _offset(row: OffsetRow) -> dict[str, Any]:
    return {
        "topic": row.partition.topic,
        "partition": row.partition.number,
        "offset": row.offset,
        "leader_epoch": row.leader_epoch,
        "end_offset": row.end_offset,
        "lag": row.lag,
        "member": None if row.member is None else row.member.id,
    }
