"""The local engine: chosen by size and flags, without Spark and Java, in one process or in some."""

import json
import multiprocessing
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from pipeline.cli import main
from pipeline.core.errors import BadInputError, not_installed
from pipeline.core.stage import SPARK_BYTES_MIN, EngineChoice, Stage, choose_engine
from pipeline.jobs import local_processes
from pipeline.jobs.engines import LocalEngine, engine_choice, start_engine
from pipeline.jobs.history.run import bucket_count, pack_count
from pipeline.jobs.job import JobConfig, Progress
from pipeline.jobs.local_processes import POOL_BYTES_MIN, LocalProcesses
from tests.interop.quorum import wait_until
from tests.pipeline import stage_work
from tests.pipeline.job_inputs import ENGINE_JOBS, many_tasks, run_job, write_input, written

LIMIT = SPARK_BYTES_MIN
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("asked", "size", "master", "is_submitted", "expected"),
    [
        ("auto", LIMIT - 1, None, False, ("local", f"{LIMIT - 1} bytes are below {LIMIT}")),
        ("auto", LIMIT, None, False, ("spark", f"{LIMIT} bytes, local are those below {LIMIT}")),
        ("auto", 0, "local[2]", False, ("spark", "--master local[2]")),
        ("auto", 0, None, True, ("spark", "started by spark-submit")),
        ("local", LIMIT, None, True, ("local", "--engine local")),
        ("spark", 0, "yarn", False, ("spark", "--engine spark")),
    ],
)
def test_the_engine_by_size_and_flags(
    asked: str, size: int, master: str | None, *, is_submitted: bool, expected: tuple[str, str]
) -> None:
    found = choose_engine(asked, size, master=master, is_submitted=is_submitted)
    is_by_size = expected[1].endswith(str(LIMIT))
    assert found == EngineChoice(*expected, is_by_size)


def test_a_size_of_its_own_from_which_on_spark_runs() -> None:
    chosen = [
        choose_engine("auto", size, master=None, is_submitted=False, spark_bytes_min=10).name
        for size in (9, 10)
    ]
    assert chosen == ["local", "spark"]


