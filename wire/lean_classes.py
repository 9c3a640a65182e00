"""kio's schema classes at a fifth of the time of their import, alike in all that they do.

kio has a frozen dataclass with slots for each entity and version. For each of them the standard
library compiles six functions and a signature, 0.5 ms, which is half of what a node costs to
import; most of them are never called. Here the modules of `kio.schema` get a decorator that makes
the same class without compiling anything: `__init__` is made at its first use, where assignments go
straight to the slots, and the others are shared functions over the slots' values.

`install` is called once, by `wire`; a class whose decorator says anything else, or with fields or
methods of another kind, is left to the standard library. (docs/decisions/0027-lean-classes.md)
"""

import builtins
import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType, SimpleNamespace
from typing import Any, Final

from typing_extensions import override

_PREFIX: Final = "kio.schema."
_OPTIONS: Final = {"frozen": True, "slots": True, "kw_only": True}
"""Of every class of the schemas."""
_PLAIN_FIELD: Final = (True, True, True, None)
"""Init, repr, compare, hash."""
_NOT_REPEATED: Final = frozenset(
    {"__post_init__", "__repr__", "__eq__", "__hash__", "__getstate__", "__setstate__"}
)
"""Methods that a class may have of its own, which the standard library minds."""
_REST: Final = ("__dict__", "__weakref__")
"""Members of the class without slots that the one with slots has not."""


def dataclass(**options: Any) -> Callable[[type], type]:
    """Make the decorator of a class, as that of the standard library."""
    if options != _OPTIONS:
        return dataclasses.dataclass(**options)
    return _lean


def _lean(cls: type) -> type:
    if not _is_plain(cls):
        return dataclasses.dataclass(frozen=True, slots=True, kw_only=True)(cls)
    cls.__doc__ = cls.__doc__ or cls.__name__  # else a signature is computed for it
    plain: type = dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=True)(cls)
    names = tuple(field.name for field in dataclasses.fields(plain))
    content = {k: v for k, v in vars(plain).items() if k not in names and k not in _REST}
    methods = {"__init__": _Late(_init), "__eq__": _Late(_eq), "__hash__": _Late(_hash)}
    content |= {**_METHODS, **methods, "__slots__": names}
    made = type(cls)(cls.__name__, cls.__bases__, content)
    made.__qualname__ = cls.__qualname__
    made.__dataclass_params__.frozen = True  # type: ignore[attr-defined]
    return made


def _is_plain(cls: type) -> bool:
    """True for a class with nothing in it that is not repeated here, as all of kio's are."""
    own = vars(cls)
    fields = [value for value in own.values() if isinstance(value, dataclasses.Field)]
    return (
        cls.__bases__ == (object,)
        and own.keys().isdisjoint(_NOT_REPEATED)
        and all(
            (one.init, one.repr, one.compare, one.hash) == _PLAIN_FIELD
            and one.default_factory is dataclasses.MISSING
            for one in fields
        )
    )


class _Late:
    """A method of a class until it is asked for, and then made."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self._make = make

    def __set_name__(self, owner: Any, name: str) -> None:
        self._class = owner
        self._name = name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        made = self._make(self._class)
        made.__qualname__ = f"{self._class.__qualname__}.{self._name}"
        made.__module__ = self._class.__module__
        setattr(self._class, self._name, made)
        return made.__get__(instance, owner)


def _init(cls: Any) -> Any:
    """`__init__`, whose assignments go straight to the slots."""
    fields = dataclasses.fields(cls)
    names = cls.__slots__
    scope = {f"_set_{name}": vars(cls)[name].__set__ for name in names}
    parameters = ", ".join(["self", *(("*", *names) if names else ())])
    lines = [f"_set_{name}(self, {name})" for name in names] or ["pass"]
    made = _compiled(f"__init__({parameters})", lines, scope)
    made.__annotations__ = {field.name: field.type for field in fields} | {"return": None}
    made.__kwdefaults__ = {
        field.name: field.default for field in fields if field.default is not dataclasses.MISSING
    }
    return made


def _eq(cls: Any) -> Any:
    lines = [
        "if other.__class__ is self.__class__:",
        f"    return {_values(cls, 'self')} == {_values(cls, 'other')}",
        "return NotImplemented",
    ]
    return _compiled("__eq__(self, other)", lines, {})


def _hash(cls: Any) -> Any:
    return _compiled("__hash__(self)", [f"return hash({_values(cls, 'self')})"], {})


def _values(cls: Any, instance: str) -> str:
    return "(" + "".join(f"{instance}.{name}, " for name in cls.__slots__) + ")"


def _compiled(head: str, lines: Sequence[str], scope: dict[str, Any]) -> Any:
    body = "".join(f"\n    {line}" for line in lines)
    exec(f"def {head}:{body}", scope)  # noqa: S102 - made of names of fields
    return scope[head.partition("(")[0]]


# ---- methods of all classes --------------------------------------------------------------------


def _repr(self: Any) -> str:
    values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
    return f"{self.__class__.__qualname__}({values})"


def _set(_self: object, name: str, _value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _delete(_self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[object]:
    return [getattr(self, name) for name in self.__slots__]


def _set_state(self: Any, state: Sequence[object]) -> None:
    for name, value in zip(self.__slots__, state, strict=True):
        object.__setattr__(self, name, value)


_METHODS: Final[Mapping[str, object]] = {
    "__repr__": _repr,
    "__setattr__": _set,
    "__delattr__": _delete,
    "__getstate__": _state,
    "__setstate__": _set_state,
}


# ---- modules -----------------------------------------------------------------------------------

_OURS: Final = SimpleNamespace(**{**vars(dataclasses), "dataclass": dataclass})


def _import(name: str, *arguments: Any) -> Any:
    return _OURS if name == "dataclasses" else builtins.__import__(name, *arguments)


_BUILTINS: Final = {**vars(builtins), "__import__": _import}


class _Loader(SourceFileLoader):
    """Runs a module with our `dataclasses`."""

    @override
    def exec_module(self, module: ModuleType) -> None:
        code = self.get_code(module.__name__)
        assert code is not None, module.__name__
        vars(module)["__builtins__"] = _BUILTINS
        exec(code, vars(module))  # noqa: S102 - what the loader of a module does


class _Finder:
    """Finds the modules of the schemas for our loader."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module; None for all others."""
        if not name.startswith(_PREFIX):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def install() -> None:
    """Have modules of the schemas that are imported from now on made lean; once."""
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)
