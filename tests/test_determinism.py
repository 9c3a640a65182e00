"""The rules of determinism that a machine can check in code that runs under simulation.

No clock, no global randomness, no threads, no addresses of objects, no order of a set of texts: the
same seed gives the same run. `EXCEPTIONS` names who may do what and why; an entry nobody needs any
more is an error too. Whether a run is repeatable is tested in tests/simulator/test_simulation.py.
"""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent
CORE: Final = (
    "raft", "kernel", "broker", "network", "replication", "coordinator", "storage", "wire",
    "metadata", "quorum_controller", "broker_publisher",
)  # fmt: skip
PACKAGES: Final = (*CORE, "simulator")

MODULES: Final = frozenset(
    {
        "time", "threading", "_thread", "asyncio", "concurrent", "multiprocessing", "subprocess",
        "secrets", "os", "socket", "select", "selectors", "signal", "sched", "queue", "tempfile",
        "logging", "platform", "resource", "gc", "weakref",
    }
)  # fmt: skip
"""Modules that cannot be imported, with those below them: none is a function of its arguments."""
NAMES: Final = frozenset(
    {
        "uuid.uuid1", "uuid.uuid4", "uuid.getnode", "random.SystemRandom",
        "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today",
        "datetime.date.today",
    }
)  # fmt: skip
"""Names that cannot be used of modules that can be imported; of `random` only `Random` can."""
BUILTINS: Final = frozenset({"id", "hash", "input", "__import__"})
"""`id` is an address; `hash` of a text differs between processes."""

CACHE = "a cache by identity: what it gives depends on the content alone"
PROGRESS = "CPU time and progress of a campaign, outside of the runs"
PROCESSES = "processes that run one seed each"
STOPPED = "a campaign that is told to end"
TERMINAL = "its width, and a reader of the output that left"
EXCEPTIONS: Final[dict[str, dict[str, str]]] = {
    "storage/os_vfs.py": {"os": "the real disk, which no simulation opens"},
    "wire/messages/create_topics_response.py": {"id": CACHE},
    "wire/trie_map.py": {"hash": "of the map itself, as the map of immutables has one"},
    "simulator/campaign/campaign.py": {
        "time": PROGRESS, "multiprocessing": PROCESSES, "concurrent": PROCESSES,
        "gc": "how often it runs, which no result depends on", "signal": STOPPED,
    },
    "simulator/__main__.py": {"os": TERMINAL},
    "simulator/campaign/report.py": {"time": PROGRESS, "os": TERMINAL},
    "simulator/cluster/scheduler.py": {"signal": "ends a step that never ends"},
    "simulator/campaign/commit_name.py": {"subprocess": "the name of the commit"},
    "simulator/campaign/session.py": {"time": PROGRESS, "signal": STOPPED},
    "simulator/mutants/hunt.py": {"time": PROGRESS},
    "simulator/mutants/command.py": {
        "multiprocessing": PROCESSES, "concurrent": PROCESSES, "signal": STOPPED,
    },
    "simulator/cluster/world.py": {"hash": "of numbers, which is the same in every process"},
    "simulator/records/world.py": {"hash": "of numbers, which is the same in every process"},
}  # fmt: skip

SETS: Final = frozenset({"set", "frozenset", "Set", "AbstractSet", "MutableSet"})
HASHED_ANEW: Final = frozenset({"str", "bytes", "TopicId", "DirectoryId", "UUID", "Uuid"})
"""Types whose hash differs between processes, and so the order of a set of them."""
ANY_ORDER: Final = frozenset(
    {"sorted", "set", "frozenset", "any", "all", "sum", "min", "max", "len", "Counter"}
)
"""Functions that give the same in whatever order their argument comes."""
IN_ORDER: Final = frozenset({"list", "tuple", "iter", "next", "enumerate", "zip", "map"})


Nodes = list[ast.AST]
"""All nodes of a file: to walk through its tree takes longer than to look at them."""


