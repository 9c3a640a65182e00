"""A folder of an export that grows: `--append` adds the records that it has not, each once.

    OUTPUT/data/topic=T/partition=P/NUMBER-SEGMENT-POSITION.parquet
    OUTPUT/manifest/NUMBER.parquet        the files of that run; its metadata has the watermarks
    OUTPUT/run.json, OUTPUT/_SUCCESS      the last run
    OUTPUT/_tmp, OUTPUT/_lock             a run at work; the lock of the one writer

A run is published by one rename, that of its manifest: files and watermarks count from then on, or
neither. Its data files are moved before; a list of them, written before the first move, is what the
next run removes if there is no manifest. Whatever comes behind the rename the next run does again.
A run costs what is new: it reads the last manifest's metadata alone, and changes no file.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.core.errors import BadInputError
from pipeline.core.reading.increment import Points
from pipeline.core.reading.split import Split
from pipeline.core.reading.stream import Point
from pipeline.jobs.job import RUN_NAME, SUCCESS_NAME, TEMPORARY_NAME, JobConfig, Publication
from pipeline.jobs.publishing import LOCK_NAME, locked_output, sync, sync_tree

DATA_NAME: Final = "data"
MANIFESTS_NAME: Final = "manifest"
_MOVING_NAME: Final = "moving.json"
_STATE_KEY: Final = b"kraftline.export"
_RUN_KEY: Final = b"kraftline.run"
_OURS: Final = frozenset(
    {DATA_NAME, MANIFESTS_NAME, TEMPORARY_NAME, LOCK_NAME, RUN_NAME, SUCCESS_NAME}
)


class Layout(msgspec.Struct, frozen=True):
    """Flags that every run of a folder must have alike: its rows are of one table."""

    decode: str
    by: str
    columns: tuple[str, ...]


class ExportState(msgspec.Struct, frozen=True, kw_only=True):
    """State of a growing export: `number` of its last run, and the watermarks after it.

    `watermarks` are sorted; each has its own topic id, since a partition of a deleted topic may
    outlast the others. `deleted` are partitions that were not there in the last run, like orders-0;
    `rows` and `files` are those of all runs.
    """

    layout: Layout
    number: int = 0
    cluster_id: str | None = None
    watermarks: tuple[Point, ...] = ()
    deleted: tuple[str, ...] = ()
    rows: int = 0
    files: int = 0

    @property
    def points(self) -> Points:
        """The watermarks by topic and partition."""
        return {(one.topic, one.partition): one for one in self.watermarks}


class _Moving(msgspec.Struct, frozen=True):
    """Files that a run is about to move into the output."""

    number: int
    files: tuple[str, ...]


def watermarks_of(points: Points) -> tuple[Point, ...]:
    """Watermarks as they are kept."""
    return tuple(point for _, point in sorted(points.items()))


def is_growing(output: Path) -> bool:
    """True for a folder that a run with --append has made."""
    return (output / MANIFESTS_NAME).is_dir()


def read_state(output: Path) -> ExportState | None:
    """The state after the last published run; None before the first.

    Raises:
        BadInputError: the last manifest cannot be read.
    """
    last = _last_manifest(output)
    if last is None:
        return None
    try:
        return msgspec.json.decode(_about(last, _STATE_KEY), type=ExportState)
    except (ValueError, RecursionError) as error:
        raise _unreadable(last) from error


@contextmanager
def appending(config: JobConfig, output: Path) -> Iterator[ExportState | None]:
    """Hold the output for one run, without the rest of a killed one; yields the state.

    Raises:
        BadInputError: the output is in use, or holds something else.
    """
    output.mkdir(parents=True, exist_ok=True)
    _check(output, config)
    with locked_output(output):
        _finish_killed(output)
        _check(output, config)
        try:
            yield read_state(output)
        finally:
            _finish_killed(output)


class Growth:
    """One run's part of a growing export: write below `data`, then `publish`.

    Args:
        config: configuration of the run.
        output: the held output.
        inputs: splits that are read, for run.json.
    """

    def __init__(self, config: JobConfig, output: Path, inputs: Sequence[Split]) -> None:
        self._output = output
        self._folder = output / TEMPORARY_NAME / config.run_id
        self.data = self._folder / DATA_NAME
        self.data.mkdir(parents=True)
        self.publication = Publication(self._folder, config, inputs)

    def publish(self, manifest: pa.Table, state: ExportState) -> None:
        """Add the files that the manifest names; `publication.result` must be set."""
        output, folder = self._output, self._folder
        self.publication.seal()
        names = [f"{DATA_NAME}/{name}" for name in manifest.column("file").to_pylist()]
        run = (folder / RUN_NAME).read_bytes()
        about = {_STATE_KEY: msgspec.json.encode(state), _RUN_KEY: run}
        made = folder / MANIFESTS_NAME
        pq.write_table(manifest.replace_schema_metadata(about), made, compression="zstd")
        sync_tree(folder)
        moving = msgspec.json.encode(_Moving(state.number, tuple(names)))
        _write_synced(output / TEMPORARY_NAME / _MOVING_NAME, moving)
        _move(folder, output, names)
        place = _manifest(output, state.number)
        place.parent.mkdir(exist_ok=True)
        sync(output)
        made.rename(place)
        sync(place.parent)
        _describe(output)


def _finish_killed(output: Path) -> None:
    """Remove what an unpublished run moved, and complete what a published one left undone."""
    temporary = output / TEMPORARY_NAME
    try:
        moving = msgspec.json.decode((temporary / _MOVING_NAME).read_bytes(), type=_Moving)
    except FileNotFoundError:
        moving = None
    if moving is not None and not _manifest(output, moving.number).exists():
        for name in moving.files:
            (output / name).unlink(missing_ok=True)
    shutil.rmtree(temporary, ignore_errors=True)
    if _last_manifest(output) is not None:
        _describe(output)


def _describe(output: Path) -> None:
    """Write run.json and _SUCCESS of the last published run, if they are not there."""
    last = _last_manifest(output)
    assert last is not None
    run = _about(last, _RUN_KEY)
    place = output / RUN_NAME
    if not place.exists() or place.read_bytes() != run:
        _write_synced(place, run)
    (output / SUCCESS_NAME).touch()


def _check(output: Path, config: JobConfig) -> None:
    if config.overwrite:
        raise BadInputError("--overwrite removes what --append goes on with: only one of them")
    if is_growing(output):
        return
    if (output / SUCCESS_NAME).exists():
        raise BadInputError(f"{output} holds a finished run that was begun without --append; name"
                            " another folder")  # fmt: skip
    foreign = [entry.name for entry in output.iterdir() if entry.name not in _OURS]
    if foreign:
        raise BadInputError(
            f"{output} holds {min(foreign)}, which is no part of an export; name another folder"
        )
    is_moving = (output / TEMPORARY_NAME / _MOVING_NAME).exists()
    left = next((output / DATA_NAME).rglob("*.parquet"), None)
    if left is not None and not is_moving:
        raise BadInputError(f"{left}: of no published run; name another folder")


def _move(folder: Path, output: Path, names: Sequence[str]) -> None:
    """Move files of a run to their places, and sync the folders that change."""
    changed = {output}
    for name in names:
        place = output / name
        place.parent.mkdir(parents=True, exist_ok=True)
        (folder / name).rename(place)
        for parent in place.parents:
            if parent == output:
                break
            changed.add(parent)
    for directory in sorted(changed):
        sync(directory)


def _last_manifest(output: Path) -> Path | None:
    """The manifest with the highest number; names have one length."""
    return max((output / MANIFESTS_NAME).glob("*.parquet"), default=None)


def _manifest(output: Path, number: int) -> Path:
    return output / MANIFESTS_NAME / f"{number:010d}.parquet"


def _about(manifest: Path, key: bytes) -> bytes:
    """Read a value of a manifest's metadata."""
    try:
        found: bytes = pq.read_schema(manifest).metadata[key]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _unreadable(manifest) from error
    return found


def _unreadable(manifest: Path) -> BadInputError:
    return BadInputError(f"{manifest}: can not be read, so nothing can be appended")


def _write_synced(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)
    sync(path.parent)
