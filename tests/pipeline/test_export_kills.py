"""An export that grows has each record once, wherever a run of it was killed."""

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.pipeline.killed import CHANGES, MOVES, dies_before
from tests.pipeline.test_export_append import (
    append,
    exported,
    here,
    manifest,
    offsets_of,
    write_log,
)

__all__ = ["here"]
kills = pytest.mark.parametrize(
    "events", [MOVES, pytest.param(CHANGES, marks=pytest.mark.long)], ids=["moves", "all"]
)


@pytest.mark.parametrize(("number", "is_kept"), [(1, True), (2, False)])
def test_what_a_killed_run_moved_goes_unless_it_was_published(
    here: Path, number: int, *, is_kept: bool
) -> None:
    write_log(0, 3)
    assert append() == 0
    stray = Path("out/data/topic=orders/partition=0/stray.parquet")
    stray.write_bytes(b"x")
    Path("out/_tmp/run").mkdir(parents=True)
    moving = {"number": number, "files": [str(stray.relative_to("out/data"))]}
    Path("out/_tmp/moving.json").write_text(json.dumps(moving))
    write_log(0, 4)
    assert append() == 0
    assert stray.exists() is is_kept


def test_what_stands_behind_a_publication_is_done_by_the_next_run(here: Path) -> None:
    write_log(0, 3)
    assert append() == 0
    said = Path("out/run.json").read_bytes()
    Path("out/_SUCCESS").unlink()
    Path("out/run.json").write_text("of the run before")
    assert append() == 0  # nothing is new
    assert Path("out/_SUCCESS").exists()
    assert Path("out/run.json").read_bytes() == said


@kills
def test_a_kill_at_every_step_leaves_each_record_once(here: Path, events: tuple[str, ...]) -> None:
    write_log(0, 2)
    write_log(0, 1, "other-0")
    assert append("--output", "before") == 0
    write_log(0, 3)
    write_log(0, 2, "other-0")
    old, new = Counter({"orders-0": 2, "other-0": 1}), Counter({"orders-0": 3, "other-0": 2})
    seen = []
    for at in range(100):
        out = Path(f"killed{at}")
        shutil.copytree("before", out)
        was_killed = dies_before(at, lambda out=out: append("--output", str(out)), events)
        counted = Counter(name for row in manifest(out) for name, _ in offsets_of(row, out))
        assert counted in (old, new)
        seen.append(counted)
        write_log(3, 4) if at % 2 else None  # the log may have grown meanwhile, or not
        assert append("--output", str(out)) == 0
        end = 4 if at % 2 else 3
        assert exported(out) == {"orders-0": [*range(end)], "other-0": [0, 1]}
        run = json.loads((out / "run.json").read_text())
        assert run["tables"]["data"] == end + 2
        assert not (out / "_tmp").exists()
        if at % 2:
            Path("in/orders-0", f"{3:020d}.log").unlink()
        if not was_killed:
            break
    assert seen.count(old) >= 5
    assert seen.count(new) >= 2
    assert seen == [old] * seen.count(old) + [new] * seen.count(new)


@kills
def test_the_first_run_killed_at_every_step(here: Path, events: tuple[str, ...]) -> None:
    write_log(0, 2)
    for at in range(100):
        out = Path(f"killed{at}")
        was_killed = dies_before(at, lambda out=out: append("--output", str(out)), events)
        assert sum(row["rows"] for row in manifest(out)) in (0, 2)
        assert append("--output", str(out)) == 0
        assert exported(out) == {"orders-0": [0, 1]}
        if not was_killed:
            break
    assert at >= 4
