r"""Values of histories that Python has no type for, and their plain form for JSON and msgpack.

EDN knows more than JSON: keywords, symbols, characters, lists beside vectors, sets, tagged
literals, maps with any keys. In JSON and msgpack such a value is a map with one key that begins
with `#`, so that nothing is lost on the way from one format to another:

| value | EDN | plain form |
|---|---|---|
| Keyword | `:a/b` | `{"#keyword": "a/b"}` |
| Symbol | `inst` | `{"#symbol": "inst"}` |
| Character | `\a` | `{"#char": "a"}` |
| tuple | `(1 2)` | `{"#list": [1, 2]}` |
| SetValue | `#{1 2}` | `{"#set": [1, 2]}` |
| Tagged | `#inst "x"` | `{"#tag": "inst", "#value": "x"}` |
| dict with other keys than strings, or keys that begin with `#` | `{1 2}` | `{"#map": [[1, 2]]}` |
| Decimal | `1.5M` | `{"#decimal": "1.5"}` |
| float that is no number | `##Inf` | `{"#float": "inf"}` |
| int beyond 64 bits | `1N` | `{"#int": "..."}` |
| bytes | `#bytes "00ff"` | `{"#bytes": "00ff"}` |

A vector is a list, or a `Vector` where it has to be hashable (keys of maps, items of sets).
"""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple

import msgspec
from typing_extensions import override

INT64_MIN: Final = -(1 << 63)
UINT64_MAX: Final = (1 << 64) - 1
DEPTH_MAX: Final = 100
"""Largest depth of a value; deeper ones are refused instead of exhausting the stack."""
DIGITS_MAX: Final = 4000
"""Digits of a number: CPython itself reads and writes no whole number of more than 4300."""

SHOWN_MAX: Final = 40
"""Characters of a bad value in an error line."""


class Keyword(str):
    """An EDN keyword without its colon."""

    __slots__ = ()


class Symbol(str):
    """An EDN symbol."""

    __slots__ = ()


class Character(str):
    """One EDN character."""

    __slots__ = ()


class Vector(tuple[Any, ...]):
    """A vector that can be hashed."""

    __slots__ = ()


class SetValue(tuple[Any, ...]):
    """A set in the order in which it was written."""

    __slots__ = ()


class MapKey(tuple[Any, ...]):
    """A map that can be hashed: (key, value) pairs in the order in which they were written."""

    __slots__ = ()


class Tagged(msgspec.Struct, frozen=True):
    """A literal with an unknown tag."""

    tag: str
    value: Any


def hashable(value: Any) -> Any:
    """Make vectors, lists and maps in a value hashable, for keys and items of sets."""
    if isinstance(value, list):
        return Vector(hashable(item) for item in value)
    if isinstance(value, dict):
        return MapKey((key, hashable(item)) for key, item in value.items())
    if type(value) in (tuple, Vector, SetValue, MapKey):
        return type(value)(hashable(item) for item in value)
    if isinstance(value, Tagged):
        return Tagged(value.tag, hashable(value.value))
    return value


def whole_number(text: str) -> int:
    """Read an int from its digits.

    Raises:
        ValueError: It is no int, or has more than DIGITS_MAX digits.
    """
    if len(text) > DIGITS_MAX:
        _check_digits(sum(character.isdigit() for character in text))
    return int(text)


def digits_of(number: int) -> str:
    """Text that `whole_number` reads.

    Raises:
        ValueError: It has more than DIGITS_MAX digits.
    """
    text = str(number)
    _check_digits(len(text.lstrip("-")))
    return text


def decimal_number(text: str) -> Decimal:
    """Read a decimal from a text such as `-1.5E+3`.

    Raises:
        ValueError: No decimal, not finite, or with too many digits or too large an exponent.
    """
    try:
        number = Decimal(text)
    except InvalidOperation as error:
        raise ValueError(f"{text} is no decimal number, or one of too large an exponent") from error
    check_decimal(number)
    return number


