"""Every flag and argument of every command with every odd value: one clear line, exit code 1 or 2.

Walked from the parsers themselves, so that a new flag is tested without a change here.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from cli.arguments import Parser
from cli.main import COMMANDS, main

WALKED = sorted(COMMANDS.keys() - {"jepsen", "sim"})
"""The two others run for long where a value happens to be right; they have tests of their own."""
TEXTS = (
    "", " ", "x", "-1", "0", "1.5", "9" * 50, "9" * 5000, "\u0661", "a=b", "=", ",", "x" * 40_000,
    "a\nb", "/no/such/file", "[(", "\udcff",
)  # fmt: skip
FIRST_LINE_MAX = 900
NOBODY = ("--bootstrap-server", "127.0.0.1:1")


class Found(Exception):  # noqa: N818 - a way out, no failure
    """Carries the parser of a command."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        super().__init__()
        self.parser = parser


def parser_of(command: str, words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser that reads these words of a command."""

    def found(self: argparse.ArgumentParser, *_: object, **__: object) -> None:
        raise Found(self)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Parser, "parse_args", found)
        patched.setattr(Parser, "parse_known_args", found)
        with pytest.raises(Found) as caught:
            main([command, *words])
    return caught.value.parser


def walk(
    parser: argparse.ArgumentParser, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], argparse.Action]]:
    """Every flag and argument that takes a value, behind the words of its subcommand."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield from walk(inner, (*words, name))
        elif action.nargs != 0:
            yield words, action


def flags() -> Iterator[tuple[str, tuple[str, ...], argparse.Action]]:
    for command in WALKED:
        for words, action in walk(parser_of(command, ())):
            yield command, words, action


CASES = [
    pytest.param(command, words, action, id=" ".join((command, *words, action.dest)))
    for command, words, action in flags()
]


def run(words: list[str]) -> int:
    try:
        return main(words)
    except SystemExit as left:
        return int(left.code or 0)


def lines_of(command: str, words: tuple[str, ...], action: argparse.Action, text: str) -> list[str]:
    """A command line with this value; without a value that begins with a dash as one word."""
    root = parser_of(command, ())
    here = [flag for flag in root._option_string_actions if flag == NOBODY[0]]
    nobody = NOBODY if here and action.dest not in ("bootstrap_server", "help") else ()
    given = [f"{action.option_strings[-1]}={text}"] if action.option_strings else [text]
    if action.option_strings and action.option_strings[-1] in root._option_string_actions:
        return [command, *nobody, *given, *words]
    return [command, *nobody, *words, *given]


@pytest.mark.parametrize(("command", "words", "action"), CASES)
def test_an_odd_value_is_one_clear_line(
    command: str,
    words: tuple[str, ...],
    action: argparse.Action,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for text in TEXTS:
        code = run(lines_of(command, words, action, text))
        shown = capsys.readouterr()
        said = shown.err or shown.out
        assert code in (0, 1, 2), text[:80]
        assert "Traceback" not in shown.err
        if code:
            assert said.strip(), text[:80]
            assert len(said.splitlines()[0]) <= FIRST_LINE_MAX, text[:80]
    assert list(tmp_path.iterdir()) == [], "something was written before the refusal"


NUMBERS = [case for case in CASES if getattr(case.values[2].type, "__name__", "") == "parse"]


@pytest.mark.parametrize(("command", "words", "action"), NUMBERS)
def test_a_number_that_is_none_names_its_flag(
    command: str,
    words: tuple[str, ...],
    action: argparse.Action,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for text in ("", " ", "x", "1.5", "9" * 50, "9" * 5000, "0x1", "1 2"):
        assert run(lines_of(command, words, action, text)) in (1, 2)
        first = capsys.readouterr().err.splitlines()[0]
        assert "is not a whole number from" in first
        assert (action.option_strings or [action.dest])[-1].lower() in first.lower()


@pytest.mark.parametrize("command", WALKED)
def test_unknown_flags_are_refused(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    for flag in ("--nonsense", "--", "-", "---", "--\u00e9", "--" + "x" * 5000):
        assert run([command, flag]) in (1, 2), flag[:20]
        assert capsys.readouterr().err.strip()
