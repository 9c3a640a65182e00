"""Words of `kraftline completion`, taken from the parsers of all commands.

python -m cli.completion_words    writes cli/completion_words.json
"""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NoReturn

from cli.admin.acls import OPERATIONS, PATTERNS
from cli.admin.config_entities import TYPES
from cli.admin.leader_election import ELECTION_TYPES
from cli.completion import WORDS, Context
from cli.main import COMMANDS, main

PARTS: Final = {"jepsen": ("verify", "run", "check"), "sim": ("mutate", "records")}
"""Words after a command that have a parser of their own."""
ONLY_PARTS: Final = frozenset({"jepsen"})
"""Commands whose parts together have all the flags."""
Main = Callable[[Sequence[str]], int]


def text() -> str:
    """Content of the file."""
    found = {path: context._asdict() for path, context in contexts().items()}
    return json.dumps(found, indent=1) + "\n"


def contexts() -> dict[str, Context]:
    """Every context by its words, separated by blanks; the empty key has no command."""
    found = {"": _context({name: text for name, (_, text) in COMMANDS.items()})}
    for name in COMMANDS:
        for part in PARTS.get(name, ()):
            found.setdefault(name, _context()).words[part] = ""
        for path, parser in parsers(name):
            words = found[path].words if path in found else {}
            found[path] = _context_of(parser)
            found[path].words.update(words)
    known = _known_values()
    for context in found.values():
        context.values.update({flag: known[flag] for flag in context.values.keys() & known.keys()})
    return found


def parsers(name: str) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """The parser of a command and those of its subcommands, each with its words."""
    if name not in ONLY_PARTS:
        yield from _with_inner(_parser_of([name], main), name)
    for part in PARTS.get(name, ()):
        yield from _with_inner(_parser_of([name, part], main), f"{name} {part}")


def _known_values() -> dict[str, list[str]]:
    """Values of flags that are checked by the commands, not by argparse."""
    return {
        "--entity-type": list(TYPES),
        "--election-type": list(ELECTION_TYPES),
        "--operation": list(OPERATIONS),
        "--resource-pattern-type": list(PATTERNS),
    }


class _Found(BaseException):  # a way out, not a failure
    def __init__(self, parser: argparse.ArgumentParser) -> None:
        super().__init__()
        self.parser = parser


def _parser_of(words: Sequence[str], main: Main) -> argparse.ArgumentParser:
    """The parser that a command builds; the command stops at its first use."""

    def found(self: argparse.ArgumentParser, *_: Any, **__: Any) -> NoReturn:
        raise _Found(self)

    kind = argparse.ArgumentParser
    saved = kind.parse_args
    kind.parse_args = found  # type: ignore[method-assign]
    try:
        main(words)
    except _Found as caught:
        return caught.parser
    finally:
        kind.parse_args = saved  # type: ignore[method-assign]
    raise AssertionError(f"{words=} parse nothing")


def _with_inner(
    parser: argparse.ArgumentParser, path: str
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    yield path, parser
    for action in parser._actions:  # noqa: SLF001 - argparse tells its actions to nobody
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for name, inner in action.choices.items():
                yield from _with_inner(inner, f"{path} {name}")


def _context_of(parser: argparse.ArgumentParser) -> Context:
    context = _context()
    formatter = parser._get_formatter()  # noqa: SLF001
    for action in parser._actions:  # noqa: SLF001
        text = formatter._expand_help(action) if action.help else ""  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for name, inner in action.choices.items():
                context.words[name] = inner.description or ""
        elif not action.option_strings:
            context.words.update({str(choice): "" for choice in action.choices or ()})
        else:
            for flag in action.option_strings:
                if not flag.startswith("--"):
                    continue
                context.flags[flag] = text
                if action.nargs != 0:
                    context.values[flag] = [str(choice) for choice in action.choices or ()]
    return context


def _context(words: dict[str, str] | None = None) -> Context:
    return Context(words={} if words is None else words, flags={}, values={})


if __name__ == "__main__":
    WORDS.write_text(text(), encoding="utf-8")
