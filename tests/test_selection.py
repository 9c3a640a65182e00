"""Files and folders that a run with `-m` leaves out before they are imported."""

from pathlib import Path

import pytest

from tests.selection import is_left_out

QUICK = "not (interop or jvm or spark or browser or long)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pytestmark = pytest.mark.spark  # needs it\n", True),
        ("x = 1\npytestmark = [\n    pytest.mark.timeout(3),\n    pytest.mark.long,\n]\n", True),
        ("pytestmark = [\n    pytest.mark.timeout(3),\n]\npytest.mark.long\n", False),
        ("pytestmark = pytest.mark.timeout(3)\n\n@pytest.mark.spark\n", False),
        ("@pytest.mark.spark\ndef test_one(): ...\n", False),
    ],
)
def test_a_file_is_left_out_for_a_mark_of_all_of_it(
    tmp_path: Path, text: str, expected: bool
) -> None:
    path = tmp_path / "test_made.py"
    path.write_text(text)
    assert is_left_out(path, QUICK) is expected


def test_a_folder_is_left_out_for_its_name(tmp_path: Path) -> None:
    for name in ("interop", "browser", "spark", "raft"):
        (tmp_path / name).mkdir()
    assert is_left_out(tmp_path / "interop", QUICK)
    assert is_left_out(tmp_path / "browser", QUICK)
    assert not is_left_out(tmp_path / "interop", "not (jvm or browser)")
    assert not is_left_out(tmp_path / "spark", QUICK)  # only files below it could have the mark
    assert not is_left_out(tmp_path / "raft", QUICK)


@pytest.mark.parametrize(
    "markers", ["", "spark", "not spark", "not (jvm and spark)", "x and " + QUICK]
)
def test_only_what_a_plain_exclusion_names_is_left_out(tmp_path: Path, markers: str) -> None:
    path = tmp_path / "test_made.py"
    path.write_text("pytestmark = pytest.mark.spark\n")
    assert is_left_out(path, "not (spark)")
    assert not is_left_out(path, markers)


def test_modules_that_hold_no_tests_stay(tmp_path: Path) -> None:
    path = tmp_path / "conftest.py"
    path.write_text("pytestmark = pytest.mark.spark\n")
    assert not is_left_out(path, QUICK)


def test_every_file_of_the_browser_has_its_mark() -> None:
    """tests/interop/conftest.py marks all of its own."""
    for path in (Path(__file__).parent / "browser").glob("test_*.py"):
        assert is_left_out(path, "not (browser)"), path
