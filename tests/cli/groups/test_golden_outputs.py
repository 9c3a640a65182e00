"""Every recorded output of Kafka's tools about groups, made again: equal, or known why not."""

from pathlib import Path

import pytest

from tests.cli.groups import golden
from tests.cli.groups.golden import apart_from, captured, outputs, verdicts
from tests.cli.groups.recorded_groups import broker, write_files
from tests.cli.groups.table import APART, TOOLS, table

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "cli.md"


@pytest.mark.parametrize("name", sorted(verdicts()))
def test_output(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, held = outputs()[name], verdicts()[name]
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    ours = captured(run, broker(name))
    found = apart_from(ours, run)
    if held.verdict == "differs":
        assert found is None, f"no longer different, apart from {found}"
        assert held.why
    else:
        assert found is not None, f"{ours=}"
        assert list(found) == held.apart
        assert held.verdict == ("apart" if held.apart else "equal")


def test_every_output_has_a_verdict() -> None:
    assert verdicts().keys() == outputs().keys()
    assert len(outputs()) == 116


def test_the_table_of_the_document_says_the_same() -> None:
    assert APART.keys() == golden.APART.keys()
    assert TOOLS.keys() == golden.COMMANDS.keys()
    assert table() in DOCUMENT.read_text(encoding="utf-8")
