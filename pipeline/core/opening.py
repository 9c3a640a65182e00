"""Opening segments to read, also while a node is deleting them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

DELETED_SUFFIX: Final = ".deleted"


@contextmanager
def open_segment(path: str) -> Iterator[int]:
    """A descriptor of the file; of its `.deleted` form when retention has just renamed it.

    Raises:
        FileNotFoundError: it is gone.
        OSError: it can not be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        descriptor = os.open(path + DELETED_SUFFIX, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
