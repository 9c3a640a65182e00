"""`kraftline storage`: cluster ids; folders are in `cli/folders.py` (kafka-storage's lines)."""

import os
import sys
from argparse import Namespace
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from uuid import UUID

from cli.arguments import Parser, UsageError, add_voter_flags


def run(arguments: Sequence[str]) -> int:
    """Perform a storage command and return the exit code."""
    options = _parse(arguments)
    if options.command == "random-uuid":
        identifier = "-"
        while identifier.startswith("-"):  # it would look like a flag
            identifier = urlsafe_b64encode(UUID(bytes=os.urandom(16), version=4).bytes)[
                :22
            ].decode()
        sys.stdout.write(f'{{"uuid":"{identifier}"}}\n' if options.json else identifier + "\n")
        return 0
    if options.command in ("version-mapping", "feature-dependencies"):
        return _offline(options)
    from cli import folders  # noqa: PLC0415  # an id must not wait for the codecs

    return folders.run(options)


def _offline(options: Namespace) -> int:
    """Perform a command about releases, the same as in `features`."""
    from cli.admin.features import offline  # noqa: PLC0415  # an id must not wait for it

    try:
        sys.stdout.write(offline(options))
    except UsageError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = Parser("kraftline storage", "Ids, formatting and state of log directories.")
    commands = parser.add_subparsers(dest="command", required=True, parser_class=Parser)
    commands.add_parser("random-uuid").add_argument("--json", action="store_true")
    info = commands.add_parser("info")
    info.add_argument("-c", "--config", required=True, help="server.properties")
    info.add_argument("--json", action="store_true", help="one JSON object")
    formatting = commands.add_parser("format")
    formatting.add_argument("-t", "--cluster-id", required=True, help="22 characters")
    formatting.add_argument("-c", "--config", required=True, help="server.properties")
    formatting.add_argument("-r", "--release-version", help="3.9-IV0, or 3.9: its levels")
    formatting.add_argument("-f", "--feature", action="append", default=[], help="name=level")
    formatting.add_argument("-g", "--ignore-formatted", action="store_true")
    formatting.add_argument(
        "-S",
        "--add-scram",
        action="append",
        default=[],
        help="SCRAM-SHA-256=[name=N,password=P,iterations=I]; SCRAM-SHA-512; repeatable",
    )
    add_voter_flags(formatting)
    formatting.add_argument("--json", action="store_true", help="one JSON object")
    mapping = commands.add_parser("version-mapping")
    mapping.add_argument("-r", "--release-version", help="a release; default: the newest")
    mapping.add_argument("--json", action="store_true", help="one JSON object")
    dependencies = commands.add_parser("feature-dependencies")
    dependencies.add_argument(
        "-f", "--feature", action="append", required=True, help="NAME=LEVEL; repeatable"
    )
    dependencies.add_argument("--json", action="store_true", help="one JSON object")
    return parser.parse_args(arguments)
