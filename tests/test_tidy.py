"""The style rules that a machine can check, as one test per rule (docs/running.md lists them).

`OFFENDERS` is a ratchet: what is over a limit today stands there with its size, may shrink and may
leave, never grow and never gain a member. A rule that nobody breaks keeps an empty list.
"""

import ast
import functools
import gc
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.reach import reaches

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGES: Final = (
    "kraftline",
    "wire",
    "raft",
    "metadata",
    "storage",
    "quorum_controller",
    "broker_publisher",
    "network",
    "replication",
    "coordinator",
    "kernel",
    "broker",
    "node",
    "simulator",
    "inspection",
    "cli",
    "pipeline",
    "jepsen",
    "testing",
    "benchmarks",
)

FILE_LINES_MAX: Final = 500
FILE_LINES_HARD_MAX: Final = 800  # not even the list of offenders allows more
FUNCTION_LINES_MAX: Final = 70
PARAMETERS_MAX: Final = 6  # positional, without self or cls
LINE_COLUMNS_MAX: Final = 100
ASSERTIONS_PER_1000_LINES_MIN: Final = {"raft": 31.1, "storage": 30.6}
"""By package: the number reached, with room for a few lines; it may only rise."""

BANNED_MODULE_NAMES: Final = frozenset({"utils", "util", "helpers", "helper", "common", "misc"})
QUESTION: Final = re.compile(r"(wh(at|o|om|ose|ether|ich|ere|en|y)|how|that)\b", re.IGNORECASE)
CONFLICT: Final = re.compile(r"^(<{7}|>{7}) ", re.MULTILINE)
LEFTOVER: Final = re.compile(r"#.*\b(TODO|FIXME|XXX)\b")
MACHINE_PATH: Final = re.compile(r"(?<![\w.])/(work|root|home)/[\w.]|/(?:Users)/\w")
INVARIANT: Final = re.compile(r"\bINV-[A-Z]+-\d+")
SLEEPING_ALLOWED: Final = ("tests/interop/", "tests/jepsen/", "tests/browser/")

ANY_MAX: Final = {"quorum_controller": 16, "kernel": 10}
"""Annotations that say `Any` (or its alias `Body`) by package: a number that may only fall."""
ANY_REASONS: Final = {
    "quorum_controller/handlers.py": "each row of the table takes another class of kio",
    "quorum_controller/queries.py": "each row of the table takes another class of kio",
    "quorum_controller/result.py": "the body of a request of any API",
    "quorum_controller/configs/": "two APIs share their checks; a config parses to its own type",
    "kernel/quorum/messages/table.py": "each row of the table takes another class of kio",
    "kernel/serving/": "Produce, Fetch and others are read in the version they were sent in",
}
"""Reasons for which `Any` stays, by path or folder."""

REACHING: Final = (
    "benchmarks/",
    "jepsen/",
    "pipeline/",
    "raft/",
    "simulator/checks/",  # they look into nodes from outside, as do those that break them
    "simulator/mutants/",
    "storage/",
)
"""Folders that still reach through two objects; may only leave."""

# Measured size by "path" or "path::qualified function"; may only shrink.
OFFENDERS: Final[dict[str, int]] = {}


def python_files(*folders: str) -> list[Path]:
    """Every Python file below the folders, in a fixed order."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


SOURCES: Final = python_files(*PACKAGES)
ALL_FILES: Final = python_files(*PACKAGES, "tests", "scripts")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Statements directly in a node, which can hold functions; no expression can."""
    for field in ("body", "handlers", "orelse", "finalbody", "cases"):
        inner = getattr(node, field, None)
        if isinstance(inner, list):
            yield from inner


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """Every function with its qualified name, nested ones included."""
    for node in statements(tree):
        name = prefix
        if isinstance(node, ast.ClassDef | Function):
            name = f"{prefix}.{node.name}" if prefix else node.name
        if isinstance(node, Function):
            yield name, node
        yield from functions(node, name)


@pytest.fixture(scope="module", autouse=True)
def _trees() -> Iterator[None]:
    """All trees are read without the collector, for which they are work, and not kept for long."""
    gc.disable()
    yield
    parse.cache_clear()
    gc.enable()


@functools.cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def over_limit(sizes: dict[str, int], limit: int) -> list[str]:
    """The entries above the limit that the list of offenders does not cover at that size."""
    return [
        f"{name}: {size}, limit {OFFENDERS.get(name, limit)}"
        for name, size in sizes.items()
        if size > max(limit, OFFENDERS.get(name, 0))
    ]


@functools.cache
def file_sizes() -> dict[str, int]:
    return {relative(path): path.read_bytes().count(b"\n") for path in ALL_FILES}


