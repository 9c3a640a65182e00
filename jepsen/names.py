"""Names and limits for the command line of a run; apart, to be read before anything is loaded."""

from typing import Final

NODES_MAX: Final = 9
KINDS: Final = ("kill", "pause")
"""Kinds of faults."""
WORKLOADS: Final = ("topic-set", "config-register")
