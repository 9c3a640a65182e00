"""`kraftline completion bash|zsh|fish`: a script that completes commands, flags and their values.

    source <(kraftline completion bash)
    kraftline completion fish > ~/.config/fish/completions/kraftline.fish

The words come from the commands' own parsers, so that they are never behind. A context is a command
with the subcommands that were given: what can follow depends on it alone.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from cli.arguments import Parser

SHELLS: Final = ("bash", "zsh", "fish")
PARTS: Final = {"jepsen": ("verify", "run"), "sim": ("mutate",)}
"""Words behind which a command has a parser of its own."""
Main = Callable[[Sequence[str]], int]


@dataclass
class Context:
    """What can follow the words of a context; each with its explanation."""

    words: dict[str, str] = field(default_factory=dict)
    """Subcommands, and the values that an argument can have."""
    flags: dict[str, str] = field(default_factory=dict)
    values: dict[str, list[str]] = field(default_factory=dict)
    """Flags that take a value -> the values; empty = a text or a file."""


def run(arguments: Sequence[str]) -> int:
    """Prints the script; returns the exit code."""
    parser = Parser("kraftline completion", "A script that completes commands and flags.")
    parser.add_argument("shell", choices=SHELLS, help="for which shell")
    options = parser.parse_args(arguments)
    make = {"bash": _bash, "zsh": _zsh, "fish": _fish}[options.shell]
    sys.stdout.write(make(contexts()))
    return 0


def contexts() -> dict[str, Context]:
    """Every context by its words with blanks between them; `` is the one without a command."""
    from cli.main import COMMANDS, main  # noqa: PLC0415  # main imports this module by name

    found = {"": Context({name: text for name, (_, text) in COMMANDS.items()})}
    for name in COMMANDS:
        parts = PARTS.get(name, ())
        if name != "jepsen":  # its parts have all the flags
            found.update(_walk(_parser_of([name], main), name))
        for part in parts:
            found.setdefault(name, Context()).words[part] = ""
            found.update(_walk(_parser_of([name, part], main), f"{name} {part}"))
    known = _known_values()
    for context in found.values():
        context.values.update({flag: known[flag] for flag in context.values.keys() & known.keys()})
    return found


def _known_values() -> dict[str, list[str]]:
    """Values of flags whose refusal of others is not argparse's."""
    from cli.acls import OPERATIONS, PATTERNS  # noqa: PLC0415  # help must not wait for them
    from cli.config_entities import TYPES  # noqa: PLC0415
    from cli.leader_election import ELECTION_TYPES  # noqa: PLC0415

    return {
        "--entity-type": list(TYPES),
        "--election-type": list(ELECTION_TYPES),
        "--operation": list(OPERATIONS),
        "--resource-pattern-type": list(PATTERNS),
    }


class _Found(Exception):  # noqa: N818 - a way out, no failure
    def __init__(self, parser: argparse.ArgumentParser) -> None:
        super().__init__()
        self.parser = parser


def _parser_of(words: Sequence[str], main: Main) -> argparse.ArgumentParser:
    """The parser that a command makes; it goes no further than to use it."""

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
    context = Context()
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


def _steps(found: dict[str, Context]) -> list[str]:
    """`context word` for each word that leads into another context."""
    return [f"{path.rpartition(' ')[0]} {path.rpartition(' ')[2]}" for path in found if path != ""]


def _cases(found: dict[str, Context], words: str, free: str, few: str = "") -> str:
    """The branches of a shell's `case "$context $previous"` and, inside, `case "$context"`.

    Args:
        found: all contexts.
        words: the variable that gets the candidates.
        free: what to do where any value is right.
        few: what else to do where the candidates are all that is right.
    """
    lines, texts = [], []
    for path, context in found.items():
        for flag, values in context.values.items():
            if values:
                lines.append(f"    '{path} {flag}') {words}='{' '.join(values)}'{few};;\n")
            else:
                texts.append(f"'{path} {flag}'")
    lines.append(f'    {"|".join(texts)}) {free};;\n    *)\n      case "$context" in\n')
    for path, context in found.items():
        lines.append(
            f"        '{path}') {words}='{' '.join((*context.words, *context.flags))}';;\n"
        )
    return "".join((*lines, "      esac;;\n"))


def _bash(found: dict[str, Context]) -> str:
    steps = "|".join(f"'{step}'" for step in _steps(found))
    return (
        "_kraftline() {\n"
        '  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"\n'
        '  local context="" word words=""\n'
        "  COMPREPLY=()\n"
        '  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do\n'
        '    case "$context $word" in\n'
        f'      {steps}) context="${{context:+$context }}$word";;\n'
        "    esac\n"
        "  done\n"
        '  case "$context $previous" in\n'
        f"{_cases(found, 'words', 'return')}"
        "  esac\n"
        '  COMPREPLY=($(compgen -W "$words" -- "$current"))\n'
        "}\n"
        "complete -o default -F _kraftline kraftline\n"
    )


def _zsh(found: dict[str, Context]) -> str:
    steps = "|".join(f"'{step}'" for step in _steps(found))
    return (
        "#compdef kraftline\n"
        "_kraftline() {\n"
        "  local context='' word candidates='' few='' previous=\"${words[CURRENT-1]}\"\n"
        '  for word in "${(@)words[2,CURRENT-1]}"; do\n'
        '    case "$context $word" in\n'
        f'      {steps}) context="${{context:+$context }}$word";;\n'
        "    esac\n"
        "  done\n"
        '  case "$context $previous" in\n'
        f"{_cases(found, 'candidates', '_files; return', '; few=1')}"
        "  esac\n"
        "  compadd -- ${=candidates}\n"
        '  [[ -z "$context" || -n "$few" || "${words[CURRENT]}" == -* ]] || _files\n'
        "}\n"
        "compdef _kraftline kraftline\n"
    )


def _fish(found: dict[str, Context]) -> str:
    steps = " ".join(f"'{step}'" for step in _steps(found))
    head = (
        "function __kraftline_in\n"
        "  set -l context ''\n"
        "  for word in (commandline -opc)[2..]\n"
        '    switch "$context $word"\n'
        f"      case {steps}\n"
        '        set context (string trim -- "$context $word")\n'
        "    end\n"
        "  end\n"
        '  test "$context" = "$argv"\n'
        "end\n"
    )
    lines = [head]
    for path, context in found.items():
        here = f"complete -c kraftline -n '__kraftline_in {path}'"
        for word, text in context.words.items():
            lines.append(f"{here} -f -a {word}{_explained(text)}\n")
        for flag, text in context.flags.items():
            value = ""
            if flag in context.values:
                choices = context.values[flag]
                value = f" -r -f -a '{' '.join(choices)}'" if choices else " -r -F"
            lines.append(f"{here} -l {flag[2:]}{value}{_explained(text)}\n")
    return "".join(lines)


def _explained(text: str) -> str:
    shown = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", " ")
    return f" -d '{shown}'" if shown else ""
