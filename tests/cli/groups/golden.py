"""Recorded outputs of Kafka's tools about groups, 116 of them, and our command beside.

`tests/golden/cli/groups.jsonl.gz` has one run a line, `groups-verdicts.json` what is held of it.
"""

import gzip
import importlib
import re
from collections.abc import Callable
from functools import cache

import msgspec

from tests.cli import comparison
from tests.cli.comparison import Run
from tests.cli.golden import FOLDER, Recorded, Verdict
from tests.cli.groups.group_broker import GroupBroker
from tests.cli.records.golden import run_command, without_usage

COMMANDS = {
    "ConsumerGroupCommand": "consumer_groups",
    "GroupsCommand": "all_groups",
    "VerifiableConsumer": "verifiable_consumer",
    "ConsumerPerformance": "consumer_perf_test",
}
WARNING = re.compile(r"(?m)^\[[\d: ,-]+\] WARN (.*) \(org\.apache\.kafka\.tools\.OffsetsUtils\)$")
LOGGED = re.compile(r"(?m)^\[[\d: ,-]+\] (?:WARN|ERROR) \[.*\n")
JAVA = re.compile(r"(?m)^(?:Caused by: )?(?:java|org|com)\.[\w.]+(?:\$\w+)?(?:Exception|Error).*\n")


@cache
def outputs() -> dict[str, Recorded]:
    """All runs by name."""
    lines = gzip.decompress((FOLDER / "groups.jsonl.gz").read_bytes()).splitlines()
    return {run.name: run for run in (msgspec.json.decode(line, type=Recorded) for line in lines)}


@cache
def verdicts() -> dict[str, Verdict]:
    """By the name of the run."""
    content = (FOLDER / "groups-verdicts.json").read_bytes()
    return msgspec.json.decode(content, type=dict[str, Verdict])


def captured(run: Recorded, broker: GroupBroker) -> Run:
    """Our command with the recorded command line."""
    module = importlib.import_module(f"cli.groups.{COMMANDS[run.command]}")
    return run_command(module.run, run.args, broker)


def without_log_frame(run: Run) -> Run:
    """Date, level and class around a warning about an offset; what the clients log."""
    exit_code, out, err = run
    return exit_code, out, LOGGED.sub("", WARNING.sub(r"\1", err))


def without_java(run: Run) -> Run:
    """Exceptions on standard error, which repeat a line of standard output; their places."""
    exit_code, out, err = run
    err = re.sub(r"(?m)^ at \[Source.*\n", "", JAVA.sub("", err))
    return exit_code, out, err


def without_order(run: Run) -> Run:
    """The order of groups and partitions: Kafka's is that of a hash map, ours by name."""
    exit_code, out, err = run
    out = re.sub(r"\(('.*')\)", lambda m: f"({', '.join(sorted(m[1].split(', ')))})", out)
    return exit_code, "\n".join(sorted(out.split("\n"))), err


def without_times(run: Run) -> Run:
    """Times of events."""
    exit_code, out, err = run
    return exit_code, re.sub(r'"timestamp":\d+', '"timestamp":0', out), err


def without_rates(run: Run) -> Run:
    """Of the rows of a performance test all but MB and count: its times, and rates by them."""
    exit_code, out, err = run
    rows = []
    for row in out.split("\n"):
        columns = row.split(", ")
        is_row = re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3},", row) is not None
        rows.append(f"{len(columns)} {columns[2]} {columns[4]}" if is_row else row)
    return exit_code, "\n".join(rows), err


APART: dict[str, Callable[[Run], Run]] = {
    "usage": without_usage,
    "log": without_log_frame,
    "java": without_java,
    "order": without_order,
    "times": without_times,
    "rates": without_rates,
}


def apart_from(ours: Run, recorded: Recorded) -> tuple[str, ...] | None:
    """The fewest things that must be left out for equality: () is equal, None is different."""
    return comparison.apart_from(ours, recorded, APART)
