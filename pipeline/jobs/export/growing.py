"""A folder of an export that grows: `--append` adds the records that it has not, each once.

    OUTPUT/_tmp, OUTPUT/_lock        a run at work; the lock of the one writer

A `Book` says which runs are published, and the watermarks after the last one: `manifests` for plain
Parquet, `delta` for a Delta table. A run is published by one step of its book: files and watermarks
count from then on, or neither. Its data files are moved to their places before; a list of them,
written before the first move, is what the next run removes if the book does not have the run.
Whatever comes behind that step the next run does again. A run costs what is new, and changes no
file.
"""

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from pipeline.core.errors import BadInputError
from pipeline.core.reading.increment import Points
from pipeline.core.reading.split import Split
from pipeline.core.reading.stream import Point
from pipeline.jobs.export.tasks import Exported
from pipeline.jobs.job import RUN_NAME, SUCCESS_NAME, TEMPORARY_NAME, JobConfig, Publication
from pipeline.jobs.publishing import LOCK_NAME, locked_output, sync, sync_all, sync_tree

_DATA_NAME: Final = "data"
_MOVING_NAME: Final = "moving.json"
_OURS: Final = frozenset({TEMPORARY_NAME, LOCK_NAME})


class Layout(msgspec.Struct, frozen=True):
    """Flags that every run of a folder must have alike: its rows are of one table."""

    decode: str
    by: str
    columns: tuple[str, ...]


class TopicMarks(msgspec.Struct, frozen=True, array_like=True):
    """Watermarks of a topic: partition, next offset, leader epoch of the batch before it."""

    topic: str
    topic_id: str
    partitions: tuple[tuple[int, int, int], ...]


class ExportState(msgspec.Struct, frozen=True, kw_only=True):
    """State of a growing export: `number` of its last run, and the watermarks after it.

    `watermarks` are sorted, and apart by topic id: a partition of a deleted topic may outlast the
    others. Each run writes all of them, so they are short. `deleted` are partitions that were not
    there in the last run, like orders-0; `rows` and `files` are those of all runs.
    """

    layout: Layout
    number: int = 0
    cluster_id: str | None = None
    watermarks: tuple[TopicMarks, ...] = ()
    deleted: tuple[str, ...] = ()
    rows: int = 0
    files: int = 0

    @property
    def points(self) -> Points:
        """The watermarks by topic and partition."""
        return {
            (one.topic, partition): Point(one.topic, partition, one.topic_id, offset, epoch)
            for one in self.watermarks for partition, offset, epoch in one.partitions
        }  # fmt: skip


class _Moving(msgspec.Struct, frozen=True):
    """Files that a run is about to move into the output."""

    number: int
    files: tuple[str, ...]


def watermarks_of(points: Points) -> tuple[TopicMarks, ...]:
    """Watermarks as they are kept."""
    found: dict[tuple[str, str], list[tuple[int, int, int]]] = {}
    for (topic, partition), point in sorted(points.items()):
        marks = found.setdefault((topic, point.topic_id), [])
        marks.append((partition, point.offset, point.epoch))
    return tuple(TopicMarks(*key, tuple(marks)) for key, marks in sorted(found.items()))


class Book(ABC):
    """The published runs of an output.

    Args:
        output: the folder, which need not exist yet.
    """

    data_name = ""
    """Folder of the data files below the output; empty: the output itself."""

    def __init__(self, output: Path) -> None:
        self.output = output

    @abstractmethod
    def is_part(self, name: str) -> bool:
        """Return True if an entry of the output is of this kind of export."""

    @abstractmethod
    def is_begun(self) -> bool:
        """Return True if the output has a published run."""

    @abstractmethod
    def state(self) -> ExportState | None:
        """Read the state after the last published run; None before the first.

        Raises:
            BadInputError: it cannot be read.
        """

    @abstractmethod
    def check_columns(self, state: ExportState, columns: tuple[str, ...]) -> None:
        """Refuse columns that do not go with those of the earlier runs.

        Raises:
            BadInputError: they do not.
        """

    @abstractmethod
    def is_published(self, number: int) -> bool:
        """Return True if the output has this run."""

    @abstractmethod
    def publish(
        self, folder: Path, exported: list[Exported], state: ExportState, run: bytes
    ) -> None:
        """Publish a run whose data files are at their places, by one step.

        Args:
            folder: of the run, for files that are not published yet.
            exported: the data files.
            state: the state after the run.
            run: its description, as in run.json.
        """

    @abstractmethod
    def complete(self) -> None:
        """Do again what comes behind the publication of the last run."""


