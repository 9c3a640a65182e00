"""`kraftline completion bash|zsh|fish`: script that completes commands, flags and their values.

    source <(kraftline completion bash)
    kraftline completion fish > ~/.config/fish/completions/kraftline.fish

The words come from the commands' own parsers, written beforehand (cli/completion_words.py), since
loading every command takes ten times as long. A context is a command with the subcommands that
were given: the possible next words depend on it alone.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from cli.arguments import Parser

SHELLS: Final = ("bash", "zsh", "fish")
WORDS: Final = Path(__file__).with_name("completion_words.json")


class Context(NamedTuple):
    """Possible next words in a context, each with its explanation."""

    words: dict[str, str]
    """Subcommands, and the values of positional arguments."""
    flags: dict[str, str]
    values: dict[str, list[str]]
    """Flags that take a value -> the possible values; empty: a text or a file."""


def run(arguments: Sequence[str]) -> int:
    """Print the script and return the exit code."""
    parser = Parser("kraftline completion", "A script that completes commands and flags.")
    parser.add_argument("shell", choices=SHELLS, help="for which shell")
    options = parser.parse_args(arguments)
    make = {"bash": _bash, "zsh": _zsh, "fish": _fish}[options.shell]
    sys.stdout.write(make(written_contexts()))
    return 0


def written_contexts() -> dict[str, Context]:
    """Every context by its words, separated by blanks; the empty key has no command."""
    written = json.loads(WORDS.read_text(encoding="utf-8"))
    return {path: Context(**fields) for path, fields in written.items()}


def _steps(found: dict[str, Context]) -> list[str]:
    """`context word` for each word that opens another context."""
    return [f"{path.rpartition(' ')[0]} {path.rpartition(' ')[2]}" for path in found if path != ""]


def _cases(found: dict[str, Context], words: str, free: str, few: str = "") -> str:
    """The branches of a shell's `case "$context $previous"` and, inside, of `case "$context"`.

    Args:
        found: all contexts.
        words: the variable for the candidates.
        free: command where any value is allowed.
        few: additional command where only the candidates are allowed.
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
