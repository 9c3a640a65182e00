"""Spark session for the jobs, and a clear refusal where Spark cannot run."""

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pipeline.core.errors import BadInputError, not_installed

JAVA_MIN: Final = 17
LOCAL_MASTER: Final = "local[*]"
# Attempts of a task before the job fails: Spark's default, which it does not use with local[N].
TASK_ATTEMPTS: Final = 4
_LOCAL: Final = re.compile(r"local(?:\[(\d+|\*)(?:,(\d+))?\])?")
_MASTER: Final = re.compile(r"local(-cluster)?(\[.*\])?|spark://\S+|yarn|k8s://\S+")
_LOOPBACK: Final = re.compile(r"spark://(127\.0\.0\.1|localhost):\d+")


def make_session(name: str, master: str | None, conf: dict[str, str]) -> Any:
    """Build a session; see `pipeline.session` of the package."""
    if master is not None and _MASTER.fullmatch(master) is None:
        raise BadInputError(
            f"the master is {master!r}, allowed: local, local[N], spark://HOST:PORT, yarn,"
            " k8s://URL"
        )
    submitted = is_submitted()
    check_spark()
    if not submitted:
        check_java()  # with spark-submit the JVM runs already
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415  # the extra may be missing
    from pyspark.sql import SparkSession  # noqa: PLC0415

    builder = SparkSession.builder.appName(name)
    if submitted:
        SparkContext._ensure_initialized()  # noqa: SLF001  # the JVM of spark-submit
        given = dict(SparkConf().getAll())
        chosen = master or given.get("spark.master", LOCAL_MASTER)
        defaults = {k: v for k, v in default_conf(chosen).items() if k not in given}
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers run what the driver runs
        chosen = master or LOCAL_MASTER
        defaults = default_conf(chosen)
    builder = builder.master(with_attempts(chosen))
    for key, value in (defaults | conf).items():
        builder = builder.config(key, value)
    try:
        made = builder.getOrCreate()
    except Exception as error:
        raise BadInputError(_refusal(chosen, str(error))) from error
    made.sparkContext.setLogLevel("ERROR")
    return made


@contextmanager
def without_noise(*, verbose: bool) -> Iterator[None]:
    """Start Spark's JVM in the block with nowhere to write its warnings to, unless verbose.

    The JVM and the workers keep that for their lives; this process' stderr is as before after it.
    """
    if verbose or is_submitted():  # with spark-submit the JVM runs already
        yield
        return
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _refusal(master: str, text: str) -> str:
    """The reason of a failed start in Py4J's text: its second line has the Java exception."""
    first, _, rest = text.partition("\n")
    reason = rest.partition("\n")[0].removeprefix(": ") or first
    hint = "" if is_local(master) else f" (does a master of Spark {_spark_version()} answer there?)"
    return f"Spark does not start with master {master}: {reason}{hint}"


def _spark_version() -> str:
    return importlib.metadata.version("pyspark")


def is_submitted() -> bool:
    """Return True if spark-submit started this process, with its master and settings."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def is_local(master: str | None) -> bool:
    """Return True if all of Spark runs on this machine and in this working directory."""
    if master is None:
        return not is_submitted()
    return _LOCAL.fullmatch(master) is not None


def with_attempts(master: str) -> str:
    """`local[N]` as `local[N,4]`: a killed Python worker costs an attempt, not the job."""
    local = _LOCAL.fullmatch(master)
    if local is None or local[2] is not None:
        return master
    return f"local[{local[1] or 1},{TASK_ATTEMPTS}]"


def default_conf(master: str) -> dict[str, str]:
    """Default settings for a master URL."""
    conf = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
        "spark.python.worker.faulthandler.enabled": "true",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # with zone, as Arrow writes
    }
    local = _LOCAL.fullmatch(master)
    if local is not None:
        cores = os.cpu_count() or 1 if local[1] in (None, "*") else int(local[1])
        conf["spark.sql.shuffle.partitions"] = str(2 * cores)
    if local is not None or _LOOPBACK.fullmatch(master):
        conf |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    return conf


def check_spark() -> None:
    """Refuse to run without the extra.

    Raises:
        BadInputError: a package is missing.
    """
    for package in ("pyspark", "pyarrow", "pandas"):
        if importlib.util.find_spec(package) is None:
            raise BadInputError(not_installed(package, "spark"))


def check_java() -> None:
    """Refuse to run without a Java that Spark supports.

    Raises:
        BadInputError: no Java, or one older than 17.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None or not Path(java).exists():
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "no java on PATH"
        raise BadInputError(f"Spark needs Java {JAVA_MIN} or newer: {where}")
    done = subprocess.run(  # noqa: S603  # the Java that Spark itself will start
        [java, "-version"], capture_output=True, text=True, check=False
    )
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    if found is None:
        raise BadInputError(f"{java} -version says nothing of a version: {done.stderr[:200]!r}")
    if int(found[1]) < JAVA_MIN:
        raise BadInputError(f"Spark needs Java {JAVA_MIN} or newer; {java} is version {found[1]}")
