"""Settings of a session by its master URL, without Spark."""

import os
from pathlib import Path

import pytest

from pipeline import cli
from pipeline.jobs.export import run as export
from pipeline.jobs.job import JobConfig, JobResult
from pipeline.spark_session import _refusal, default_conf, is_local, with_attempts, without_noise


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local", "local[1,4]"),
        ("local[2]", "local[2,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2,1]", "local[2,1]"),
        ("spark://h:7077", "spark://h:7077"),
        ("local-cluster[2,1,512]", "local-cluster[2,1,512]"),
    ],
)
def test_a_local_task_is_tried_four_times_like_any_other(master: str, expected: str) -> None:
    assert with_attempts(master) == expected


@pytest.mark.parametrize(
    ("master", "host", "partitions"),
    [
        ("local[3]", "127.0.0.1", "6"),
        ("spark://127.0.0.1:7077", "127.0.0.1", None),
        ("spark://localhost:7077", "127.0.0.1", None),
        ("spark://10.1.2.3:7077", None, None),
        ("yarn", None, None),
    ],
)
def test_only_a_master_of_this_machine_binds_to_loopback(
    master: str, host: str | None, partitions: str | None
) -> None:
    conf = default_conf(master)
    assert conf.get("spark.driver.host") == conf.get("spark.driver.bindAddress") == host
    assert conf.get("spark.sql.shuffle.partitions") == partitions


def test_spark_submit_decides_where_no_master_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    assert is_local(None)
    assert not is_local("spark://h:7077")
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert not is_local(None)
    assert is_local("local[2]")


@pytest.mark.parametrize("master", ["spark://h:7077", "local[2]"])
def test_executors_elsewhere_get_absolute_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, master: str
) -> None:
    told: list[JobConfig] = []

    def run(config: JobConfig) -> JobResult:
        told.append(config)
        return JobResult()

    monkeypatch.setattr(export, "run", run)
    monkeypatch.chdir(tmp_path)
    command = ["export", "--input", "a", "b*", "--output", "out", "--master", master]
    assert cli.main([*command, "--conf", "spark.x=1", "--conf", "spark.y=a=b"]) == 0
    root = f"{tmp_path}/" if master.startswith("spark") else ""
    assert told[0].inputs == (f"{root}a", f"{root}b*")
    assert told[0].output == f"{root}out"
    assert told[0].conf == {"spark.x": "1", "spark.y": "a=b"}


def test_a_master_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.spark_session._spark_version", lambda: "4.3.0")
    text = "An error occurred while calling None.x.\n: java.lang.X: no master\n\tat a.b\n"
    assert _refusal("spark://h:1", text) == (
        "Spark does not start with master spark://h:1: java.lang.X: no master"
        " (does a master of Spark 4.3.0 answer there?)"
    )
    assert _refusal("local[0]", "no\n") == "Spark does not start with master local[0]: no"


@pytest.mark.parametrize(
    ("verbose", "expected"), [(False, "before after"), (True, "before in after")]
)
def test_what_a_start_writes_is_left_out(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, verbose: bool, expected: str
) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    os.write(2, b"before ")
    with without_noise(verbose=verbose):
        os.write(2, b"in ")
    os.write(2, b"after")
    assert capfd.readouterr().err == expected
