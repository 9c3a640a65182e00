"""Targets: what commands, harness and launcher read.

Stored runs, logs of nodes, JSON files of partitions and topics, `cluster.json`, and answers of
nodes to clients: those of `wire` and the launcher's own.
"""

import dataclasses
import json
import struct
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

from cli.admin.json_files import partitions_of
from cli.admin.reassignment_plan import assignment_json, read_plan, read_topics
from cli.arguments import UsageError
from jepsen.history import JSONL_FILE
from jepsen.judgement import QUORUM_FOLDER, TEST_FILE, Left, StoredRunError, judged, stored
from jepsen.linearizability import HistoryError
from jepsen.logs import LOG_FOLDER, LoggedBatch, check_logs, read_log
from jepsen.report import RESULTS_FILE
from kernel.serving.dispatch import APIS
from scripts.launcher.description import CLUSTER_FILE, load_cluster, save_cluster
from scripts.launcher.kafka_client import (
    CORRELATION_ID,
    DESCRIBE_CLUSTER,
    DESCRIBE_CLUSTER_VERSION,
    DESCRIBE_QUORUM,
    DESCRIBE_QUORUM_VERSION,
    ClusterView,
    NoAnswerError,
    QuorumView,
    decode_describe_cluster,
    decode_describe_quorum,
)
from scripts.launcher.layout import Cluster, server_properties
from scripts.launcher.refusal import RefusalError
from tests.fuzz.engine import Target
from tests.fuzz.entities import body_bytes
from tests.fuzz.wire_targets import golden_responses
from wire.api_table import ListenerKind, api_versions_body
from wire.batches.batch import encode_batch
from wire.connections.client_connection import ClientConnection, Response
from wire.connections.framing import frame
from wire.errors import CorruptBatchError, ErrorCode, LocalProtocolError, RemoteProtocolError
from wire.messages.codec import default_request, encode_response, entity_class, read_response

COUNT = struct.Struct(">i")
TOPIC_ID = "00000000-0000-4000-8000-000000000001"
API_VERSIONS, METADATA = 18, 3
ASKED = (DESCRIBE_QUORUM, DESCRIBE_CLUSTER, METADATA)
RESPONSE_BYTES_MAX = 1 << 16


STRANGE: tuple[Any, ...] = (
    None, True, -1, 0, 2**31, 2**70, 1.5, "", "3", "\ud800", [], [[]], {}, {"a": [1]},
)  # fmt: skip


def _variants(value: Any) -> Iterator[Any]:
    """The value with something strange in each of its places, and without each of its parts."""
    yield from STRANGE
    if isinstance(value, dict):
        for key in value:
            yield {other: item for other, item in value.items() if other != key}
            yield from (value | {key: variant} for variant in _variants(value[key]))
    elif isinstance(value, list):
        for n in range(len(value)):
            yield value[:n] + value[n + 1 :]
            yield from ([*value[:n], variant, *value[n + 1 :]] for variant in _variants(value[n]))


def _written(values: Iterable[Any]) -> list[bytes]:
    return [json.dumps(value).encode() for value in values]


@cache
def _folder() -> Path:
    _folder.holder = TemporaryDirectory(prefix="kraftline-fuzz-")
    return Path(_folder.holder.name)


# ---- stored runs and logs of nodes -------------------------------------------------------------


def _run(*parts: bytes) -> bytes:
    """Test, results and history, the first two behind their length."""
    test, results, history = parts
    return COUNT.pack(len(test)) + test + COUNT.pack(len(results)) + results + history


def _files(data: bytes) -> dict[str, bytes]:
    files, position = {}, 0
    for name in (TEST_FILE, RESULTS_FILE):
        size = 0
        if position + COUNT.size <= len(data):
            size = max(0, COUNT.unpack_from(data, position)[0])
            position += COUNT.size
        files[name] = data[position : position + size]
        position += size
    return files | {JSONL_FILE: data[position:]}