def imported(nodes: Nodes) -> dict[str, str]:
    """Local name -> dotted name of what an import binds to it."""
    names: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.name if alias.asname else alias.name.partition(".")[0]
                names[alias.asname or name] = name
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def dotted(node: ast.expr, names: dict[str, str]) -> str | None:
    """The dotted name that an expression stands for, if an import bound its beginning."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        before = dotted(node.value, names)
        return before and f"{before}.{node.attr}"
    return None


def forbidden_imports(nodes: Nodes) -> Iterator[tuple[str, int]]:
    for node in nodes:
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules = [node.module]
        for module in modules:
            top = module.partition(".")[0]
            if top in MODULES:
                yield top, node.lineno


def forbidden_names(nodes: Nodes) -> Iterator[tuple[str, int]]:
    names = imported(nodes)
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                if is_forbidden(full):
                    yield full, node.lineno
        elif isinstance(node, ast.Attribute):
            full = dotted(node, names) or ""
            if is_forbidden(full):
                yield full, node.lineno
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in BUILTINS - names.keys():
                yield node.func.id, node.lineno
            is_random = dotted(node.func, names) == "random.Random"
            if is_random and not node.args and not node.keywords:
                yield "random.Random()", node.lineno


def is_forbidden(name: str) -> bool:
    if name.startswith("random.") and not name.startswith("random.Random"):
        return True
    return name in NAMES


def is_set_of_texts(annotation: ast.expr | None) -> bool:
    """`set[str]` and its like, also beside None."""
    if isinstance(annotation, ast.BinOp):
        return is_set_of_texts(annotation.left) or is_set_of_texts(annotation.right)
    if not isinstance(annotation, ast.Subscript) or not isinstance(annotation.value, ast.Name):
        return False
    if annotation.value.id == "Final":
        return is_set_of_texts(annotation.slice)
    inner = {part.id for part in ast.walk(annotation.slice) if isinstance(part, ast.Name)}
    return annotation.value.id in SETS and bool(inner & HASHED_ANEW)


def sets_of_texts(nodes: Nodes) -> set[str]:
    """Names and `.attributes` that a file says to be sets of what is hashed anew."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.AnnAssign) and is_set_of_texts(node.annotation):
            target = node.target
            if isinstance(target, ast.Name):
                found |= {target.id, f".{target.id}"}
            elif isinstance(target, ast.Attribute):
                found.add(f".{target.attr}")
        elif isinstance(node, ast.arg) and is_set_of_texts(node.annotation):
            found.add(node.arg)
    return found


def ordered_sets(nodes: Nodes) -> Iterator[tuple[str, int]]:
    """Places where the order of a set gets into a result, as far as annotations tell."""
    texts = sets_of_texts(nodes)
    harmless = in_any_order(nodes)
    for node in nodes:
        if id(node) in harmless:
            continue
        for source in taken_in_order(node):
            if is_unordered(source, texts):
                yield f"order of a set: {ast.unparse(source)}", source.lineno


def is_unordered(node: ast.expr, texts: set[str]) -> bool:
    """True if it is a set whose order may differ; `texts` as `sets_of_texts` gives them."""
    match node:
        case ast.Set():
            return not all(map(is_number, node.elts))
        case ast.SetComp() | ast.Call(func=ast.Name("set" | "frozenset")):
            return True
        case ast.Name(name):
            return name in texts
        case ast.Attribute(attr=name):
            return f".{name}" in texts
        case ast.BinOp(left, ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor(), right):
            return is_unordered(left, texts) or is_unordered(right, texts)
        case _:
            return False


def in_any_order(nodes: Nodes) -> set[int]:
    """Nodes (their `id`) whose order is nothing: arguments of `sorted` and its like, `{*set}`."""
    found: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.Set):
            found |= {id(part) for part in node.elts}
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ANY_ORDER
        ):
            found |= {id(argument) for argument in node.args}
    return found


def taken_in_order(node: ast.AST) -> list[ast.expr]:
    """Iterables that a node goes through in their own order."""
    match node:
        case ast.For() | ast.AsyncFor():
            return [node.iter]
        case ast.ListComp() | ast.GeneratorExp() | ast.DictComp():
            return [part.iter for part in node.generators]
        case ast.Call(func=ast.Name(name)) if name in IN_ORDER:
            return node.args
        case ast.Call(func=ast.Attribute(attr="join" | "extend" | "fromkeys")):
            return node.args
        case ast.Starred():
            return [node.value]
        case _:
            return []


def is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


