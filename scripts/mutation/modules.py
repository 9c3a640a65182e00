"""Production modules of this tree, and an importer that compiles changed trees of them.

The importer never writes: a traced or mutated module exists in one process only; the working
tree and the bytecode caches stay as they are.
"""

import ast
import hashlib
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final

from typing_extensions import override

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = (
    "raft",
    "kernel",
    "network",
    "replication",
    "coordinator",
    "broker",
    "quorum_controller",
    "storage",
    "metadata",
    "wire",
)
"""Packages whose score is kept."""
INPUTS: Final = (".py", ".txt", ".json", ".jsonl", ".hex", ".toml")
"""Kinds of files that can change the result of a test."""
OWN_FILES: Final = ("scripts/mutation/", "tests/mutation/", "docs/")

Compiler = Callable[[str, bytes], ast.Module]
"""Function from a path below the root and its source to the tree to compile."""


def modules(package: str, root: Path = ROOT) -> list[str]:
    """Paths of a package's production modules below the root, sorted."""
    return sorted(path.relative_to(root).as_posix() for path in (root / package).rglob("*.py"))


def fingerprint(root: Path = ROOT) -> str:
    """Digest of every file that production code and quick tests consist of, without this tool's."""
    digest = hashlib.sha256()
    folders = sorted(path for path in root.iterdir() if path.is_dir() and path.name[0] != ".")
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.suffix in INPUTS and path.is_file() and not name.startswith(OWN_FILES):
                digest.update(f"{name}\0".encode())
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


class _Loader(SourceFileLoader):
    """A loader that neither reads nor writes bytecode."""

    def __init__(self, name: str, path: str, compiler: Compiler) -> None:
        super().__init__(name, path)
        self._compiler = compiler

    @override
    def get_code(self, fullname: str) -> CodeType:
        path = Path(self.path)
        tree = self._compiler(path.relative_to(ROOT).as_posix(), path.read_bytes())
        return compile(tree, self.path, "exec", dont_inherit=True)


class Importer(MetaPathFinder):
    """Importer that compiles the modules of some packages from trees made by `compiler`."""

    def __init__(self, packages: Iterable[str], compiler: Compiler) -> None:
        self._packages = frozenset(packages)
        self._compiler = compiler

    @override
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in self._packages:
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(fullname, spec.loader.path, self._compiler)
        return spec

    def install(self) -> None:
        """Handle every import from now on."""
        loaded = [name for name in sys.modules if name.partition(".")[0] in self._packages]
        assert not loaded, f"{loaded=} cannot be compiled again"
        sys.meta_path.insert(0, self)
