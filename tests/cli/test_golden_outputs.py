"""Every recorded output of Kafka's tools, made again by our commands: equal, or known why not."""

from pathlib import Path
from types import SimpleNamespace

import pytest

import cli.admin.quorum
from tests.cli.bind_offsets import bound, follows
from tests.cli.comparison import APART, apart_from
from tests.cli.golden import outputs, verdicts
from tests.cli.quorum_answers import HUMAN_NOW_MS
from tests.cli.recorded_cluster import states
from tests.cli.replay import MODULES, replay
from tests.cli.table import APART as EXPLAINED
from tests.cli.table import TOOLS, table
from tests.selection import thinned

DOCUMENT = Path(__file__).resolve().parent.parent.parent / "docs" / "cli.md"
REPLAYED = sorted(
    name
    for name, run in outputs().items()
    if run.command in MODULES and verdicts()[name].verdict != "no answer"
)


@pytest.mark.parametrize("name", REPLAYED)
def test_output(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, held = outputs()[name], verdicts()[name]
    clock = SimpleNamespace(time_ns=lambda: HUMAN_NOW_MS * 1_000_000)
    monkeypatch.setattr(cli.admin.quorum, "time", clock)
    offset = max(states(run.scenario)) if held.offset is None else held.offset
    ours, written = replay(run, tmp_path, offset, held)
    found = apart_from(ours, run)
    if held.verdict == "differs":
        assert found is None, f"no longer different, apart from {found}"
        assert held.why
    else:
        assert found is not None, f"{ours=}"
        assert list(found) == held.apart
        whole = "own text" if held.is_own_text else "equal"
        assert held.verdict == ("apart" if held.apart else whole)
    if held.records is not None:
        assert len(written) == held.records
        assert follows(run, held, written), f"{written=}"


CHANGES = [name for name, held in verdicts().items() if held.records is not None]


@pytest.mark.parametrize("name", thinned(CHANGES, every=30))
def test_a_change_has_one_place_in_the_log(name: str) -> None:
    assert bound(name) == verdicts()[name].offset


def test_every_output_has_a_verdict() -> None:
    assert verdicts().keys() == outputs().keys()
    assert len(outputs()) == 330
    without = {name for name, held in verdicts().items() if held.verdict == "no command"}
    unknown = {name for name, held in verdicts().items() if held.verdict == "no answer"}
    assert without | unknown == set(outputs()) - set(REPLAYED)
    assert all(verdicts()[name].why for name in unknown)


def test_every_answer_of_the_quorum_says_where_it_was_recorded() -> None:
    for name, run in outputs().items():
        held = verdicts()[name]
        sources = [held.frame is not None, held.table is not None, held.is_own_text]
        is_asked = run.command == "MetadataQuorumCommand" and run.exit == 0
        is_asked = is_asked and "--dry-run" not in run.args and held.verdict != "no answer"
        assert sum(sources) == is_asked or (run.exit and sum(sources) == 1), name
        assert not (held.is_own_text and "--status" in run.args), name
        assert held.table is None or held.table.rpartition("-")[2] == name.rpartition("-")[2]


def test_the_document_has_all_verdicts() -> None:
    assert APART.keys() == EXPLAINED.keys()
    assert TOOLS.keys() == MODULES.keys()


def test_the_table_of_the_document_says_the_same() -> None:
    assert table() in DOCUMENT.read_text(encoding="utf-8")
