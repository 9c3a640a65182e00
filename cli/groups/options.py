"""The command line of `kraftline groups`, with the checks of Kafka's tool in their order.

apache/kafka: tools/.../consumer/group/ConsumerGroupCommandOptions.java
"""

import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import Final

from cli.arguments import INT32_MAX, INT64_MAX, integer
from cli.groups.clients.descriptions import STATES
from cli.records.tool_parser import ToolParser

ACTIONS: Final = {
    "list": "list the consumer groups",
    "describe": "offsets and lag of groups, or --members, --state",
    "delete": "delete groups without members",
    "reset-offsets": "set committed offsets of groups without members",
    "delete-offsets": "delete committed offsets of topics",
    "validate-regex": "check a regular expression (RE2) of a subscription",
}
PLACES: Final = (
    "from-file", "shift-by", "to-offset", "to-earliest", "to-current", "to-latest", "by-duration",
    "to-datetime",
)  # fmt: skip
TYPES: Final = {"consumer": "Consumer", "classic": "Classic"}
TIMEOUT_MS: Final = 5_000
NOT_EXECUTED: Final = (
    "WARN: No action will be performed as the --execute option is missing. In version 5.0, this "
    "command will require either --dry-run or --execute to be specified. You should add the "
    "--dry-run option explicitly if you are scripting this command and want to keep the current "
    "default behavior without prompting.\n"
)
_EXCLUSIVE: Final = 'Option "[{}]" can\'t be used with option "[{}]"'


def command_parser() -> ToolParser:
    """The parser of the command line."""
    parser = ToolParser("kraftline groups", "Consumer groups: list, describe, delete, reset.")
    parser.bootstrap(controllers=False)
    parser.add_argument("--group", action="append", default=[], help="name of a group; repeatable")
    parser.add_argument(
        "--topic", action="append", default=[], help="TOPIC or TOPIC:0,1 of offsets; repeatable"
    )
    parser.add_argument(
        "--timeout", type=integer(0, INT64_MAX), default=TIMEOUT_MS, metavar="MS",
        help="of each request, 5000 without it",
    )  # fmt: skip
    parser.flags({name: text for name, text in ACTIONS.items() if name != "validate-regex"})
    parser.add_argument(
        "--validate-regex", metavar="REGEX", help=f"{ACTIONS['validate-regex']}; asks no broker"
    )
    parser.flags({
        "all-groups": "all consumer groups",
        "all-topics": "all topics with committed offsets",
        "members": "with --describe: the members",
        "offsets": "with --describe: the offsets, which are shown without it too",
        "verbose": "with --describe: epochs and assignments too",
    })  # fmt: skip
    for name, values in {"state": STATES.values(), "type": TYPES.values()}.items():
        parser.add_argument(
            f"--{name}", nargs="?", const="", metavar="NAMES",
            help=f"with --list: show the {name}, of these alone: {', '.join(values)}"
            + ("; with --describe: the state" if name == "state" else ""),
        )  # fmt: skip
    number = integer(-INT64_MAX - 1, INT64_MAX)
    parser.add_argument("--to-offset", type=number, help="this offset, or the nearest there is")
    parser.add_argument("--shift-by", type=number, help="so many records on, negative: back")
    parser.add_argument(
        "--to-datetime", metavar="TIME", help="first record from YYYY-MM-DDTHH:mm:SS.sss on"
    )
    parser.add_argument("--by-duration", metavar="PnDTnHnMnS", help="first record since this ago")
    parser.add_argument("--from-file", metavar="CSV", help="[group,]topic,partition,offset")
    parser.flags({
        "to-earliest": "the earliest offset",
        "to-latest": "the end",
        "to-current": "the committed offset, the end where there is none",
        "dry-run": "print the new offsets, change nothing (default)",
        "execute": "commit the new offsets",
        "export": "print the new offsets as CSV, for --from-file",
        "json": "one JSON object",
    })  # fmt: skip
    return parser


