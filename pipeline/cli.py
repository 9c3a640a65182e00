"""`scripts/pipeline JOB`: one job, one line of result.

Exit codes: 0 clean, 1 findings, 2 bad input, 3 internal error, 130 ended by Ctrl-C.
"""

import argparse
import errno
import importlib
import json
import logging
import os
import re
import sys
import time
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from pipeline.core.errors import (
    BadInputError,
    CorruptSegmentError,
    DataLossError,
    not_installed,
)
from pipeline.core.stage import AUTO, ENGINES, SPARK
from pipeline.spark_session import is_local

if TYPE_CHECKING:
    from pipeline.jobs.job import JobResult

CLEAN: Final = 0
FINDINGS: Final = 1
BAD_INPUT: Final = 2
INTERNAL: Final = 3
_WORD_MAX: Final = 300
INTERRUPTED: Final = 130  # as a shell has it
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# job -> its module and its description
JOBS: Final = {
    "compaction": ("pipeline.jobs.compaction", "what cleaning and retention would free"),
    "audit": ("pipeline.jobs.audit", "are the files sound, and do the replicas agree"),
    "export": ("pipeline.jobs.export.run", "records to Parquet"),
    "groups": ("pipeline.jobs.groups.run", "commits, lag, members, transactions as tables"),
    "history": ("pipeline.jobs.history.run", "the past of the cluster's metadata as tables"),
    "linearize": ("pipeline.jobs.linearize", "are thousands of recorded histories linearizable"),
}

# package -> the extra that installs it
EXTRAS: Final = {"numpy": "arrow", "pyarrow": "arrow", "pandas": "spark", "pyspark": "spark",
                 "py4j": "spark", "matplotlib": "plot", "deltalake": "delta"}  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    """Run one job and return the exit code."""
    logging.getLogger().addFilter(_is_no_gateway)
    try:
        return _main(arguments)
    except KeyboardInterrupt:  # while modules load, or while the result is printed
        sys.stderr.write("pipeline: interrupted\n")
        return INTERRUPTED
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        sys.stderr.write(f"pipeline: {not_installed(package, EXTRAS[package])}\n")
        return BAD_INPUT


def _is_no_gateway(record: logging.LogRecord) -> bool:
    """Filter out Py4J's tracebacks of errors that it raises anyway: Ctrl-C, a JVM that is gone."""
    return record.module != "java_gateway"


def _main(arguments: Sequence[str]) -> int:
    parsed, module = _parse(arguments)
    from pipeline.jobs.job import JobConfig  # noqa: PLC0415  # needs numpy

    if not is_local(parsed.master):
        _make_absolute(parsed)
    config = JobConfig(
        inputs=tuple(parsed.input),
        output=parsed.output,
        run_id=time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        + f"-{time.monotonic_ns() % 10**6:06d}",
        engine=parsed.engine,
        master=parsed.master,
        conf=dict(parsed.conf),
        as_json=parsed.json,
        dry_run=parsed.dry_run,
        overwrite=parsed.overwrite,
        verbose=parsed.verbose,
        arguments=parsed,
    )
    try:
        result: JobResult = module.run(config)
    except (BadInputError, DataLossError, CorruptSegmentError) as error:
        sys.stderr.write(f"pipeline {parsed.job}: {_short(str(error))}\n")
        return BAD_INPUT
    except KeyboardInterrupt:
        sys.stderr.write(f"pipeline {parsed.job}: interrupted\n")
        return INTERRUPTED
    except ModuleNotFoundError:
        raise
    except Exception as error:  # noqa: BLE001  # last resort: report it with its own exit code
        text = _system_error(error, parsed.output)
        if text is not None:
            sys.stderr.write(f"pipeline {parsed.job}: {_short(text)}\n")
            return BAD_INPUT
        sys.stderr.write(f"pipeline {parsed.job}: internal error\n{traceback.format_exc()}")
        return INTERNAL
    _show(parsed.job, result, as_json=parsed.json)
    return FINDINGS if result.findings else CLEAN


def _short(text: str) -> str:
    """The text without the rest of any word that is longer than a path people have."""
    return re.sub(rf"(\S{{{_WORD_MAX}}})\S+", r"\1...", text)


def _system_error(error: Exception, output: str | None) -> str | None:
    """One line for an error of the system about a file; None for any other error."""
    if not isinstance(error, OSError):
        return None
    if error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if error.errno in _NO_ROOM:
        return f"{output}: {os.strerror(error.errno)}"  # Arrow does not name the file
    return None


def _parse(arguments: Sequence[str]) -> tuple[argparse.Namespace, Any]:
    parser = argparse.ArgumentParser("pipeline", description=__doc__, allow_abbrev=False)
    jobs = parser.add_subparsers(dest="job", required=True, metavar="JOB")
    modules = {}
    for name, (path, text) in JOBS.items():
        job = jobs.add_parser(name, help=text, description=text, allow_abbrev=False)
        _add_common(job)
        if not arguments or name == arguments[0]:  # others take a second to load
            modules[name] = importlib.import_module(path)
            modules[name].add_arguments(job)
    parsed = parser.parse_args(arguments)
    return parsed, modules[parsed.job]


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--input", nargs="+", required=True, metavar="DIR", help="log directories")
    parser.add_argument("--output", metavar="DIR", help="where the result appears")
    parser.add_argument("--engine", choices=ENGINES, default=AUTO, help="local: this machine and no"
                        " JVM; auto, the default: Spark from 1 GiB on or by --master")  # fmt: skip
    parser.add_argument("--spark", dest="engine", action="store_const", const=SPARK,
                        help="the same as --engine spark")  # fmt: skip
    parser.add_argument("--master", help="of Spark: local[N] or spark://HOST:PORT; default is that"
                        " of spark-submit, else local[*]")  # fmt: skip
    parser.add_argument("--conf", action="append", default=[], type=_setting, metavar="KEY=VALUE",
                        help="a setting of Spark; may be given several times")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="results and progress as JSON")
    parser.add_argument("--verbose", action="store_true", help="also what Spark itself writes")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be read")
    parser.add_argument("--overwrite", action="store_true", help="replace a finished run")


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def _make_absolute(parsed: argparse.Namespace) -> None:
    """Resolve paths, since executors on other machines have another working directory."""
    parsed.input = [os.path.abspath(path) for path in parsed.input]  # noqa: PTH100  # may be a glob
    if parsed.output is not None:
        parsed.output = os.path.abspath(parsed.output)  # noqa: PTH100
    if getattr(parsed, "errors_path", None) is not None:  # of export, written by tasks
        parsed.errors_path = os.path.abspath(parsed.errors_path)  # noqa: PTH100


def _show(job: str, result: "JobResult", *, as_json: bool) -> None:
    if as_json:
        shown = {"job": job, "tables": result.tables, "counters": result.counters,
                 "findings": result.findings}  # fmt: skip
        sys.stdout.write(json.dumps(shown) + "\n")
        return
    figures = {**result.tables, **result.counters, "findings": result.findings}
    sys.stdout.write(f"{job}: " + ", ".join(f"{k} {v}" for k, v in figures.items()) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
