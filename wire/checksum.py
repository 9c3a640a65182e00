"""CRC-32C of the package crc32c, without its `__init__`.

That one imports `argparse` and `importlib.metadata`, for a command line and its version: 10 of the
140 ms that a node takes to import.
"""

import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from types import ModuleType
from typing import Final

_PACKAGE: Final = "crc32c"
_EXTENSION: Final = "crc32c._crc32c"


def _extension() -> ModuleType | None:
    """The extension alone; None if the package is imported, or has another layout."""
    package = None if _PACKAGE in sys.modules else PathFinder.find_spec(_PACKAGE)
    places = None if package is None else package.submodule_search_locations
    found = None if places is None else PathFinder.find_spec(_EXTENSION, places)
    if found is None or found.loader is None:
        return None
    made = module_from_spec(found)
    found.loader.exec_module(made)
    return made


def _function() -> Callable[..., int]:
    made = _extension()
    if made is None:
        import crc32c as package  # noqa: PLC0415 - what this module avoids

        made = package
    function: Callable[..., int] = made.crc32c
    return function


crc32c: Final = _function()
"""Takes bytes, and the checksum of those before them; any buffer."""
