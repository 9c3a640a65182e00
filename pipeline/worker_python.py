"""The Python that Spark's workers run: it must have this project.

A session that was made in an environment that is not activated, as every Jupyter kernel's is, has
its workers run `python3` of PATH, which lacks the project: each task ends with ModuleNotFoundError.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from pipeline.spark_session import is_local

UNSET: Final = "python3"  # what pyspark takes without PYSPARK_PYTHON
_IMPORTS: Final = "import sys, pipeline.core.reading.reader; print(*sys.version_info[:2])"


def use_own_python(spark: Any) -> str | None:
    """Have workers on this machine run a Python that has this project.

    Returns:
        A line for the user where the workers are elsewhere and nobody chose their Python; else
        None. With Spark Connect nothing can be known here.
    """
    context = getattr(spark, "sparkContext", None)
    if context is None or is_own(context.pythonExec):
        return None
    if is_local(context.master):
        if not has_project(context.pythonExec):
            context.pythonExec = sys.executable
        return None
    if context.pythonExec != UNSET:
        return None
    return (
        f"workers run {UNSET} of their PATH; if it lacks kraftline, put into the configuration:"
        f" spark.pyspark.python={sys.executable}"
    )


def is_own(python: str) -> bool:
    """Return True if a command starts the interpreter of this process."""
    found = shutil.which(python)
    if found is None:
        return False
    # not only the file behind a link: environments link to the interpreter they were made from
    here, there = Path(sys.executable), Path(found).absolute()
    return there.parent == here.parent and there.resolve() == here.resolve()


def has_project(python: str) -> bool:
    """Return True if a Python of this version imports what a task needs."""
    found = shutil.which(python)
    if found is None:
        return False
    done = subprocess.run(  # noqa: S603  # what the workers will run
        [found, "-c", _IMPORTS], capture_output=True, text=True, check=False
    )
    own = " ".join(map(str, sys.version_info[:2]))
    return done.returncode == 0 and done.stdout.strip() == own
