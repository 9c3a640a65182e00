"""The first output comes at once: help and refusals load neither protocol nor event loop."""

import subprocess
import sys

from cli.main import COMMANDS

HEAVY = (
    "kio",
    "wire",
    "asyncio",
    "inspection",
    "kernel",
    "metadata",
    "node",
    "quorum_controller",
    "raft",
    "storage",
)
SCRIPT = """
import contextlib, io, sys
from cli.main import COMMANDS, main
for words in {words!r}:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        with contextlib.suppress(SystemExit):
            main(words)
    heavy = sorted({{name.partition(".")[0] for name in sys.modules}} & set({heavy!r}))
    if heavy:
        print(words, heavy)
        break
"""


def test_help_and_refusals_load_nothing_heavy() -> None:
    commands = [[name] for name in COMMANDS]
    commands += [["sim", "mutate"], ["jepsen", "verify"], ["jepsen", "run"]]
    words = [[*command, "--help"] for command in commands]
    words += [[*command, "--no-such-flag"] for command in commands]
    words += [["topics", "--list"], ["storage", "random-uuid"], ["sim", "--seeds", "2..1"]]
    words += [["completion", shell] for shell in ("bash", "zsh", "fish")]
    code = SCRIPT.format(words=words, heavy=HEAVY)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == ""