def parse(arguments: Sequence[str]) -> Namespace:
    """The options of a command line; what is wrong with it is printed.

    Raises:
        SystemExit: it is refused.
    """
    parser = command_parser()
    options = parser.parse_args(arguments)
    if not arguments:
        parser.error("This tool helps to list all consumer groups, describe a consumer group, "
                     "delete consumer group info, or reset consumer group offsets.")  # fmt: skip
    _check_available(parser, options)
    if options.validate_regex is None:
        parser.require(options, "bootstrap-server")
    _check_describe(parser, options)
    _check_deletions(parser, options)
    if options.reset_offsets:
        _check_reset(parser, options)
    _check_exclusive(parser, options, "group", ("all-groups", "list"))
    _check_exclusive(parser, options, "topic", ("list", "describe"))
    if sum(map(_given(options), ACTIONS)) != 1:
        names = ", ".join(f"--{name}" for name in ACTIONS)
        parser.error(f"Command must include exactly one action: {names}")
    if options.reset_offsets:
        _check_place(parser, options)
    options.states = _states(parser, options.state or "")
    options.types = _types(parser, options.type or "")
    options.timeout = min(max(1, options.timeout), INT32_MAX)
    options.request_timeout_ms = options.timeout
    return options


class _given:  # noqa: N801 - reads as a function
    """Function from the name of an option, without dashes, to True if it is given."""

    def __init__(self, options: Namespace) -> None:
        self._options = options

    def __call__(self, name: str) -> bool:
        value = getattr(self._options, name.replace("-", "_"))
        return value is not None and value is not False and value != []


def _check_available(parser: ToolParser, options: Namespace) -> None:
    """--members, --offsets, --verbose are of --describe, --type of --list, --state of both."""
    has = _given(options)
    wrong = [
        name for name in ("members", "offsets", "verbose") if has(name) and not has("describe")
    ]
    wrong += ["state"] if has("state") and not (has("describe") or has("list")) else []
    wrong += ["type"] if has("type") and not has("list") else []
    if wrong:
        parser.error(
            f"Option(s) [{', '.join(wrong)}] are unavailable given other options on the command "
            "line"
        )


def _check_describe(parser: ToolParser, options: Namespace) -> None:
    if not options.describe:
        return
    if not options.group and not options.all_groups:
        parser.error("Option [describe] takes one of these options: [group], [all-groups]")
    if sum(map(_given(options), ("members", "offsets", "state"))) > 1:
        parser.error(
            "Option [describe] takes at most one of these options: [members], [offsets], [state]"
        )
    if options.state:
        parser.error("Option [describe] does not take a value for [state]")


def _check_deletions(parser: ToolParser, options: Namespace) -> None:
    if options.delete:
        if not options.group and not options.all_groups:
            parser.error("Option [delete] takes one of these options: [group], [all-groups]")
        if options.topic:
            parser.error("The consumer does not support topic-specific offset deletion from a "
                         "consumer group.")  # fmt: skip
    if options.delete_offsets and not (options.group and options.topic):
        parser.error("Option [delete-offsets] takes the following options: [topic], [group]")


def _check_reset(parser: ToolParser, options: Namespace) -> None:
    if options.dry_run and options.execute:
        parser.error("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if not options.dry_run and not options.execute:
        sys.stderr.write(NOT_EXECUTED)
    if not options.group and not options.all_groups:
        parser.error("Option [reset-offsets] takes one of these options: [group], [all-groups]")
    for name in ("to-offset", "to-datetime", "by-duration", "to-earliest", "to-latest",
                 "to-current", "shift-by", "from-file"):  # fmt: skip
        _check_exclusive(parser, options, name, [place for place in PLACES if place != name])


def _check_exclusive(
    parser: ToolParser, options: Namespace, name: str, others: Sequence[str]
) -> None:
    has = _given(options)
    for other in others:
        if has(name) and has(other):
            parser.error(_EXCLUSIVE.format(name, other))


def _check_place(parser: ToolParser, options: Namespace) -> None:
    """Of which partitions, and where to."""
    if not options.all_topics and not options.topic and options.from_file is None:
        parser.error("One of the reset scopes should be defined: --all-topics, --topic.")
    if not any(map(_given(options), PLACES)):
        places = ", ".join(f"[{place}]" for place in PLACES)
        parser.error(
            f"Option '[reset-offsets]' requires one of the following scenarios: [{places}]"
        )


def _states(parser: ToolParser, text: str) -> list[str]:
    found = [STATES.get(word.strip().lower()) for word in text.split(",")] if text else []
    if None in found:
        parser.error(f"Invalid state list '{text}'. Valid states are: {', '.join(STATES.values())}")
    return [name for name in found if name is not None]


def _types(parser: ToolParser, text: str) -> list[str]:
    found = [TYPES.get(word.strip().lower()) for word in text.split(",")] if text else []
    if None in found:
        parser.error(f"Invalid types list '{text}'. Valid types are: {', '.join(TYPES.values())}")
    return [name for name in found if name is not None]
