"""Mutants, and the patches of the code under test while one is applied.

A mutant is patched in at run time, by attribute. The attributes that it replaces have to exist
(`MutantError` otherwise), and every replacement has to run: one that dies or survives by a part of
itself shows nothing about the rule that it breaks.
"""

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from inspect import Parameter
from types import ModuleType
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from simulator.campaign.commit_name import UNDER_TEST
from simulator.campaign.draw import Options

LAYOUT: Final = __name__.removesuffix("simulator.mutants.registry")
"""The beginning of the names of all packages: nothing, or `kraftline.` in the wheel."""

SHORT: Final = Options(duration_us=10_000_000, write_count=30)
"""Seeds that kill most mutants: ten virtual seconds, all faults."""


QUARREL: Final = replace(SHORT, node_count=3, faults=("depose_leader",))
"""Seeds in which leaders are cut off with records that no other node has."""


class MutantError(Exception):
    """A mutant does not fit the code any more."""


class Patches:
    """Replacements of one applied mutant."""

    def __init__(self, stack: ExitStack) -> None:
        """Begin without replacements; `stack` puts back the originals."""
        self._stack = stack
        self.unreached: set[str] = set()
        """Names of the replaced functions that were not called yet."""

    def method(self, owner: type, name: str, make: Callable[[Callable[..., Any]], Any]) -> None:
        """Replace a method or property of a class.

        Args:
            owner: the class that defines it.
            name: of the method or property.
            make: gets the original function (a property's getter) and gives the new one.

        Raises:
            MutantError: the class does not define it.
        """
        original, named = vars(owner).get(name), f"{owner.__module__}.{owner.__name__}"
        if original is None:
            raise MutantError(f"{named} has no {name}")
        if isinstance(original, property):
            assert original.fget is not None
            replacement: Any = property(
                self._noted(f"{named}.{name}", original.fget, make(original.fget))
            )
        else:
            replacement = self._noted(f"{named}.{name}", original, make(original))
        self._set(owner, name, original, replacement)

    def function(
        self, module: ModuleType, name: str, make: Callable[[Callable[..., Any]], Any]
    ) -> None:
        """Replace a function of a module, also where the code under test imported it by name.

        Raises:
            MutantError: the module does not define it.
        """
        original = vars(module).get(name)
        if not callable(original) or original.__module__ != module.__name__:
            raise MutantError(f"{module.__name__} defines no {name}")
        replacement = self._noted(f"{module.__name__}.{name}", original, make(original))
        for other_name, other in sorted(sys.modules.items()):
            is_ours = other_name.removeprefix(LAYOUT).partition(".")[0] in UNDER_TEST
            if is_ours and vars(other).get(name) is original:
                self._set(other, name, original, replacement)

    def _noted(
        self, name: str, original: Callable[..., Any], function: Callable[..., Any]
    ) -> Callable[..., Any]:
        """Note that a function is called; it has to take as many arguments as the original."""
        expected, taken = _parameters(original), _parameters(function)
        if len(taken) != len(expected) and Parameter.VAR_POSITIONAL not in taken:
            raise MutantError(f"{name} takes {len(expected)} arguments, not {len(taken)}")
        assert name not in self.unreached, f"{name} is replaced twice"
        self.unreached.add(name)

        @functools.wraps(function)
        def noted(*args: Any, **kwargs: Any) -> Any:
            self.unreached.discard(name)
            return function(*args, **kwargs)

        return noted

    def _set(self, owner: Any, name: str, original: Any, replacement: Any) -> None:
        """Replace an attribute until the stack is closed."""
        setattr(owner, name, replacement)
        self._stack.callback(setattr, owner, name, original)


def _parameters(function: Callable[..., Any]) -> list[Any]:
    """Kinds of a function's parameters, in their order."""
    return [each.kind for each in inspect.signature(function).parameters.values()]


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    """One broken rule."""

    number: int
    """1 to 36 of the published list; from 37 on our own, from 201 on of the data plane."""
    name: str
    text: str
    """The broken rule, in one line."""
    expected: tuple[str, ...]
    """Invariants of which one has to break."""
    seeds_max: int
    """Number of seeds within which it has to die."""
    patch: Callable[[Patches], None]
    options: Options = SHORT
    """Options that its seeds share."""
    scenario: str | None = None
    """Scenario in tests/scenarios/records that gives another text with it; None: seeds find it."""

    @property
    def key(self) -> str:
        """Key as `M7`."""
        return f"M{self.number}"

    @contextmanager
    def apply(self) -> Iterator[Patches]:
        """Break the rule inside the block.

        Raises:
            MutantError: the code that it replaces is not there.
        """
        with ExitStack() as stack:
            patches = Patches(stack)
            try:
                self.patch(patches)
            except MutantError as error:
                raise MutantError(f"{self.key} {self.name}: {error}") from None
            yield patches