@functools.cache
def function_sizes() -> dict[str, int]:
    sizes = {}
    for path in ALL_FILES:
        for name, node in functions(parse(path)):
            assert node.end_lineno is not None
            sizes[f"{relative(path)}::{name}"] = node.end_lineno - node.lineno + 1
    return sizes


def test_there_is_something_to_check() -> None:
    assert len(SOURCES) > len(PACKAGES) // 2


def test_files_are_short() -> None:
    sizes = file_sizes()
    assert over_limit(sizes, FILE_LINES_MAX) == []
    assert [name for name, size in sizes.items() if size > FILE_LINES_HARD_MAX] == []


def test_functions_fit_a_screen() -> None:
    assert over_limit(function_sizes(), FUNCTION_LINES_MAX) == []


def test_the_list_of_offenders_only_shrinks() -> None:
    sizes = file_sizes() | function_sizes()
    stale = [f"{name}: listed {listed}, is {sizes.get(name)}" for name, listed in OFFENDERS.items()
             if sizes.get(name, 0) < listed]  # fmt: skip
    assert stale == [], "shrank or left: write the new size, or remove the entry"


def test_functions_have_few_positional_parameters() -> None:
    found = []
    for path in SOURCES:
        for name, node in functions(parse(path)):
            names = [argument.arg for argument in node.args.posonlyargs + node.args.args]
            count = len(names) - (names[:1] in (["self"], ["cls"]))
            if count > PARAMETERS_MAX:
                found.append(f"{relative(path)}::{name}: {count}")
    assert found == []


def test_lines_are_narrow() -> None:
    found = [
        f"{relative(path)}:{number}: {len(line)}"
        for path in ALL_FILES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if len(line) > LINE_COLUMNS_MAX and not re.search(r"https?://\S{60,}", line)
    ]
    assert found == []


def test_modules_are_named_after_what_they_hold() -> None:
    names = [(path, {path.stem, *path.relative_to(ROOT).parts[:-1]}) for path in ALL_FILES]
    assert [relative(path) for path, parts in names if parts & BANNED_MODULE_NAMES] == []


def test_modules_say_what_they_are_for() -> None:
    assert [relative(path) for path in SOURCES if not ast.get_docstring(parse(path))] == []


def docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Docstrings of modules, classes, functions and attributes: texts that are statements."""
    for node in statements(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str()) as text):
                yield text
            case _:
                yield from docstrings(node)


def opens_as_a_question(text: str) -> bool:
    """True if a docstring opens with a question word, not with a noun or a verb of the field."""
    return QUESTION.match(text.lstrip()) is not None


@pytest.mark.parametrize(
    "text",
    ["What it is.", "who", "Whether\n so", " Which", "whom", "Whose", "Where", "When", "Why", "How",
     "That x"],
)  # fmt: skip
def test_a_question_word_is_seen(text: str) -> None:
    assert opens_as_a_question(text)
    assert not opens_as_a_question(f"The text of {text}")
    assert not opens_as_a_question("Whole batches.")


def test_docstrings_open_with_a_noun_or_a_verb() -> None:
    found = [
        f"{relative(path)}:{node.lineno}: {str(node.value)[:40]}"
        for path in ALL_FILES
        for node in docstrings(parse(path))
        if opens_as_a_question(str(node.value))
    ]
    assert found == [], "The order of ..., Return ...: not What, Whether, How ..."


def test_no_leftovers() -> None:
    found = [
        f"{relative(path)}:{number}"
        for path in ALL_FILES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if LEFTOVER.search(line) and path != Path(__file__).resolve()
    ]
    assert found == []


def texts() -> list[Path]:
    """Code, pages, and the scripts at the top of their folder."""
    pages = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]
    return [*ALL_FILES, *pages, *(p for p in sorted((ROOT / "scripts").iterdir()) if p.is_file())]


def test_no_merge_is_half_done() -> None:
    found = [
        relative(path) for path in texts() if CONFLICT.search(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_nothing_names_a_folder_of_one_machine() -> None:
    found = [
        f"{relative(path)}: {match.group()}"
        for path in texts()
        if path != Path(__file__).resolve()
        and (match := MACHINE_PATH.search(path.read_text(encoding="utf-8")))
    ]
    assert found == []


def test_the_list_of_invariants_has_the_names_that_the_code_has() -> None:
    """docs/invariants.md and the production packages name the same ones, each in its table once."""
    found = {name for path in SOURCES for name in INVARIANT.findall(path.read_text("utf-8"))}
    lines = (ROOT / "docs" / "invariants.md").read_text("utf-8").splitlines()
    rows = [line.split("|")[1] for line in lines if line.startswith("| INV-")]
    listed = [name for row in rows for name in INVARIANT.findall(row)]
    assert sorted(listed) == sorted(found)


def test_tests_do_not_sleep() -> None:
    """A sleep in a test is a guess about speed; only tests of real processes may wait."""
    found = []
    for path in python_files("tests"):
        if relative(path).startswith(SLEEPING_ALLOWED) or b"sleep" not in path.read_bytes():
            continue
        found += [
            f"{relative(path)}:{node.lineno}"
            for node in ast.walk(parse(path))
            if isinstance(node, ast.Call) and says_sleep(node.func)
        ]
    assert found == []


def says_sleep(function: ast.expr) -> bool:
    match function:
        case ast.Name("sleep") | ast.Attribute(ast.Name("time"), "sleep"):
            return True
        case _:
            return False


def says_any(node: ast.AST) -> bool:
    """True if a name of the code means `Any`; importing it says nothing yet."""
    match node:
        case ast.Attribute(ast.Name("typing"), "Any") | ast.Attribute(ast.Name("codec"), "Body"):
            return True
        case _:
            return isinstance(node, ast.Name) and node.id in ("Any", "Body")


@pytest.mark.parametrize("package", list(ANY_MAX))
def test_any_stays_only_where_the_classes_of_kio_force_it(package: str) -> None:
    """Bodies have kio's classes, what is passed on is an `object`, what is made an `Entity`."""
    counts = {
        relative(path): sum(says_any(node) for node in ast.walk(parse(path)))
        for path in python_files(package)
    }
    found = {path: count for path, count in counts.items() if count}
    assert sum(found.values()) <= ANY_MAX[package], found
    assert [path for path in found if not path.startswith(tuple(ANY_REASONS))] == []


