"""One Spark session for all tests that need one."""

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator

import pytest

from tests.peers import is_missing


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    """`local[2]`; without Java or the extra the tests are left out, in CI they fail."""
    missing = "java" if shutil.which("java") is None else None
    if importlib.util.find_spec("pyspark") is None:
        missing = "the extra spark"
    if missing is not None:
        is_missing(missing)
    import pipeline

    os.environ["PYSPARK_PYTHON"] = sys.executable
    made = pipeline.session("tests", "local[2]", {"spark.sql.shuffle.partitions": "2"})
    yield made
    made.stop()
