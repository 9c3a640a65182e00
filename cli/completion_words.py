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
Main = Callable[[Sequence[str]], int]


def text() -> str:
    """Content of the file."""
    found = {path: context._asdict() for path, context in contexts().items()}
    return json.dumps(found, indent=1) + "\n"


def contexts() -> dict[str, Context]:
    """Every context by its words, separated by blanks; the empty key has no command."""
    found = {"": _context({name: text for name, (_, text) in COMMANDS.items()})}
    for name in COMMANDS:
        parts = PARTS.get(name, ())
        if name != "jepsen":  # its parts together have all the flags
            found.update(_walk(_parser_of([name], main), name))
        for part in parts:
            found.setdefault(name, _context()).words[part] = ""
            found.update(_walk(_parser_of([name, part], main), f"{name} {part}"))
    known = _known_values()
    for context in found.values():
        context.values.update({flag: known[flag] for flag in context.values.keys() & known.keys()})
    return found


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


def _walk(parser: argparse.ArgumentParser, path: str) -> Iterator[tuple[str, Context]]:
    context = _context()
    yield path, context
    formatter = parser._get_formatter()  # noqa: SLF001 - argparse tells its actions to nobody
    for action in parser._actions:  # noqa: SLF001
        text = formatter._expand_help(action) if action.help else ""  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for name, inner in action.choices.items():
                context.words[name] = inner.description or ""
                yield from _walk(inner, f"{path} {name}")
        elif not action.option_strings:
            context.words.update({str(choice): "" for choice in action.choices or ()})
        else:
            for flag in action.option_strings:
                if not flag.startswith("--"):
                    continue
                context.flags[flag] = text
                if action.nargs != 0:
                    context.values[flag] = [str(choice) for choice in action.choices or ()]


def _context(words: dict[str, str] | None = None) -> Context:
    return Context(words={} if words is None else words, flags={}, values={})


if __name__ == "__main__":
    WORDS.write_text(text(), encoding="utf-8")
