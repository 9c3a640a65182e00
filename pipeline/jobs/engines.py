"""The two engines that run a job's stages: processes of this machine, and Spark's tasks.

Both return the results in the order of the items, end at the first item that meets bad data, and
run an item again whose process was killed.
"""

from collections.abc import Iterator
from typing import Any, Final, TypeVar

import pyarrow as pa

from pipeline.core.errors import BadInputError
from pipeline.core.stage import LOCAL, SPARK_BYTES_MIN, EngineChoice, Stage, choose_engine
from pipeline.jobs.job import JobConfig, Progress
from pipeline.jobs.local_processes import LocalProcesses
from pipeline.spark_session import is_submitted

_TASKS_MAX: Final = 10_000  # above it a task has several items
Item = TypeVar("Item")
Found = TypeVar("Found")


class LocalEngine:
    """Stages in this process, large ones in as many processes as it may use cores: no JVM."""

    spark: Any = None

    def __init__(self, choice: EngineChoice) -> None:
        self.choice = choice

    def run(self, stage: Stage[Item, Found], shown: Progress) -> list[Found]:
        """Run a stage; `shown` counts each item."""
        processes = LocalProcesses.for_stage(stage)
        if processes is not None:
            return processes.run(stage, shown)
        found = []
        for item, size in zip(stage.items, stage.sizes, strict=True):
            found.append(stage.work(item))
            shown.step(size)
        return found


class SparkEngine:
    """Stages as Spark's tasks, one for each item up to 10,000; `spark` is the session."""

    def __init__(self, choice: EngineChoice, spark: Any) -> None:
        self.choice = choice
        self.spark = spark

    def run(self, stage: Stage[Item, Found], _shown: Progress) -> list[Found]:
        """Run a stage; progress asks Spark by itself."""
        if not stage.items:
            return []
        work = stage.work

        def task(items: Iterator[Item]) -> Iterator[Found]:
            pa.set_cpu_count(1)
            for item in items:
                yield work(item)

        context = self.spark.sparkContext
        slices = min(len(stage.items), _TASKS_MAX)
        rows = context.parallelize(stage.items, slices).mapPartitions(task)
        found: list[Found] = rows.collect()
        return found


Engine = LocalEngine | SparkEngine


def engine_choice(
    config: JobConfig, size: int, *, spark_bytes_min: int = SPARK_BYTES_MIN
) -> EngineChoice:
    """Choose the engine of a run that reads so many bytes.

    Raises:
        BadInputError: the flags contradict each other.
    """
    return choose_engine(
        config.engine, size, master=config.master, is_submitted=is_submitted(),
        spark_bytes_min=spark_bytes_min,
    )  # fmt: skip


def start_engine(config: JobConfig, job: str, choice: EngineChoice) -> Engine:
    """Start the chosen engine: nothing to start for the local one, else Spark's session.

    Raises:
        BadInputError: Spark or Java is missing.
    """
    if choice.name == LOCAL:
        return LocalEngine(choice)
    try:
        return SparkEngine(choice, config.session(job))
    except BadInputError as error:
        if not choice.is_by_size:
            raise
        raise BadInputError(f"{error} (--engine local needs no Spark)") from error
