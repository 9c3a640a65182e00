"""The generated pages of the documentation say what the code says, and name all of it."""

import re
from functools import cache
from pathlib import Path

import pytest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from cli.completion_words import contexts
from cli.main import COMMANDS
from scripts.reference import compatibility, configs, markdown, metrics
from scripts.reference.markdown import table, with_unit
from scripts.reference.pages import DOCS, pages

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    "compatibility.md",
    "reference/api-versions.md",
    "reference/commands.md",
    "reference/configs.md",
    "reference/metrics.md",
)
made = cache(pages)


def rows(path: str) -> list[list[str]]:
    """Cells of all tables of a page, without those of their heads."""
    lines = [line for line in made()[path].splitlines() if line.startswith("| ")]
    return [line.strip("| ").split(" | ") for line in lines]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_what_the_code_says(path: str) -> None:
    assert made().keys() == set(PAGES)
    stored = (DOCS / path).read_text(encoding="utf-8")
    assert stored == made()[path], "it is stale: run python -m scripts.reference"


@pytest.mark.parametrize("kind", ["broker", "dynamic", "topic", "group"])
def test_each_config_that_is_acted_on_is_explained(kind: str) -> None:
    known = configs.effects()[kind].keys()
    derived = configs.topic_synonyms().keys() if kind == "broker" else set()
    assert known <= configs.acted_on(kind)
    assert configs.acted_on(kind) <= known | derived


def test_an_explanation_is_a_sentence() -> None:
    texts = {key: text for kind in configs.effects().values() for key, text in kind.items()}
    strange = {key for key, text in texts.items() if not re.fullmatch(r"[A-Z`].*\.", text)}
    assert strange == set()


@pytest.mark.parametrize(
    "row",
    [
        "| `broker.heartbeat.interval.ms` | `2000` (2 s) | whole number; less is used as 10 | no |",
        "| `metadata.log.segment.bytes` | `1073741824` (1 GiB) | from 12 | no |",
        "| `node.id` | required | from 0 | no |",
        "| `inspection.max.connections` | `128` | from 1 | no |",
        "| `produce.validation` | `headers` | headers, records | no |",
        "| `delete.topic.enable` | `true` | true, false | no |",
        "| `log.retention.check.interval.ms` | `300000` (5 min) | from 1; 0 or less: never | no |",
        "| `replica.lag.time.max.ms` | `30000` (30 s) | whole number; less is used as 1 | no |",
        "| `num.replica.fetchers` | `1` | from 1 | of all brokers or one |",
        "| `cordoned.log.dirs` | - | list | of one broker |",
        "| `listeners` | `PLAINTEXT://:9092` | list | no (stored, has no effect) |",
        "| `process.roles` | required | list of broker, controller | no |",
        "| `security.inter.broker.protocol` | `PLAINTEXT` | PLAINTEXT, SSL, SASL_PLAINTEXT, ",
        "| `compression.zstd.level` | `3` | -131072 to 22 | of all brokers or one |",
        "| `compression.gzip.level` | `-1` | 1 to 9, or -1 | of all brokers or one |",
        "| `log.cleaner.io.buffer.load.factor` | `0.9` | number | of all brokers or one |",
        "| `log.retention.hours` | `168` | whole number | no |",
        "| `log.retention.ms` | - | whole number | of all brokers or one | `retention.ms` of ",
        "| `retention.ms` | `604800000` (7 d) | from -1 | yes |",
        "| `broker.rack` | - | text | no |",
        "| `leader.replication.throttled.rate` | `9223372036854775807` | from 0 | of all brokers ",
        "| `consumer.session.timeout.ms` | `45000` (45 s) | from 1 | yes |",
    ],
)
def test_a_config_with_default_range_and_level(row: str) -> None:
    assert any(line.startswith(row) for line in made()["reference/configs.md"].splitlines()), row


