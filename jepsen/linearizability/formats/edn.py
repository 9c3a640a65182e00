"""A small reader and writer of EDN (github.com/edn-format/edn).

nil, true, false, integers (N), floats (M), `##Inf ##-Inf ##NaN`, strings, characters, keywords,
symbols, lists, vectors, maps, sets, tagged literals, `#_` discard, comments, commas as space.
Unknown tags are kept (`Tagged`); the types are those of `values`.
"""

import contextlib
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, Final

from jepsen.linearizability.values import (
    DEPTH_MAX,
    SHOWN_MAX,
    Character,
    Keyword,
    MapKey,
    SetValue,
    Symbol,
    Tagged,
    Vector,
    check_decimal,
    decimal_number,
    digits_of,
    hashable,
    map_of,
    whole_number,
)

# Possessive repetitions (`*+`): one that may be taken back costs 140 bytes a character of memory.
TAG_NAME: Final = r"[A-Za-z][\w.*+!?$%&=<>/'-]*"
KEYWORD_NAME: Final = r"""[^\s,()\[\]{}";\\]+"""
SYMBOL_NAME: Final = r"""[^\s,()\[\]{}";\\\#:][^\s,()\[\]{}";\\]*"""

TOKEN: Final = re.compile(
    rf"""[\s,]*+(?:;[^\n]*+\n?+[\s,]*+)*+
    (?: (?P<string>"[^"\\]*+(?:\\.[^"\\]*+)*+")
      | (?P<open>\#\{{|[(\[{{])
      | (?P<close>[)\]}}])
      | (?P<discard>\#_)
      | (?P<special>\#\#[A-Za-z-]+)
      | (?P<tag>\#{TAG_NAME})
      | (?P<char>\\(?:u[0-9a-fA-F]{{4}}|[a-z]+|.))
      | (?P<number>[+-]?\d[\w.+/-]*)
      | (?P<keyword>:{KEYWORD_NAME})
      | (?P<symbol>{SYMBOL_NAME})
      | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)
BROKEN_OFF: Final = re.compile(
    r"""[\s,]*+(?:;[^\n]*+\n[\s,]*+)*+
    (?: "[^"\\]*+
        (?:(?!\\u[0-9a-fA-F]{0,3}\Z)\\(?:[trn\\"bf]|u[0-9a-fA-F]{4})[^"\\]*+)*+
        (?:\\(?:u[0-9a-fA-F]{0,3})?)?
      | \\ | : | \#\#? )
    """,
    re.VERBOSE | re.DOTALL,
)
"""A text that ends within a token that has no form of its own yet. The last escape is looked for
first: Python 3.11.2 does not give back what a possessive group took before it failed."""
BROKEN_NUMBER: Final = re.compile(r"[+-]?\d+(?:\.\d*)?[eE][+-]?")
INTEGER: Final = re.compile(r"[+-]?\d+N?")
FLOAT: Final = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?M?")
BYTES_TAG: Final = "bytes"
CLOSING: Final = {"(": ")", "[": "]", "{": "}", "#{": "}"}
WORDS: Final = {"nil": None, "true": True, "false": False}
SPECIALS: Final = {"##Inf": float("inf"), "##-Inf": float("-inf"), "##NaN": float("nan")}
NAMED_CHARACTERS: Final = {
    "newline": "\n", "space": " ", "tab": "\t", "return": "\r", "backspace": "\b", "formfeed": "\f",
}  # fmt: skip
ESCAPES: Final = {"t": "\t", "r": "\r", "n": "\n", "\\": "\\", '"': '"', "b": "\b", "f": "\f"}
ESCAPED: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
NAME: Final = re.compile(r"[A-Za-z*!_?$%&=<>+.-][\w*!?$%&=<>+.#:'-]*(?:/[\w*!?$%&=<>+.#:'-]+)?")
WRITTEN_AS_ESCAPE: Final = re.compile(r'["\\\x00-\x1f\x7f\ud800-\udfff]')
SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
TAG: Final = re.compile(TAG_NAME)
KEYWORD: Final = re.compile(KEYWORD_NAME)
SYMBOL: Final = re.compile(SYMBOL_NAME)
NUMBER_START: Final = re.compile(r"[+-]?\d")


class EdnError(ValueError):
    """Text that is no EDN.

    Attributes:
        offset: The character where it shows, from 0.
        is_cut: The text ends within a form: more text could have made it one.
    """

    def __init__(self, text: str, offset: int, *, is_cut: bool = False) -> None:
        """`text` says what is wrong there."""
        super().__init__(text)
        self.offset: Final = offset
        self.is_cut: Final = is_cut


class _Discarded:
    """Placeholder for a form after `#_`."""


class _Reader:
    def __init__(self, text: str) -> None:
        self.text: Final = text
        self.offset = 0

    def next_form(self, depth: int = 0) -> Any:
        """Read the next form; _Discarded() if it is discarded, EOFError after the last."""
        if depth > DEPTH_MAX:
            raise EdnError(f"nested deeper than {DEPTH_MAX}", self.offset)
        match = TOKEN.match(self.text, self.offset)
        if match is None:
            place = self.offset
            is_cut = BROKEN_OFF.fullmatch(self.text, place) is not None
            shown = self.text[place : place + 20]
            raise EdnError(f"cannot be read: {shown!r}", place, is_cut=is_cut)
        kind = match.lastgroup
        assert kind is not None
        token, start = match.group(kind), match.start(kind)
        self.offset = match.end()
        match kind:
            case "end":
                raise EOFError
            case "close":
                raise EdnError(f"{token} closes nothing", start)
            case "open":
                return self._collection(token, start, depth)
            case "discard":
                self._operand(depth, "#_", start)
                return _Discarded()
            case "tag":
                return _tagged(token[1:], self._operand(depth, token, start))
            case _:
                pass
        try:
            return _ATOMS[kind](token)
        except ValueError as error:
            is_cut = self.offset == len(self.text) and _is_begun(kind, token)
            raise EdnError(str(error), start, is_cut=is_cut) from error

    def _operand(self, depth: int, what: str, start: int) -> Any:
        while True:
            try:
                form = self.next_form(depth + 1)
            except EOFError:
                text = f"nothing stands behind {what}"
                raise EdnError(text, start, is_cut=True) from None
            if not isinstance(form, _Discarded):
                return form

    def _collection(self, opening: str, start: int, depth: int) -> Any:
        items: list[Any] = []
        closing = CLOSING[opening]
        while True:
            match = TOKEN.match(self.text, self.offset)
            if match is not None and match.lastgroup == "close":
                self.offset = match.end()
                if match.group("close") != closing:
                    raise EdnError(
                        f"{match.group('close')} where {closing} is due", match.start("close")
                    )
                break
            try:
                form = self.next_form(depth + 1)
            except EOFError:
                raise EdnError(f"{opening} is not closed", start, is_cut=True) from None
            if not isinstance(form, _Discarded):
                items.append(form)
        match opening:
            case "[":
                return items
            case "(":
                return tuple(items)
            case "#{":
                return SetValue(hashable(item) for item in items)
            case _:
                pass
        if len(items) % 2:
            raise EdnError("a map has a key without a value", start)
        keys = (hashable(key) for key in items[::2])
        return map_of(zip(keys, items[1::2], strict=True))


def _tagged(tag: str, value: Any) -> Any:
    if tag == BYTES_TAG and isinstance(value, str):
        with contextlib.suppress(ValueError):
            return bytes.fromhex(value)
    return Tagged(tag, value)


def _is_begun(kind: str, token: str) -> bool:
    """True if a token that cannot be read could have become one that can."""
    match kind:
        case "char":
            return any(name.startswith(token[1:]) for name in NAMED_CHARACTERS)
        case "special":
            return any(name.startswith(token) for name in SPECIALS)
        case "number":
            return BROKEN_NUMBER.fullmatch(token) is not None
        case _:
            return False


def _string(token: str) -> str:
    inner = token[1:-1]
    if "\\" not in inner:
        return inner
    text = ESCAPED.sub(_unescaped, inner)
    if SURROGATE.search(text) is None:
        return text
    # two escapes may be one character, as in JSON
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _unescaped(match: re.Match[str]) -> str:
    escape = match.group(1)
    if len(escape) > 1:
        return chr(int(escape[1:], 16))
    if escape not in ESCAPES:
        raise ValueError(f"\\{escape} is no escape of a string")
    return ESCAPES[escape]


def _character(token: str) -> Character:
    name = token[1:]
    if name in NAMED_CHARACTERS:
        return Character(NAMED_CHARACTERS[name])
    if len(name) == 5 and name[0] == "u":
        return Character(chr(int(name[1:], 16)))
    if len(name) != 1:
        raise ValueError(f"{token} is no character")
    return Character(name)


def _number(token: str) -> int | float | Decimal:
    if INTEGER.fullmatch(token):
        return whole_number(token.rstrip("N"))
    if FLOAT.fullmatch(token):
        return decimal_number(token[:-1]) if token.endswith("M") else float(token)
    raise ValueError(f"{token[:SHOWN_MAX]} is no number")


def _special(token: str) -> float:
    if token not in SPECIALS:
        raise ValueError(f"{token} is not one of {', '.join(SPECIALS)}")
    return SPECIALS[token]


def _symbol(token: str) -> Any:
    return WORDS[token] if token in WORDS else Symbol(token)


_ATOMS: Final[dict[str, Callable[[str], Any]]] = {
    "string": _string,
    "char": _character,
    "number": _number,
    "special": _special,
    "keyword": lambda token: Keyword(token[1:]),
    "symbol": _symbol,
}


def forms(text: str, *, spare_depth: int = 0) -> Iterator[tuple[Any, int]]:
    """Read the forms of a text one after the other, each with the offset after it.

    Args:
        text: Any number of forms.
        spare_depth: Levels around the values that do not count as their depth.

    Raises:
        EdnError: At the form that cannot be read.
    """
    reader = _Reader(text)
    while True:
        try:
            form = reader.next_form(-spare_depth)
        except EOFError:
            return
        if not isinstance(form, _Discarded):
            yield form, reader.offset


def loads(text: str) -> Any:
    """Read the one form of a text.

    Raises:
        EdnError: None, more than one, or no EDN.
    """
    found = list(forms(text))
    if len(found) != 1:
        raise EdnError(f"{len(found)} forms where one is due", 0)
    return found[0][0]


def dumps(value: Any) -> str:  # noqa: C901, PLR0911, PLR0912  # one case each
    """Write the value as EDN on one line; `loads` gives it back.

    Raises:
        ValueError: A type or a name that EDN does not have.
    """
    if value is None or isinstance(value, bool):
        return {None: "nil", True: "true", False: "false"}[value]
    kind = type(value)
    if kind is str:
        return '"' + WRITTEN_AS_ESCAPE.sub(_escape, value) + '"'
    if kind is int:
        return digits_of(value)
    if kind is float:
        return _float_text(value)
    if isinstance(value, Keyword | Symbol):
        if not _is_readable(value):
            raise ValueError(f"{value!r} is no {kind.__name__.lower()} in EDN")
        return f":{value}" if isinstance(value, Keyword) else str(value)
    if isinstance(value, Character):
        return _character_text(value)
    if isinstance(value, Decimal):
        check_decimal(value)
        return f"{value}M"
    if isinstance(value, bytes):
        return f'#{BYTES_TAG} "{value.hex()}"'
    if isinstance(value, Tagged):
        if not TAG.fullmatch(value.tag) or not isinstance(_tagged(value.tag, value.value), Tagged):
            raise ValueError(f"tag {value.tag!r} before {value.value!r} is not kept by EDN")
        return f"#{value.tag} {dumps(value.value)}"
    if isinstance(value, dict | MapKey):
        pairs = value.items() if isinstance(value, dict) else value
        return "{" + ", ".join(f"{dumps(key)} {dumps(item)}" for key, item in pairs) + "}"
    for collection, opening, closing in (
        (list, "[", "]"), (Vector, "[", "]"), (SetValue, "#{", "}"), (tuple, "(", ")"),
    ):  # fmt: skip
        if kind is collection:
            return opening + " ".join(dumps(item) for item in value) + closing
    raise ValueError(f"value of type {kind.__name__} has no form in EDN: {value!r}")


def _is_readable(name: Keyword | Symbol) -> bool:
    """True if the reader gives the same name back: foreign ones go beyond what EDN allows."""
    if SURROGATE.search(name) is not None:
        return False
    if isinstance(name, Keyword):
        return KEYWORD.fullmatch(name) is not None
    is_other = name in WORDS or NUMBER_START.match(name) is not None
    return SYMBOL.fullmatch(name) is not None and not is_other


def is_name(text: str) -> bool:
    """True if the text can be a keyword that every reader of EDN knows."""
    return NAME.fullmatch(text) is not None


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    short = {value: key for key, value in ESCAPES.items()}.get(character)
    return f"\\{short}" if short else f"\\u{ord(character):04x}"


def _float_text(value: float) -> str:
    for text, special in SPECIALS.items():
        if value == special or (value != value and special != special):  # noqa: PLR0124  # NaN
            return text
    return repr(value)


def _character_text(value: str) -> str:
    names = {character: name for name, character in NAMED_CHARACTERS.items()}
    if value in names:
        return f"\\{names[value]}"
    is_plain = "!" <= value <= "~" or value > "\uffff"  # an escape has four digits
    return f"\\{value}" if is_plain else f"\\u{ord(value):04x}"
