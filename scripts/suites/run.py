"""One suite, in a process of its own, with the adapter."""

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from scripts.suites.catalogue import Suite
from scripts.suites.outcomes import Outcome, read_outcomes

ADAPTER: Final = Path(__file__).resolve().parent / "adapter"
NO_RESULTS: Final = frozenset({3, 4})
"""pytest's exit codes for an internal error and for a wrong command line."""


class RunError(Exception):
    """pytest ended without outcomes; the end of what it said."""


def run(
    suite: Suite, python: Path, tests: Path, address: str | None, chosen: list[str]
) -> list[Outcome]:
    """Run a suite and give what each of its tests did, in their order.

    Args:
        suite: which.
        python: interpreter of its environment.
        tests: folder of its tests, the current one of the process.
        address: HOST:PORT of a Kafka that runs; None starts a cluster.
        chosen: more arguments for pytest, behind the suite's own.

    Raises:
        RunError: there are no outcomes.
    """
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as results:
        wanted = {
            "suite": suite.name,
            "conftest": suite.conftest,
            "nodes": suite.nodes,
            "configs": dict(suite.configs),
            "port": suite.port,
            "address": address,
            "results": results.name,
        }
        variables = {
            **os.environ,
            **suite.environment,
            "KRAFTLINE_SUITE": json.dumps(wanted),
            "PYTHONPATH": str(ADAPTER),
        }
        words = [str(python), "-m", "pytest", "-p", "kraftline_suite", "-p", "no:cacheprovider"]
        log = tests.with_suffix(".log")
        with log.open("wb") as output:
            ended = subprocess.run(
                [*words, *suite.arguments, *chosen], cwd=tests, env=variables,
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, check=False,
            )  # fmt: skip
        outcomes = read_outcomes(Path(results.name).read_text())
    if not outcomes or ended.returncode in NO_RESULTS:
        raise RunError(f"no outcomes; the end of {log}:\n{log.read_text()[-2000:]}")
    return outcomes
