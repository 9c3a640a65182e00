"""`kraftline completion bash|zsh|fish`: a script that completes commands and flags.

    source <(kraftline completion bash)
    kraftline completion fish > ~/.config/fish/completions/kraftline.fish

The words come from the commands' own help, so that they are never behind.
"""

import contextlib
import io
import re
import sys
from collections.abc import Callable, Sequence
from typing import Final

from cli.arguments import Parser

SHELLS: Final = ("bash", "zsh", "fish")
_FLAG: Final = re.compile(r"(?<![\w-])--[a-z][a-z.-]+")
_CHOICES: Final = re.compile(r"\{([a-z-]+(?:,[a-z-]+)*)\}")
_SUBCOMMANDS: Final = re.compile(r"^  \{([a-z,-]+)\}$", re.MULTILINE)


def run(arguments: Sequence[str]) -> int:
    """Prints the script; returns the exit code."""
    parser = Parser("kraftline completion", "A script that completes commands and flags.")
    parser.add_argument("shell", choices=SHELLS, help="for which shell")
    options = parser.parse_args(arguments)
    from cli.main import COMMANDS, main  # noqa: PLC0415  # main imports this module by name

    table = {name: words_of(name, main) for name in COMMANDS if name != "completion"} | {
        "completion": list(SHELLS)
    }
    texts = {name: text for name, (_, text) in COMMANDS.items()}
    make = {"bash": _bash, "zsh": _zsh, "fish": _fish}[options.shell]
    sys.stdout.write(make(table, texts))
    return 0


def words_of(command: str, main: Callable[[Sequence[str]], int]) -> list[str]:
    """Subcommands and flags of a command, by its help and that of its subcommands."""
    text = _help([command], main)
    names = [name for found in _SUBCOMMANDS.findall(text) for name in found.split(",")]
    choices = [name for found in _CHOICES.findall(text) for name in found.split(",")]
    flags = list(_FLAG.findall(text))
    for name in dict.fromkeys(names):
        flags += _FLAG.findall(_help([command, name], main))
    return list(dict.fromkeys([*names, *choices, *flags]))


def _help(words: Sequence[str], main: Callable[[Sequence[str]], int]) -> str:
    shown = io.StringIO()
    with (
        contextlib.redirect_stdout(shown),
        contextlib.redirect_stderr(shown),
        contextlib.suppress(SystemExit),
    ):
        main([*words, "--help"])
    return shown.getvalue()


def _cases(table: dict[str, list[str]]) -> str:
    return "".join(f"    {name}) words='{' '.join(words)}';;\n" for name, words in table.items())


def _bash(table: dict[str, list[str]], _texts: dict[str, str]) -> str:
    return (
        "_kraftline() {\n"
        '  local words="" current="${COMP_WORDS[COMP_CWORD]}"\n'
        '  if [ "$COMP_CWORD" -eq 1 ]; then\n'
        f"    words='{' '.join(table)}'\n"
        "  else\n"
        '    case "${COMP_WORDS[1]}" in\n'
        f"{_cases(table)}"
        "    esac\n"
        "  fi\n"
        '  COMPREPLY=($(compgen -W "$words" -- "$current"))\n'
        "}\n"
        "complete -o default -F _kraftline kraftline\n"
    )


def _zsh(table: dict[str, list[str]], _texts: dict[str, str]) -> str:
    cases = _cases(table).replace("words='", "candidates='")
    return (
        "#compdef kraftline\n"
        "_kraftline() {\n"
        "  local candidates=''\n"
        "  if (( CURRENT == 2 )); then\n"
        f"    compadd -- {' '.join(table)}\n"
        "    return\n"
        "  fi\n"
        '  case "${words[2]}" in\n'
        f"{cases}"
        "  esac\n"
        "  compadd -- ${=candidates}\n"
        "  _files\n"
        "}\n"
        "compdef _kraftline kraftline\n"
    )


def _fish(table: dict[str, list[str]], texts: dict[str, str]) -> str:
    lines = []
    for name, words in table.items():
        text = texts[name].replace("'", "\\'")
        lines.append(f"complete -c kraftline -n __fish_use_subcommand -f -a {name} -d '{text}'\n")
        seen = f"-n '__fish_seen_subcommand_from {name}'"
        for word in words:
            option = f"-l {word[2:]}" if word.startswith("--") else f"-f -a {word}"
            lines.append(f"complete -c kraftline {seen} {option}\n")
    return "".join(lines)
