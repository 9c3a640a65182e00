"""The tests of franz-go's client against three nodes of ours; needs Go.

    python -m tests.interop.franz_go [--records 50000] [--run REGEX] [--skip REGEX]

Fetches the module through Go's proxy, builds the test binary of its package kgo once, and runs it
with topics of three replicas. Left out are the tests of share groups and of listeners with SASL,
which nodes do not have. The last lines are those of `go test -v`; the exit code is its own.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.interop import quorum as quorums

MODULE: Final = "github.com/twmb/franz-go"
VERSION: Final = "v1.22.3"
NOT_HERE: Final = "Share|SCRAM|OAuth"
SECONDS_MAX: Final = 1800


def test_binary() -> Path:
    """The built tests, in the user's cache."""
    assert shutil.which("go"), "go is needed to run franz-go's tests"
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "kraftline"
    binary = cache / f"franz-go-{VERSION}" / "kgo.test"
    if not binary.exists():
        binary.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "source"
            shutil.copytree(_fetched(Path(folder)), source, copy_function=shutil.copyfile)
            _go(source / "pkg" / "kgo", "test", "-c", "-o", str(binary), ".")
    return binary


def _fetched(folder: Path) -> Path:
    """The module's sources in Go's own cache."""
    (folder / "go.mod").write_text(f"module probe\nrequire {MODULE} {VERSION}\n")
    done = _go(folder, "mod", "download", "-json", f"{MODULE}@{VERSION}")
    return Path(json.loads(done)["Dir"])


def _go(folder: Path, *words: str) -> str:
    environment = {**os.environ, "GOFLAGS": "-mod=mod"}
    return subprocess.run(
        ["go", *words], cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def main() -> None:
    """Run the tests at a cluster of their own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=50_000, help="of the tests with groups")
    parser.add_argument("--run", default=".", help="names of tests")
    parser.add_argument("--skip", default=NOT_HERE, help="names of tests that are left out")
    chosen = parser.parse_args()
    binary = test_binary()
    with tempfile.TemporaryDirectory() as folder, quorums.running(Path(folder) / "q") as quorum:
        environment = {
            **os.environ,
            "KGO_SEEDS": quorum.bootstrap,
            "KGO_TEST_RF": "3",
            "KGO_TEST_RECORDS": str(chosen.records),
            "KGO_LOG_LEVEL": "none",
        }
        words = ["-test.v", "-test.run", chosen.run, "-test.skip", chosen.skip,
                 "-test.timeout", f"{SECONDS_MAX}s"]  # fmt: skip
        with subprocess.Popen(
            [str(binary), *words], env=environment, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if re.match(r"\s*(--- |PASS|FAIL|panic)|.*_test\.go", line):
                    sys.stdout.write(line)
                    sys.stdout.flush()
    sys.exit(process.returncode)


if __name__ == "__main__":
    main()