@pytest.mark.parametrize("package", list(ASSERTIONS_PER_1000_LINES_MIN))
def test_assertions_state_the_invariants(package: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No fewer per 1000 lines than were reached (tigerbeetle's vsr has 99)."""
    files = python_files(package)
    lines = sum(path.read_bytes().count(b"\n") for path in files)
    count = sum(isinstance(node, ast.Assert) for path in files for node in ast.walk(parse(path)))
    with capsys.disabled():
        sys.stdout.write(f"\n{package}: {count} assertions in {lines} lines\n")
    assert count * 1000 >= ASSERTIONS_PER_1000_LINES_MIN[package] * lines > 0


def test_no_reach_through_two_objects() -> None:
    """A class uses the parts that it was built with; `self._part.inner.method()` is a third's."""
    found = [
        f"{relative(path)}:{line}: {text}"
        for path in SOURCES
        if not relative(path).startswith(REACHING)
        for line, text in reaches(parse(path))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("return self._writer.log.read(0)", ["self._writer.log.read"]),
        ("self._state.loader.end_offset = 0", ["self._state.loader.end_offset"]),
        ("return state.loader.image.provenance", []),
        ("return state.loader.files.image", ["state.loader.files.image"]),
        ("log = self._writer.log; return log.read(0)", ["self._writer.log.read"]),
        ("n, log = 0, self._writer.log; return log.end", ["self._writer.log.end"]),
        ("a = self._a; b = a.b; return lambda: b.c", ["self._a.b.c"]),
        ("node = self._root.first; node = node.next; return node.size", []),
        ("log: Log = self._writer.log; return log.end", ["self._writer.log.end"]),
        ("log: Log; return log.end.real", []),
        (
            "return (log := self._writer.log).end + log.start",
            ["self._writer.log.end", "self._writer.log.start"],
        ),
        ("with self._writer.log as log: log.end", ["self._writer.log.end"]),
        ("with self._lock: pass", []),
        ("for log in self._logs: log.file.sync()", ["self._logs.file.sync"]),
        ("for log in self._logs: log.sync()", []),
        ("async for log in self._logs: log.file.sync()", ["self._logs.file.sync"]),
        ("return [log.file.size for log in self._logs]", ["self._logs.file.size"]),
        ("for row in state.topics.rows: row.name.upper()", []),
        ("return machine.kernel.core.role", []),
        ("return machine.kernel.core.role.epoch", ["machine.kernel.core.role.epoch"]),
        ("return self._nodes[0].replica.core.role", [".replica.core.role"]),
        ("return self._log.read(0)", []),
        ("return self._writer.log", []),
        ("return self._log.read(0).header.size.real", []),
        ("return self._config.broker.rack.upper()", []),
        ("return self._cache.image.topics.get(0)", []),
        ("return self._images.topics.get(0)", ["self._images.topics.get"]),
        ("return module.inner.thing.call()", []),
        ("import other; return other.inner.thing.call()", []),
        ("return Kind.FIRST.value.name.upper()", []),
        ("kind = Kind.FIRST; return kind.value.name", []),
    ],
)
def test_a_reach_is_told_from_a_value_and_a_module(body: str, found: list[str]) -> None:
    heading = "import module; from kinds import Kind\nclass Part:\n  def method(self, state):\n    "
    assert [reach for _, reach in reaches(ast.parse(heading + body))] == found