def test_a_master_is_not_of_the_local_engine(tmp_path: Path, capsys) -> None:
    with pytest.raises(BadInputError):
        choose_engine("local", 0, master="yarn", is_submitted=False)
    flags = write_input(tmp_path / "in", "export")
    flags += ["--input", str(tmp_path / "in"), "--output", str(tmp_path / "out")]
    assert main(["export", *flags, "--engine", "local", "--master", "local[2]"]) == 2
    assert capsys.readouterr().err == (
        "pipeline export: --master local[2] is of Spark, not of --engine local\n"
    )


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pyspark, nothing that needs it, no Java."""
    names = [name for name in sys.modules if name.startswith(("pyspark", "pipeline.sources"))]
    for name in (*names, "pyspark", "py4j", "pandas", "pipeline.sources"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)


@pytest.mark.parametrize(
    ("module", "line"),
    [
        (
            "pipeline.x",
            "p is not installed; install it in the source tree with: pip install -e '.[e]'",
        ),
        ("kraftline.pipeline.x", "p is not installed; install it with: pip install 'kraftline[e]'"),
    ],
)
def test_what_installs_an_extra_where_the_code_lies(module: str, line: str) -> None:
    assert not_installed("p", "e", module) == line


@pytest.mark.usefixtures("without_spark")
def test_a_large_input_without_spark_says_what_needs_none(tmp_path: Path) -> None:
    missing = not_installed("pyspark", "spark")
    config = JobConfig(inputs=(), output=None, run_id="r")
    with pytest.raises(BadInputError) as refused:
        start_engine(config, "export", engine_choice(config, LIMIT))
    assert str(refused.value) == f"{missing} (--engine local needs no Spark)"
    config = JobConfig(inputs=(), output=None, run_id="r", engine="spark")
    with pytest.raises(BadInputError) as refused:
        start_engine(config, "export", engine_choice(config, LIMIT))
    assert str(refused.value) == missing


@pytest.mark.usefixtures("without_spark")
@pytest.mark.parametrize("job", ENGINE_JOBS)
def test_a_small_input_needs_neither_spark_nor_java(tmp_path: Path, job: str) -> None:
    flags = write_input(tmp_path / "in", job)
    command = [job, *flags, "--input", str(tmp_path / "in")]
    out = tmp_path / "out"
    findings = main([*command, "--output", str(out)])
    assert findings == (1 if job in ("audit", "linearize", "compaction") else 0)
    run = json.loads((out / "run.json").read_text())
    assert run["engine"]["name"] == "local"
    assert run["engine"]["reason"].endswith(
        f"bytes are below {1 << 20 if job == 'linearize' else LIMIT}"
    )
    assert run["findings"] or not findings
    assert main([*command, "--output", str(tmp_path / "other"), "--spark"]) == 2
    assert not (tmp_path / "other" / "run.json").exists()


def test_the_engine_is_written_down_with_its_reason(tmp_path: Path) -> None:
    flags = write_input(tmp_path / "in", "export")
    result = run_job("export", tmp_path / "in", tmp_path / "out", flags, engine="local")
    assert result.engine == EngineChoice("local", "--engine local")
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    assert run["engine"] == {"name": "local", "reason": "--engine local"}


def test_tasks_of_a_history_follow_from_its_size_alone() -> None:
    """Not from the engine or its cores: they are in the names of files."""
    least = 65_536
    assert [bucket_count(n * least + m) for n, m in ((0, 0), (1, 0), (2, -1), (2, 0))] == [
        1, 1, 1, 2,
    ]  # fmt: skip
    assert bucket_count(1 << 40) == 64
    task = 2 << 20
    sizes = (0, 2 * task - 1, 2 * task, 64 * task - 1, 64 * task, 1 << 40)
    assert [pack_count(size) for size in sizes] == [1, 1, 2, 63, 64, 64]


def stage(work, *sizes: int) -> Stage:
    return Stage(work, tuple(range(len(sizes))), sizes)


def test_a_stage_in_this_process() -> None:
    shown = Progress(6, tasks=2)
    engine = LocalEngine(EngineChoice("local", ""))
    assert engine.run(stage(stage_work.doubled, 1, 2, 3), shown) == [0, 2, 4]
    assert shown.figures() == (3, 3, 6)
    assert engine.run(stage(stage_work.doubled), shown) == []
    with pytest.raises(ValueError, match="item 1"):
        engine.run(stage(stage_work.refused, 0, 0), shown)


def test_processes_are_for_large_stages_of_several_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_processes.os, "cpu_count", lambda: 3)
    half = POOL_BYTES_MIN // 2
    counts = {
        sizes: None if found is None else found.count
        for sizes in ((half, half), (half, half - 1), (2 * half,), (half,) * 5)
        for found in [LocalProcesses.for_stage(stage(stage_work.doubled, *sizes))]
    }
    assert list(counts.values()) == [2, None, None, 3]
    monkeypatch.setattr(local_processes.os, "cpu_count", lambda: None)
    assert LocalProcesses.for_stage(stage(stage_work.doubled, half, half)) is None


def test_an_item_whose_process_was_killed_runs_again(tmp_path: Path) -> None:
    shown = Progress(7, tasks=3)
    work = partial(stage_work.killed_once, str(tmp_path / "killed"))
    assert LocalProcesses(1).run(stage(work, 4, 2, 1), shown) == [0, 2, 4]
    assert (tmp_path / "killed").exists()
    assert shown.figures() == (3, 3, 7)
    assert multiprocessing.active_children() == []


@pytest.mark.long
def test_an_item_that_kills_each_process_ends_the_stage() -> None:
    with pytest.raises(BadInputError, match="killed in each of 4 attempts"):
        LocalProcesses(1).run(stage(stage_work.killed_always, 1), Progress(1))
    with pytest.raises(ValueError, match="item 1"):
        LocalProcesses(2).run(stage(stage_work.refused, 1, 1, 1), Progress(3))
    assert multiprocessing.active_children() == []


@pytest.mark.long
def test_processes_end_with_the_first_one_when_it_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys; from functools import partial; from pipeline.core.stage import Stage\n"
        "from pipeline.jobs.job import Progress\n"
        "from pipeline.jobs.local_processes import LocalProcesses\n"
        "from tests.pipeline.stage_work import endless\n"
        "LocalProcesses(1).run(Stage(partial(endless, sys.argv[1]), (1,), (1,)), Progress(1))\n"
    )
    marker = tmp_path / "pid"
    first = subprocess.Popen([sys.executable, "-c", code, str(marker)], cwd=ROOT)
    wait_until(lambda: marker.exists() and marker.read_text() != "", 30, lambda: "not begun")
    first.kill()
    first.wait()
    pid = int(marker.read_text())
    wait_until(lambda: not is_alive(pid), 30, lambda: f"{pid} goes on")


def is_alive(pid: int) -> bool:
    """False for a zombie too, which a container's first process may leave."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.long
@pytest.mark.parametrize("job", ["export", "compaction", "history"])
def test_processes_write_what_one_process_writes(
    tmp_path: Path, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    many_tasks(monkeypatch)
    flags = write_input(tmp_path / "in", job)
    run_job(job, tmp_path / "in", tmp_path / "one", flags)
    made: list[int] = []
    monkeypatch.setattr(local_processes, "POOL_BYTES_MIN", 0)
    monkeypatch.setattr(local_processes.os, "cpu_count", lambda: 2)
    run = LocalProcesses.run
    monkeypatch.setattr(
        LocalProcesses, "run", lambda self, *given: made.append(self.count) or run(self, *given)
    )
    run_job(job, tmp_path / "in", tmp_path / "two", flags)
    assert set(made) == {2}
    assert written(tmp_path / "two") == written(tmp_path / "one")
