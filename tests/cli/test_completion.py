"""The scripts of `kraftline completion`, asked by the shells themselves."""

import shutil
import subprocess
from pathlib import Path

import pytest

from cli.completion import SHELLS, WORDS
from cli.completion_words import contexts, text
from cli.main import COMMANDS, main
from tests.peers import is_missing

ASKING = {
    "bash": """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 ))
_kraftline
printf '%s\\n' "${COMPREPLY[@]}"
""",
    "zsh": """
compdef() { }
compadd() { print -l -- "${(@M)@[2,-1]:#${words[CURRENT]}*}" }
_files() { print FILES }
source "$1"; shift
words=("$@"); CURRENT=$#
_kraftline
""",
    "fish": """
source $argv[1]
complete -C (string join ' ' -- $argv[2..])
""",
}
"""Script that asks a shell for the possible values of the last word."""
START = {"bash": ["bash", "-c"], "zsh": ["zsh", "-fc"], "fish": ["fish", "--no-config", "-c"]}


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the script of each shell."""
    folder = tmp_path_factory.mktemp("completion")
    with pytest.MonkeyPatch.context() as patched:
        for shell in SHELLS:
            with (folder / shell).open("w") as file:
                patched.setattr("sys.stdout", file)
                assert main(["completion", shell]) == 0
    return folder


def asked(shell: str, scripts: Path, *words: str) -> set[str]:
    """The candidates for the last word."""
    if shutil.which(shell) is None:
        is_missing(shell)
    name = [] if shell == "fish" else ["completion"]
    done = subprocess.run(
        [*START[shell], ASKING[shell], *name, str(scripts / shell), "kraftline", *words],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        cwd=scripts,
    )
    assert done.stderr == ""
    return {line.split("\t")[0] for line in done.stdout.splitlines() if line}


@pytest.mark.parametrize("shell", SHELLS)
def test_what_each_shell_offers(shell: str, scripts: Path) -> None:
    assert asked(shell, scripts, "to") == {"topics"}
    assert asked(shell, scripts, "") >= COMMANDS.keys()
    assert asked(shell, scripts, "quorum", "d") >= {"describe"}
    flags = asked(shell, scripts, "quorum", "describe", "--")
    own = {"--elections", "--inspection-server"}
    assert flags - own == {"--help", "--json", "--status", "--replication", "--human-readable"}
    assert own < flags
    assert "--mutants" in asked(shell, scripts, "sim", "mutate", "--")
    assert "--time-limit" in asked(shell, scripts, "jepsen", "run", "--")
    assert "--steps" in asked(shell, scripts, "jepsen", "verify", "--")


@pytest.mark.parametrize("shell", SHELLS)
def test_values_of_flags(shell: str, scripts: Path) -> None:
    kinds = asked(shell, scripts, "configs", "--describe", "--entity-type", "c")
    assert kinds == {"clients", "client-metrics"}
    found = asked(shell, scripts, "jepsen", "run", "--reads", "")
    assert found == {"quorum", "linearizable", "local", "uncommitted"}
    after_a_text = set() if shell == "fish" else asked(shell, scripts, "topics", "--topic", "--")
    assert not after_a_text & {"--describe", "--list"}, "any text is a topic"
    assert "--describe" in asked(shell, scripts, "topics", "--topic", "x", "--")


def test_every_command_and_every_part_has_a_context() -> None:
    found = contexts()
    assert found[""].words.keys() == COMMANDS.keys()
    assert {"storage format", "features upgrade", "log", "sim mutate"} <= found.keys()
    for path, context in found.items():
        assert "--help" in context.flags or path in ("", "jepsen"), path
        assert context.values.keys() <= context.flags.keys()


def test_what_is_written_down_is_what_the_commands_say() -> None:
    is_newest = WORDS.read_text(encoding="utf-8") == text()
    assert is_newest, "run `python -m cli.completion_words`: a command has changed its flags"
