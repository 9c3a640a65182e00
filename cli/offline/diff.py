"""`kraftline diff`: differences between two offsets of a log, or between two folders.

Exit code as diff(1): 0 without differences, 1 with some, 2 when no comparison is possible.
"""

import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from cli.arguments import Parser, UsageError
from cli.offline.at import fields_line
from cli.offline.metadata_sources import (
    ChangesPage,
    add_consistency,
    all_pages,
    consistent,
    folder_image,
    is_node,
    parse_offset,
    refuse_folder,
)

SAME, DIFFERENT, TROUBLE = 0, 1, 2
_SIGNS: Final = {"added": "+", "removed": "-", "changed": "~"}


def run(arguments: Sequence[str]) -> int:
    """Print the changes and return the exit code."""
    parser = Parser("kraftline diff", "What differs between two offsets, or two folders.")
    parser.add_argument("before", help="an offset (with --in), or a log directory")
    parser.add_argument("after", help="an offset (with --in), or a log directory")
    parser.add_argument(
        "--in", dest="source", metavar="SOURCE", help="a log directory, or http://HOST:PORT"
    )
    parser.add_argument("--at", metavar="OFFSET", help="compare two folders at this offset")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    add_consistency(parser)
    try:
        options = parser.parse_args(arguments)
    except SystemExit as left:
        return TROUBLE if left.code else 0
    try:
        answer = _compared(options)
    except UsageError as error:
        sys.stderr.write(f"{error}\n")
        return TROUBLE
    if options.json:
        sys.stdout.write(msgspec.json.encode(answer).decode() + "\n")
    else:
        sys.stdout.writelines(change_line(change) for change in answer["changes"])
    return DIFFERENT if answer["changes"] else SAME


def _compared(options: Namespace) -> dict[str, Any]:
    from cli.offline.image_changes import changes_between  # noqa: PLC0415  # slow

    if options.source is None:
        at = None if options.at is None else parse_offset(options.at)
        before, after = (folder_image(path, at) for path in (options.before, options.after))
    else:
        if options.at is not None:
            raise UsageError("--at is for two folders; with --in the offsets are named")
        first, second = parse_offset(options.before), parse_offset(options.after)
        if is_node(options.source):
            if first is None or second is None:
                raise UsageError("of a node name the offsets as numbers")
            url = f"{options.source.rstrip('/')}/v1/metadata/diff?from={first}&to={second}"
            url = consistent(url, options.consistency)
            answer: dict[str, Any] = msgspec.to_builtins(all_pages(url, ChangesPage))
            return answer
        before, after = (folder_image(options.source, offset) for offset in (first, second))
    refuse_folder(options.consistency)
    changes = changes_between(before, after)
    return {
        "from_offset": before.provenance.end_offset,
        "to_offset": after.provenance.end_offset,
        "change_count": len(changes),
        "changes": changes,
    }


def change_line(change: dict[str, Any]) -> str:
    """One change: `+ topic orders ...`, `- ...`, or `~ partition orders-0 leader=1 -> 2`."""
    start = f"{_SIGNS[change['change']]} {change['kind']} {change['key']}"
    if change["change"] != "changed":
        row = change["after"] or change["before"] or {}
        return f"{start} {fields_line(row)}".rstrip() + "\n"
    before, after = change["before"] or {}, change["after"] or {}
    fields = [
        f"{name}={msgspec.json.encode(before.get(name)).decode()} -> "
        f"{msgspec.json.encode(after.get(name)).decode()}"
        for name in change["fields"]
    ]
    return f"{start} {', '.join(fields)}\n" if fields else f"{start}\n"