def check_decimal(number: Decimal) -> None:
    """Raise ValueError unless every format can hold the number: it is finite and not too long."""
    if not number.is_finite():
        raise ValueError(f"the decimal {number} is not finite")
    _check_digits(len(number.as_tuple().digits))


def _check_digits(digits: int) -> None:
    if digits > DIGITS_MAX:
        raise ValueError(f"a number of {digits} digits, more than {DIGITS_MAX}")


class Typed(NamedTuple):
    """A value that Python equates with another, with its type: 1.0, True and 1 are three values.

    `value` is hashable. A type is in no history, so nothing else equals it.
    """

    kind: type
    value: Any

    @override
    def __str__(self) -> str:
        return _shown(self)

    @override
    def __repr__(self) -> str:
        return _shown(self)


_PLAIN: Final = frozenset({int, str, type(None)})


def frozen(value: Any) -> Hashable:  # noqa: PLR0911  # one case each
    """Convert to a hashable that equals another exactly if the histories say the same.

    Lists and vectors are equal, as in Clojure; so are sets and maps in any order. A keyword,
    a symbol, a character and a string never are, nor are `true`, `1`, `1.0` and `1.0M`.
    """
    if type(value) in _PLAIN:
        return value  # type: ignore[no-any-return]
    if isinstance(value, SetValue | set | frozenset):
        return frozenset(frozen(item) for item in value)
    if isinstance(value, MapKey | Mapping):
        pairs = value.items() if isinstance(value, Mapping) else value
        return Typed(dict, frozenset((frozen(key), frozen(item)) for key, item in pairs))
    if isinstance(value, list | tuple):
        return tuple(frozen(item) for item in value)
    if isinstance(value, Tagged):
        return Tagged(value.tag, frozen(value.value))
    if isinstance(value, float) and math.isnan(value):
        return Typed(float, "NaN")  # a register that holds it returns it
    if isinstance(value, Decimal) and value.is_nan():
        return Typed(Decimal, str(value))  # in no file; a caller may hold one
    assert isinstance(value, Hashable), f"{value=}"
    return Typed(type(value), value)


def thawed(value: Any) -> Any:
    """Convert a frozen value to one of the same meaning, as histories hold it."""
    if isinstance(value, Typed):
        if value.kind is dict:
            return map_of((thawed(key), thawed(item)) for key, item in sorted(value.value, key=str))
        return value.kind(value.value)
    if isinstance(value, frozenset):
        return SetValue(hashable(thawed(item)) for item in sorted(value, key=str))
    if type(value) is tuple:
        return [thawed(item) for item in value]
    if isinstance(value, Tagged):
        return Tagged(value.tag, thawed(value.value))
    return value


def _shown(typed: Typed) -> str:
    """Text for people: keywords with their colon, truth values as in JSON."""
    kind, value = typed
    if kind is Keyword:
        return f":{value!s}"
    if kind is Character:
        return f"\\{value!s}"
    if kind is bool:
        return "true" if value else "false"
    if kind is Decimal:
        return f"{value}M"
    if kind is dict:
        return "{" + ", ".join(sorted(f"{key}: {item}" for key, item in value)) + "}"
    return str(value)


def map_of(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any] | MapKey:
    """Make a map of hashable keys; a MapKey where a dict would take two different keys for one."""
    given = list(pairs)
    found = dict(given)
    if len(found) == len(given):
        return found
    distinct = {frozen(key): (key, value) for key, value in given}
    if len(found) == len(distinct):
        return found  # one key twice: the last counts
    return MapKey((key, hashable(value)) for key, value in distinct.values())


