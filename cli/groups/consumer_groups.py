"""`kraftline groups`: consumer groups of both protocols (kafka-consumer-groups).

A refusal of the cluster is told on standard output and leaves the exit code 0, as in Kafka's tool;
with `--json` it is one line on standard error and exit code 1. A wrong command line is exit code 1.
"""

import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import Any, Final

from cli.arguments import UsageError
from cli.connect import ClusterError, Connect, open_cluster
from cli.groups.clients.group_admin import GroupAdmin
from cli.groups.options import parse
from cli.groups.report import Report
from cli.groups.tables import list_table
from cli.records.clients.clock import SYSTEM, Clock
from cli.records.clients.records_api import RecordsApi

FAILED: Final = "Executing consumer group command failed due to {}"
FLAG_TWICE: Final = "Found multiple arguments for option group, but you asked for only one"


def run(arguments: Sequence[str], connect: Connect = open_cluster, clock: Clock = SYSTEM) -> int:
    """Perform the action and return the exit code."""
    options = parse(arguments)
    report = Report(is_json=options.json)
    try:
        if options.validate_regex is not None:
            _validate(options, report)
        else:
            _check_places(options)
            with connect(options) as opened:
                api: Any = opened
                perform(api, options, clock, report)
    except UsageError as error:
        sys.stdout.write(report.out)
        sys.stderr.write(f"{report.err}{error}\n")
        return 1
    except ClusterError as error:
        if options.json:
            sys.stderr.write(f"{error}\n")
            return 1
        report.error(FAILED.format(error))
    sys.stdout.write(report.out)
    sys.stdout.flush()
    sys.stderr.write(report.err)
    return 0


def perform(api: RecordsApi, options: Namespace, clock: Clock, report: Report) -> None:
    """Do what the options say.

    Raises:
        ClusterError: the cluster refuses, or cannot be reached.
        UsageError: the options do not fit what is there.
    """
    admin = GroupAdmin(api, clock, options.timeout)
    if options.list:
        _list(admin, options, report)
    elif options.describe:
        from cli.groups.describing import describe  # noqa: PLC0415  # loads the protocol

        describe(admin, api, options, report)
    elif options.reset_offsets:
        from cli.groups.resetting import reset  # noqa: PLC0415  # loads the protocol

        reset(admin, api, options, clock, report)
    elif options.delete:
        from cli.groups.deleting import delete_groups  # noqa: PLC0415  # loads the protocol

        delete_groups(admin, options, report)
    else:
        from cli.groups.deleting import delete_offsets  # noqa: PLC0415  # loads the protocol

        delete_offsets(admin, api, options, report)


def named_groups(admin: GroupAdmin, options: Namespace) -> list[str]:
    """The groups that are meant, each once."""
    if options.all_groups:
        return [row.group for row in admin.listed_consumers()]
    return list(dict.fromkeys(options.group))


def _check_places(options: Namespace) -> None:
    """Read times, durations and files before anything is asked.

    Raises:
        ClusterError: one cannot be read.
    """
    from cli.groups import reset_places  # noqa: PLC0415

    if options.delete_offsets and len(options.group) > 1:
        raise ClusterError(FLAG_TWICE)
    if options.to_datetime is not None:
        options.to_datetime = reset_places.time_ms(options.to_datetime)
    if options.by_duration is not None:
        options.by_duration = reset_places.duration_ms(options.by_duration)
    if options.from_file is not None:
        options.from_file = reset_places.plan_of_file(options.from_file, options.group)


def _list(admin: GroupAdmin, options: Namespace, report: Report) -> None:
    groups = admin.listed_consumers(options.states, options.types)
    if options.type is None and options.state is None:
        report.say("".join(f"{row.group}\n" for row in groups))
    else:
        report.say(
            list_table(
                groups, has_type=options.type is not None, has_state=options.state is not None
            )
        )
    report.tell(groups=[{"group": r.group, "type": r.type, "state": r.state} for r in groups])


def _validate(options: Namespace, report: Report) -> None:
    from coordinator.group.consumer.regexes import why_invalid  # noqa: PLC0415

    why = why_invalid(options.validate_regex)
    shown = "valid" if why is None else f"invalid: {why}"
    report.say(f"The regular expression `{options.validate_regex}` is {shown}.\n")
    report.tell(regex=options.validate_regex, is_valid=why is None)
