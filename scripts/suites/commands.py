"""`scripts/public_suites`: run them, print a table.

Exit codes: 0 every failure is explained, 1 one is not, 2 usage, 3 a suite's files or packages are
not to be had, so nothing was shown.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from scripts.suites.catalogue import SUITES, Suite
from scripts.suites.checkouts import NoSourceError, checkout, copy_tests
from scripts.suites.environments import InstallError, environment, wheel
from scripts.suites.outcomes import Result, complaints, table
from scripts.suites.run import RunError, run

DONE: Final = 0
FAILED: Final = 1
NOTHING_FETCHED: Final = 3
REST: Final = "--"
"""The words behind it are for pytest."""
EXAMPLES: Final = """\
examples:
  scripts/public_suites                                     all of them; some minutes
  scripts/public_suites aiokafka -- -k test_consumer -x     part of one; the rest is for pytest
  scripts/public_suites aiokafka --address localhost:9092   against a Kafka that runs
  scripts/public_suites --sources ../clones                 clones of the repositories, by name
"""


def main(words: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    place = list(words).index(REST) if REST in words else len(words)
    own, for_pytest = words[:place], list(words[place + 1 :])
    parser = _parser()
    arguments = parser.parse_args(own)
    for name in arguments.suites:
        if name not in _names():
            parser.error(f"SUITE {name!r} is not one of {', '.join(_names())}")
    chosen = [suite for suite in SUITES if suite.name in (arguments.suites or _names())]
    results, lost = [], False
    built = None if arguments.address else wheel(arguments.cache)
    for suite in chosen:
        _say(f"{suite.name} {suite.tag}")
        try:
            result = _result(suite, arguments, built, for_pytest)
        except (NoSourceError, InstallError) as error:
            _say(f"{suite.name}: not run, nothing is shown of it: {error}")
            lost = True
            continue
        except RunError as error:
            _say(f"{suite.name}: {error}")
            return FAILED
        results.append(result)
        sys.stderr.write(complaints(result))
    sys.stdout.write(table(results))
    if any(map(complaints, results)):
        return FAILED
    return NOTHING_FETCHED if lost else DONE


def _result(
    suite: Suite, arguments: argparse.Namespace, built: Path | None, for_pytest: list[str]
) -> Result:
    files = checkout(suite, arguments.cache, arguments.sources)
    python = environment(suite, files, built, arguments.cache)
    tests = arguments.cache / "runs" / suite.repository.partition("/")[2]
    copy_tests(suite, files, tests)
    outcomes = run(suite, python, tests, arguments.address, for_pytest)
    return Result(suite=suite, outcomes=outcomes)


def _names() -> list[str]:
    return [suite.name for suite in SUITES]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/public_suites",
        description="Tests of other projects that use Kafka, run against this tree.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "suites", nargs="*", metavar="SUITE", help=f"of {', '.join(_names())} (all)"
    )
    parser.add_argument(
        "--address", metavar="HOST:PORT", help="a Kafka that runs, in place of our cluster"
    )
    parser.add_argument(
        "--sources", type=Path, metavar="FOLDER", help="clones by name (default: fetched)"
    )
    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    parser.add_argument(
        "--cache", type=Path, metavar="FOLDER", default=home / "kraftline-public-suites",
        help="of checkouts and virtual environments (%(default)s)",
    )  # fmt: skip
    return parser


def _say(text: str) -> None:
    sys.stderr.write(f"public_suites: {text}\n")
