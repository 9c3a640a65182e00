"""Checker of the linearizability of concurrent histories; independent of the project.

`check(history, model, budget=...)` gives a `Result`; `read_history(path)` reads a history in any
of the known formats; `explain(history, model)` finds a minimal counterexample.
"""

from jepsen.linearizability.checker import (
    ILLEGAL,
    OK,
    UNKNOWN,
    Budget,
    PartitionResult,
    Progress,
    Result,
    check,
)
from jepsen.linearizability.counterexample import Counterexample, explain
from jepsen.linearizability.formats.files import (
    Format,
    parse_history,
    read_history,
    write_history,
    written_history,
)
from jepsen.linearizability.history import Event, History, HistoryError, Operation, history_of
from jepsen.linearizability.models import MODELS, model_named

__all__ = [
    "ILLEGAL",
    "MODELS",
    "OK",
    "UNKNOWN",
    "Budget",
    "Counterexample",
    "Event",
    "Format",
    "History",
    "HistoryError",
    "Operation",
    "PartitionResult",
    "Progress",
    "Result",
    "check",
    "explain",
    "history_of",
    "model_named",
    "parse_history",
    "read_history",
    "write_history",
    "written_history",
]
