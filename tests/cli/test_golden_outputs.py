"""Every recorded output of Kafka's tools, made again by our commands: equal, or known why not."""

from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

import cli.admin.quorum
from tests.cli.bind_offsets import bound, follows
from tests.cli.comparison import APART, apart_from
from tests.cli.golden import Recorded, outputs, verdicts
from tests.cli.quorum_answers import HUMAN_NOW_MS, answer_of_log, recorded_answer
from tests.cli.recorded_cluster import states
from tests.cli.replay import MODULES, replay
from tests.cli.table import APART as EXPLAINED
from tests.cli.table import BOTH, TOOLS, chosen, table
from tests.selection import thinned

DOCUMENT = Path(__file__).resolve().parent.parent.parent / "docs" / "cli.md"
COVERAGE = Path(__file__).resolve().parent.parent / "golden" / "COVERAGE.md"
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
        whole = "own times" if held.table == name else "equal"
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
        sources = [held.frame is not None, held.table is not None]
        is_asked = run.command == "MetadataQuorumCommand" and run.exit == 0
        is_asked = is_asked and "--dry-run" not in run.args and held.verdict != "no answer"
        assert sum(sources) == is_asked or (run.exit and sum(sources) == 1), name
        assert held.table is None or "--replication" in outputs()[held.table].args, name
        assert held.table is None or held.table.rpartition("-")[2] == name.rpartition("-")[2]


OWN_TIMES = [name for name, held in verdicts().items() if held.table == name]
ANSWERED = [
    name
    for name, held in verdicts().items()
    if held.frame is not None
    and held.verdict == "equal"
    and "--replication" in outputs()[name].args
]


def without_numbers(table: Recorded) -> Recorded:
    """A table without anything but its two columns of times."""
    rows = [line.split("\t") for line in table.stdout.splitlines()]
    times = ["\t".join(["0"] * 4 + row[4:6] + ["0", "0"]) for row in rows if any(row)]
    return msgspec.structs.replace(table, stdout="\n".join(times) + "\n")


@pytest.mark.parametrize("name", OWN_TIMES)
def test_the_answer_has_nothing_but_the_times_from_its_own_output(name: str) -> None:
    blank = without_numbers(outputs()[name])
    assert answer_of_log(blank, blank) == recorded_answer(outputs()[name], verdicts()[name])


@pytest.mark.parametrize("name", ANSWERED)
def test_the_log_says_what_kafka_answered_where_that_was_recorded(name: str) -> None:
    run = outputs()[name]
    assert answer_of_log(run, run) == recorded_answer(run, verdicts()[name])


def test_the_document_counts_the_outputs_that_both_answer() -> None:
    assert len(ANSWERED) == BOTH


def test_the_document_has_all_verdicts() -> None:
    assert APART.keys() == EXPLAINED.keys()
    assert TOOLS.keys() == MODULES.keys()


def test_the_table_of_the_document_says_the_same() -> None:
    assert table() in DOCUMENT.read_text(encoding="utf-8")


def test_both_documents_say_of_how_many_outputs_the_place_is_chosen() -> None:
    for path in (DOCUMENT, COVERAGE):
        assert chosen() in path.read_text(encoding="utf-8"), path
