"""Work of a job as a value, and where it runs: what the local engine and Spark share.

A `Stage` is a function and the items it is applied to, each by itself, wherever a process is free.
The files of a job are written by that function, so they are the same bytes from either engine.
"""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

import msgspec

from pipeline.core.errors import BadInputError

AUTO: Final = "auto"
LOCAL: Final = "local"
SPARK: Final = "spark"
ENGINES: Final = (AUTO, LOCAL, SPARK)
# From this size on a job runs on Spark, unless an engine is named.
SPARK_BYTES_MIN: Final = 1 << 30
Item = TypeVar("Item")
Found = TypeVar("Found")


class Stage(msgspec.Struct, Generic[Item, Found], frozen=True):
    """One step of a job: `work` for each item; what it returns and the items can be pickled.

    `sizes` are the planned bytes of each item, for progress: as many as items.
    An item may be worked on again after a process was killed, so `work` must be repeatable.
    """

    work: Callable[[Item], Found]
    items: tuple[Item, ...]
    sizes: tuple[int, ...]


class EngineChoice(msgspec.Struct, frozen=True):
    """Engine of a run: `name` is local or spark; `reason` is what decided."""

    name: str
    reason: str
    is_by_size: bool = False


def choose_engine(
    asked: str, size: int, *, master: str | None, is_submitted: bool,
    spark_bytes_min: int = SPARK_BYTES_MIN,
) -> EngineChoice:  # fmt: skip
    """Choose where a job runs.

    Args:
        asked: auto, local or spark.
        size: bytes that it reads.
        master: a master of Spark that was named, None without one.
        is_submitted: True if spark-submit started this process.
        spark_bytes_min: size from which on Spark is chosen, where nothing else decides.

    Raises:
        BadInputError: a master is named for the local engine.
    """
    assert asked in ENGINES, asked
    if asked == LOCAL and master is not None:
        raise BadInputError(f"--master {master} is of Spark, not of --engine local")
    if asked != AUTO:
        return EngineChoice(asked, f"--engine {asked}")
    if master is not None:
        return EngineChoice(SPARK, f"--master {master}")
    if is_submitted:
        return EngineChoice(SPARK, "started by spark-submit")
    if size < spark_bytes_min:
        return EngineChoice(LOCAL, f"{size} bytes are below {spark_bytes_min}", is_by_size=True)
    reason = f"{size} bytes, local are those below {spark_bytes_min}"
    return EngineChoice(SPARK, reason, is_by_size=True)
