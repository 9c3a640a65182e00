"""The project's `.venv`: there, or made by `scripts/environment.sh`, with bytecode compiled."""

import subprocess
from pathlib import Path

from scripts.launcher.refusal import RefusalError

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv" / "bin" / "python"
PACKAGES = (
    "wire", "raft", "metadata", "storage", "quorum_controller", "broker_publisher",
    "network", "kernel", "node", "inspection", "cli",
)  # fmt: skip
INPUTS = ("pyproject.toml", "requirements-dev.lock")


def ensure_environment() -> Path:
    """The interpreter of `.venv`, which is made or brought up to date first where needed."""
    ready = sorted(PYTHON.parents[1].glob(".ready-*"))
    if PYTHON.exists() and (_is_newer(ready[-1]) if ready else _is_made_by_hand()):
        return PYTHON
    # What is installed already stays installed: `.ready-dev-interop` names its extras.
    extras = ready[-1].name.removeprefix(".ready-").replace("-", ",") if ready else ""
    script = 'ROOT="$1"; . "$1/scripts/environment.sh"; ensure_environment "$2"'
    done = subprocess.run(["bash", "-c", script, "quorum", str(ROOT), extras], check=False)
    if done.returncode != 0 or not PYTHON.exists():
        raise RefusalError(".venv could not be made; the reason is above")
    compile_bytecode()
    for path in PYTHON.parents[1].glob(".ready-*"):
        path.touch()
    return PYTHON


def compile_bytecode() -> None:
    """Compile the project, so that the first start is as fast as the second."""
    folders = [str(ROOT / package) for package in PACKAGES]
    subprocess.run([str(PYTHON), "-m", "compileall", "-q", *folders], check=False)


def _is_newer(ready: Path) -> bool:
    moment = ready.stat().st_mtime
    return all((ROOT / name).stat().st_mtime <= moment for name in INPUTS)


def _is_made_by_hand() -> bool:
    """True if somebody installed what the project needs without the scripts: theirs to keep."""
    return any(PYTHON.parents[1].glob("lib/python*/site-packages/kio"))
