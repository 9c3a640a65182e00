"""Opening segments to read, also while a node is deleting them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pipeline.core.errors import BadInputError

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
    except OSError as error:
        if error.filename is None:
            error.filename = path  # a read knows only its descriptor
        raise
    finally:
        os.close(descriptor)


@contextmanager
def input_errors() -> Iterator[None]:
    """What the system says of a file becomes bad input, also as a decorator.

    Raises:
        BadInputError: a file that is gone or can not be read; the text names it.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise BadInputError(f"{error.filename}: vanished since it was listed") from error
    except OSError as error:
        if error.filename is None:
            raise
        raise BadInputError(f"{error.filename}: can not be read: {error.strerror}") from error
