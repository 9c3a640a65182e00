"""Times as Java's `SimpleDateFormat` writes them, in the time zone of the machine."""

import re
from datetime import UTC, datetime
from typing import Final

from cli.arguments import UsageError, shortened

_PART: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")
_FIELDS: Final = {
    "y": lambda at: at.year,
    "M": lambda at: at.month,
    "d": lambda at: at.day,
    "H": lambda at: at.hour,
    "m": lambda at: at.minute,
    "s": lambda at: at.second,
    "S": lambda at: at.microsecond // 1000,
}
_SHORT_YEAR: Final = 2
_MONTH_NAME: Final = 3


class DateFormat:
    """A pattern of numbers: letters of `_FIELDS`, as many as there are digits at least."""

    def __init__(self, pattern: str) -> None:
        """Read a pattern.

        Raises:
            UsageError: it has other letters, or a quote without its end.
        """
        self._parts: list[tuple[str, int]] = []
        """Literal text with width 0, or a letter with its width."""
        position = 0
        while position < len(pattern):
            found = _PART.match(pattern, position)
            letter = None if found is None else found[2]
            is_name = letter == "M" and found is not None and len(found[0]) >= _MONTH_NAME
            if found is None or is_name or (letter is not None and letter not in _FIELDS):
                raise UsageError(
                    f"Illegal date format '{shortened(pattern)}': letters are "
                    f"{', '.join(_FIELDS)} (numbers) and 'quoted text'"
                )
            if letter is not None:
                self._parts.append((letter, len(found[0])))
            else:
                text = found[0] if found[1] is None else (found[1].replace("''", "'") or "'")
                self._parts.append((text, 0))
            position = found.end()

    def shown(self, wall_ms: int) -> str:
        """The text of a time in ms since 1970."""
        at = datetime.fromtimestamp(wall_ms / 1000, UTC).astimezone()
        return "".join(
            text if not width else self._number(at, text, width) for text, width in self._parts
        )

    @staticmethod
    def _number(at: datetime, letter: str, width: int) -> str:
        number = _FIELDS[letter](at)
        if letter == "y" and width == _SHORT_YEAR:
            number %= 100
        return f"{number:0{width}}"
