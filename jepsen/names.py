"""What a command line may ask of a run; here, so that it is read before anything is loaded."""

from typing import Final

NODES_MAX: Final = 9
KINDS: Final = ("kill", "pause")
"""Faults."""
WORKLOADS: Final = ("topic-set", "config-register")
