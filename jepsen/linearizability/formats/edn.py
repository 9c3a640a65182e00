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
    Character,
    Keyword,
    MapKey,
    SetValue,
    Symbol,
    Tagged,
    Vector,
    hashable,
    map_of,
)

TOKEN: Final = re.compile(
    r"""[\s,]*(?:;[^\n]*(?:\n|\Z)[\s,]*)*
    (?: (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<open>\#\{|[(\[{])
      | (?P<close>[)\]}])
      | (?P<discard>\#_)
      | (?P<special>\#\#[A-Za-z-]+)
      | (?P<tag>\#[A-Za-z][\w.*+!?$%&=<>/'-]*)
      | (?P<char>\\(?:u[0-9a-fA-F]{4}|[a-z]+|.))
      | (?P<number>[+-]?\d[\w.+/-]*)
      | (?P<keyword>:[^\s,()\[\]{}";\\]+)
      | (?P<symbol>[^\s,()\[\]{}";\\\#:][^\s,()\[\]{}";\\]*)
      | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)
INTEGER: Final = re.compile(r"[+-]?\d+N?")
FLOAT: Final = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?M?")
BYTES_TAG: Final = "bytes"
DIGITS_MAX: Final = 4000
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


class EdnError(ValueError):
    """Text that is no EDN; `offset` is the character where it shows, from 0."""

    def __init__(self, text: str, offset: int) -> None:
        """`text` says what is wrong there."""
        super().__init__(text)
        self.offset: Final = offset


class _Discarded:
    """Stands for a form behind `#_`."""


class _Reader:
    def __init__(self, text: str) -> None:
        self.text: Final = text
        self.offset = 0

    def next_form(self, depth: int = 0) -> Any:
        """The next form; _Discarded() if it is discarded, EOFError behind the last."""
        if depth > DEPTH_MAX:
            raise EdnError(f"nested deeper than {DEPTH_MAX}", self.offset)
        match = TOKEN.match(self.text, self.offset)
        if match is None:
            place = self.offset
            raise EdnError(f"cannot be read: {self.text[place : place + 20]!r}", place)
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
            raise EdnError(str(error), start) from error

    def _operand(self, depth: int, what: str, start: int) -> Any:
        while True:
            try:
                form = self.next_form(depth + 1)
            except EOFError:
                raise EdnError(f"nothing stands behind {what}", start) from None
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
                raise EdnError(f"{opening} is not closed", start) from None
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


def _string(token: str) -> str:
    inner = token[1:-1]
    return ESCAPED.sub(_unescaped, inner) if "\\" in inner else inner


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
    if len(token) > DIGITS_MAX:
        raise ValueError(f"a number of {len(token)} digits, more than {DIGITS_MAX}")
    if INTEGER.fullmatch(token):
        return int(token.rstrip("N"))
    if FLOAT.fullmatch(token):
        return Decimal(token[:-1]) if token.endswith("M") else float(token)
    raise ValueError(f"{token} is no number")


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


def forms(text: str) -> Iterator[tuple[Any, int]]:
    """The forms of a text one after the other, each with the offset behind it.

    Raises:
        EdnError: At the form that cannot be read.
    """
    reader = _Reader(text)
    while True:
        try:
            form = reader.next_form()
        except EOFError:
            return
        if not isinstance(form, _Discarded):
            yield form, reader.offset


def loads(text: str) -> Any:
    """The one form of a text.

    Raises:
        EdnError: None, more than one, or no EDN.
    """
    found = list(forms(text))
    if len(found) != 1:
        raise EdnError(f"{len(found)} forms where one is due", 0)
    return found[0][0]


def dumps(value: Any) -> str:  # noqa: C901, PLR0911, PLR0912  # one case each
    """The value as EDN on one line; `loads` gives it back.

    Raises:
        ValueError: A type or a name that EDN does not have.
    """
    if value is None or isinstance(value, bool):
        return {None: "nil", True: "true", False: "false"}[value]
    kind = type(value)
    if kind is str:
        return '"' + WRITTEN_AS_ESCAPE.sub(_escape, value) + '"'
    if kind is int:
        return str(value)
    if kind is float:
        return _float_text(value)
    if isinstance(value, Keyword | Symbol):
        if not NAME.fullmatch(value) or (isinstance(value, Symbol) and value in WORDS):
            raise ValueError(f"{value!r} is no name in EDN")
        return f":{value}" if isinstance(value, Keyword) else str(value)
    if isinstance(value, Character):
        return _character_text(value)
    if isinstance(value, Decimal):
        return f"{value}M"
    if isinstance(value, bytes):
        return f'#{BYTES_TAG} "{value.hex()}"'
    if isinstance(value, Tagged):
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


def is_name(text: str) -> bool:
    """True if the text can be a keyword."""
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
    return f"\\{value}" if "!" <= value <= "~" else f"\\u{ord(value):04x}"
