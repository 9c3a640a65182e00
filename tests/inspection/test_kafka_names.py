"""Each metric of a Kafka 4.3.1 is served under the exporter's name, or listed with a reason.

tests/golden/metrics/kafka-4.3.1.txt has the MBeans of one Kafka 4.3.1 (broker and controller) that
served a transaction and groups of both protocols: tags that vary are `*`, behind a blank stands the
kind, or the attributes.
"""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from tests.inspection.test_metrics import DOCUMENT, scraped

GOLDEN = Path(__file__).parents[1] / "golden" / "metrics" / "kafka-4.3.1.txt"
SUFFIXES = {"gauge": "", "meter": "_total", "histogram": ""}
PLAIN_TYPES = {"socket-server-metrics": "socketservermetrics", "node-metrics": "node_metrics"}


def kafkas() -> Iterator[tuple[str, str]]:
    """MBean, with its attribute if it has several, and the exporter's name."""
    for line in GOLDEN.read_text(encoding="utf-8").splitlines():
        bean, kinds = line.split(" ", 1)
        domain, keys = bean.split(":")
        tags = dict(each.split("=") for each in keys.split(","))
        room, kind = domain.replace("kafka.", "kafka_").replace(".", "_"), tags["type"]
        if "name" in tags:
            name, suffix = tags["name"], SUFFIXES[kinds]
            if kinds == "meter" and name.endswith("Percent"):  # by its rule for MeanRate
                name, suffix = name.removesuffix("Percent"), "_percent"
            elif kinds == "meter" and name.endswith("PerSec"):
                name = name.removesuffix("PerSec")
            elif kinds == "meter":  # a timer, which is a histogram too
                suffix = ""
            yield bean, named(f"{room}_{kind}_{name}{suffix}")
            continue
        fixed = [f"{tag}_{value}_" for tag, value in tags.items() if value != "*"][1:]
        for attribute in kinds.split():
            plain = PLAIN_TYPES.get(kind, kind)
            yield f"{bean},{attribute}", named(f"{room}_{plain}_{''.join(fixed)}{attribute}")


def named(text: str) -> str:
    return re.sub(r"[^a-z0-9_]", "_", text.lower())


def left_out() -> list[str]:
    """Patterns of the table of what is not here."""
    table = DOCUMENT.read_text(encoding="utf-8").split("| not here | why |\n")[1].split("\n\n")[0]
    rows = [row.split(" | ") for row in table.splitlines()[1:]]
    assert all(reason.removesuffix(" |") for _, reason in rows)
    return [pattern for row in rows for pattern in re.findall("`([^`]+)`", row[0])]


def test_each_of_kafkas_metrics_is_served_or_listed_with_a_reason() -> None:
    samples = scraped()
    by_topic = {name.partition("{")[0] for name in samples if "topic=" in name}
    of_all = {name.partition("{")[0] for name in samples if "topic=" not in name}
    patterns, used = left_out(), set()
    missing = []
    for bean, name in kafkas():
        has_topic = ",topic=*" in bean
        if name in (by_topic if has_topic else of_all):
            continue
        found = [pattern for pattern in patterns if fnmatchcase(bean, pattern)]
        used.update(found)
        if not found:
            missing.append(bean)
    assert not missing, "\n".join(missing)
    assert set(patterns) == used, "what is served now, or no metric of Kafka's"
