"""Every flag and argument of every command with every odd value: one clear line, exit code 1 or 2.

Walked from the parsers themselves, so that a new flag is tested without a change here.
"""

import argparse
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.main import COMMANDS, main
from tests.selection import one_of_each

DIVIDED = (
    ("jepsen", "run"),
    ("jepsen", "check"),
    ("jepsen", "verify"),
    ("sim",),
    ("sim", "mutate"),
    ("sim", "records"),
)
"""Commands with a parser for each of their parts."""
WALKED = sorted({(name,) for name in COMMANDS} - {(words[0],) for words in DIVIDED} | set(DIVIDED))
ENDS = {
    ("dev",): ("--nodes", "0"),
    ("jepsen", "run"): ("--workload", "register", "--nodes", "0"),
    ("jepsen", "check"): ("/no/such/folder",),
    ("jepsen", "verify"): ("--model", "register", "--steps", "0", "/no/such/file"),
    ("sim",): ("--nodes", "0"),
    ("sim", "mutate"): ("--jobs", "0"),
    ("sim", "records"): ("--seeds", "2..1"),
}
"""Behind the value: refused as well, so that nothing runs for long where a value is right."""
REFUSALS = (0, 1, 2, 254)
TEXTS = (
    "", " ", "x", "-1", "0", "1.5", "9" * 50, "9" * 5000, "\u0661", "a=b", "=", ",", "x" * 40_000,
    "a\nb", "/no/such/file", "[(", "\udcff", "nan", "inf", "1e308", "1e308s", "M\u00b2",
    "0..99999999999", "0..18446744073709551616",
)  # fmt: skip
FIRST_LINE_MAX = 900
NOBODY = ("--bootstrap-server", "127.0.0.1:1")


class Found(BaseException):  # a way out, no failure
    """Carries the parser of a command."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        super().__init__()
        self.parser = parser


def parser_of(command: tuple[str, ...]) -> argparse.ArgumentParser:
    """The parser that reads what follows the words of a command."""

    def found(self: argparse.ArgumentParser, *_: object, **__: object) -> None:
        raise Found(self)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(argparse.ArgumentParser, "parse_args", found)
        patched.setattr(argparse.ArgumentParser, "parse_known_args", found)
        with pytest.raises(Found) as caught:
            main(list(command))
    return caught.value.parser


cached_parser_of = functools.cache(parser_of)
"""Only to look at."""


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


def flags() -> Iterator[tuple[tuple[str, ...], tuple[str, ...], argparse.Action]]:
    for command in WALKED:
        for words, action in walk(parser_of(command)):
            yield command, words, action


CASES = [
    pytest.param(command, words, action, id=" ".join((*command, *words, action.dest)))
    for command, words, action in flags()
]


def run(words: list[str]) -> int:
    try:
        return main(words)
    except SystemExit as left:
        return int(left.code or 0)


def lines_of(
    command: tuple[str, ...], words: tuple[str, ...], action: argparse.Action, text: str
) -> list[str]:
    """A command line with this value; without a value that begins with a dash as one word."""
    root = cached_parser_of(command)
    here = [flag for flag in root._option_string_actions if flag == NOBODY[0]]
    nobody = NOBODY if here and action.dest not in ("bootstrap_server", "help") else ()
    given = [f"{action.option_strings[-1]}={text}"] if action.option_strings else [text]
    end = () if action.dest == "mutants" else ENDS.get(command, ())
    if action.option_strings and action.option_strings[-1] in root._option_string_actions:
        return [*command, *nobody, *given, *words, *end]
    return [*command, *nobody, *words, *given, *end]


@pytest.mark.parametrize(
    ("command", "words", "action"), one_of_each(CASES, lambda case: case.values[0])
)
def test_an_odd_value_is_one_clear_line(
    command: tuple[str, ...],
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
        assert code in REFUSALS, text[:80]
        assert code or command not in ENDS, "the end of the line is refused in any case"
        assert "Traceback" not in shown.err
        if code:
            assert said.strip(), text[:80]
            assert len(said.splitlines()[0]) <= FIRST_LINE_MAX, text[:80]
    assert list(tmp_path.iterdir()) == [], "something was written before the refusal"


NUMBERS = [case for case in CASES if getattr(case.values[2].type, "__name__", "") == "parse"]


@pytest.mark.parametrize(
    ("command", "words", "action"), one_of_each(NUMBERS, lambda case: case.values[0])
)
def test_a_number_that_is_none_names_its_flag(
    command: tuple[str, ...],
    words: tuple[str, ...],
    action: argparse.Action,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for text in ("", " ", "x", "1.5", "9" * 50, "9" * 5000, "0x1", "1 2"):
        assert run(lines_of(command, words, action, text)) in (1, 2, 254)
        first = capsys.readouterr().err.splitlines()[0]
        assert "is not a whole number from" in first
        assert (action.option_strings or [action.dest])[-1].lower() in first.lower()


@pytest.mark.parametrize("command", WALKED)
def test_unknown_flags_are_refused(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    for flag in ("--nonsense", "--", "-", "---", "--\u00e9", "--" + "x" * 5000):
        end = () if flag == "--" else ENDS.get(command, ())
        words = [*command, flag, *end] if command != ("sim",) or end else ["sim", "--nodes"]
        assert run(words) in (1, 2, 254), flag[:20]
        shown = capsys.readouterr().err
        assert shown.strip()
        assert len(shown.splitlines()[0]) <= FIRST_LINE_MAX, flag[:20]


HISTORY = '{"process":0,"type":"invoke","f":"read"}\n{"process":0,"type":"ok","f":"read"}\n'
FILES = [
    ("sim --seed 1 --short --html", 2),
    ("sim --seed 1 --short --ledger", 2),
    ("sim --schedule", 2),
    ("jepsen verify --model register history.jsonl --html", 2),
    ("jepsen run --workload register --dir", 255),
]


@pytest.mark.parametrize(("command", "code"), FILES)
def test_a_file_that_cannot_be_is_refused_before_the_work(
    command: str,
    code: int,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "history.jsonl").write_text(HISTORY)
    for name in ("", ".", "history.jsonl/file", "x" * 5_000, "x" * 40_000):
        got = run([*command.split(), name])
        shown = capsys.readouterr()
        assert got in (code, 254), name[:80]
        assert shown.out == ""
        first = shown.err.splitlines()[0]
        assert "Traceback" not in shown.err
        assert len(first) <= FIRST_LINE_MAX
    assert [path.name for path in tmp_path.iterdir()] == ["history.jsonl"]
