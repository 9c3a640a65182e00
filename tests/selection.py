"""Cases of `scripts/test --quick`: a few of each kind; `scripts/test --all` takes all."""

import re
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Any, Final

import pytest
from _pytest.mark import ParameterSet
from hypothesis import settings

QUICK_PROFILE = "quick"
"""The profile of hypothesis that `scripts/test --quick` asks for; tests/conftest.py has it."""

QUICK_SHARE = 10
"""Random examples without that profile for one with it."""
QUICK_EXAMPLES_MIN = 5

FOLDER_KINDS: Final = ("interop", "browser")
"""Folders whose tests all have the mark of the same name."""
EXCLUSION: Final = re.compile(r"not \(([\w ]+)\)")
FILE_MARKS: Final = re.compile(r"^pytestmark = (\[.*?^\]|.*?$)", re.MULTILINE | re.DOTALL)
MARK: Final = re.compile(r"pytest\.mark\.(\w+)")


def is_left_out(path: Path, markers: str) -> bool:
    """Return True if `-m markers` takes no test of this file or folder, which is not imported.

    Clients and Spark are slow to import. Only of "not (A or B)", where one mark decides.
    """
    exclusion = EXCLUSION.fullmatch(markers)
    if exclusion is None:
        return False
    excluded = set(exclusion[1].split(" or "))
    if path.is_dir():
        return path.name in excluded.intersection(FOLDER_KINDS)
    if not path.name.startswith("test_"):
        return False
    found = FILE_MARKS.search(path.read_text("utf-8"))
    return found is not None and not excluded.isdisjoint(MARK.findall(found[1]))


def thinned(cases: Iterable[object], every: int) -> list[object]:
    """For `parametrize`: cases number 0, `every`, 2 * `every` ... stay, the others become `long`.

    A plain tuple is a row of several arguments, as it is for `parametrize`.
    """
    assert every > 1
    return [_long(case) if number % every else case for number, case in enumerate(cases)]


def one_of_each(cases: Iterable[Any], kind: Callable[[Any], Hashable]) -> list[object]:
    """For `parametrize`: the first case of each kind stays, the others become `long`."""
    seen: set[Hashable] = set()
    chosen: list[object] = []
    for case in cases:
        chosen.append(_long(case) if kind(case) in seen else case)
        seen.add(kind(case))
    return chosen


def _long(case: object) -> ParameterSet:
    if isinstance(case, ParameterSet):
        return pytest.param(*case.values, marks=[*case.marks, pytest.mark.long], id=case.id)
    row = case if type(case) is tuple else (case,)
    return pytest.param(*row, marks=pytest.mark.long)


def examples(count: int) -> int:
    """Number of random examples of a property: `count`, in a quick run a tenth and at least 5."""
    if settings.get_current_profile_name() != QUICK_PROFILE:
        return count
    return min(count, max(QUICK_EXAMPLES_MIN, count // QUICK_SHARE))
