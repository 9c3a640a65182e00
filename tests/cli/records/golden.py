"""Recorded outputs of Kafka's records tools, 120 of them, and our command beside each.

`tests/golden/cli/records.jsonl.gz` has one run a line, `records-verdicts.json` what is held of it.
"""

import contextlib
import gzip
import importlib
import inspect
import io
import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from tests.cli import comparison, golden
from tests.cli.comparison import Run
from tests.cli.golden import FOLDER, Verdict

COMMANDS = {
    "GetOffsetShell": "get_offsets",
    "ConsoleProducer": "console_producer",
    "ConsoleConsumer": "console_consumer",
    "DeleteRecordsCommand": "delete_records",
    "LogDirsCommand": "log_dirs",
    "ProducerPerformance": "producer_perf_test",
    "VerifiableProducer": "verifiable_producer",
}


class Recorded(golden.Recorded, frozen=True):
    """One run of a tool, with what it read."""

    stdin: str = ""


@cache
def outputs() -> dict[str, Recorded]:
    """All runs by name."""
    lines = gzip.decompress((FOLDER / "records.jsonl.gz").read_bytes()).splitlines()
    return {run.name: run for run in (msgspec.json.decode(line, type=Recorded) for line in lines)}


@cache
def verdicts() -> dict[str, Verdict]:
    """By the name of the run."""
    content = (FOLDER / "records-verdicts.json").read_bytes()
    return msgspec.json.decode(content, type=dict[str, Verdict])


def captured(run: Recorded, broker: Any) -> Run:
    """Our command with the recorded command line and input."""
    module = importlib.import_module(f"cli.records.{COMMANDS[run.command]}")
    return run_command(module.run, run.args, broker, run.stdin)


def run_command(call: Any, arguments: list[str], broker: Any, stdin: str = "") -> Run:
    written = io.BytesIO(), io.BytesIO()
    out, err = (io.TextIOWrapper(stream, "utf-8", newline="") for stream in written)
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        RedirectedStdin(stdin),
    ):
        try:
            has_clock = "clock" in inspect.signature(call).parameters
            clock = {"clock": broker.clock} if has_clock else {}
            exit_code = call(arguments, broker.opened, **clock)
        except SystemExit as left:
            exit_code = left.code
        out.flush()
        err.flush()
    return exit_code, written[0].getvalue().decode(), written[1].getvalue().decode()


class RedirectedStdin(contextlib._RedirectStream[io.TextIOWrapper]):
    """Standard input from a text."""

    _stream = "stdin"

    def __init__(self, text: str) -> None:
        super().__init__(io.TextIOWrapper(io.BytesIO(text.encode()), "utf-8"))


def without_log_frame(run: Run) -> Run:
    """Date, level and class around the text of an error in the log; what the clients log."""
    exit_code, out, err = run
    err = re.sub(r"(?m)^\[[\d: ,-]+\] (WARN|ERROR \[).*\n", "", err)
    err = re.sub(r"(?m)^\[[\d: ,-]+\] ERROR (.*) \([\w.]+\)$", r"\1", err)
    return exit_code, out, err


def without_java(run: Run) -> Run:
    """Names and causes of exceptions, and what repeats a line."""
    exit_code, out, err = run
    err = re.sub(r"(?m)^(Caused by|java\.lang\.RuntimeException): .*\n", "", err)
    err = re.sub(r"\borg\.apache\.kafka\.tools\.\w+: ", "", err)
    return comparison.without_java((exit_code, out, err))


def without_group(run: Run) -> Run:
    """Advice about the protocol of groups."""
    exit_code, out, err = run
    return exit_code, out, re.sub(r"(?m)^The consumer rebalance protocol .*\n", "", err)


def without_usage(run: Run) -> Run:
    """Usage text, which comes before the error or behind its first line."""
    exit_code, out, err = run
    if err.startswith("usage: "):
        words = err.partition("error:")[2].split()
        return exit_code, out, " ".join(words).replace("-- ", "--")
    return comparison.without_usage(run)


def without_times(run: Run) -> Run:
    """Times, rates and latencies, and the folder of a file."""
    exit_code, out, err = run
    out = re.sub(r"(?m) records sent, .*", " records sent", out)
    out = re.sub(r'"(timestamp|avg_throughput)":[\d.]+', r'"\1":0', out)
    return exit_code, re.sub(r"(?m)^(Reading payloads from: ).*/", r"\1", out), err


def without_json_order(run: Run) -> Run:
    """The order of partitions: in a JSON line, or of the JSON lines themselves."""
    exit_code, out, err = run

    def ordered(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: ordered(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return sorted((ordered(inner) for inner in value), key=json.dumps)
        return value

    lines = [
        json.dumps(ordered(json.loads(line))) if line.startswith('{"brokers"') else line
        for line in out.splitlines()
    ]
    if out.startswith('{"timestamp"'):
        lines.sort()
    return exit_code, "\n".join(lines), err


APART: dict[str, Callable[[Run], Run]] = {
    "log": without_log_frame,
    "java": without_java,
    "usage": without_usage,
    "group": without_group,
    "times": without_times,
    "order": without_json_order,
}


def apart_from(ours: Run, recorded: Recorded) -> tuple[str, ...] | None:
    """The fewest things that must be left out for equality: () is equal, None is different."""
    return comparison.apart_from(ours, recorded, APART)
