"""`topics`: Kafka's printed text is read back into answers and must print the same."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from cli import topics
from cli.connect import ClusterError
from cli.main import main
from storage.meta_properties import decode_uuid

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "cli" / "tools"
LINE = re.compile(r"\t?([A-Za-z ]+): ([^\t]*)")


def golden(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def numbers(text: str | None) -> tuple[int, ...]:
    return tuple(int(number) for number in (text or "").split(",") if number)


class AnsweringCluster:
    """Answers from what Kafka printed: topics with their configs, partitions, moves."""

    def __init__(self, described: str = "", names: tuple[str, ...] = ()) -> None:
        self.requests: list[Any] = []
        self.topics: dict[str, SimpleNamespace] = {
            name: SimpleNamespace(name=name, topic_id=None, partitions=[], configs="")
            for name in names
        }
        for line in described.splitlines():
            fields = dict(LINE.findall(line))
            if line.startswith("Topic"):
                self.topics[fields["Topic"]] = SimpleNamespace(
                    name=fields["Topic"],
                    topic_id=UUID(bytes=decode_uuid(fields["TopicId"])),
                    partitions=[],
                    configs=fields["Configs"],
                )
                if "\tTopic: " not in described:  # only lines of topics: any partitions will do
                    replicas = ",".join(map(str, range(int(fields["ReplicationFactor"]))))
                    self.topics[fields["Topic"]].partitions = [
                        {"Partition": str(number), "Leader": "0", "Replicas": replicas,
                         "Isr": "0", "Elr": "", "LastKnownElr": ""}
                        for number in range(int(fields["PartitionCount"]))
                    ]  # fmt: skip
            elif line:
                self.topics[fields["Topic"]].partitions.append(fields)

    def supports(self, _api_key: int) -> bool:
        return True

    def call(self, api_key: int, body: Any, node: int | None = None) -> Any:
        self.requests.append(body)
        return {3: self.metadata, 75: self.partitions, 32: self.configs, 46: self.moves}[api_key]()

    def metadata(self) -> Any:
        found = [
            SimpleNamespace(
                name=t.name,
                topic_id=t.topic_id,
                is_internal=t.name.startswith("__"),
                partitions=t.partitions,
            )
            for t in self.topics.values()
        ]
        return SimpleNamespace(topics=found, error_code=0)

    def partitions(self) -> Any:
        found = [
            SimpleNamespace(
                name=topic.name,
                topic_id=topic.topic_id,
                error_code=0,
                partitions=[
                    SimpleNamespace(
                        partition_index=int(fields["Partition"]),
                        leader_id=-1 if fields["Leader"] == "none" else int(fields["Leader"]),
                        replica_nodes=numbers(fields["Replicas"]),
                        isr_nodes=numbers(fields["Isr"]),
                        eligible_leader_replicas=numbers(fields["Elr"]),
                        last_known_elr=numbers(fields["LastKnownElr"]),
                    )
                    for fields in topic.partitions
                ],
            )
            for topic in self.topics.values()
        ]
        return SimpleNamespace(topics=found, next_cursor=None)

    def configs(self) -> Any:
        found = [
            SimpleNamespace(
                resource_name=topic.name,
                configs=[
                    SimpleNamespace(
                        name=entry.partition("=")[0],
                        value=entry.partition("=")[2],
                        config_source=1,
                    )
                    for entry in topic.configs.split(",")
                    if entry
                ],
            )
            for topic in self.topics.values()
        ]
        return SimpleNamespace(results=found)

    def moves(self) -> Any:
        found = [
            SimpleNamespace(
                name=topic.name,
                partitions=[
                    SimpleNamespace(
                        partition_index=int(fields["Partition"]),
                        adding_replicas=numbers(fields.get("Adding Replicas")),
                        removing_replicas=numbers(fields.get("Removing Replicas")),
                    )
                    for fields in topic.partitions
                    if "Adding Replicas" in fields or "Removing Replicas" in fields
                ],
            )
            for topic in self.topics.values()
        ]
        return SimpleNamespace(topics=found, error_code=0)


DESCRIBED = sorted(
    path
    for path in GOLDEN.glob("static-4.3.1/topics-describe*.json")
    if golden(path)["stdout"].startswith("Topic: ")
)


@pytest.mark.parametrize("path", DESCRIBED, ids=lambda path: path.stem)
def test_describe(path: Path) -> None:
    expected = golden(path)
    cluster = AnsweringCluster(expected["stdout"])
    printed = topics.perform(cluster, topics._parse(expected["args"])).text

    def blocks(text: str) -> list[str]:
        """One per topic: Kafka orders topics by a hash, we by name."""
        return sorted(re.split(r"(?m)^(?=Topic: )", text.rstrip("\n") + "\n"))

    assert blocks(printed) == blocks(expected["stdout"])


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("topics-list", ("payments", "orders", "inventory.v2", "click_stream")),
        ("topics-list-exclude-internal", ("__x", "payments", "orders", "inventory.v2",
                                          "click_stream")),
        ("topics-list-empty", ()),
        ("topics-describe-missing-if-exists", ("a",)),
        ("topics-delete-missing-if-exists", ("a",)),
    ],
)  # fmt: skip
def test_output_without_describing(name: str, known: tuple[str, ...]) -> None:
    expected = golden(GOLDEN / "static-4.3.1" / f"{name}.json")
    printed = topics.perform(AnsweringCluster(names=known), topics._parse(expected["args"])).text
    assert printed == expected["stdout"]


class RefusingCluster(AnsweringCluster):
    """Answers CreateTopics with the error that Kafka printed."""

    def __init__(self, code: ErrorCode, message: str | None) -> None:
        super().__init__()
        self.result = SimpleNamespace(error_code=code, error_message=message)

    def call(self, api_key: int, body: Any, node: int | None = None) -> Any:
        if api_key != 19:
            return super().call(api_key, body)
        self.requests.append(body)
        return SimpleNamespace(topics=(self.result,))


CREATES = sorted(
    path
    for path in GOLDEN.glob("*/topics-create*.json")
    if "assign-and-partitions" not in path.name
)


@pytest.mark.parametrize("path", CREATES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_create(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = golden(path)
    message = expected["stdout"].partition("topic command : ")[2].strip()
    exists = "already exists" in message or "if-not" in path.name
    code = ErrorCode.topic_already_exists if exists else ErrorCode.invalid_request
    if not message and "if-not" not in path.name:
        code = ErrorCode.none
    cluster = RefusingCluster(code, message)
    try:
        out, exit_code = topics.perform(cluster, topics._parse(expected["args"])).text, 0
    except ClusterError as error:
        out, exit_code = f"Error while executing topic command : {error}\n", 1
    printed = capsys.readouterr().out + out
    assert exit_code == expected["exit"]
    assert printed.rstrip("\n") == expected["stdout"].rstrip("\n")


@pytest.mark.parametrize(
    "name", ["topics-no-bootstrap", "topics-no-action", "topics-create-assign-and-partitions"]
)
def test_usage(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    expected = golden(GOLDEN / "static-4.3.1" / f"{name}.json")
    try:
        exit_code = main(["topics", *expected["args"]])
    except SystemExit as left:
        exit_code = left.code
    assert exit_code == expected["exit"]
    assert capsys.readouterr().err.splitlines()[0] == expected["stderr"].splitlines()[0]


@pytest.mark.parametrize("name", ["topics-describe-missing", "topics-delete-missing"])
def test_missing(name: str) -> None:
    expected = golden(GOLDEN / "static-4.3.1" / f"{name}.json")
    with pytest.raises(ClusterError) as refusal:
        topics.perform(AnsweringCluster(), topics._parse(expected["args"]))
    assert expected["stdout"].strip().endswith(str(refusal.value))


def test_an_expression_that_is_none_is_refused() -> None:
    options = topics._parse(["--bootstrap-server", "h:1", "--list", "--topic", "(("])
    with pytest.raises(ClusterError, match="not a regular expression"):
        topics.perform(AnsweringCluster(names=("a",)), options)


def test_unknown_command_is_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topic"]) == 2
    assert "unknown command 'topic'" in capsys.readouterr().err
