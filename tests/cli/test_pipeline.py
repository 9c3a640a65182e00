"""`kraftline pipeline` is scripts/pipeline: the same jobs, flags and exit codes."""

from pathlib import Path

import pytest

from cli.main import main


def test_a_job_runs_with_its_flags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["pipeline", "audit", "--input", str(tmp_path / "none"), "--dry-run"]
    assert main(command) == 2
    line = f"pipeline audit: {tmp_path}/none: no such file or directory\n"
    assert capsys.readouterr().err == line


def test_help_names_the_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["pipeline", "--help"])
    assert ended.value.code == 0
    assert "linearize" in capsys.readouterr().out
