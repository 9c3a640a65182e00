"""Scenarios with golden text: commands, `----`, and the exact output that they must give.

A file begins with a comment that says what is shown and where that is specified. Then come blocks,
separated by blank lines: comment lines, command lines, `----`, output lines. `quietly` before a
command suppresses its output, so that the golden part shows only what the scenario is about; a
block without output says `ok`. A command is a word, arguments, and options `name=value`.

The folder of the file names the environment that understands the commands (`ENVIRONMENTS`):
`tests/scenarios/raft/vote_of_older_epoch.txt` runs in `simulator.scenarios.raft`.

    python -m simulator.scenarios.scenario tests/scenarios            # run, print the differences
    python -m simulator.scenarios.scenario --rewrite tests/scenarios  # store, to be reviewed

Source of the form: cockroachdb/datadriven as etcd-io/raft uses it (testdata/*.txt).
"""

import argparse
import difflib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec

from simulator.scenarios.command import Command, ScenarioError, parse_command
from simulator.scenarios.controller import ControllerScenario
from simulator.scenarios.raft import RaftScenario
from simulator.scenarios.records import RecordsScenario

SEPARATOR: Final = "----"
NOTHING: Final = "ok"


class Environment(Protocol):
    """Interpreter of commands; it lives as long as the scenario."""

    def run(self, command: Command) -> list[str]:
        """Perform the command; return its output, one line each.

        Raises:
            ScenarioError: the command is unknown or cannot be performed.
        """
        ...


ENVIRONMENTS: Final[dict[str, Callable[[], Environment]]] = {
    "controller": ControllerScenario,
    "raft": RaftScenario,
    "records": RecordsScenario,
}
"""Folder name -> environment."""


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """Commands and the output that they must give together."""

    line_number: int
    """Number of the block's first line, counted from 1."""
    comments: tuple[str, ...]
    commands: tuple[str, ...]
    expected: tuple[str, ...]


def parse_scenario(text: str) -> tuple[Block, ...]:
    """Split a file into blocks; one without commands is a comment.

    Raises:
        ScenarioError: a block has commands but no `----`.
    """
    return tuple(_parse_block(number, lines) for number, lines in _paragraphs(text))


def _paragraphs(text: str) -> Iterator[tuple[int, list[str]]]:
    """Runs of non-blank lines, each with the number of its first line."""
    lines: list[str] = []
    number = 0
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            lines.append(line.rstrip())
        elif lines:
            yield number - len(lines), lines
            lines = []
    if lines:
        yield number + 1 - len(lines), lines


def _parse_block(line_number: int, lines: list[str]) -> Block:
    """Split one paragraph at its separator."""
    comments = [line for line in lines if line.startswith("#")]
    rest = lines[len(comments) :]
    if rest and SEPARATOR not in rest:
        raise ScenarioError(f"line {line_number}: commands without {SEPARATOR!r}: {rest[0]!r}")
    end = rest.index(SEPARATOR) if rest else 0
    assert lines[: len(comments)] == comments, f"line {line_number}: comments stand before commands"
    return Block(
        line_number=line_number,
        comments=tuple(comments),
        commands=tuple(rest[:end]),
        expected=tuple(rest[end + 1 :]),
    )


def run_scenario(text: str, environment: Environment) -> str:
    """Return the scenario with the present output as the expected one.

    Raises:
        ScenarioError: a command is malformed, unknown or impossible; the message has its line.
    """
    paragraphs = []
    for block in parse_scenario(text):
        lines = [*block.comments, *block.commands]
        if block.commands:
            lines += [SEPARATOR, *(_run_block(block, environment) or [NOTHING])]
        paragraphs.append("\n".join(lines))
    return "\n\n".join(paragraphs) + "\n"


def _run_block(block: Block, environment: Environment) -> list[str]:
    """Run the commands of one block; return their output."""
    output: list[str] = []
    for index, line in enumerate(block.commands):
        line_number = block.line_number + len(block.comments) + index
        try:
            command = parse_command(line)
            said = environment.run(command)
            command.check_all_used()
        except ScenarioError as error:
            raise ScenarioError(f"line {line_number}: {line!r}: {error}") from error
        if not command.is_quiet:
            output += said
    assert all(said.strip() for said in output), "an empty line would end the block"
    return output


def environment_of(path: Path) -> Environment:
    """Make a fresh environment for the scenario file.

    Raises:
        ScenarioError: no environment has the name of the folder.
    """
    name = path.parent.name
    if name not in ENVIRONMENTS:
        allowed = ", ".join(sorted(ENVIRONMENTS))
        raise ScenarioError(f"{path}: no environment {name!r}, allowed folders: {allowed}")
    return ENVIRONMENTS[name]()


def difference(path: Path) -> str:
    """Unified diff from the expected output to the actual one; empty when they agree."""
    text = path.read_text(encoding="utf-8")
    actual = run_scenario(text, environment_of(path))
    lines = difflib.unified_diff(
        text.splitlines(), actual.splitlines(), f"{path} expected", f"{path} actual", lineterm=""
    )
    return "\n".join(lines)


def rewrite(path: Path) -> bool:
    """Store the actual output as expected; True if the file changed."""
    text = path.read_text(encoding="utf-8")
    actual = run_scenario(text, environment_of(path))
    if actual != text:
        path.write_text(actual, encoding="utf-8")
    return actual != text


def scenario_files(paths: Sequence[Path]) -> list[Path]:
    """Files named, and those below the folders named, in a fixed order."""
    files: set[Path] = set()
    for path in paths:
        files.update(path.rglob("*.txt") if path.is_dir() else [path])
    return sorted(files)


def main(arguments: Sequence[str]) -> int:
    """Run or rewrite scenarios; 0 when all agree, 1 when one differs, 2 for a broken file."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {__package__}.scenario", description=main.__doc__
    )
    parser.add_argument("--rewrite", action="store_true", help="store the output as expected")
    parser.add_argument("paths", nargs="+", type=Path, metavar="FILE", help="files or folders")
    options = parser.parse_args(arguments)
    exit_code = 0
    for path in scenario_files(options.paths):
        try:
            report = _report(path, is_rewriting=options.rewrite)
        except ScenarioError as error:
            sys.stderr.write(f"{path}: {error}\n")
            exit_code = 2
            continue
        if report:
            sys.stdout.write(report + "\n")
            exit_code = max(exit_code, 0 if options.rewrite else 1)
    return exit_code


def _report(path: Path, *, is_rewriting: bool) -> str:
    """Report on one file; empty when there is nothing to report."""
    if is_rewriting:
        return f"{path} rewritten" if rewrite(path) else ""
    return difference(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
