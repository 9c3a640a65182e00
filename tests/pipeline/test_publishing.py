"""An archive is the whole old version or the whole new one, wherever its publication is killed."""

import os
from pathlib import Path

import pytest

from pipeline.core.errors import BadInputError
from pipeline.jobs.job import JobConfig, JobResult
from pipeline.jobs.publishing import (
    current_version,
    publishing_version,
    sync_all,
    sync_tree,
)
from tests.pipeline.killed import dies_before


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch):
    """A killed process loses nothing that is in the cache."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def publish(out, run_id, content, names=("a", "b")):
    """One run that writes the same content into each of its tables."""
    config = JobConfig(inputs=(), output=str(out), run_id=run_id, overwrite=True)
    with publishing_version(config) as publication:
        for name in names:
            (publication.folder / name).mkdir()
            (publication.folder / name / "part").write_text(content)
        publication.result = JobResult(counters={"content": int(content)})


def publish_and_die(out, run_id, content, at, names):
    """Run `publish` in a process that is gone before its change number `at`; whether it was."""
    return dies_before(at, lambda: publish(out, run_id, content, names))


def seen(out):
    """Jobs and content that a reader finds, by the links and below the current version alike."""
    version = current_version(out)
    names = sorted(path.parent.name for path in version.glob("*/part"))
    below = {(version / name / "part").read_text() for name in names}
    by_links = {(out / name / "part").read_text() for name in names}
    assert (out / "_SUCCESS").exists()
    assert (version / "_SUCCESS").exists()
    assert by_links == below
    assert len(below) == 1
    assert f'"content": {min(below)}' in (out / "run.json").read_text()
    return names, min(below)


def test_a_kill_at_every_step_leaves_the_old_or_the_new_archive(tmp_path):
    kills = {"1": 0, "2": 0}
    at = 0
    while True:
        out = tmp_path / str(at)
        publish(out, "r1", "1")
        was_killed = publish_and_die(out, "r2", "2", at, ("b", "c"))
        names, content = seen(out)
        assert names == (["a", "b"] if content == "1" else ["b", "c"])
        kills[content] += was_killed
        # whatever is left of the killed run, the next one publishes
        publish(out, "r3", "3", ("a", "c"))
        assert seen(out) == (["a", "c"], "3")
        assert {path.name for path in (out / "_versions").iterdir()} <= {"r1", "r2", "r3"}
        assert not (out / "_tmp").exists()
        if not was_killed:
            assert content == "2"
            break
        at += 1
    assert kills["1"] > 10
    assert kills["2"] > 1


@pytest.mark.parametrize("count", [15, 16, 40])
def test_all_files_and_folders_are_synced(tmp_path, monkeypatch, count):
    paths = [tmp_path / str(number) for number in range(count)]
    for path in paths:
        path.touch()
    (tmp_path / "shared").hardlink_to(paths[0])  # was synced when it was written
    synced = []

    def fsync(file):
        synced.append(str(Path(f"/proc/self/fd/{file}").readlink()))

    monkeypatch.setattr(os, "fsync", fsync)
    sync_tree(tmp_path)
    assert sorted(synced) == sorted(map(str, [tmp_path, *paths[1:]]))
    paths[1].unlink()
    with pytest.raises(FileNotFoundError):
        sync_all(paths)


def test_the_first_publication_appears_at_once(tmp_path):
    at = 0
    while publish_and_die(tmp_path / str(at), "r1", "1", at, ("a",)):
        out = tmp_path / str(at)
        if (out / "_SUCCESS").exists():
            assert seen(out) == (["a"], "1")
        else:
            assert not (out / "a" / "part").exists()
            assert not (out / "run.json").exists()
        at += 1
    assert at > 10


def test_a_reader_keeps_its_version_while_the_next_one_is_published(tmp_path):
    publish(tmp_path, "r1", "1")
    pinned = current_version(tmp_path)
    publish(tmp_path, "r2", "2")
    assert (pinned / "a" / "part").read_text() == "1"
    assert seen(tmp_path)[1] == "2"
    publish(tmp_path, "r3", "3")
    assert not pinned.exists()


def test_a_table_that_is_no_longer_made_disappears(tmp_path):
    publish(tmp_path, "r1", "1", ("a", "findings"))
    publish(tmp_path, "r2", "2", ("a",))
    assert not (tmp_path / "findings").is_symlink()


def test_a_failed_run_changes_nothing(tmp_path):
    publish(tmp_path, "r1", "1")
    config = JobConfig(inputs=(), output=str(tmp_path), run_id="r2", overwrite=True)
    with pytest.raises(AssertionError), publishing_version(config) as publication:
        (publication.folder / "a").mkdir()  # and no result
    assert seen(tmp_path) == (["a", "b"], "1")
    assert not (tmp_path / "_tmp").exists()


def test_an_output_that_can_not_be_used_is_refused(tmp_path):
    config = JobConfig(inputs=(), output=str(tmp_path / "out"), run_id="r2")
    publish(tmp_path / "out", "r1", "1")
    with pytest.raises(BadInputError, match=r"holds a finished run; .* --append"):  # noqa: SIM117
        with publishing_version(config):
            pass
    (tmp_path / "other" / "orders-0").mkdir(parents=True)
    with pytest.raises(BadInputError, match="holds orders-0, which is no part of an archive"):
        publish(tmp_path / "other", "r1", "1")
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["orders-0"]
    with pytest.raises(BadInputError, match="--output is missing"):
        publish_nowhere()


def publish_nowhere():
    with publishing_version(JobConfig(inputs=(), output=None, run_id="r")):
        pass


def test_two_runs_do_not_write_one_archive(tmp_path):
    config = JobConfig(inputs=(), output=str(tmp_path), run_id="r1")
    with publishing_version(config) as publication:
        with pytest.raises(BadInputError, match="is in use by another run"):
            publish(tmp_path, "r2", "2")
        (publication.folder / "a").mkdir()
        (publication.folder / "a" / "part").write_text("1")
        publication.result = JobResult(counters={"content": 1})
    assert seen(tmp_path) == (["a"], "1")
    assert Path(tmp_path, "_current").readlink() == Path("_versions/r1")
