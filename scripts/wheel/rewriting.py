"""A module of the repository's layout as the same module inside the package of the wheel.

`from raft.core import RaftCore` becomes `from kraftline.raft.core import RaftCore`. Text is only
inserted, at positions that Python's parser gives, and never a line: what was not ours stays as it
is, and stack traces name the lines of the repository.

- `import a.b` becomes `import kraftline.a.b, kraftline.a as a`: it binds `a` as before.
- A string that is the whole dotted name of one of our modules, such as a row of a table of
  commands, is an address: it gets the package too. A name without a dot ("node", "storage") is a
  word like any other.
- What names a module in another way is refused, since nobody would see at build time that it does
  not find it later: `files("metadata")`, `"python -m cli"`, text with an import in it. Its author
  writes `__package__` or `__name__` instead. Docstrings may say what they like.
"""

import ast
import re
from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import Final, NamedTuple

PACKAGE: Final = "kraftline"
PREFIX: Final = PACKAGE.encode() + b"."
FINDERS: Final = frozenset(
    {"files", "find_spec", "get_data", "import_module", "__import__", "run_module", "require"}
)
"""Functions whose first argument names a module."""
_DOCUMENTED: Final = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_MODULE: Final = r"([A-Za-z_]\w*)(?:\.\w+)*"
_NAMED_IN_TEXT: Final = re.compile(
    rf"-m\s+{_MODULE}|\bfrom\s+{_MODULE}\s+import\b|(?:^|[;\n])\s*import\s+{_MODULE}"
)


class NamedModuleError(Exception):
    """A source names one of our modules in a way that cannot be rewritten."""


class _Insertion(NamedTuple):
    line: int
    """From 1."""
    column: int
    """In bytes of UTF-8, as the parser counts."""
    text: bytes


def rewritten(source: bytes, name: str, modules: Collection[str]) -> bytes:
    """The source inside the package.

    Args:
        source: a module in UTF-8.
        name: of the file, for errors.
        modules: dotted names of all modules and packages that go into the package.

    Raises:
        NamedModuleError: it names one of them in a way that is refused.
    """
    tree = ast.parse(source)
    lines = source.splitlines(keepends=True)
    insertions = [*_imports(tree, lines, name, modules), *_strings(tree, lines, name, modules)]
    for line, column, text in sorted(insertions, reverse=True):
        row = lines[line - 1]
        lines[line - 1] = row[:column] + text + row[column:]
    return b"".join(lines)


def _imports(
    tree: ast.Module, lines: list[bytes], name: str, modules: Collection[str]
) -> Iterator[_Insertion]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and _is_ours(node.module, modules):
            row = lines[node.lineno - 1]
            behind = node.col_offset + len("from")
            column = behind + len(row[behind:]) - len(row[behind:].lstrip())
            if not row[column:].startswith(str(node.module).encode()):
                raise _refusal(name, node.lineno, "a name of a module on two lines")
            yield _Insertion(node.lineno, column, PREFIX)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if _is_ours(alias.name, modules):
                    yield from _plain_import(alias)


def _plain_import(alias: ast.alias) -> Iterator[_Insertion]:
    yield _Insertion(alias.lineno, alias.col_offset, PREFIX)
    if alias.asname is not None:
        return
    assert alias.end_lineno is not None
    assert alias.end_col_offset is not None
    top, dot, _ = alias.name.partition(".")
    binding = f", {PACKAGE}.{top} as {top}" if dot else f" as {top}"
    yield _Insertion(alias.end_lineno, alias.end_col_offset, binding.encode())


def _strings(
    tree: ast.Module, lines: list[bytes], name: str, modules: Collection[str]
) -> Iterator[_Insertion]:
    docstrings = {id(node) for node in _docstrings(tree)}
    # a part of a template has a position of its own only in Python 3.12
    in_templates = {id(part) for node in ast.walk(tree) for part in _parts_of_template(node)}
    for node in ast.walk(tree):
        _check_arguments(node, name, modules)
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if id(node) in docstrings:
            continue
        _check_text(node.value, node.lineno, name, modules)
        if "." in node.value and node.value in modules:
            opening = lines[node.lineno - 1][node.col_offset :]
            if id(node) in in_templates or opening[1:].find(node.value.encode()) != 0:
                raise _refusal(name, node.lineno, f"{node.value!r} is no plain string")
            yield _Insertion(node.lineno, node.col_offset + 1, PREFIX)


def _docstrings(tree: ast.Module) -> Iterator[ast.expr]:
    """Strings that are statements: docstrings, and those behind an attribute."""
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED):
            for statement in node.body:
                if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                    yield statement.value


def _parts_of_template(node: ast.AST) -> list[ast.expr]:
    return node.values if isinstance(node, ast.JoinedStr) else []


def _check_text(text: str, line: int, name: str, modules: Collection[str]) -> None:
    for found in _NAMED_IN_TEXT.finditer(text):
        if any(_is_ours(top, modules) for top in found.groups()):
            raise _refusal(name, line, f"{found[0].strip()!r} in a string")


def _check_arguments(node: ast.AST, name: str, modules: Collection[str]) -> None:
    """Refuse a package named by one word, where it is an argument that names a module."""
    words: list[ast.expr] = []
    if isinstance(node, ast.Call):
        called = node.func
        is_finder = getattr(called, "id", getattr(called, "attr", None)) in FINDERS
        words = [*node.args[: 1 if is_finder else 0], *_behind_dash_m(node.args)]
    elif isinstance(node, ast.List | ast.Tuple):
        words = _behind_dash_m(node.elts)
    for word in words:
        value = word.value if isinstance(word, ast.Constant) else None
        if isinstance(value, str) and value in modules and "." not in value:
            raise _refusal(name, word.lineno, f"{value!r} as the name of a module")


def _behind_dash_m(words: list[ast.expr]) -> list[ast.expr]:
    """The words of a command line behind `-m`."""
    pairs = pairwise(words)
    return [word for flag, word in pairs if isinstance(flag, ast.Constant) and flag.value == "-m"]


def _is_ours(module: str | None, modules: Collection[str]) -> bool:
    return module is not None and module.partition(".")[0] in modules


def _refusal(name: str, line: int, what: str) -> NamedModuleError:
    return NamedModuleError(
        f"{name}:{line}: {what}: in the wheel it has another name; write __package__ or __name__"
    )
