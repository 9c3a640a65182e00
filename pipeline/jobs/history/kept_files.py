"""Files that an archive's versions share: hard links, or copies where links do not work."""

import os
import shutil
from pathlib import Path

import pyarrow.parquet as pq

from pipeline.jobs.history.schema import KEYED_STATES


def keep_closed(root: Path, folder: Path) -> None:
    """Link the closed intervals and finished report rows of an archive as files."""
    for name in ("partitions", "brokers", *KEYED_STATES):
        link_files(root / name / "current=false", folder / name / "current=false")
    for name in ("leader_changes", "under_replicated"):
        link_files(root / name, folder / name, pattern=f"{name}-*.parquet")


def link_files(source: Path, target: Path, pattern: str = "*.parquet") -> None:
    """Link the files of one folder in another."""
    if not source.exists():
        return
    target.mkdir(parents=True, exist_ok=True)
    for path in source.glob(pattern):
        link_file(path, target / path.name)


def link_file(path: Path, target: Path) -> None:
    """Link a file, whole or not at all; one that is there stays."""
    try:
        os.link(path, target)
    except FileExistsError:
        return
    except OSError:  # another file system
        temporary = target.with_name(f".{target.name}.tmp")
        shutil.copy2(path, temporary)
        temporary.rename(target)


def parquet_rows(folder: Path) -> int:
    """Number of rows in all Parquet files below a folder, by their footers."""
    return sum(pq.ParquetFile(path).metadata.num_rows for path in folder.rglob("*.parquet"))
