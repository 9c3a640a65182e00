"""Log lines: key=value on a terminal, one JSON object a line otherwise; quiet when healthy."""

import json
import sys
import time
import traceback
from datetime import UTC, datetime

from kernel.effects import Log, LogLevel

_threshold = LogLevel.INFO


def write_log(line: Log, error: BaseException | None = None) -> None:
    """Write one line to standard error; a failure of the node carries its stack."""
    if line.level < _threshold:
        return
    at = datetime.fromtimestamp(time.time_ns() / 1e9, UTC).isoformat(timespec="milliseconds")
    stack = "".join(traceback.format_exception(error)) if error is not None else ""
    if sys.stderr.isatty():
        fields = " ".join(f"{key}={_plain(value)}" for key, value in line.fields.items())
        sys.stderr.write(f"{at} {line.level.name} {line.event} {fields}\n{stack}")
    else:
        record = {"time": at, "level": line.level.name, "event": line.event, **line.fields}
        if stack:
            record["stack"] = stack
        sys.stderr.write(json.dumps(record, default=str) + "\n")
    sys.stderr.flush()


def _plain(value: object) -> str:
    text = str(value)
    return json.dumps(text) if " " in text or not text else text
