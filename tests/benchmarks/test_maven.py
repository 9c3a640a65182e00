"""Jars are fetched once, whole; beside a program that stands in for Maven."""

import subprocess
from pathlib import Path

import pytest

from benchmarks.clusters import maven

WORDS = (
    "-q -B -f {part}/pom.xml dependency:copy-dependencies -DincludeScope=runtime"
    " -DoutputDirectory={part}"
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache, beside a `mvn` that keeps its words and ends with the code in the file `code`."""
    program = tmp_path / "bin" / "mvn"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/words\nexit $(cat {tmp_path}/code)\n')
    program.chmod(0o755)
    (tmp_path / "code").write_text("0")
    monkeypatch.setenv("PATH", f"{program.parent}:/bin:/usr/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "kraftline"


def test_jars_are_fetched_once(cache: Path) -> None:
    home = maven.fetched("a-1", ["g:a:1", "g:b:2"])
    assert maven.fetched("a-1", ["g:a:1", "g:b:2"]) == home == cache / "a-1"
    part = cache / "a-1.part"
    assert (cache.parent / "words").read_text() == WORDS.format(part=part) + "\n"
    assert (home / "pom.xml").read_text() == maven.pom(["g:a:1", "g:b:2"])
    assert "<groupId>g</groupId><artifactId>b</artifactId><version>2</version>" in maven.pom(
        ["g:b:2"]
    )


def test_some_jars_alone(cache: Path) -> None:
    maven.fetched("a-1", ["g:a:1"], only=["a", "c"])
    assert (cache.parent / "words").read_text().endswith(" -DincludeArtifactIds=a,c\n")


def test_a_failed_fetch_is_tried_again(cache: Path) -> None:
    (cache.parent / "code").write_text("1")
    with pytest.raises(subprocess.CalledProcessError):
        maven.fetched("a-1", ["g:a:1"])
    (cache / "a-1.part" / "left.jar").touch()
    (cache.parent / "code").write_text("0")
    assert {path.name for path in maven.fetched("a-1", ["g:a:1"]).iterdir()} == {"pom.xml"}
