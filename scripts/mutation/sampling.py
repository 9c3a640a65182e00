"""Sample of the mutants to run, and the tests of each of them.

A sample is the same for the same code and seed, and changes little when the code does: every
mutant has a rank, the digest of seed and identity, and the lowest ranks are drawn.
"""

import ast
import hashlib
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from scripts.mutation.forks import Job, Test
from scripts.mutation.modules import ROOT, modules
from scripts.mutation.points import Point, points
from scripts.mutation.tracing import Trace

IMPORT_TESTS_MAX: Final = 1500
"""Limit of tests for a mutant of code that runs at import: the trace has no exact ones for it."""
FOREIGN_WEIGHT: Final = 3
"""Tests of other packages count as thrice as slow when the tests of a mutant are ordered."""
DEFINITIONS: Final = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
WORD: Final = re.compile(r"[A-Za-z_]\w*")


def package_points(package: str, root: Path = ROOT) -> list[Point]:
    """Every mutation of a package's production modules."""
    return [
        point
        for module in modules(package, root)
        for point in points(module, (root / module).read_text("utf-8"))
    ]


def shares(sizes: Sequence[int], count: int) -> list[int]:
    """Divide `count` in proportion to sizes; the rest goes to the largest remainders."""
    total = sum(sizes)
    count = min(count, total)
    if total == 0:
        return [0 for _ in sizes]
    whole = [size * count // total for size in sizes]
    order = sorted(range(len(sizes)), key=lambda i: (-(sizes[i] * count % total), i))
    for index in order[: count - sum(whole)]:
        whole[index] += 1
    return whole


def rank(point: Point, seed: str) -> str:
    """Return the rank of a mutant in the draw."""
    return hashlib.sha256(f"{seed}\0{point.id}".encode()).hexdigest()


def sample(packages: Sequence[str], count: int | None, seed: str, root: Path = ROOT) -> list[Point]:
    """Draw mutants by rank, from each package in proportion to its mutants; None: all of them."""
    found = [package_points(package, root) for package in packages]
    drawn = [len(of_package) for of_package in found]
    if count is not None:
        drawn = shares(drawn, count)
    chosen = [
        point
        for of_package, number in zip(found, drawn, strict=True)
        for point in sorted(of_package, key=lambda point: rank(point, seed))[:number]
    ]
    return sorted(chosen, key=lambda point: rank(point, seed))


class Coverage:
    """Tests that cover each mutant."""

    def __init__(
        self,
        trace: Trace,
        packages: Iterable[str],
        root: Path = ROOT,
        seconds_max: float = math.inf,
    ) -> None:
        self._trace = trace
        self._seconds_max = seconds_max
        self._root = root
        self._users: dict[str, set[str]] = defaultdict(set)
        self._of_module: dict[str, int] = defaultdict(int)
        self._makes: dict[str, set[str]] = defaultdict(set)
        self._words: dict[str, set[str]] = defaultdict(set)
        for package in packages:
            for module in modules(package, root):
                self._note_users(module)
        for place, bits in trace.runs.items():
            self._of_module[place.partition(":")[0]] |= bits
        for file in sorted({test.partition("::")[0] for test in trace.tests}):
            for word in WORD.findall((root / file).read_text("utf-8")):
                self._words[word].add(file)

    def job(self, point: Point) -> Job:
        """Return a mutant with its tests, the fastest first, those of other packages later.

        The tests take at most `seconds_max` together without a mutant; there is at least one.
        """
        numbers = self._trace.numbers(self._covering(point))
        own = (f"tests/{point.module.partition('/')[0]}/", "tests/scenarios/")
        tests = self._trace.tests
        at_import = self.runs_at_import(point)

        def cost(number: int) -> tuple[bool, float]:
            is_foreign = not tests[number].startswith(own)
            weight = FOREIGN_WEIGHT if is_foreign else 1
            # Code that runs at import has all tests of its package first: others may be unrelated.
            return is_foreign and at_import, self._trace.seconds[number] * weight

        numbers.sort(key=cost)
        job = Job(point, [], covering=len(numbers))
        seconds = 0.0
        for number in numbers:
            seconds += self._trace.seconds[number]
            if job.tests and seconds > self._seconds_max:
                break
            job.tests.append(Test(tests[number], self._trace.seconds[number]))
        if at_import:
            del job.tests[IMPORT_TESTS_MAX:]
        return job

    def runs_at_import(self, point: Point) -> bool:
        """Return True if only the import runs the statement: a loaded process is too late."""
        place = self._place(point)
        return point.at_import or (place in self._trace.imported and place not in self._trace.runs)

    def _place(self, point: Point) -> str:
        return f"{point.module}:{point.statement}"

    def _covering(self, point: Point) -> int:
        """Return the bit set of the tests that run the statement.

        For code that runs at import: also the tests that run a statement, or lie in a file, that
        names an object defined there or derived from it; if there are none, all tests that run any
        statement of the module.
        """
        bits = 0 if point.at_import else self._trace.runs.get(self._place(point), 0)
        if not self.runs_at_import(point):
            return bits
        for name in self._made_of(point.names or point.function.split(".")[-1:]):
            for place in self._users[name]:
                bits |= self._trace.runs.get(place, 0)
            for number, test in enumerate(self._trace.tests):
                if test.partition("::")[0] in self._words[name]:
                    bits |= 1 << number
        return bits or self._of_module[point.module]

    def _made_of(self, names: Iterable[str]) -> set[str]:
        """Return the names, and those defined at import by a statement that mentions one."""
        found: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += self._makes[name]
        return found

    def _note_users(self, module: str) -> None:
        """Record the statements that mention each name, and the names made from it at import."""
        tree = ast.parse((self._root / module).read_text("utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.stmt) and not isinstance(node, DEFINITIONS):
                for name in _mentioned(node):
                    self._users[name].add(f"{module}:{node.lineno}")
        for node in tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                made = {target.id for target in targets if isinstance(target, ast.Name)}
                for name in _mentioned(node.value):
                    self._makes[name] |= made
            elif isinstance(node, ast.FunctionDef):
                for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
                    for name in _mentioned(default):
                        self._makes[name].add(node.name)


def _mentioned(node: ast.AST) -> Iterator[str]:
    """The names and attributes in a piece of code."""
    for inner in ast.walk(node):
        name = getattr(inner, "id", None) or getattr(inner, "attr", None)
        if isinstance(name, str):
            yield name
