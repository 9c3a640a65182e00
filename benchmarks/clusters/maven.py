"""Jars of Apache Kafka and Apache Spark, fetched once through Maven into the user's cache."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>kraftline</groupId><artifactId>peer</artifactId><version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
_DEPENDENCY: Final = (
    "    <dependency><groupId>{}</groupId><artifactId>{}</artifactId>"
    "<version>{}</version></dependency>"
)


def fetched(folder: str, dependencies: Sequence[str], only: Sequence[str] = ()) -> Path:
    """A folder of the cache with jars, filled when it is asked for the first time.

    Args:
        folder: its name, with the version of what it holds.
        dependencies: `group:artifact:version` of each.
        only: artifacts to keep of them and of what they need at run time; empty: all.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "kraftline"
    home = cache / folder
    if not home.exists():
        part = cache / f"{folder}.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        (part / "pom.xml").write_text(pom(dependencies))
        kept = [f"-DincludeArtifactIds={','.join(only)}"] if only else []
        subprocess.run(
            ["mvn", "-q", "-B", "-f", str(part / "pom.xml"), "dependency:copy-dependencies",
             "-DincludeScope=runtime", f"-DoutputDirectory={part}", *kept],
            check=True,
        )  # fmt: skip
        part.rename(home)
    return home


def pom(dependencies: Sequence[str]) -> str:
    """Text of a project that needs these."""
    lines = [_DEPENDENCY.format(*dependency.split(":")) for dependency in dependencies]
    return _POM.format(dependencies="\n".join(lines))
