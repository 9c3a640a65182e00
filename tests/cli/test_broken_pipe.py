"""Readers that leave our output early (`| head`): no failure of a file, and no stack."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from cli.main import main
from tests.selection import thinned

FOLDER = Path(__file__).parent.parent / "golden" / "cli" / "metadata-log" / "static-4.3.1" / "n1"
LOG = max(FOLDER.glob("__cluster_metadata-0/*.log"), key=lambda path: path.stat().st_size)


LONG = pytest.mark.long
"""Of those that a process of its own shows once more."""


@pytest.mark.parametrize("is_buffered", [True, False], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize(
    "words",
    [
        ["dump-log", "--cluster-metadata-decoder", "--files", str(LOG)],
        ["dump-log", "--cluster-metadata-decoder", "--json", "--files", str(LOG)],
        ["storage", "random-uuid"],
        ["--help"],
        pytest.param(["sim", "--seed", "3", "--short", "--trace"], marks=LONG),
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


NO_VERDICT = [
    (["jepsen", "verify", "--model", "register", os.devnull], 2),
    (["jepsen", "check", "FOLDER"], 255),
    (["jepsen", "--help"], 2),
]
"""With what they end where 1 would be a verdict."""


@pytest.fixture
def stored_run(tmp_path: Path) -> str:
    (tmp_path / "history.jsonl").touch()
    test = {"workload": "topic-set", "nemesis": [], "seed": 1, "nodes": 1}
    (tmp_path / "test.json").write_text(json.dumps(test))
    return str(tmp_path)


def ended(words: Sequence[str | bytes], **streams: object) -> tuple[int, bytes]:
    """Exit code and standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "cli", *words],
        check=False,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(("words", "code"), thinned(NO_VERDICT, 3), ids=lambda case: str(case)[:20])
def test_no_verdict_is_told_where_none_can_be_written(
    words: list[str], code: int, stored_run: str
) -> None:
    words = [stored_run if word == "FOLDER" else word for word in words]
    reading, writing = os.pipe()
    os.close(reading)
    assert ended(words, stdout=writing) == (code, b"")
    assert ended(words, stdout=writing, stderr=writing)[0] == code
    os.close(writing)
    with Path("/dev/full").open("wb") as full:
        line = f"kraftline {' '.join(words[:2])}: No space left on device\n"
        assert ended(words, stdout=full) == (code, line.encode())
        assert ended(words, stdout=full, stderr=full)[0] == code
    closed = ["sh", "-c", 'exec "$0" -m cli "$@" >&- 2>&-', sys.executable, *words]
    assert subprocess.run(closed, check=False).returncode == code


@pytest.mark.parametrize(
    ("words", "code", "name"),
    [
        (["--help"], 1, "kraftline --help"),
        (["completion", "bash"], 1, "kraftline completion"),
        pytest.param(["sim", "--seed", "1", "--short", "--json"], 2, "kraftline sim", marks=LONG),
    ],
)
def test_a_full_disk_is_one_line(words: list[str], code: int, name: str) -> None:
    with Path("/dev/full").open("wb") as full:
        line = f"{name}: No space left on device\n"
        assert ended(words, stdout=full) == (code, line.encode())


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (["--help"], 1, "kraftline --help: Bad file descriptor\n"),
        (["storage", "random-uuid"], 1, "kraftline storage: Bad file descriptor\n"),
        (["jepsen", "--help"], 2, "kraftline jepsen --help: Bad file descriptor\n"),
        (["topics", b"\xff"], 1, "an argument is not UTF-8: '\\udcff'\n"),
    ],
    ids=["help", "one line", "no verdict", "nothing to write"],
)
def test_a_closed_output_is_one_line(words: list[str | bytes], code: int, line: str) -> None:
    closed = ["sh", "-c", 'exec "$0" -m cli "$@" >&-', sys.executable, *words]
    done = subprocess.run(closed, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr.decode()) == (code, line)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["jepsen", "verify", b"\xff"], 2),
        (["jepsen", "run", b"\xff"], 254),
        (["jepsen", "check", b"\xff"], 254),
        (["jepsen", b"\xff"], 2),
        (["topics", b"\xff"], 1),
    ],
)
def test_bytes_that_are_no_text_are_a_wrong_command_line(
    words: list[str | bytes], code: int
) -> None:
    assert ended(words) == (code, b"an argument is not UTF-8: '\\udcff'\n")


def test_a_mistake_of_ours_is_no_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(arguments: Sequence[str]) -> int:
        raise ValueError(arguments)

    monkeypatch.setattr("cli.jepsen_run.check_command", broken)
    assert main(["jepsen", "check", "x"]) == 255
    assert capsys.readouterr().err.endswith("kraftline jepsen check: no verdict: ValueError\n")
    monkeypatch.setattr("cli.storage.run", broken)
    with pytest.raises(ValueError, match="x"):
        main(["storage", "x"])
