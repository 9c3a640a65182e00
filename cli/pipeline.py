"""`kraftline pipeline JOB ...`: the jobs of scripts/pipeline, with the same flags.

Exit codes are those of the job: 0 clean, 1 findings, 2 bad input, 3 internal error, 130 Ctrl-C.
"""

from collections.abc import Sequence

from pipeline.cli import main


def run(arguments: Sequence[str]) -> int:
    """Run one job in this process and return its exit code."""
    return main(arguments)
