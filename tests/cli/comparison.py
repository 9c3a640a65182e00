"""Comparison of our output with Kafka's: equal, equal apart from named things, or different.

Named things, by what is done to both texts before they are compared again:
"""

import re
from collections.abc import Callable, Mapping
from itertools import combinations

from tests.cli.golden import Recorded

Run = tuple[int, str, str]
"""Exit code, standard output, standard error."""

LOG_LINE = re.compile(r"^\[\d{4}-\d\d-\d\d [\d:,]+\] (ERROR|WARN|INFO) .*$")
JAVA_NAME = re.compile(r"^(?:Caused by: |\tSuppressed: )?(?:[a-z]+(?:\.[a-zA-Z$]+)+: )+")


def without_java(run: Run) -> Run:
    """Log lines, exceptions with their causes, the echo of the command line."""
    exit_code, out, err = run

    def plain(text: str) -> list[str]:
        lines = []
        for line in text.splitlines():
            is_java = LOG_LINE.match(line) or line.startswith(
                (
                    " (org.apache.",
                    "\tSuppressed: ",
                    "Error while executing config command with args",
                )
            )
            bare = JAVA_NAME.sub("", line)
            if not is_java and bare.strip() and bare not in lines:
                lines.append(bare)
        return lines

    kept = plain(err)
    shown = out.splitlines()
    # an exception that repeats a line of standard output
    repeated = {line.removeprefix("Error: ") for line in shown}
    shown = [line for line in shown if not (JAVA_NAME.match(line) and
                                            JAVA_NAME.sub("", line) in repeated)]  # fmt: skip
    said = {line.rpartition(" : ")[2] for line in shown}
    return exit_code, "\n".join(shown), "\n".join(line for line in kept if line not in said)


def without_usage(run: Run) -> Run:
    """Drop the usage text, which follows the first line of a refused command line."""
    exit_code, out, err = run
    lines = err.splitlines()
    is_usage = any(line.startswith(("Option ", "usage: ")) for line in lines)
    return exit_code, out, "\n".join(lines[:1] if is_usage else lines)


def without_order(run: Run) -> Run:
    """The order of blocks, and of names in one line: Kafka's is that of a hash."""
    exit_code, out, err = run
    separator = r"\n" if out.startswith("\t") else r"\n(?=\S)|\n\n"
    blocks = re.split(separator, out.rstrip("\n"))
    partitions = [
        re.sub(r"(?<=for partitions )(.*)", lambda m: ", ".join(sorted(m[1].split(", "))), block)
        if "for partitions " in block else block
        for block in blocks
    ]  # fmt: skip
    return exit_code, "\n".join(sorted(partitions)), err


def without_ids(run: Run) -> Run:
    """Ids of 22 characters that are drawn by chance."""
    exit_code, out, err = run
    return exit_code, re.sub(r"(?m)(directory\.id=|^)[\w-]{22}(?=,|$)", r"\1ID", out), err


def without_folders(run: Run) -> Run:
    """Log directories of replicas: `any` where Kafka does not know one."""
    exit_code, out, err = run
    return exit_code, re.sub(r'"log_dirs":\[[^\]]*\]', '"log_dirs":[]', out), err


def without_chance(run: Run) -> Run:
    """Replicas that a proposal draws."""
    exit_code, out, err = run
    head, line, proposal = out.partition("Proposed partition reassignment configuration\n")
    return exit_code, head + line + re.sub(r'"replicas":\[[^\]]*\]', "", proposal), err


def without_tabs(run: Run) -> Run:
    """Tabs where 3.9.1 has them and 4.3.1 has blanks."""
    exit_code, out, err = run
    return exit_code, re.sub(r"[ \t]+", " ", out), err


def without_words_of_3_9(run: Run) -> Run:
    """`Optional[...]`, an empty `directoryId`, features told one by one, no deprecations."""
    exit_code, out, err = run
    out = re.sub(r"Optional\[([^\]]*)\]", r"\1", out)
    out = out.replace(', "directoryId": null', "")
    out = out.replace(
        "The update failed for all features since the following feature had an error: ", ""
    )
    out = out.replace(" or some brokers have all their log directories cordoned", "")
    out = re.sub(
        r"Unsupported metadata.version downgrade from \d+ to (\d+)",
        r"Invalid metadata.version \1",
        out,
    )
    out = re.sub(r"(?m)^ `metadata` flag is deprecated.*\n", "", out)
    return exit_code, out.replace("ALLOW) \n", "ALLOW)\n"), err


def without_moment(run: Run) -> Run:
    """Times that move between two questions: the leader's own, so ages and the lag in time too."""
    exit_code, out, err = run
    out = re.sub(r"(?m)^(MaxFollowerLagTimeMs: +)[1-9]\d*$", r"\1MS", out)
    out = re.sub(r"\b\d{13}( +)\t\d{13}( +)\t(?=Leader)", r"MS\1\tMS\2\t", out)
    return exit_code, re.sub(r"\b\d+ ms ago +", "AGE", out), err


def without_mark(run: Run) -> Run:
    """The high watermark, which grew by a record between two questions."""
    exit_code, out, err = run
    return exit_code, re.sub(r"(?m)^(HighWatermark: +)\d+$", r"\1N", out), err


APART: dict[str, Callable[[Run], Run]] = {
    "java": without_java,
    "usage": without_usage,
    "order": without_order,
    "ids": without_ids,
    "folders": without_folders,
    "chance": without_chance,
    "tabs": without_tabs,
    "3.9": without_words_of_3_9,
    "moment": without_moment,
    "mark": without_mark,
}


def _trimmed(run: Run) -> Run:
    return run[0], run[1].rstrip("\n"), run[2].rstrip("\n")


def apart_from(
    ours: Run, recorded: Recorded, known: Mapping[str, Callable[[Run], Run]] = APART
) -> tuple[str, ...] | None:
    """The fewest `known` things to leave out for equality: () is equal, None is different."""
    theirs: Run = (recorded.exit, recorded.stdout, recorded.stderr)
    for count in range(4):
        for names in combinations(known, count):
            left, right = ours, theirs
            for name in names:
                left, right = known[name](left), known[name](right)
            if _trimmed(left) == _trimmed(right):
                return names
    return None
