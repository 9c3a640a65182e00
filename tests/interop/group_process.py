"""A member of a group in a process of its own, which tests watch by its output."""

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

NAMES = itertools.count()
ROOT = Path(__file__).parents[2]
SECONDS = 30.0


class Member:
    """A process of a group."""

    def __init__(
        self, folder: Path, client: str, bootstrap: str, group: str, topic: str, *words: str
    ) -> None:
        self.log = folder / f"{group}-{next(NAMES)}.member"
        with self.log.open("w") as out, self.log.with_suffix(".errors").open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.interop.group_member", client, bootstrap, group,
                 topic, *words],
                cwd=ROOT, stdout=out, stderr=errors,
            )  # fmt: skip

    @property
    def events(self) -> list[dict[str, Any]]:
        lines = self.log.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    @property
    def owned(self) -> set[int]:
        """Partitions that it has."""
        owned: set[int] = set()
        for event in self.events:
            owned -= set(event.get("revoked", ()))
            owned |= set(event.get("assigned", ()))
        return owned

    @property
    def read(self) -> list[tuple[int, int, str]]:
        """Partition, offset and value of what it has read."""
        return [tuple(event["read"]) for event in self.events if "read" in event]

    def count(self, kind: str) -> int:
        return sum(1 for event in self.events if event.get(kind))

    def stop(self) -> None:
        """Let it leave."""
        self.process.terminate()
        assert self.process.wait(SECONDS) == 0, self.told()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(SECONDS)

    def told(self) -> str:
        errors = self.log.with_suffix(".errors").read_text()[-2000:]
        return f"{self.log.name}: {self.events[-5:]} {errors}"
