"""Log lines: key=value on a terminal, otherwise one JSON object per line; few while healthy."""

import json
import sys
import time
import traceback
from contextlib import suppress
from datetime import UTC, datetime

from kernel.effects import Log, LogLevel

_threshold = LogLevel.INFO


def write_log(line: Log, error: BaseException | None = None) -> None:
    """Write one line to standard error, with the stack of an error.

    If standard error is closed the line is lost, and the node goes on.
    """
    if line.level < _threshold:
        return
    at = datetime.fromtimestamp(time.time_ns() / 1e9, UTC).isoformat(timespec="milliseconds")
    fields = dict(line.fields)
    if error is not None:
        fields["stack"] = "".join(traceback.format_exception(error))
    with suppress(OSError):
        if sys.stderr.isatty():
            pairs = "".join(f" {key}={_plain(value)}" for key, value in fields.items())
            sys.stderr.write(f"{at} {line.level.name} {line.event}{pairs}\n")
        else:
            record = {"time": at, "level": line.level.name, "event": line.event, **fields}
            sys.stderr.write(json.dumps(record, default=str) + "\n")
        sys.stderr.flush()


def _plain(value: object) -> str:
    """Format a value after `=`: quoted if it would be ambiguous, always on one line."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    is_bare = bool(text) and text.isprintable() and not set(text) & set(' "=')
    return text if is_bare else json.dumps(text)