def violations(text: str) -> list[tuple[str, int]]:
    """(what, line) for everything in a file that is not a function of its arguments."""
    nodes = list(ast.walk(ast.parse(text)))
    return [*forbidden_imports(nodes), *forbidden_names(nodes), *ordered_sets(nodes)]


@functools.cache
def everything() -> dict[str, list[tuple[str, int]]]:
    files = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    assert len(files) > 100
    return {
        path.relative_to(ROOT).as_posix(): violations(path.read_text(encoding="utf-8"))
        for path in files
    }


def test_code_under_simulation_is_a_function_of_its_arguments() -> None:
    found = [
        f"{path}:{line}: {what}"
        for path, broken in everything().items()
        for what, line in broken
        if what not in EXCEPTIONS.get(path, {})
    ]
    assert found == []


def test_every_exception_is_needed() -> None:
    needed = {path: {what for what, _ in broken} for path, broken in everything().items()}
    stale = [
        f"{path}: {what}"
        for path, allowed in EXCEPTIONS.items()
        for what in allowed
        if what not in needed.get(path, set())
    ]
    assert stale == []


@pytest.mark.parametrize(("text", "what"), [
    ("import time", "time"),
    ("import time as clock", "time"),
    ("from time import monotonic", "time"),
    ("def f():\n    import time", "time"),
    ("import os.path", "os"),
    ("from os import urandom", "os"),
    ("import threading", "threading"),
    ("from concurrent.futures import Future", "concurrent"),
    ("import asyncio", "asyncio"),
    ("import secrets", "secrets"),
    ("from random import random", "random.random"),
    ("from random import Random, shuffle", "random.shuffle"),
    ("import random\nrandom.seed(1)", "random.seed"),
    ("import random as r\nx = r.choice", "random.choice"),
    ("import random\nrandom.SystemRandom()", "random.SystemRandom"),
    ("import random\nrandom.Random()", "random.Random()"),
    ("from random import Random as R\nR()", "random.Random()"),
    ("import uuid\nuuid.uuid4()", "uuid.uuid4"),
    ("from uuid import uuid4", "uuid.uuid4"),
    ("import uuid\nf(new=uuid.uuid1)", "uuid.uuid1"),
    ("from datetime import datetime\ndatetime.now()", "datetime.datetime.now"),
    ("import datetime as dt\ndt.date.today()", "datetime.date.today"),
    ("key = id(row)", "id"),
    ("hash('text')", "hash"),
    ("for x in {'a', 'b'}: pass", "order of a set: {'a', 'b'}"),
    ("x = list(set(names))", "order of a set: set(names)"),
    ("def f(names: set[str]):\n    return [n for n in names]", "order of a set: names"),
    ("def f(names: set[str]):\n    yield from (n for n in names)", "order of a set: names"),
    ("def f(a: frozenset[TopicId], b):\n    for x in a - b: pass", "order of a set: a - b"),
    ("class A:\n    n: Final[set[bytes]]\n    def f(self):\n        return tuple(self.n)",
     "order of a set: self.n"),
    ("def f(names: set[str] | None):\n    return ', '.join(names)", "order of a set: names"),
    ("def f(names: set[str]):\n    return [*names]", "order of a set: names"),
])  # fmt: skip
def test_what_is_caught(text: str, what: str) -> None:
    assert what in [found for found, _ in violations(text)]


@pytest.mark.parametrize("text", [
    "import random\nrandom.Random(7).random()",
    "from random import Random\nrng = Random('seed')\nrng.shuffle(x)",
    "from uuid import UUID\nUUID(bytes=b)",
    "from datetime import datetime, timedelta, UTC\ndatetime.fromtimestamp(1, UTC)",
    "event.id(1)\nself.time.now()",
    "def id(x): ...",
    "def f(names: set[str]):\n    return sorted(names), len(names), 'a' in names",
    "def f(names: set[str]):\n    return any(n for n in names), {n for n in names}",
    "def f(ids: set[int]):\n    for x in ids: pass",
    "for x in {1, 2}: pass",
    "for x in sorted({'a', 'b'}): pass",
    "def f(names: set[str]):\n    return {*names, 'a'}",
])  # fmt: skip
def test_what_is_allowed(text: str) -> None:
    assert violations(text) == []
