"""Hatchling's hook that puts the packages into one (docs/decisions/0025).

An editable install keeps the repository's layout; it and the sdist have nothing to do with this.
"""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class OnePackageHook(BuildHookInterface[Any]):
    """Writes the rewritten files into a temporary folder, from which the wheel takes them."""

    # typing's `override` came with Python 3.12, and a build has no typing_extensions

    def initialize(  # type: ignore[explicit-override]
        self, version: str, build_data: dict[str, Any]
    ) -> None:
        """Before the wheel is written: `standard` or `editable`."""
        if version == "editable":
            return
        sys.path.insert(0, self.root)  # hatchling loads this file by its path
        try:
            from scripts.wheel.tree import wheel_files  # noqa: PLC0415 - needs the line above
        finally:
            sys.path.remove(self.root)
        files = list(wheel_files(Path(self.root), self.config["packages"]))
        self._folder = Path(tempfile.mkdtemp(prefix="kraftline-wheel-"))
        for name, content in files:
            path = self._folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            build_data["force_include"][str(path)] = str(name)

    def finalize(  # type: ignore[explicit-override]
        self,
        version: str,
        build_data: dict[str, Any],  # noqa: ARG002 - hatchling's signature
        artifact_path: str,  # noqa: ARG002
    ) -> None:
        """After the wheel is written."""
        if version != "editable":
            shutil.rmtree(self._folder)