@cache
def _runs() -> list[bytes]:
    events: list[dict[str, Any]] = []
    for f, node in (("create", 1), ("exists", 1), ("exists", 2)):
        event = {"process": 0, "f": f, "node": node}
        told = ["t", TOPIC_ID]
        events += [
            event | {"type": "invoke", "value": ["t", None]},
            event | {"type": "ok", "value": told},
        ]
    events.insert(2, {"process": "nemesis", "type": "info", "f": "kill", "value": {"node": 1}})
    history = "".join(json.dumps(event) + "\n" for event in events).encode()
    test = {"workload": "topic-set", "nemesis": ["kill"], "seed": 7, "nodes": 2}
    converged = [{"name": "converged", "verdict": "valid", "reason": None}]
    results = {"high_watermark": 1, "leaders": {"1": 2}, "checks": converged}
    register = history.replace(b"exists", b"read").replace(b"create", b"write")
    (good_test, good_results) = _written([test, results])
    found = [
        _run(good_test, good_results, history),
        _run(json.dumps(test | {"workload": "config-register"}).encode(), b"{}", register),
    ]
    found += [_run(strange, good_results, history) for strange in _written(_variants(test))]
    found += [_run(good_test, strange, history) for strange in _written(_variants(results))]
    for variant in _variants(events):
        lines = variant if isinstance(variant, list) else [variant]
        found.append(_run(good_test, good_results, b"\n".join([*_written(lines), b""])))
    return found


@cache
def _run_folder() -> Path:
    folder = _folder() / "run"
    for number in (1, 2):
        log = folder / QUORUM_FOLDER / f"node{number}" / LOG_FOLDER
        log.mkdir(parents=True)
        (log / f"{0:020d}.log").write_bytes(encode_batch([UUID(TOPIC_ID).bytes], 0, 1, 1000))
    return folder


def _stored(data: bytes) -> Left:
    for name, content in _files(data).items():
        (_run_folder() / name).write_bytes(content)
    return stored(_run_folder())


def _is_judged(left: Left, _data: bytes, _rng: Random) -> None:
    """There is a verdict, or the history is none; what is valid was read at the end."""
    try:
        results = judged(left)
    except HistoryError:
        return
    json.dumps(results).encode()
    verdicts = {check["name"]: check["verdict"] for check in results["checks"]}
    assert set(verdicts.values()) <= {"valid", "invalid", "unknown"}
    if results["verdict"] == "valid":
        assert set(verdicts.values()) == {"valid"}
        nodes = [event.extra.get("node") for event in left.history.events]
        assert all(number + 1 in nodes for number in range(left.node_count))


