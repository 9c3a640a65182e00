"""Methods replaced on one object, by which the simulator watches and changes a running node.

Production code has no hooks for it, which would cost every step of a real node. Watchers of one
method chain: each calls what it found in its place.
"""

from collections.abc import Callable
from typing import Any


def replace_method(owner: object, name: str, replacement: Callable[..., Any]) -> None:
    """Set an attribute of the instance that hides the method of its class."""
    kind = type(owner)
    assert callable(getattr(kind, name, None)), f"{kind.__name__} has no method {name}"
    setattr(owner, name, replacement)
