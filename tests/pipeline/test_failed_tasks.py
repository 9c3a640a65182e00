"""A task that meets bad data ends the job at its first attempt, by what Spark's own records say."""

import errno
import os
import threading
from types import SimpleNamespace

import pytest

from pipeline.core.errors import BadInputError
from pipeline.jobs import job

TRACE = "Traceback\npipeline.core.errors.CorruptSegmentError: in/a.log:70: bad_crc\n\n\tat org"


class Spark:
    """A context with one stage whose tasks failed with these texts; `cancelled` when it was."""

    def __init__(self, *errors: str | None) -> None:
        self.cancelled = threading.Event()
        messages = [SimpleNamespace(isDefined=lambda e=e: e is not None, get=lambda e=e: e + "")
                    for e in errors]  # fmt: skip
        tasks = [SimpleNamespace(errorMessage=lambda m=m: m) for m in messages]
        listed = SimpleNamespace(size=lambda: len(tasks), apply=lambda index: tasks[index])
        self.asked: list[tuple[int, int]] = []

        def asked(stage: int, attempt: int, _count: int) -> SimpleNamespace:
            self.asked.append((stage, attempt))
            return listed

        store = SimpleNamespace(taskList=asked)
        failed = sum(error is not None for error in errors)
        stage = SimpleNamespace(numFailedTasks=failed, currentAttemptId=2, numCompletedTasks=0,
                                numTasks=4)  # fmt: skip
        begun = [False]

        def jobs(_group: None) -> list[int]:
            """An older one before the block."""
            found, begun[0] = [6, 7, 8] if begun[0] else [6], True
            return found

        tracker = SimpleNamespace(
            getJobIdsForGroup=jobs,
            getJobInfo=lambda job: SimpleNamespace(stageIds=[job - 2]) if job < 8 else None,
            getStageInfo=lambda _: stage,
        )
        self.sparkContext = SimpleNamespace(
            statusTracker=lambda: tracker, getLocalProperty=lambda _: None,
            cancelAllJobs=self.cancelled.set,
            _jsc=SimpleNamespace(sc=lambda: SimpleNamespace(statusStore=lambda: store)),
        )  # fmt: skip


def test_damage_cancels_the_job_and_is_the_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "_LOOK_SECONDS", 0.001)
    spark = Spark(None, "java.lang.OutOfMemoryError", TRACE)

    def work() -> None:
        with job.progress(spark, 1):
            spark.cancelled.wait(2)
            raise RuntimeError("cancelled")  # as Spark says it

    with pytest.raises(BadInputError, match=r"^in/a.log:70: bad_crc$"):
        work()
    assert spark.cancelled.is_set()
    assert spark.asked == [(5, 2)]


def test_a_task_that_was_killed_runs_again() -> None:
    spark = Spark("ExecutorLostFailure")
    shown = job.Progress(1, 0, spark)
    assert [shown.found_damage() for _ in range(3)] == [(), (), ()]
    assert spark.asked == [(5, 2)]  # looked at once
    assert not spark.cancelled.is_set()


def test_without_spark_and_without_failures_nothing_is_asked() -> None:
    assert job.Progress(1).found_damage() == ()
    spark = Spark(None)
    assert job.Progress(1, 0, spark).found_damage() == ()
    assert spark.asked == []


@pytest.mark.parametrize(
    ("number", "is_final"),
    [(errno.ENOENT, True), (errno.EACCES, True), (errno.EPERM, True), (errno.ENOTDIR, True),
     (errno.EISDIR, True), (errno.EROFS, True),
     (errno.EIO, False), (errno.ESTALE, False), (errno.EMFILE, False)],
)  # fmt: skip
def test_a_file_that_another_attempt_may_read_ends_nothing(number: int, is_final: bool) -> None:
    text = f"Traceback\nOSError: [Errno {number}] {os.strerror(number)}: 'in/a.log'\n"
    expected = f"in/a.log: {os.strerror(number)}" if is_final else None
    assert job.data_error(text) == expected