@cache
def _logs() -> list[bytes]:
    batches = [encode_batch([bytes([n]) * n], n, 1 + n // 2, 1000) for n in range(4)]
    return [b"".join(batches), batches[0] + batches[1][:-1], b""]


def _log(data: bytes) -> list[LoggedBatch]:
    folder = _folder() / "node" / LOG_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{0:020d}.log").write_bytes(data)
    return read_log(_folder() / "node")


def _log_is_its_own(log: list[LoggedBatch], data: bytes, _rng: Random) -> None:
    """Batches are a prefix of the bytes, and a log does not differ from itself."""
    assert data.startswith(b"".join(batch.content for batch in log))
    end = log[-1].end_offset if log else 0
    node = _folder() / "node"
    check, count = check_logs({1: node, 2: node}, end, [])
    assert (check.verdict, count) == ("unknown", 0) or (check.verdict == "valid" and count)


# ---- JSON files --------------------------------------------------------------------------------


def _json_file(data: bytes) -> Any:
    """Read a JSON file with one of three readers, chosen by the first byte."""
    path = _folder() / "file.json"
    path.write_bytes(data[1:])
    readers = (partitions_of, read_plan, read_topics)
    return readers[data[0] % len(readers) if data else 0](str(path))


def _json_file_again(found: Any, data: bytes, _rng: Random) -> None:
    """A plan that is written reads the same."""
    if data[0] % 3 == 1:
        path = _folder() / "again.json"
        path.write_text(assignment_json(found.plan, found.log_dirs))
        assert read_plan(str(path)) == found


@cache
def _json_files() -> list[bytes]:
    partition: dict[str, Any] = {"topic": "t", "partition": 0}
    moved = partition | {"replicas": [1, 2], "log_dirs": ["any", "any"]}
    contents: list[dict[str, Any]] = [
        {"partitions": [partition, partition | {"partition": 7}]},
        {"version": 1, "partitions": [moved]},
        {"version": 1, "topics": [{"topic": "a"}, {"topic": "b"}]},
    ]
    good = [bytes([n]) + content for n, content in enumerate(_written(contents))]
    return good + [
        bytes([n]) + variant
        for n, content in enumerate(contents)
        for variant in _written(_variants(content))
    ]


# ---- the launcher ------------------------------------------------------------------------------


def _cluster(data: bytes) -> Cluster:
    (_folder() / CLUSTER_FILE).write_bytes(data)
    cluster = load_cluster(_folder())
    assert cluster is not None
    return cluster


def _cluster_again(cluster: Cluster, _data: bytes, _rng: Random) -> None:
    """Every node has its properties; where they are few they are written, and read the same."""
    assert all(server_properties(cluster, node) for node in cluster.nodes)
    if len(cluster.nodes) < 4:
        save_cluster(cluster)
        assert load_cluster(_folder()) == cluster


@cache
def _clusters() -> list[bytes]:
    content: dict[str, Any] = {
        "cluster_id": "Z29sZGVuLXNoYXJlZC0wMQ", "nodes": 3, "brokers": 0, "base_port": 9092,
        "settings": {"num.partitions": "7"},
    }  # fmt: skip
    halves = content | {"settings": {"\ud800": "\udfff"}}
    alone = content | {"combined": False}
    return _written([content, content | {"brokers": 2}, alone, halves, *_variants(content)])


VERSIONS = {
    DESCRIBE_QUORUM: DESCRIBE_QUORUM_VERSION,
    DESCRIBE_CLUSTER: DESCRIBE_CLUSTER_VERSION,
}


def _answer(data: bytes) -> QuorumView | ClusterView | None:
    if data[:1] == bytes([DESCRIBE_QUORUM]):
        return decode_describe_quorum(data[1:])
    return decode_describe_cluster(data[1:])


def _as_wire_reads_it(view: Any, data: bytes, _rng: Random) -> None:
    """P3: what the service's own reader accepts too says the same."""
    try:
        body = read_response(data[0], VERSIONS[data[0]], data[1:])[1]
    except (KeyError, RemoteProtocolError):
        return
    if isinstance(view, QuorumView):
        told = [
            p for topic in body.topics for p in topic.partitions if p.leader_id == view.leader_id
        ]
        epochs = {partition.leader_epoch for partition in told}
        assert view.leader_epoch in epochs
        ends = [{v.replica_id: v.log_end_offset for v in p.current_voters} for p in told]
        assert view.voter_ends in ends
    elif isinstance(view, ClusterView):
        assert view.cluster_id == body.cluster_id
        assert set(view.fenced_by_broker) == {broker.broker_id for broker in body.brokers}


def _answer_bytes(rng: Random) -> bytes:
    """Mostly without an error, as the other answers are not looked at."""
    key = rng.choice(tuple(VERSIONS))
    start = COUNT.pack(CORRELATION_ID) + b"\0"
    body = body_bytes(entity_class(key, VERSIONS[key], "response"), rng)
    if rng.random() < 0.9:
        _, decoded = read_response(key, VERSIONS[key], start + body)
        fine = encode_response(key, VERSIONS[key], CORRELATION_ID, _without_errors(decoded))
        return bytes([key]) + fine
    return bytes([key]) + start + body


def _without_errors(entity: Any) -> Any:
    """A body of kio's with no error code in any of its parts, told by node 1."""
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(entity):
        value = getattr(entity, field.name)
        if isinstance(value, ErrorCode):
            changes[field.name] = ErrorCode.none
        elif field.name == "leader_id":
            changes[field.name] = 1
        elif isinstance(value, tuple):
            changes[field.name] = tuple(map(_without_errors, value))
    return dataclasses.replace(entity, **changes)


# ---- responses to a client ---------------------------------------------------------------------


def _received(data: bytes, size: int) -> tuple[list[Response], bytes, str | None]:
    """Responses, what is sent then, and why it ended, for a stream in portions of a size."""
    connection = ClientConnection("fuzz", response_bytes_max=RESPONSE_BYTES_MAX)
    connection.opening_bytes()
    for api_key in ASKED:
        connection.request(api_key, default_request(api_key))
    found: list[Response] = []
    sent = b""
    try:
        for start in range(0, len(data), size):
            found += connection.receive(data[start : start + size])
            sent += connection.bytes_to_send()
    except (RemoteProtocolError, LocalProtocolError) as error:
        return found, sent, str(error)
    return found, sent, None


def _responses(data: bytes) -> tuple[list[Response], bytes, str | None]:
    return _received(data, max(1, len(data)))


def _responses_in_portions(
    value: tuple[list[Response], bytes, str | None], data: bytes, rng: Random
) -> None:
    """P4; what came before an error within a portion is lost with the connection."""
    again = _received(data, rng.choice((1, 3, 7, 50, 400)))
    assert again[2] == value[2]
    if value[2] is None:
        assert again[:2] == value[:2]


def _stream(rng: Random) -> bytes:
    """ApiVersions, then answers to what waited, some of them cut or with other ids."""
    versions = encode_response(API_VERSIONS, 3, 0, api_versions_body(APIS[ListenerKind.BROKER]))
    content = frame(versions)
    for correlation_id, key in zip((1, 2, 3), ASKED, strict=True):
        version = _spoken(key)
        number = correlation_id if rng.random() < 0.9 else rng.randrange(5)
        body = body_bytes(entity_class(key, version, "response"), rng)
        content += frame(COUNT.pack(number) + b"\0" + body)
    return content if rng.random() < 0.9 else content[: rng.randrange(len(content))]


@cache
def _spoken(api_key: int) -> int:
    connection = ClientConnection("fuzz")
    connection.opening_bytes()
    versions = encode_response(API_VERSIONS, 3, 0, api_versions_body(APIS[ListenerKind.BROKER]))
    connection.receive(frame(versions))
    version = connection.negotiated_version(api_key)
    assert version is not None
    return version


def targets() -> list[Target]:
    """All of this file."""
    rng = Random(0)
    answers = [
        data[:1] + COUNT.pack(CORRELATION_ID) + data[6:]
        for data in golden_responses()
        if VERSIONS.get(data[0]) == data[1]
    ]
    old = frame(COUNT.pack(0) + struct.pack(">h", 35) + bytes(4))
    streams = [_stream(rng) for _ in range(8)] + [old, old + frame(COUNT.pack(1) + bytes(6))]
    return [
        Target("stored-runs", _runs(), _stored, (StoredRunError,), _is_judged, weight=0.3),
        Target("node-logs", _logs(), _log, (CorruptBatchError,), _log_is_its_own, weight=0.3),
        Target("json-files", _json_files(), _json_file, (UsageError,), _json_file_again),
        Target("cluster-json", _clusters(), _cluster, (RefusalError,), _cluster_again, weight=0.3),
        Target(
            "launcher-answers", [*answers, _answer_bytes(rng)], _answer, (NoAnswerError,),
            _as_wire_reads_it, _answer_bytes,
        ),
        Target("client-connection", streams, _responses, (), _responses_in_portions, _stream),
    ]  # fmt: skip
