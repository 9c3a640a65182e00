"""The repository's packages as the one package of the wheel: which files, and their content."""

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from scripts.wheel.rewriting import PACKAGE, rewritten

DATA_SUFFIXES: Final = frozenset({".html", ".json", ".jsonl", ".txt"})
"""Files that packages read beside their modules."""
MARKER: Final = "py.typed"
"""Of PEP 561: type checkers read our annotations."""


class StrangeFileError(Exception):
    """A folder of a package holds a file that belongs to no package."""


def wheel_files(root: Path, packages: Sequence[str]) -> Iterator[tuple[PurePosixPath, bytes]]:
    """Path in the wheel and content of every file, sorted.

    Args:
        root: of the repository, or of an unpacked sdist.
        packages: top-level packages that go into the one; its own folder is the first of them.

    Raises:
        StrangeFileError: a file is neither a module nor data.
        NamedModuleError: a module names another one in a way that is refused.
    """
    files = sorted(path for package in packages for path in package_files(root / package))
    modules = {module_name(path.relative_to(root)) for path in files if path.suffix == ".py"}
    ours = modules - {name for name in modules if name.partition(".")[0] == PACKAGE}
    for path in files:
        name = PurePosixPath(path.relative_to(root).as_posix())
        content = path.read_bytes()
        if path.suffix == ".py":
            content = rewritten(content, str(name), ours)
        yield name if name.parts[0] == PACKAGE else PACKAGE / name, content


def package_files(folder: Path) -> Iterator[Path]:
    """Modules and data in the folder of a package; caches and hidden files are left out.

    Raises:
        StrangeFileError: any other file, which nobody meant to publish.
    """
    assert (folder / "__init__.py").is_file(), f"{folder} is no package"
    for path in folder.rglob("*"):
        parts = path.relative_to(folder).parts
        if not path.is_file() or "__pycache__" in parts or any(p.startswith(".") for p in parts):
            continue
        if path.suffix not in {".py", *DATA_SUFFIXES} and path.name != MARKER:
            raise StrangeFileError(f"{path} is neither a module nor data of one")
        yield path


def module_name(path: Path) -> str:
    """Dotted name of a module, by its path below the root."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