@contextmanager
def appending(config: JobConfig, book: Book) -> Iterator[ExportState | None]:
    """Hold the output for one run, without the rest of a killed one; yields the state.

    Raises:
        BadInputError: the output is in use, or holds something else.
    """
    book.output.mkdir(parents=True, exist_ok=True)
    _check(book, config)
    with locked_output(book.output):
        _finish_killed(book)
        _check(book, config)
        try:
            yield book.state()
        finally:
            _finish_killed(book)


class Growth:
    """One run's part of a growing export: write below `data`, then `publish`.

    Args:
        config: configuration of the run.
        book: that of the held output.
        inputs: splits that are read, for run.json.
    """

    def __init__(self, config: JobConfig, book: Book, inputs: Sequence[Split]) -> None:
        self._book = book
        self._folder = book.output / TEMPORARY_NAME / config.run_id
        self.data = self._folder / _DATA_NAME
        self.data.mkdir(parents=True)
        self.publication = Publication(self._folder, config, inputs)

    def publish(self, exported: list[Exported], state: ExportState) -> None:
        """Add the files that are named; `publication.result` must be set."""
        self.publication.seal()
        sync_tree(self._folder)
        names = tuple(one.file for one in exported)
        moving = msgspec.json.encode(_Moving(state.number, names))
        write_synced(self._book.output / TEMPORARY_NAME / _MOVING_NAME, moving)
        _move(self.data, self._book.output / self._book.data_name, names)
        run = (self._folder / RUN_NAME).read_bytes()
        self._book.publish(self._folder, exported, state, run)
        self._book.complete()


def _finish_killed(book: Book) -> None:
    """Remove what an unpublished run moved, and complete what a published one left undone."""
    temporary = book.output / TEMPORARY_NAME
    moving = _moving(temporary / _MOVING_NAME)
    if moving is not None and not book.is_published(moving.number):
        for name in moving.files:
            (book.output / book.data_name / name).unlink(missing_ok=True)
    shutil.rmtree(temporary, ignore_errors=True)
    book.complete()


def _moving(place: Path) -> _Moving | None:
    """The list of a killed run; None without one.

    Raises:
        BadInputError: it cannot be read, or names a file outside the output.
    """
    try:
        moving = msgspec.json.decode(place.read_bytes(), type=_Moving)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise BadInputError(f"{place}: can not be read, so nothing can be appended") from error
    if any(Path(name).is_absolute() or ".." in Path(name).parts for name in moving.files):
        raise BadInputError(f"{place}: names a file that is not of the output")
    return moving


def _check(book: Book, config: JobConfig) -> None:
    output = book.output
    if config.overwrite:
        raise BadInputError("--overwrite removes what --append goes on with: only one of them")
    if book.is_begun():
        return
    if (output / SUCCESS_NAME).exists():
        raise BadInputError(f"{output} holds a finished run without --append, or of another"
                            " --format; name another folder")  # fmt: skip
    names = [entry.name for entry in output.iterdir()]
    foreign = [one for one in names if one not in _OURS and not book.is_part(one)]
    if foreign:
        raise BadInputError(
            f"{output} holds {min(foreign)}, which is no part of an export of this format; name"
            " another folder"
        )
    is_moving = (output / TEMPORARY_NAME / _MOVING_NAME).exists()
    places = [output / one for one in names if book.is_part(one)]
    left = next((path for place in places for path in place.rglob("*.parquet")), None)
    if left is not None and not is_moving:
        raise BadInputError(f"{left}: of no published run; name another folder")


def _move(source: Path, target: Path, names: Sequence[str]) -> None:
    """Move files of a run to their places, and sync the folders that change."""
    changed = {target.parent}
    for name in names:
        place = target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        (source / name).rename(place)
        changed.update(parent for parent in place.parents if parent.is_relative_to(target))
    sync_all(sorted(changed))


def write_synced(path: Path, content: bytes) -> None:
    """Write a file that is there whole or not at all, even if the power fails."""
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)
    sync(path.parent)
