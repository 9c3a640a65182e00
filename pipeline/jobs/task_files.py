"""Files of one task: temporary names beside the final ones, until the task is done."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def temporary_of(final: Path) -> Path:
    """A name unique to this attempt: another one of the same task may run on another machine."""
    return final.parent / f".{final.stem}.{os.uname().nodename}.{os.getpid()}.tmp"


class TaskFiles:
    """Open Arrow and Parquet writers by key; a task ends with `publish` or `discard`."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[Any, Path, Path]] = {}

    def get(self, key: str) -> Any | None:
        """Return the writer of a key, None before `open`."""
        found = self._files.get(key)
        return None if found is None else found[0]

    def open(self, key: str, final: Path, writer: Callable[[Path], Any]) -> Any:
        """Make the writer of a key, on a temporary name in the folder of `final`."""
        assert key not in self._files, f"{key=} is open"
        final.parent.mkdir(parents=True, exist_ok=True)
        temporary = temporary_of(final)
        made = writer(temporary)
        self._files[key] = (made, temporary, final)
        return made

    def publish(self) -> None:
        """Give the files their names."""
        for writer, temporary, final in self._files.values():
            writer.close()
            temporary.rename(final)
        self._files.clear()

    def discard(self) -> None:
        """Remove unpublished files."""
        for writer, temporary, _ in self._files.values():
            writer.close()
            temporary.unlink(missing_ok=True)
