"""Outputs of Kafka's own command line tools, 330 of them: `SCENARIO/NAME` -> one run."""

import gzip
import json
from functools import cache
from pathlib import Path

import msgspec

FOLDER = Path(__file__).resolve().parent.parent / "golden" / "cli"


class Recorded(msgspec.Struct, frozen=True):
    """One run of a tool."""

    name: str
    tool: str
    args: list[str]
    exit: int
    stdout: str
    stderr: str

    @property
    def command(self) -> str:
        """The class of the tool, without its package."""
        return self.tool.rpartition(".")[2]

    @property
    def scenario(self) -> str:
        return self.name.partition("/")[0]


@cache
def outputs() -> dict[str, Recorded]:
    """All runs by name."""
    lines = gzip.decompress((FOLDER / "outputs.jsonl.gz").read_bytes()).splitlines()
    found = [msgspec.convert(json.loads(line), Recorded) for line in lines]
    return {run.name: run for run in found}


@cache
def data_others() -> dict[str, Recorded]:
    """The runs of other tools beside those for records: of `data-4.3.1`, by name."""
    lines = gzip.decompress((FOLDER / "data-others.jsonl.gz").read_bytes()).splitlines()
    found = [msgspec.json.decode(line, type=Recorded) for line in lines]
    return {run.name: run for run in found}


class Verdict(msgspec.Struct, frozen=True):
    """Verdict on one run; a test checks that it is true."""

    verdict: str
    """equal, apart (equal apart from things), own times, differs, no answer, no command.

    own times: equal, but the times are those of the very output (`table` is itself); no answer:
    not run, nothing recorded says what the cluster answered.
    """
    apart: list[str] = msgspec.field(default_factory=list, name="from")
    why: str = ""
    offset: int | None = None
    """The end of the recorded log when the command ran; None: anywhere.

    Of a change with `records` it is no choice: tests/cli/bind_offsets.py finds the one place.
    """
    records: int | None = None
    """Of a change: how many records it wrote; they are the very next of Kafka's log."""
    is_any_order: bool = False
    """The records of one request are in the order of a Java hash map."""
    prepared: list[list[str]] = []
    """Command lines that come first."""
    frame: int | None = None
    """The recorded exchange of the quorum that answers: its time in wire/all-pairs.jsonl.xz."""
    table: str | None = None
    """The output that has the times of the answer: quorum_answers.py."""


@cache
def verdicts() -> dict[str, Verdict]:
    """By the name of the run."""
    content = (FOLDER / "verdicts.json").read_bytes()
    return msgspec.json.decode(content, type=dict[str, Verdict])
