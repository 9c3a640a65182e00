"""docs/reference/commands.md: all commands with their arguments and flags, from their parsers."""

import argparse
from collections.abc import Iterator
from typing import Final

from cli.completion_words import parsers
from cli.main import COMMANDS
from scripts.reference.markdown import code, page, table

COLUMNS: Final = ("argument", "value", "default", "what")
VALUES_MAX: Final = 12
"""Of an argument with more values the name of the value is shown alone."""


def text() -> str:
    """The page."""
    return page(
        "Commands",
        "`kraftline COMMAND`, or `python -m kraftline COMMAND`. What each does beside Kafka's tool "
        "of the same purpose, and its exit codes: [command line](../cli.md). All of them "
        "understand `--help`.",
        table(
            ("command", "what"),
            ((f"[{code(name)}](#{name})", text) for name, (_, text) in COMMANDS.items()),
        ),
        *(part for name in COMMANDS for part in _command(name)),
    )


def _command(name: str) -> Iterator[str]:
    yield f"## {name}"
    yield f"{_sentence(COMMANDS[name][1])}"
    for path, parser in parsers(name):
        if path != name:
            yield f"### {path}"
            if parser.description:
                yield _sentence(parser.description.splitlines()[0])
        rows = list(_rows(parser))
        if rows:
            yield table(COLUMNS, rows)


def _rows(parser: argparse.ArgumentParser) -> Iterator[tuple[str, ...]]:
    formatter = parser._get_formatter()  # noqa: SLF001 - argparse tells its actions to nobody
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, argparse._HelpAction | argparse._SubParsersAction):  # noqa: SLF001
            continue
        if action.help is argparse.SUPPRESS:
            continue
        help_text = formatter._expand_help(action) if action.help else ""  # noqa: SLF001
        names = ", ".join(map(code, action.option_strings)) or code(_name(action))
        yield names, _value(action), _default(action), " ".join(help_text.split())


def _value(action: argparse.Action) -> str:
    """The value of a flag or an argument; nothing where there is none, or anything may be."""
    if action.nargs == 0:
        return ""
    choices = [str(choice) for choice in action.choices or ()]
    found = [", ".join(map(code, choices))] if 0 < len(choices) <= VALUES_MAX else []
    if action.option_strings and not found:
        found = [code(_name(action))]
    if action.nargs in {"+", "*"} or isinstance(action, argparse._AppendAction):  # noqa: SLF001
        found.append("several")
    return ", ".join(found)


def _name(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    return action.dest.upper()


def _default(action: argparse.Action) -> str:
    if action.required and action.option_strings:
        return "required"
    if action.default in (None, False, argparse.SUPPRESS, [], ()) or action.nargs == 0:
        return ""
    return code(str(action.default))


def _sentence(words: str) -> str:
    """Words as a sentence."""
    end = "" if words.endswith(".") else "."
    return f"{words[:1].upper()}{words[1:]}{end}"
