"""`kraftline sim`: simulated clusters in one process, seed after seed (docs/simulator/)."""

from collections.abc import Sequence

from simulator import main


def run(arguments: Sequence[str]) -> int:
    """Run the command and return the exit code."""
    return main.run(arguments)
