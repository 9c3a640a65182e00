"""The interpreters that `scripts/test --all` finds beside that of `.venv`."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
OWN = f"{sys.version_info.major}.{sys.version_info.minor}"
OTHERS = [version for version in ("3.11", "3.12", "3.13") if version != OWN]


def write_interpreter(path: Path, exit_code: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\nexit {exit_code}\n")
    path.chmod(0o755)
    return path


def found(tmp_path: Path) -> list[list[str]]:
    script = (
        f'ROOT={ROOT}; . "$ROOT/scripts/environment.sh"; PYTHON={sys.executable}; other_pythons'
    )
    done = subprocess.run(
        ["bash", "-c", script],
        env={"PATH": f"{tmp_path}/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return [line.split() for line in done.stdout.splitlines()]


def test_every_other_version_on_the_path_is_found_once(tmp_path: Path) -> None:
    paths = {v: write_interpreter(tmp_path / "bin" / f"python{v}", 0) for v in (*OTHERS, OWN)}
    for version in OTHERS:
        write_interpreter(tmp_path / f".pyenv/versions/{version}.1/bin/python{version}", 0)
    assert found(tmp_path) == [[version, str(paths[version])] for version in OTHERS]


def test_a_shim_that_runs_nothing_gives_way_to_pyenv_s_version(tmp_path: Path) -> None:
    version = OTHERS[0]
    write_interpreter(tmp_path / "bin" / f"python{version}", 127)
    path = write_interpreter(tmp_path / f".pyenv/versions/{version}.9/bin/python{version}", 0)
    assert found(tmp_path) == [[version, str(path)]]


@pytest.mark.parametrize("exit_code", [1, 127])
def test_none_that_cannot_make_an_environment_is_found(tmp_path: Path, exit_code: int) -> None:
    for version in OTHERS:
        write_interpreter(tmp_path / "bin" / f"python{version}", exit_code)
    assert found(tmp_path) == []
