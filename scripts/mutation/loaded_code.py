"""Loaded functions by their code objects, so that a fork can give them the code of a mutant."""

import ast
import gc
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Final

Key = tuple[str, str, int]
"""File, qualified name, first line."""


class LoadedFunctions:
    """Every function of this process by file, qualified name and first line."""

    def __init__(self) -> None:
        gc.unfreeze()  # functions frozen by tests/conftest.py are not listed otherwise
        self._found: Final[dict[Key, list[FunctionType]]] = defaultdict(list)
        for thing in gc.get_objects():
            if type(thing) is FunctionType:
                self._found[_key(thing.__code__)].append(thing)
        gc.freeze()  # a collection in a fork would copy every page

    def swap(self, path: Path, old: ast.Module, new: ast.Module) -> Callable[[], None] | None:
        """Return an action that gives loaded functions of a file new code; None if not possible."""
        codes = _codes(old, path)
        others = _codes(new, path)
        if [_key(code) for code in codes] != [_key(code) for code in others]:
            return None
        changed = [(a, b) for a, b in zip(codes, others, strict=True) if a != b]
        pairs = [
            (function, after)
            for before, after in changed
            for function in self._found.get(_key(before), ())
            if function.__code__ == before
        ]
        if not pairs or any(len(f.__code__.co_freevars) != len(c.co_freevars) for f, c in pairs):
            return None

        def carry_out() -> None:
            for function, code in pairs:
                function.__code__ = code

        return carry_out


def _key(code: CodeType) -> Key:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _codes(tree: ast.Module, path: Path) -> list[CodeType]:
    """Return the code of every function of a tree, the outer before the inner."""
    return list(_below(compile(tree, str(path), "exec", dont_inherit=True)))


def _below(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _below(constant)
