"""The listing of the packages, as a newcomer reads it."""

from pathlib import Path

import pytest

from scripts.listing import ROOT, main

USAGE_ERROR = 2


def test_each_file_of_a_package_has_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["raft", "kernel"]) == 0
    raft, kernel = capsys.readouterr().out.rstrip().split("\n\n")
    shown = [line.partition(": ")[0] for line in raft.splitlines()]
    assert shown[0] == "raft/"
    files = [path.relative_to(ROOT).as_posix() for path in (ROOT / "raft").rglob("*.py")]
    rooms = {file.removesuffix("__init__.py") for file in files if file.endswith("__init__.py")}
    modules = {file for file in files if not file.endswith("__init__.py")}
    assert sorted(shown) == sorted(rooms | modules)
    assert "raft/elections/vote.py: " in raft
    assert "\nkernel/quorum/: " in kernel, "rooms are below their package"
    assert all(line.partition(": ")[2] for line in raft.splitlines())


@pytest.mark.long
def test_all_packages_are_listed_from_the_lowest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    tops = [part.split("/")[0] for part in capsys.readouterr().out.split("\n\n") if part]
    there = {path.parent.name for path in Path(ROOT).glob("*/__init__.py")} - {"tests"}
    assert sorted(tops) == sorted(there)
    assert tops.index("wire") < tops.index("raft") < tops.index("kernel") < tops.index("cli")


def test_another_name_is_refused_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["rafts"])
    assert refused.value.code == USAGE_ERROR
    assert "PACKAGE 'rafts' is not one of wire, " in capsys.readouterr().err
