"""Every recorded output of Kafka's tools, made again by our commands: equal, or known why not."""

from pathlib import Path
from types import SimpleNamespace

import pytest

import cli.quorum
from tests.cli.comparison import APART, apart_from
from tests.cli.golden import outputs, verdicts
from tests.cli.quorum_text import HUMAN_NOW_MS
from tests.cli.recorded_cluster import are_next, states
from tests.cli.replay import MODULES, replay
from tests.cli.table import APART as EXPLAINED
from tests.cli.table import TOOLS, table

DOCUMENT = Path(__file__).resolve().parent.parent.parent / "docs" / "cli.md"
REPLAYED = sorted(name for name, run in outputs().items() if run.command in MODULES)


@pytest.mark.parametrize("name", REPLAYED)
def test_output(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, held = outputs()[name], verdicts()[name]
    clock = SimpleNamespace(time_ns=lambda: HUMAN_NOW_MS * 1_000_000)
    monkeypatch.setattr(cli.quorum, "time", clock)
    offset = max(states(run.scenario)) if held.offset is None else held.offset
    ours, written = replay(run, tmp_path, offset, held.prepared)
    found = apart_from(ours, run)
    if held.verdict == "differs":
        assert found is None, f"no longer different, apart from {found}"
        assert held.why
    else:
        assert found is not None, f"{ours=}"
        assert list(found) == held.apart
        assert held.verdict == ("apart" if held.apart else "equal")
    if held.records is not None:
        assert len(written) == held.records
        assert are_next(written, run.scenario, offset), f"{written=}"


def test_every_output_has_a_verdict() -> None:
    assert verdicts().keys() == outputs().keys()
    assert len(outputs()) == 330
    without = {name for name, held in verdicts().items() if held.verdict == "no command"}
    assert without == set(outputs()) - set(REPLAYED)
    assert APART.keys() == EXPLAINED.keys()
    assert TOOLS.keys() == MODULES.keys()


def test_the_table_of_the_document_says_the_same() -> None:
    assert table() in DOCUMENT.read_text(encoding="utf-8")
