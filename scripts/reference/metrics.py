"""docs/reference/metrics.md: names, types and labels of all metrics, from the collectors."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from prometheus_client.core import Metric

from scripts.reference.markdown import code, page, table

COLUMNS: Final = ("metric", "type", "labels", "at", "what")
PREFIXES: Final = ("kafka_", "kraftline_")
TYPES: Final = {"unknown": "counter"}
"""Kafka's counts of histograms, which the exporter does not type."""


class Told(NamedTuple):
    """A metric as the page tells of it."""

    name: str
    kind: str
    labels: tuple[str, ...]
    text: str


def told(family: Metric) -> Told:
    """A family under the name of its samples, with its labels even if it has no sample now."""
    name = f"{family.name}_total" if family.type == "counter" else family.name
    declared = getattr(family, "_labelnames", ())
    found = {label for sample in family.samples for label in sample.labels}
    labels = (*declared, *sorted(found.difference(declared)))
    return Told(name, TYPES.get(family.type, family.type), labels, family.documentation)


def text(of_nodes: Mapping[str, Iterable[Metric]]) -> str:
    """The page.

    Args:
        of_nodes: families of a broker, a controller, by the name of the role.
    """
    found: dict[str, Told] = {}
    places: dict[str, list[str]] = {}
    for role, families in of_nodes.items():
        for metric in map(told, families):
            if metric.name.startswith(PREFIXES):
                known = found.setdefault(metric.name, metric)
                found[metric.name] = max(known, metric, key=lambda each: len(each.labels))
                places.setdefault(metric.name, []).append(role)
    return page(
        "Metrics",
        "Names, types and labels of what `/metrics` of a node has "
        "([switched on](../running.md#looking-at-it-http) by `inspection.listener`). The MBean of "
        "Kafka behind each, and differences to it: [running](../running.md#metrics). `process_*` "
        "and `python_*` are those of Prometheus' client library.",
        table(
            COLUMNS,
            (
                (
                    code(metric.name),
                    metric.kind,
                    ", ".join(map(code, metric.labels)),
                    "every node" if len(places[name]) == len(of_nodes) else places[name][0],
                    metric.text,
                )
                for name, metric in sorted(found.items())
            ),
        ),
    )
