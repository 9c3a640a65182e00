"""`kraftline sim`: whole clusters in one process, one seed after the other (docs/simulator/)."""

from collections.abc import Sequence

from simulator import main


def run(arguments: Sequence[str]) -> int:
    """Runs the command; returns the exit code."""
    return main.run(arguments)
