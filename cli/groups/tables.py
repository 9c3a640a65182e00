"""Lines of kafka-consumer-groups and kafka-groups, from values that are known.

A row of a table begins with the end of the line before, as in Kafka's tools: a table is a blank
line, its rows, and one end. apache/kafka: tools/.../consumer/group/ConsumerGroupCommand.java
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from cli.groups.clients.descriptions import Described, Listed, Member
from cli.kafka_errors import exception_text
from cli.records.clients.topic_metadata import Partition

MISSING: Final = "-"
REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
_ID_COLUMN: Final = 15
_INSTANCE_COLUMN: Final = 17
_ASSIGNMENT_COLUMN: Final = 20
_COORDINATOR_COLUMN: Final = 25
_TYPE_COLUMN: Final = 20


class OffsetRow(msgspec.Struct, frozen=True, kw_only=True):
    """A partition of a group; None is shown as a dash."""

    partition: Partition
    leader_epoch: int | None
    offset: int | None
    end_offset: int | None
    member: Member | None

    @property
    def lag(self) -> int | None:
        """Records that are not read yet; None if either end is not known."""
        if self.offset is None or self.offset == -1 or self.end_offset is None:
            return None
        return self.end_offset - self.offset


def row_of(cells: Iterable[object], widths: Sequence[int]) -> str:
    """A line of cells, each padded to its width; 0 is not padded."""
    shown = [
        f"{MISSING if cell is None else cell!s:<{width}}"
        for cell, width in zip(cells, widths, strict=True)
    ]
    return " ".join(shown) + "\n"


def _longest(least: int, texts: Iterable[str]) -> int:
    return max([least, *map(len, texts)])


def list_table(groups: Sequence[Listed], *, has_type: bool, has_state: bool) -> str:
    """Groups with their type or state or both."""
    widths = [_longest(_ID_COLUMN, (row.group for row in groups)) + 10]
    widths += [_TYPE_COLUMN] * (has_type + has_state)
    head: list[object] = ["GROUP", *["TYPE"] * has_type, *["STATE"] * has_state]
    rows: list[list[object]] = [
        [row.group, *[row.type] * has_type, *[row.state] * has_state] for row in groups
    ]
    return "".join(row_of(row, widths) for row in [head, *rows])


def kinds_table(groups: Sequence[Listed]) -> str:
    """Groups with type and protocol: kafka-groups."""
    rows = [(row.group, row.type, row.protocol_type) for row in groups]
    width = _longest(_TYPE_COLUMN, (cell for row in rows for cell in row))
    head = row_of(("GROUP", "TYPE", "PROTOCOL"), [width] * 3)
    return head + "".join(row_of((*row, ""), [width, width, width, 0]) for row in rows)


def state_notice(group: str, state: str) -> str:
    """The line about a group that is not stable, for standard error; without one empty."""
    if state == "Empty":
        return f"\nConsumer group '{group}' has no active members.\n"
    if state in REBALANCING:
        return f"\nWarning: Consumer group '{group}' is rebalancing.\n"
    return ""


def offsets_table(group: str, rows: Sequence[OffsetRow], *, is_verbose: bool) -> str:
    """Partitions of a group with what is committed and read."""
    members = [row.member for row in rows if row.member is not None]
    widths = [
        _longest(_ID_COLUMN, [group]),
        _longest(_ID_COLUMN, (row.partition.topic for row in rows)),
        10,
        *[15] * (3 + is_verbose),
        _longest(_ID_COLUMN, (member.id for member in members)),
        _longest(_ID_COLUMN, (member.host for member in members)),
        0,
    ]
    head: list[object] = [
        "GROUP", "TOPIC", "PARTITION", *["LEADER-EPOCH"] * is_verbose, "CURRENT-OFFSET",
        "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID",
    ]  # fmt: skip
    cells: list[list[object]] = [
        [
            group, row.partition.topic, row.partition.number,
            *[row.leader_epoch] * is_verbose, row.offset, row.end_offset, row.lag,
            *([None] * 3 if row.member is None
              else [row.member.id, row.member.host, row.member.client_id]),
        ]
        for row in rows
    ]  # fmt: skip
    return "\n" + "".join(row_of(row, widths) for row in [head, *cells])


def members_table(found: Described, *, is_verbose: bool) -> str:
    """Members of a group."""
    members = found.members
    has_instance = any(member.instance_id for member in members)
    upgraded = {member.is_upgraded for member in members}
    has_both = {True, False} <= upgraded
    widths = [
        _longest(_ID_COLUMN, [found.group]),
        _longest(_ID_COLUMN, (member.id for member in members)),
        *[_longest(_INSTANCE_COLUMN, (m.instance_id or "" for m in members))] * has_instance,
        _longest(_ID_COLUMN, (member.host for member in members)),
        _longest(_ID_COLUMN, (member.client_id for member in members)),
        15,
    ]
    head: list[object] = [
        "GROUP", "CONSUMER-ID", *["GROUP-INSTANCE-ID"] * has_instance, "HOST", "CLIENT-ID",
        "#PARTITIONS",
    ]  # fmt: skip
    rows: list[list[object]] = [
        [found.group, m.id, *[m.instance_id or ""] * has_instance, m.host, m.client_id,
         len(m.assigned)]
        for m in members
    ]  # fmt: skip
    if not is_verbose:
        return "\n" + "".join(row_of([*row, ""], [*widths, 0]) for row in [head, *rows])
    widths += [
        15,
        _longest(_ASSIGNMENT_COLUMN, (assignment(m.assigned) for m in members)),
        15,
        _longest(_ASSIGNMENT_COLUMN, (assignment(m.target) for m in members)),
        *[0] * has_both,
    ]
    head += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT",
             *["UPGRADED"] * has_both]  # fmt: skip
    more: list[list[object]] = [
        [m.epoch, assignment(m.assigned), found.target_epoch, assignment(m.target),
         *[None if m.is_upgraded is None else str(m.is_upgraded).lower()] * has_both]
        for m in members
    ]  # fmt: skip
    whole = [head, *([*row, *epochs] for row, epochs in zip(rows, more, strict=True))]
    return "\n" + "".join(row_of(row, widths) for row in whole)


def assignment(partitions: Iterable[Partition]) -> str:
    """`topic:0,1;other:2`; of nothing a dash."""
    numbers: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        numbers.setdefault(topic, []).append(number)
    shown = [f"{topic}:{','.join(map(str, of_topic))}" for topic, of_topic in numbers.items()]
    return ";".join(sorted(shown)) or MISSING


def state_table(found: Described, *, is_verbose: bool) -> str:
    """State of a group, and where its coordinator is."""
    node = found.coordinator
    coordinator = f"{node.host}:{node.port}  ({node.id})"
    widths = [
        _longest(_ID_COLUMN, [found.group]),
        _longest(_COORDINATOR_COLUMN, [coordinator]),
        20,
        20,
        *[15, 25] * is_verbose,
        0,
    ]
    head: list[object] = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE",
            *["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"] * is_verbose, "#MEMBERS"]  # fmt: skip
    row = [found.group, coordinator, found.assignor or None, found.state,
           *[found.epoch, found.target_epoch] * is_verbose, len(found.members)]  # fmt: skip
    return "\n" + row_of(head, widths) + row_of(row, widths)


def reset_table(offsets: Mapping[str, Mapping[Partition, int]]) -> str:
    """New offsets of groups."""
    if not offsets:
        return "\n"
    topics = [partition.topic for of_group in offsets.values() for partition in of_group]
    widths = [_longest(_ID_COLUMN, offsets), _longest(_ID_COLUMN, topics), 10, 0]
    rows = [
        (group, partition.topic, partition.number, offset)
        for group, of_group in offsets.items()
        for partition, offset in of_group.items()
    ]
    head = ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")
    return "\n" + "".join(row_of(row, widths) for row in [head, *rows])


def deletions_table(codes: Mapping[Partition, int]) -> str:
    """Deleted offsets; the partition -1 is a topic that does not exist."""
    widths = [_longest(_ID_COLUMN, (partition.topic for partition in codes)), 10, 15]
    rows = [
        (
            topic,
            number if number >= 0 else None,
            f"Error: {exception_text(code)}" if code else "Successful",
        )
        for (topic, number), code in sorted(
            codes.items(), key=lambda item: f"{item[0].topic}{item[0].number}"
        )
    ]
    head = ("TOPIC", "PARTITION", "STATUS")
    return "\n" + "".join(row_of(row, widths) for row in [head, *rows])