def to_plain(value: Any, depth: int = 0) -> Any:  # noqa: C901, PLR0911, PLR0912  # one case each
    """Convert the value to what JSON has; see the table of the module.

    Raises:
        ValueError: It has no such form or is nested too deep.
    """
    if depth > DEPTH_MAX:
        raise ValueError(f"value is nested deeper than {DEPTH_MAX}")
    if value is None or isinstance(value, bool):
        return value
    kind = type(value)
    if kind is str:
        return value
    if kind is int:
        return value if INT64_MIN <= value <= UINT64_MAX else {"#int": digits_of(value)}
    if kind is float:
        return value if math.isfinite(value) else {"#float": str(value)}
    for text_kind, name in ((Keyword, "#keyword"), (Symbol, "#symbol"), (Character, "#char")):
        if kind is text_kind:
            return {name: str(value)}
    if kind in (list, Vector):
        return [to_plain(item, depth + 1) for item in value]
    if kind is tuple:
        return {"#list": [to_plain(item, depth + 1) for item in value]}
    if kind is SetValue:
        return {"#set": [to_plain(item, depth + 1) for item in value]}
    if isinstance(value, Tagged):
        return {"#tag": value.tag, "#value": to_plain(value.value, depth + 1)}
    if isinstance(value, Decimal):
        check_decimal(value)
        return {"#decimal": str(value)}
    if isinstance(value, bytes):
        return {"#bytes": value.hex()}
    if kind is MapKey or isinstance(value, Mapping):
        pairs = list(value.items()) if isinstance(value, Mapping) else list(value)
        if all(type(key) is str and not key.startswith("#") for key, _ in pairs):
            return {key: to_plain(item, depth + 1) for key, item in pairs}
        return {"#map": [[to_plain(part, depth + 1) for part in pair] for pair in pairs]}
    raise ValueError(f"value of type {kind.__name__} has no form in a history: {value!r}")


def from_plain(plain: Any, depth: int = 0) -> Any:  # noqa: C901, PLR0911  # one case each
    """Read the value of a plain form.

    Raises:
        ValueError: A `#` form of no known kind, or nested too deep.
    """
    if depth > DEPTH_MAX:
        raise ValueError(f"value is nested deeper than {DEPTH_MAX}")
    if isinstance(plain, list):
        return [from_plain(item, depth + 1) for item in plain]
    if not isinstance(plain, dict):
        return plain
    first = next(iter(plain), None)
    if not isinstance(first, str) or not first.startswith("#"):
        return {_plain_key(key): from_plain(item, depth + 1) for key, item in plain.items()}
    if set(plain) == {"#tag", "#value"} and isinstance(plain["#tag"], str):
        return Tagged(plain["#tag"], from_plain(plain["#value"], depth + 1))
    content = plain[first]
    if len(plain) == 1 and first in _TEXTS and isinstance(content, str):
        try:
            return _TEXTS[first](content)
        except ValueError as error:
            raise ValueError(f"{first} {_cut(content)!r} cannot be read: {error}") from error
    if first == "#map" and len(plain) == 1 and _are_pairs(content):
        return map_of(
            (hashable(from_plain(key, depth + 1)), from_plain(item, depth + 1))
            for key, item in content
        )
    if len(plain) == 1 and isinstance(content, list):
        items = [from_plain(item, depth + 1) for item in content]
        if first == "#list":
            return tuple(items)
        if first == "#set":
            return SetValue(hashable(item) for item in items)
    raise ValueError(f"{first} is not one of #tag, #list, #set, #map, {', '.join(_TEXTS)}")


def _plain_key(key: Any) -> str:
    if not isinstance(key, str) or key.startswith("#"):
        raise ValueError(f"key {key!r} of a map is not a plain string")
    return key


def _are_pairs(content: Any) -> bool:
    return isinstance(content, list) and all(
        isinstance(pair, list) and len(pair) == 2 for pair in content
    )


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."


def _character(text: str) -> Character:
    if len(text) != 1:
        raise ValueError(f"a character has length 1, not {len(text)}")
    return Character(text)


_TEXTS: Final[dict[str, Callable[[str], Any]]] = {
    "#keyword": Keyword,
    "#symbol": Symbol,
    "#char": _character,
    "#decimal": decimal_number,
    "#float": float,
    "#int": whole_number,
    "#bytes": bytes.fromhex,
}
