"""A growing export of a partition that the disk does not give: its records are in a later run."""

import errno
import os
from pathlib import Path

import pytest

from pipeline.core.reading import reader
from tests.pipeline.test_export_append import append, exported, write_cluster_id, write_log


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "fsync", lambda _: None)
    write_cluster_id("c1")
    return tmp_path


def failing(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let the segments of a partition be listed and not be read."""
    real = reader.open_segment

    def opened(path: str):
        if Path(path).parent.name == name:
            raise OSError(errno.EIO, "Input/output error")
        return real(path)

    monkeypatch.setattr(reader, "open_segment", opened)


@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED"])
@pytest.mark.parametrize("known", [2, 0])
def test_its_records_come_with_the_next_run(
    capsys: pytest.CaptureFixture[str], mode: str, known: int
) -> None:
    if known:
        write_log(0, known)
    write_log(0, 2, name="orders-1")
    assert append("--mode", mode) == 0
    write_log(0, 5)
    write_log(0, 4, name="orders-1")
    with pytest.MonkeyPatch.context() as patch:
        failing(patch, "orders-0")
        assert append("--mode", mode, "--engine", "local") == 1
    told = "orders-0: could not be read, nothing of it was added; the next run begins at the same"
    assert told in capsys.readouterr().err
    of_first = {"orders-0": [*range(known)]} if known else {}
    assert exported() == of_first | {"orders-1": [0, 1, 2, 3]}
    assert append("--mode", mode) == 0
    assert exported() == {"orders-0": [0, 1, 2, 3, 4], "orders-1": [0, 1, 2, 3]}
