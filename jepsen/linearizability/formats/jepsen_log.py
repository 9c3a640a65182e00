"""Log lines of Jepsen in 2014: `INFO  jepsen.util - PROCESS<tab>:TYPE<tab>:F<tab>VALUE`.

Values are EDN. `:timed-out` in the place of a value means that no answer came: the event has no
value and the error `timed-out`. Lines of other loggers are left out. There are no times.
"""

import re
from collections.abc import Sequence
from typing import Final

from jepsen.linearizability.formats import edn
from jepsen.linearizability.formats.codecs import Parsed
from jepsen.linearizability.formats.fields import event_of
from jepsen.linearizability.history import Event, HistoryError
from jepsen.linearizability.values import Keyword

LOGGER: Final = re.compile(r"jepsen\.util\s+-\s+")
LINE: Final = re.compile(r"(:?[\w-]+)\s+:([\w-]+)\s+:(\S+)(?:\s+(.*?))?\s*")
TIMED_OUT: Final = "timed-out"
KNOWN_FIELDS: Final = "process, type, f, value"


def parse(text: str, source: str) -> Parsed:
    """Parse the events with their line numbers, from 1.

    Raises:
        HistoryError: A line of the right logger that is no event.
    """
    parsed = Parsed([], [])
    for number, line in enumerate(text.split("\n"), start=1):  # a value may hold other line ends
        found = LOGGER.search(line)
        if found is None:
            continue
        match = LINE.fullmatch(line, found.end())
        if match is None:
            raise HistoryError(f"{source}:{number}: not 'PROCESS :TYPE :F VALUE': {line.strip()!r}")
        process, kind, f, raw = match.groups()
        try:
            value = edn.loads(raw) if raw else None
            timed_out = isinstance(value, Keyword) and value == TIMED_OUT
            fields = {
                "process": int(process) if process.isdecimal() else process.lstrip(":"),
                "type": kind,
                "f": f,
                "value": None if timed_out else value,
                "error": TIMED_OUT if timed_out else None,
            }
            parsed.events.append(event_of(fields))
            parsed.lines.append(number)
        except ValueError as error:
            raise HistoryError(f"{source}:{number}: {error}") from error
    return parsed


def written(events: Sequence[Event]) -> str:
    """Write the events as log lines.

    Raises:
        HistoryError: An event holds what a line cannot carry: nothing is lost in silence.
    """
    lines = []
    for position, event in enumerate(events):
        timed_out = event.error == TIMED_OUT and event.value is None
        carried = event.index is None and event.time is None and not event.extra
        if not carried or (event.error is not None and not timed_out):
            raise HistoryError(
                f"event {position} holds more than {KNOWN_FIELDS}: a log line cannot carry it"
            )
        process = event.process if isinstance(event.process, int) else f":{event.process}"
        value = f":{TIMED_OUT}" if timed_out else edn.dumps(event.value)
        lines.append(f"INFO  jepsen.util - {process}\t:{event.type}\t:{event.f}\t{value}\n")
    return "".join(lines)
