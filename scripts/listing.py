"""Print the files of each package with the first sentence of each: where to look for a change."""

import argparse
import ast
import re
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ROOT / "pyproject.toml"
SUFFIX = ".py"


def packages() -> list[str]:
    """The packages beside scripts and tests, those that others import first first."""
    found = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}
    text = LAYERS.read_text(encoding="utf-8")
    layers = text[text.index("layers = [") :]
    words = re.findall(r"\w+", layers[: layers.index("]")])
    depth = {name: words.index(name) if name in words else -1 for name in found}
    return sorted(found, key=lambda name: (-depth[name], name))


def lines(package: str) -> list[str]:
    """A line for each file of a package, those of a room below its own."""
    found: list[str] = []
    for path in sorted((ROOT / package).rglob(f"*{SUFFIX}"), key=lambda path: path.parts):
        relative = path.relative_to(ROOT)
        documented = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        first = documented.partition("\n")[0]
        shown = f"{relative.parent}/" if path.stem == "__init__" else str(relative)
        found.append(f"{shown}: {first}")
    return found


def main(words: Sequence[str]) -> int:
    """Run the command line; gives the exit code."""
    known = packages()
    parser = argparse.ArgumentParser(prog="scripts/listing", description=__doc__)
    names = ", ".join(known)
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help=f"of {names} (all)")
    chosen = parser.parse_args(words).packages
    for name in chosen:
        if name not in known:
            parser.error(f"PACKAGE {name!r} is not one of {names}")
    try:
        for name in chosen or known:
            sys.stdout.write("\n".join(lines(name)) + "\n\n")
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    return 0
