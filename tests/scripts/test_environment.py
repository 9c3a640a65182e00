"""The interpreter of `.venv`, and those that `scripts/test --all` finds beside it."""

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


def write_timed(path: Path, loop_us: int, *, exit_code: int = 0) -> Path:
    """An interpreter that takes `loop_us` for the loop, and leaves any other program so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\n[ "$1" = - ] && echo {loop_us} && exit 0\nexit {exit_code}\n')
    path.chmod(0o755)
    return path


def run_environment(
    tmp_path: Path, command: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    sourced = f'ROOT={ROOT}; . "$ROOT/scripts/environment.sh"'
    places = f"SYSTEM_PYTHON={tmp_path}/system/python3; VENV={tmp_path}/venv"
    return subprocess.run(
        ["bash", "-c", f"{sourced}; {places}; {command}"],
        env={"PATH": f"{tmp_path}/bin:/bin", "HOME": str(tmp_path), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_system_s_python_that_is_a_tenth_quicker_is_used_and_named(tmp_path: Path) -> None:
    write_timed(tmp_path / "bin" / "python3", 1000)
    system = write_timed(tmp_path / "system" / "python3", 800)
    done = run_environment(tmp_path, "find_python")
    assert done.stdout == f"{system}\n"
    assert done.stderr == (
        f"kraftline: {system} is used: python3 takes 125 % of its time"
        " (KRAFTLINE_PYTHON chooses another)\n"
    )


@pytest.mark.parametrize(("system_us", "is_used"), [(899, True), (900, False), (2000, False)])
def test_the_one_on_the_path_is_kept_unless_a_tenth_is_gained(
    tmp_path: Path, system_us: int, is_used: bool
) -> None:
    write_timed(tmp_path / "bin" / "python3", 1000)
    system = write_timed(tmp_path / "system" / "python3", system_us)
    done = run_environment(tmp_path, "find_python")
    assert done.stdout == (f"{system}\n" if is_used else "python3\n")
    assert bool(done.stderr) is is_used


def test_a_system_s_python_that_is_too_old_is_not_asked_how_quick_it_is(tmp_path: Path) -> None:
    write_timed(tmp_path / "bin" / "python3", 1000)
    write_timed(tmp_path / "system" / "python3", 10, exit_code=1)
    done = run_environment(tmp_path, "find_python")
    assert (done.stdout, done.stderr) == ("python3\n", "")


def test_a_chosen_python_is_used_however_quick_the_system_s_is(tmp_path: Path) -> None:
    chosen = tmp_path / "mine" / "python"
    chosen.parent.mkdir()
    chosen.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/calls\n')
    chosen.chmod(0o755)
    write_timed(tmp_path / "bin" / "python3", 1000)
    write_timed(tmp_path / "system" / "python3", 10)
    done = run_environment(tmp_path, "make_venv", KRAFTLINE_PYTHON=str(chosen))
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "calls").read_text().splitlines()[-1] == f"-m venv {tmp_path}/venv"


def test_a_chosen_python_that_is_too_old_is_refused_in_one_line(tmp_path: Path) -> None:
    old = write_interpreter(tmp_path / "mine" / "python", 1)
    done = run_environment(tmp_path, "make_venv", KRAFTLINE_PYTHON=str(old))
    assert done.returncode == 1
    assert done.stderr == f"kraftline: {old} is not Python 3.11 or newer\n"


def test_no_python_at_all_is_refused_in_one_line(tmp_path: Path) -> None:
    done = run_environment(tmp_path, "PATH=/nowhere; make_venv")
    assert done.returncode == 1
    assert done.stderr == ("kraftline: Python 3.11 or newer is needed (or uv, which fetches it)\n")
