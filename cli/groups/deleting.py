"""`kraftline groups --delete` and `--delete-offsets`.

apache/kafka: tools/.../consumer/group/ConsumerGroupCommand.java
"""

from argparse import Namespace
from typing import Final

from cli.arguments import INT32_MAX, UsageError, shortened
from cli.groups.clients.coordinators import GroupError
from cli.groups.clients.group_admin import GROUP_ID_NOT_FOUND, GroupAdmin
from cli.groups.consumer_groups import named_groups
from cli.groups.report import Report
from cli.groups.tables import deletions_table
from cli.kafka_errors import exception_text, message_of
from cli.records.clients.records_api import RecordsApi
from cli.records.clients.topic_metadata import Partition, described_topics

WHOLE: Final = -1
UNKNOWN_TOPIC: Final = 3
GROUP_SUBSCRIBED_TO_TOPIC: Final = 86
OF_GROUP: Final = frozenset({24, GROUP_ID_NOT_FOUND, 30, 68})
"""Refusals of the whole group: INVALID_GROUP_ID, GROUP_AUTHORIZATION_FAILED, NON_EMPTY_GROUP."""
OF_PARTITIONS: Final = frozenset({UNKNOWN_TOPIC, 29, GROUP_SUBSCRIBED_TO_TOPIC})


def delete_groups(admin: GroupAdmin, options: Namespace, report: Report) -> None:
    """Delete the groups of the options.

    Raises:
        ClusterError: the groups cannot be listed.
    """
    deleted: list[str] = []
    failed: dict[str, str] = {}
    for group in named_groups(admin, options):
        try:
            code = admin.delete(group)
            why = exception_text(code) if code else None
        except GroupError as error:
            why = str(error)
        if why is None:
            deleted.append(group)
        else:
            failed[group] = why
    names = ", ".join(f"'{group}'" for group in deleted)
    if failed:
        lines = [
            f"* Group '{group}' could not be deleted due to: {why}\n"
            for group, why in failed.items()
        ]
        report.say("\nError: Deletion of some consumer groups failed:\n" + "".join(lines))
        if deleted:
            report.say(f"\nThese consumer groups were deleted successfully: {names}\n")
    else:
        report.say(f"Deletion of requested consumer groups ({names}) was successful.\n")
    report.tell(deleted=deleted, failed=failed)


def delete_offsets(admin: GroupAdmin, api: RecordsApi, options: Namespace, report: Report) -> None:
    """Delete committed offsets of the topics of the options.

    Raises:
        ClusterError: the coordinator cannot be asked.
        UsageError: a topic has other than numbers behind its colon.
    """
    (group,) = options.group
    codes: dict[Partition, int] = {}
    partitions: list[Partition] = []
    whole = [topic for topic in options.topic if ":" not in topic]
    for topic in options.topic:
        if ":" in topic:
            partitions += named_partitions(topic)
    topics = described_topics(api, whole) if whole else {}
    for name in whole:
        if topics[name].error_code:
            codes[Partition(name, WHOLE)] = topics[name].error_code
        partitions += [Partition(name, number) for number in topics[name].leaders]
    partitions = list(dict.fromkeys(partitions))
    refusal, answered = admin.delete_offsets(group, partitions)
    for partition in partitions:
        codes[partition] = refusal or answered.get(partition, UNKNOWN_TOPIC)
    failed = next((codes[p] for p in partitions if codes[p]), refusal)
    if not failed:
        report.say(f"Request succeeded for deleting offsets from group {group}.\n")
    elif failed in OF_GROUP:
        report.error(message_of(failed))
    elif failed in OF_PARTITIONS:
        report.error("Encountered some partition-level error, see the follow-up details.")
    else:
        report.error(f"Encountered some unknown error: {exception_text(failed)}")
    report.say(deletions_table(codes))
    report.tell(
        group=group,
        offsets=[
            {"topic": p.topic, "partition": None if p.number == WHOLE else p.number,
             "error": exception_text(code) if code else None}
            for p, code in sorted(codes.items())
        ],
    )  # fmt: skip


def named_partitions(text: str) -> list[Partition]:
    """The partitions of `TOPIC:0,1`.

    Raises:
        UsageError: it has another form.
    """
    parts = text.split(":")
    while len(parts) > 1 and not parts[-1]:  # as Java's split
        parts.pop()
    if len(parts) != 2:
        raise UsageError(
            f"Invalid topic arg '{shortened(text)}', expected topic name and partitions"
        )
    topic, numbers = parts
    found = []
    for word in numbers.split(","):
        is_number = word.isascii() and word.isdigit() and len(word) <= 10
        if not is_number or int(word) > INT32_MAX:
            raise UsageError(
                f"Invalid partition '{shortened(word)}' specified in topic arg '{shortened(text)}''"
            )
        found.append(Partition(topic, int(word)))
    return found
