"""Opening of segments for reading, even while a node deletes them."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pipeline.core.errors import BadInputError

DELETED_SUFFIX: Final = ".deleted"
NO_FILE: Final = "not a regular file"
_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK  # a pipe would wait for a writer; no effect on files


@contextmanager
def open_segment(path: str) -> Iterator[int]:
    """Open the file, or its `.deleted` form if retention has just renamed it; yields a descriptor.

    Raises:
        FileNotFoundError: the file is gone.
        OSError: the file cannot be read, or is not a regular file.
    """
    try:
        descriptor = os.open(path, _FLAGS)
    except FileNotFoundError:
        descriptor = os.open(path + DELETED_SUFFIX, _FLAGS)
    try:
        _check_regular(descriptor, path)
        yield descriptor
    except OSError as error:
        if error.filename is None:
            error.filename = path  # an error of a read only knows the descriptor
        raise
    finally:
        os.close(descriptor)


def _check_regular(descriptor: int, path: str) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError(errno.EINVAL, NO_FILE, path)


@contextmanager
def input_errors() -> Iterator[None]:
    """Turn system errors about a file into bad input; also usable as a decorator.

    Raises:
        BadInputError: a file is gone or cannot be read; the text names it.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise BadInputError(f"{error.filename}: vanished since it was listed") from error
    except OSError as error:
        if error.filename is None:
            raise
        raise BadInputError(f"{error.filename}: can not be read: {error.strerror}") from error
