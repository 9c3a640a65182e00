"""Publication of an archive: the whole new version or the whole old one, even if the power fails.

An archive cannot be rebuilt, since the log it was fed from is deleted. So it is never changed
in place:

    OUTPUT/_tmp/RUN_ID            while the job runs
    OUTPUT/_versions/RUN_ID       a whole archive: tables, run.json, _SUCCESS; never changed again
    OUTPUT/_current               link to the current version: replacing it publishes
    OUTPUT/TABLE                  links to _current/TABLE, for people and for Spark

Versions share unchanged files (hard links). The previous one stays until the next run, so its
readers are not disturbed. A reader asks once for `current_version` and reads below it.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pipeline.core.errors import BadInputError
from pipeline.core.reading.split import Split
from pipeline.jobs.job import (
    SUCCESS_NAME,
    TEMPORARY_NAME,
    JobConfig,
    Publication,
    usable_output,
)

CURRENT_NAME: Final = "_current"
VERSIONS_NAME: Final = "_versions"
LOCK_NAME: Final = "_lock"
_SYNCS_MAX: Final = 16
_NEXT_NAME: Final = "_current.next"


def current_version(root: str | Path) -> Path:
    """Folder of the current version; the root itself if there are no versions."""
    try:
        return Path(root, Path(root, CURRENT_NAME).readlink())
    except OSError:
        return Path(root)


@contextmanager
def publishing_version(config: JobConfig, inputs: Sequence[Split] = ()) -> Iterator[Publication]:
    """Yield a folder to write into; it becomes the archive's new version if the block succeeds.

    Only one run at a time; the folders of killed runs are removed.

    Args:
        config: configuration of the run; `output` must be given.
        inputs: splits that are read, for run.json.

    Raises:
        BadInputError: the output is missing, cannot be one, lies in a log directory, is in use by
            another run, holds a finished run and `overwrite` is not set, or something that is not
            an archive.
    """
    output = usable_output(config, inputs)
    output.mkdir(parents=True, exist_ok=True)
    _check(output, overwrite=config.overwrite)  # before the lock leaves its file there
    with locked_output(output):
        _check(output, overwrite=config.overwrite)
        shutil.rmtree(output / TEMPORARY_NAME, ignore_errors=True)  # of a killed run
        folder = output / TEMPORARY_NAME / config.run_id
        folder.mkdir(parents=True)
        publication = Publication(folder, config, inputs)
        try:
            yield publication
            publication.seal()
            (folder / SUCCESS_NAME).touch()
            publish_version(output, folder)
        finally:
            shutil.rmtree(output / TEMPORARY_NAME, ignore_errors=True)


def publish_version(output: Path, folder: Path) -> None:
    """Make a sealed folder the current version.

    Before the one rename that does so nothing visible to readers has changed; the steps after it
    only tidy up, and the next run does them again.
    """
    names = {entry.name for entry in folder.iterdir()}
    version = output / VERSIONS_NAME / folder.name
    version.parent.mkdir(exist_ok=True)
    sync_tree(folder)
    if version != current_version(output):
        shutil.rmtree(version, ignore_errors=True)  # of a run that was killed here
    folder.rename(version)
    sync(version.parent)
    for name in sorted(names - {entry.name for entry in output.iterdir()}):
        (output / name).symlink_to(Path(CURRENT_NAME, name))  # dangling until the next step
    before = current_version(output)
    following = output / _NEXT_NAME
    following.unlink(missing_ok=True)
    following.symlink_to(Path(VERSIONS_NAME, version.name))
    following.rename(output / CURRENT_NAME)
    sync(output)
    for entry in output.iterdir():
        if _is_ours(entry) and entry.name not in names:
            entry.unlink()
    for entry in version.parent.iterdir():
        if entry.name not in (version.name, before.name):
            shutil.rmtree(entry)


def _check(output: Path, *, overwrite: bool) -> None:
    if (output / SUCCESS_NAME).exists() and not overwrite:
        raise BadInputError(
            f"{output} holds a finished run; go on with it by --append, name another folder, or"
            " --overwrite"
        )
    known = {TEMPORARY_NAME, VERSIONS_NAME, LOCK_NAME, CURRENT_NAME, _NEXT_NAME}
    foreign = [
        entry.name for entry in output.iterdir() if entry.name not in known and not _is_ours(entry)
    ]
    if foreign:
        raise BadInputError(
            f"{output} holds {min(foreign)}, which is no part of an archive; name another folder"
        )


def _is_ours(entry: Path) -> bool:
    return entry.is_symlink() and entry.readlink().parent == Path(CURRENT_NAME)


@contextmanager
def locked_output(output: Path) -> Iterator[None]:
    """Hold the lock of the output; the system releases it if the process dies.

    Raises:
        BadInputError: another run holds it.
    """
    with (output / LOCK_NAME).open("a") as lock:  # nothing is cut, if it is a link to a file
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BadInputError(f"{output} is in use by another run") from error
        yield


def sync_tree(folder: Path) -> None:
    """Sync new files to the disk; shared ones are there already."""
    files, folders = [], []
    for place, _, names in os.walk(folder):
        paths = [Path(place, name) for name in names]
        files += [path for path in paths if path.stat().st_nlink == 1]
        folders.append(Path(place))
    sync_all(files)
    sync_all(folders)


def sync_all(paths: Sequence[Path]) -> None:
    """Sync files or folders; many at a time, as a file system waits once for those that meet."""
    if len(paths) < _SYNCS_MAX:  # not worth the threads
        for path in paths:
            sync(path)
        return
    with ThreadPoolExecutor(_SYNCS_MAX) as pool:
        list(pool.map(sync, paths))  # an error of one is raised here


def sync(path: Path) -> None:
    """Sync a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