def test_a_default_of_topics_names_the_config_and_the_stronger_key() -> None:
    page = made()["reference/configs.md"].splitlines()
    (hours,) = [line for line in page if line.startswith("| `log.retention.hours` ")]
    effect = "`retention.ms` of topics in hours; counts if `log.retention.minutes` is not set."
    assert hours.endswith(f" | {effect} |")


def test_all_commands_and_flags_are_there() -> None:
    text = made()["reference/commands.md"]
    headings = re.findall(r"^##+ (.*)$", text, re.MULTILINE)
    assert set(headings) == contexts().keys() - {""} | {"jepsen"}
    assert [name for name in headings if name in COMMANDS] == list(COMMANDS)
    sections = dict(zip(headings, re.split(r"^##+ .*$", text, flags=re.MULTILINE)[1:], strict=True))
    for path, context in contexts().items():
        missing = {
            f for f in context.flags if f != "--help" and f"`{f}`" not in sections.get(path, "")
        }
        assert path in {"", "jepsen"} or not missing, (path, missing)


@pytest.mark.parametrize(
    "row",
    [
        "| [`topics`](#topics) | create, list, describe, alter, delete topics |",
        "| `--partitions` | `PARTITIONS` |  | number of partitions |",
        "| `COMMAND` | `start`, `ready` |  | ready: is the node of these settings ready? |",
        "| `--override` | `KEY=VALUE`, several |  | repeatable |",
        "| `--timeout` | `SECONDS` | `5` | ready: time for each answer; default: 5 |",
        "| `PROPERTIES` |  |  | server.properties; without one: KAFKA_* variables, CLUSTER_ID |",
        "| `-c`, `--config` | `CONFIG` | required | server.properties |",
    ],
)
def test_a_command_or_an_argument(row: str) -> None:
    assert row in made()["reference/commands.md"].splitlines()


@pytest.mark.parametrize(
    "row",
    [
        ["0", "Produce", "0 to 13", "-"],
        ["1", "Fetch", "4 to 18", "4 to 18"],
        ["52", "Vote", "-", "0 to 2"],
        ["58", "Envelope", "-", "0"],
    ],
)
def test_an_api_with_its_versions(row: list[str]) -> None:
    assert row in rows("reference/api-versions.md")


def test_an_api_that_is_not_served_has_no_row() -> None:
    served, left_out = made()["reference/api-versions.md"].split("## Not served")
    assert "ShareFetch" not in served
    assert "`ShareFetch`, " in left_out
    assert "`Produce`" not in left_out


@pytest.mark.parametrize(
    "cells",
    [
        ["`kafka_controller_kafkacontroller_activecontrollercount`", "gauge", "", "controllers"],
        ["`kafka_server_raft_metrics_current_epoch`", "gauge", "", "every node"],
        ["`kafka_server_raft_metrics_current_state_info`", "gauge", "`state`", "every node"],
        ["`kafka_server_brokertopicmetrics_bytesin_total`", "counter", "`topic`", "brokers"],
        [
            "`kafka_network_requestmetrics_requests_total`",
            "counter",
            "`request`, `version`",
            "every node",
        ],
        ["`kafka_network_requestmetrics_totaltimems_count`", "counter", "`request`", "every node"],
        ["`kafka_server_quota_byte_rate`", "gauge", "`resource`, `user`, `clientId`", "brokers"],
    ],
)
def test_a_metric_with_type_labels_and_place(cells: list[str]) -> None:
    assert cells in [row[: len(cells)] for row in rows("reference/metrics.md")]


def test_the_metrics_are_those_of_the_table_about_kafka() -> None:
    section = (DOCS / "running.md").read_text(encoding="utf-8").split("## Metrics")[1]
    named = re.findall(
        r"`((?:kafka|kraftline)_[a-z_F]+)(?:\{[a-zA-Z,]+\})?`", section.split("\n## ")[0]
    )
    there = {row[0].strip("`") for row in rows("reference/metrics.md")[1:]}
    assert {name for name in named if "_F_" not in name} <= there


