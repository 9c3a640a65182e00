"""An archive goes on only with the cluster that it is of, where both are known."""

from pathlib import Path

import pytest

from pipeline.core.errors import BadInputError
from pipeline.jobs.history.continuation import (
    STATE_NAME,
    Archive,
    ArchivedLog,
    write_archived_log,
)


def archive(root: Path, cluster_id: str | None) -> Archive:
    (root / STATE_NAME).mkdir()
    write_archived_log(root / STATE_NAME, ArchivedLog(cluster_id))
    (root / "run.json").write_text(
        '{"counters": {"start_offset": 0, "end_offset": 9, "log_end_offset": 9}}'
    )
    (root / "_SUCCESS").touch()
    return Archive(root, "A")


def test_another_cluster_is_refused_with_both_ids(tmp_path: Path) -> None:
    known = archive(tmp_path, "here")
    known.check_cluster("in", "here")
    known.check_cluster("in", None)
    with pytest.raises(BadInputError) as refused:
        known.check_cluster("in", "elsewhere")
    assert str(refused.value) == "in is of cluster elsewhere, the archive A is of cluster here"


def test_an_archive_that_does_not_know_its_cluster_goes_on(tmp_path: Path) -> None:
    archive(tmp_path, None).check_cluster("in", "elsewhere")
