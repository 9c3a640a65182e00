"""The tasks of executors, by what their logs say."""

from pathlib import Path

from tests.pipeline.standalone import tasks_of

RUNNING = "26/01/02 03:04:05 INFO Executor: Running task {0}.0 in stage {1}.0 (TID {0})\n"
FINISHED = (
    "26/01/02 03:04:05 INFO Executor: Finished task {0}.0 in stage {1}.0 (TID {0}). 9 bytes\n"
)


def write_log(worker: Path, application: str, executor: int, text: str) -> None:
    home = worker / application / str(executor)
    home.mkdir(parents=True)
    (home / "stderr").write_text(text)


def test_tasks_of_two_applications_have_the_same_numbers(tmp_path: Path) -> None:
    """A worker that serves one job after the other has done both jobs' tasks."""
    first = "".join(line.format(tid, 0) for tid in range(3) for line in (RUNNING, FINISHED))
    write_log(tmp_path, "app-1", 0, first)
    assert tasks_of(tmp_path) == ({}, 3)
    write_log(tmp_path, "app-2", 0, RUNNING.format(1, 0) + FINISHED.format(1, 0))
    write_log(tmp_path, "app-2", 2, RUNNING.format(2, 4))  # another executor, the same numbers
    found = tasks_of(tmp_path)
    assert found == ({("app-2", 2): 4}, 4)
    assert [found.in_stage(stage) for stage in (3, 4, 5)] == [True, True, False]