def test_a_family_without_samples_has_its_labels() -> None:
    gauge = GaugeMetricFamily("kafka_a", "of a", labels=["b", "a"])
    assert metrics.told(gauge) == ("kafka_a", "gauge", ("b", "a"), "of a")
    assert metrics.told(CounterMetricFamily("kafka_c", "of c")) == (
        "kafka_c_total",
        "counter",
        (),
        "of c",
    )
    count = Metric("kafka_d_count", "of d", "unknown")
    count.add_sample("kafka_d_count", {"z": "1", "y": "2"}, 1.0)
    assert metrics.told(count) == ("kafka_d_count", "counter", ("y", "z"), "of d")


def test_a_metric_of_two_roles_has_the_labels_that_one_of_them_shows() -> None:
    empty, full = (Metric("kafka_d_count", "of d", "unknown") for _ in range(2))
    full.add_sample("kafka_d_count", {"y": "2"}, 1.0)
    for families in ((empty, full), (full, empty)):
        page = metrics.text({"brokers": [families[0]], "controllers": [families[1]]})
        assert "| `kafka_d_count` | counter | `y` | every node | of d |" in page
    assert "| `kafka_d_count` | counter |  | brokers |" in metrics.text(
        {"brokers": [empty], "controllers": []}
    )


def test_a_metric_of_somebody_else_is_left_out() -> None:
    assert "python_info" not in metrics.text({"brokers": [GaugeMetricFamily("python_info", "x")]})


def test_every_named_test_is_there() -> None:
    for group in compatibility.groups():
        for row in group["row"]:
            for name in row["tests"]:
                path, _, function = name.partition("::")
                source = (ROOT / path).read_text(encoding="utf-8")
                assert not function or f"def {function}(" in source, name


def test_a_version_that_is_written_stands_in_the_tests() -> None:
    for row in (row for group in compatibility.groups() for row in group["row"]):
        if "version" in row:
            folders = {(ROOT / name.partition("::")[0]).parent for name in row["tests"]}
            sources = [
                path.read_text(encoding="utf-8") for each in folders for path in each.glob("*.py")
            ]
            assert any(row["version"] in source for source in sources), row["who"]


@pytest.mark.parametrize(
    ("row", "version"),
    [
        ({"package": "aiokafka"}, "0.14"),
        ({"kafka": True}, compatibility.KAFKA_VERSION),
        ({"version": "1"}, "1"),
        ({"version": "1", "kafka": True}, f"1, {compatibility.KAFKA_VERSION}"),
    ],
)
def test_the_version_of_a_row(row: dict[str, object], version: str) -> None:
    assert compatibility.version(row, {"aiokafka": "0.14"}) == version


def test_a_bar_in_a_cell_does_not_end_it() -> None:
    assert table(["a", "b"], [["x|y", "z"]]) == "| a | b |\n|---|---|\n| x\\|y | z |"


def test_a_page_says_who_wrote_it() -> None:
    assert markdown.page("T", "one", "two") == f"# T\n\n{markdown.WRITTEN_BY}\n\none\n\ntwo\n"


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("a.ms", "90000", "`90000` (90 s)"),
        ("a.ms", "60000", "`60000` (1 min)"),
        ("a.ms", "999", "`999`"),
        ("a.ms", "0", "`0`"),
        ("a.ms", "-1", "`-1`"),
        ("a.bytes", "1536", "`1536`"),
        ("a.bytes", "2048", "`2048` (2 KiB)"),
        ("a.size", "1048576", "`1048576` (1 MiB)"),
        ("a.b", "1000", "`1000`"),
        ("a.ms", "", ""),
    ],
)
def test_a_value_is_shown_in_the_largest_unit(key: str, value: str, shown: str) -> None:
    assert with_unit(key, value) == shown
