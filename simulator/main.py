"""`kraftline sim` and `python -m simulator`: run seeds, say which failed and how to repeat it.

Exit code: 0 all held, 10 safety, 11 liveness, 12 crash, 13 nondeterminism, 1 a required mark is
missing, 2 bad input, 130 Ctrl-C, 143 SIGTERM, 255 a process of --jobs died. Of several failures the
first one decides.

The simulator itself is imported after the command line has been read: it takes half a second.
"""

import sys
from collections.abc import Sequence
from typing import Final

from simulator.campaign.arguments import USAGE, parse
from simulator.mutants.arguments import mutate_parser

PATH_CHARACTERS: Final = 200
"""Characters of a path that an error line shows."""


def run(arguments: Sequence[str]) -> int:
    """Run one command line; return the exit code."""
    if arguments[:1] == ["mutate"]:
        return _mutate(arguments[1:])
    has_records = arguments[:1] == ["records"]
    try:
        parsed = parse(list(arguments[has_records:]), has_records=has_records)
    except SystemExit as stop:
        return int(stop.code or 0)
    from simulator.campaign.schedule import ScheduleError  # noqa: PLC0415
    from simulator.campaign.seed_ledger import LedgerError  # noqa: PLC0415
    from simulator.campaign.session import perform  # noqa: PLC0415

    try:
        return perform(parsed)
    except (LedgerError, ScheduleError) as error:
        sys.stderr.write(f"kraftline sim: {error}\n")
    except BrokenPipeError:
        raise  # the reader of our output left (cli/main.py)
    except OSError as error:
        where = "" if error.filename is None else f"{str(error.filename)[:PATH_CHARACTERS]}: "
        sys.stderr.write(f"kraftline sim: {where}{error.strerror or error}\n")
    return USAGE


def _mutate(arguments: Sequence[str]) -> int:
    parser = mutate_parser()
    try:
        given = parser.parse_args(arguments)
    except SystemExit as stop:
        return int(stop.code or 0)
    from simulator.mutants import command  # noqa: PLC0415

    return command.perform(parser, given)


if __name__ == "__main__":
    raise SystemExit(run(sys.argv[1:]))
