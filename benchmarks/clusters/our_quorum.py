"""A kraftline quorum for a benchmark, started by `scripts/quorum` as a user would."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).parents[2] / "scripts" / "quorum"


class OurCluster:
    """A cluster in a folder: combined nodes unless `up` gets other words."""

    def __init__(
        self,
        folder: Path,
        base_port: int,
        nodes: int = 3,
        *,
        settings: dict[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self._settings = settings or {}
        self.base_port = base_port
        self.brokers = [f"127.0.0.1:{base_port + i}" for i in range(nodes)]
        self.controllers = [f"127.0.0.1:{base_port + 1000 + i}" for i in range(nodes)]

    def run(self, *words: str) -> str:
        """Run one command of the script; its standard error is passed on."""
        command = [sys.executable, str(SCRIPT), words[0], "--dir", str(self.folder), *words[1:]]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

    def up(self, *words: str) -> None:
        """Format and start; returns when every broker is unfenced. `words` go to `up`."""
        shape = () if words else ("--nodes", str(len(self.brokers)))
        given = [word for pair in self._settings.items() for word in ("--set", "=".join(pair))]
        self.run("up", "--base-port", str(self.base_port), *shape, *given, *words)

    def status(self) -> dict[str, Any]:
        """Return the status object, even while a node is down."""
        command = [sys.executable, str(SCRIPT), "status", "--dir", str(self.folder), "--json"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        status: dict[str, Any] = json.loads(done.stdout)
        return status

    def down(self) -> None:
        """Stop every node."""
        self.run("down")
