"""`kraftline all-groups`: groups of every kind (kafka-groups)."""

from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from typing import Final

from cli.command import Output, execute
from cli.connect import Connect, json_line, open_cluster
from cli.groups.clients.descriptions import TYPES, Listed
from cli.groups.clients.group_admin import CONSUMER_PROTOCOL_TYPES, GroupAdmin
from cli.groups.tables import kinds_table
from cli.records.clients.clock import SYSTEM, Clock
from cli.records.clients.records_api import RecordsApi
from cli.records.tool_parser import ToolParser

REFUSAL: Final = "Error while executing groups command : "
TIMEOUT_MS: Final = 30_000

_EXCLUSIVE: Final = {
    "consumer": ("group_type", "protocol", "share", "streams"),
    "share": ("consumer", "group_type", "protocol", "streams"),
    "streams": ("consumer", "group_type", "protocol", "share"),
}


def run(arguments: Sequence[str], connect: Connect = open_cluster, clock: Clock = SYSTEM) -> int:
    """Print the groups and return the exit code."""
    return execute(arguments, _parse, partial(perform, clock=clock), connect, refusal=REFUSAL)


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = ToolParser("kraftline all-groups", "Groups of every kind.")
    parser.bootstrap(controllers=False)
    parser.add_argument("--group-type", metavar="TYPE", help=f"of this type: {', '.join(TYPES)}")
    parser.add_argument("--protocol", help="with this type of protocol")
    parser.flags({
        "list": "list the groups",
        "consumer": "consumer groups, of both protocols and without members",
        "share": "share groups",
        "streams": "streams groups",
        "json": "one JSON object",
    })  # fmt: skip
    options = parser.parse_args(arguments)
    if not arguments:
        parser.error("This tool helps to list groups of all types.")
    parser.require(options, "bootstrap-server")
    if not options.list:
        parser.error("Command must include exactly one action: --list.")
    if options.group_type is not None and options.group_type.lower() not in TYPES:
        parser.error("--group-type must be a valid group type.")
    for kind, others in _EXCLUSIVE.items():
        for other in others:
            if getattr(options, kind) and getattr(options, other):
                shown = other.replace("_", "-")
                parser.error(f'Option "[{kind}]" can\'t be used with option "[{shown}]"')
    return options


def perform(api: RecordsApi, options: Namespace, clock: Clock) -> Output:
    """Ask all brokers for their groups.

    Raises:
        ClusterError: one refuses or cannot be reached.
    """
    found = GroupAdmin(api, clock, TIMEOUT_MS).listed()
    groups = [group for group in found if _is_meant(group, options)]
    if options.json:
        rows = [
            {"group": g.group, "type": g.type, "protocol": g.protocol_type, "state": g.state}
            for g in groups
        ]
        return Output(json_line({"groups": rows}))
    return Output(kinds_table(groups))


def _is_meant(group: Listed, options: Namespace) -> bool:
    if options.consumer:
        return group.protocol_type in CONSUMER_PROTOCOL_TYPES or group.type == "Consumer"
    if options.share or options.streams:
        return group.type == ("Share" if options.share else "Streams")
    is_type = options.group_type is None or group.type == TYPES[options.group_type.lower()]
    return is_type and options.protocol in (None, group.protocol_type)
