"""Records that a stream skipped, as JSON lines beside the damaged batches of `errorsPath`."""

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec

from pipeline.core.reading.stream import Problem


def write_gaps(folder: str, problems: Sequence[Problem]) -> None:
    """Write one file per gap, named by its content: a gap seen twice is written once."""
    root = Path(folder)
    root.mkdir(parents=True, exist_ok=True)
    for problem in problems:
        at = "end" if problem.resume is None else str(problem.resume.offset)
        name = f"gap-{problem.topic}-{problem.partition}-{problem.reason}-{at}.jsonl"
        temporary = root / f".{name}.tmp"
        temporary.write_text(json.dumps(msgspec.to_builtins(problem)) + "\n", encoding="utf-8")
        temporary.rename(root / name)
