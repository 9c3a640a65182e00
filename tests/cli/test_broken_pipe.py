"""Whoever reads our output may leave (`| head`): that is no failure of a file, and no stack."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "golden" / "cli" / "metadata-log" / "static-4.3.1" / "n1"
LOG = max(FOLDER.glob("__cluster_metadata-0/*.log"), key=lambda path: path.stat().st_size)


@pytest.mark.parametrize("is_buffered", [True, False], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize(
    "words",
    [
        ["dump-log", "--cluster-metadata-decoder", "--files", str(LOG)],
        ["dump-log", "--cluster-metadata-decoder", "--json", "--files", str(LOG)],
        ["storage", "random-uuid"],
        ["--help"],
        ["sim", "--seed", "3", "--short", "--trace"],
    ],
    ids=["many lines", "objects", "one line", "help", "trace"],
)
def test_nobody_reads(words: list[str], *, is_buffered: bool) -> None:
    environment = os.environ | {"PYTHONUNBUFFERED": "" if is_buffered else "1"}
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "cli", *words],
        stdout=writing,
        stderr=subprocess.PIPE,
        env=environment,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")
