"""`console-consumer`: formatters, deserializers and flags."""

import json
import os
import struct

import pytest
from typing_extensions import override

from cli.arguments import UsageError
from cli.records import console_consumer
from cli.records.clients.fetcher import CREATE_TIME, NO_TIMESTAMP, Fetched
from cli.records.clients.topic_metadata import Partition
from cli.records.formats.deserializers import DeserializeError, deserializer_of
from cli.records.formats.formatters import default_formatter, formatter_of, json_formatter
from tests.cli.records.broker import FETCH, LIST_OFFSETS, Broker, Log, Time
from tests.cli.records.golden import run_command
from wire.batches.batch import RecordView
from wire.types import Offset

S = ["--bootstrap-server", "h:1"]
T = [*S, "--topic", "t"]
PACKAGE = "org.apache.kafka.common.serialization."
RECORD = Fetched(
    Partition("t", 3),
    RecordView(Offset(7), 99, None, b"\xff", (("h", b"v"), ("g", None))),
    CREATE_TIME,
)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("String", b"a\xff", "a\ufffd"), ("Short", b"\xff\xfe", "-2"),
        ("Integer", b"null", "1853189228"), ("Long", b"\0" * 7 + b"\5", "5"),
        ("Boolean", b"\1", "true"), ("Boolean", b"\0", "false"), ("ByteArray", b"ab", "ab"),
        ("UUID", b"6FB65046-91E6-4c9d-8E6A-54D33166C8E8", "6fb65046-91e6-4c9d-8e6a-54d33166c8e8"),
        ("Double", struct.pack(">d", 1.0), "1.0"), ("Double", struct.pack(">d", 1e7), "1.0E7"),
        ("Double", struct.pack(">d", 0.001), "0.001"), ("Double", struct.pack(">d", 0.0), "0.0"),
        ("Double", struct.pack(">d", -1.25e-5), "-1.25E-5"),
        ("Double", struct.pack(">d", 9999999.5), "9999999.5"),
        ("Double", struct.pack(">d", 1.5e300), "1.5E300"),
        ("Double", struct.pack(">d", 123456789012.0), "1.23456789012E11"),
        ("Double", struct.pack(">d", float("nan")), "NaN"),
        ("Double", struct.pack(">d", float("-inf")), "-Infinity"),
        ("Float", struct.pack(">f", 0.1), "0.1"), ("Float", struct.pack(">f", 3.5), "3.5"),
        ("Float", struct.pack(">f", 16777216), "1.6777216E7"),
        ("Float", struct.pack(">f", float("inf")), "Infinity"),
    ],
)  # fmt: skip
def test_values_as_java_prints_them(name: str, content: bytes, expected: str) -> None:
    assert deserializer_of(f"{PACKAGE}{name}Deserializer")(content).decode() == expected


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [("Short", b"abc", "Size of data received by ShortDeserializer is not 2"),
     ("Float", b"abc", "Size of data received by Deserializer is not 4"),
     ("Boolean", b"\5", "Unexpected byte received by BooleanDeserializer: 5"),
     ("Boolean", b"", "Size of data received by BooleanDeserializer is not 1"),
     ("UUID", b"x", "Error parsing data into UUID"), ("UUID", b"\xff", "Error parsing data")],
)  # fmt: skip
def test_bytes_that_are_no_such_value(name: str, content: bytes, said: str) -> None:
    with pytest.raises(DeserializeError, match=said):
        deserializer_of(f"{PACKAGE}{name}Deserializer")(content)


def test_classes_that_are_not_known() -> None:
    for name in ("x.LongDeserializer", f"{PACKAGE}Other"):
        with pytest.raises(UsageError, match="Unable to instantiate a deserializer"):
            deserializer_of(name)
    with pytest.raises(UsageError, match=r"--formatter x\.Y is not known here"):
        formatter_of("x.Y", {})
    assert formatter_of("org.apache.kafka.tools.consumer.NoOpMessageFormatter", {})(RECORD) == b""
    assert formatter_of("kafka.tools.DefaultMessageFormatter", {})(RECORD) == b"\xff\n"


def test_columns() -> None:
    names = ("timestamp", "partition", "offset", "delivery", "epoch", "headers", "key")
    made = default_formatter({f"print.{name}": "true" for name in names})
    assert made.format(RECORD) == (
        b"CreateTime:99\tPartition:3\tOffset:7\tDelivery:NOT_PRESENT\tEpoch:NOT_PRESENT\t"
        b"h:v,g:null\tnull\t\xff\n"
    )
    none = default_formatter({"print.value": "false", "other": "x"})
    assert none.format(RECORD) == b""
    old = Fetched(RECORD.partition, RECORD.record, NO_TIMESTAMP)
    assert default_formatter({"print.timestamp": "true"}).format(old) == b"NO_TIMESTAMP\t\xff\n"
    read = default_formatter({
        "print.key": "true", "key.deserializer": f"{PACKAGE}IntegerDeserializer",
        "print.headers": "true", "headers.deserializer": f"{PACKAGE}StringDeserializer",
    })  # fmt: skip
    assert read.format(RECORD) == b"h:v,g:null\t1853189228\t\xff\n"


def test_json() -> None:
    assert json.loads(json_formatter(RECORD)) == {
        "topic": "t", "partition": 3, "offset": 7, "timestamp": 99, "timestamp_type": "CreateTime",
        "headers": [{"name": "h", "value": "v"}, {"name": "g", "value": None}],
        "key": None, "value_base64": "/w==",
    }  # fmt: skip


def with_key(key: bytes | None, value: bytes | None) -> Fetched:
    return Fetched(Partition("t", 3), RecordView(Offset(7), 99, key, value, ()), CREATE_TIME)


KEY = b"\0\1\0\1g\0\1t\0\0\0\7"


@pytest.mark.parametrize(("key", "value", "text"), [
    (KEY, None,
     b'{"key":{"type":1,"data":{"group":"g","topic":"t","partition":7}},"value":null}'),
    (b"\0\0" + KEY[2:], b"\0\0" + b"\0\0\0\0\0\0\0\5\0\1m\0\0\0\0\0\0\0\6",
     (b'{"key":{"type":0,"data":{"group":"g","topic":"t","partition":7}},"value":{"version":0,'
      b'"data":{"offset":5,"metadata":"m","commitTimestamp":6}}}')),
    (b"\0\2\0\1g", None, b""),
    (None, b"", b""),
])  # fmt: skip
def test_committed_offsets_are_objects(key: bytes | None, value: bytes | None, text: bytes) -> None:
    printed = formatter_of("kafka.tools.OffsetsMessageFormatter", {})
    assert printed(with_key(key, value)) == text


@pytest.mark.parametrize("key", [b"\0", KEY[:-1], KEY + b"\0"])
def test_a_damaged_record_of_a_coordinator_is_told_with_its_offset(key: bytes) -> None:
    printed = formatter_of("OffsetsMessageFormatter", {})
    with pytest.raises(DeserializeError, match=r"^Could not read record at offset 7 due to: "):
        printed(with_key(key, None))


def consumed(broker: Broker, *words: str) -> tuple[int, str, str]:
    return run_command(console_consumer.run, list(words), broker)


TIMEOUT = (
    "Error processing message, terminating consumer process: \n"
    "org.apache.kafka.common.errors.TimeoutException\n"
)


def filled() -> Broker:
    broker = Broker(t=2, u=1, __hidden=1)
    for name in ("t", "u", "__hidden"):
        broker.topics[name].logs[0].append(b"%s0" % name.encode(), b"%s1" % name.encode())
    broker.topics["__hidden"].is_internal = True
    return broker


def test_time_is_over_since_the_last_record() -> None:
    broker = filled()
    code, out, err = consumed(broker, *T, "--from-beginning", "--timeout-ms", "2500")
    assert (code, out) == (0, "t0\nt1\n")
    assert err == f"{TIMEOUT}Processed a total of 2 messages\n"
    assert broker.clock.now_ms() == 2500


def test_the_end_by_default_and_by_the_policy_of_the_config() -> None:
    for words, expected in (
        ((), ""),
        (("--command-property", "auto.offset.reset=earliest"), "t0\nt1\n"),
        (("--partition", "0", "--from-beginning"), "t0\nt1\n"),
        (("--partition", "0"), ""),
        (("--partition", "0", "--offset", "1"), "t1\n"),
        (("--partition", "0", "--offset", "EARLIEST"), "t0\nt1\n"),
    ):
        assert consumed(filled(), *T, *words, "--timeout-ms", "0")[1] == expected, words


def test_included_topics_are_no_internal_ones() -> None:
    code, out, _ = consumed(
        filled(), *S, "--include", ".*", "--from-beginning", "--max-messages", "4"
    )
    assert (code, out) == (0, "t0\nt1\nu0\nu1\n")


def test_a_topic_that_comes_later() -> None:
    broker = Broker()
    code, out, err = consumed(broker, *T, "--timeout-ms", "1500")
    assert (code, out) == (0, "")
    assert broker.clock.now_ms() == 1500
    assert "total of 0" in err
    config = ["--command-property", "auto.offset.reset=none"]
    assert consumed(Broker(), *T, *config, "--timeout-ms", "1500")[2] == err, "it may still come"


@pytest.mark.parametrize("words", [(), ("--timeout-ms", "-1")])
def test_without_a_time_records_are_waited_for(words: tuple[str, ...]) -> None:
    broker = Broker(t=1)
    log = broker.topics["t"].logs[0]

    class Late(Time):
        @override
        def sleep_ms(self, ms: int) -> None:
            super().sleep_ms(ms)
            if self.at_ms > 60_000 and not log.batches:
                log.append(b"late")

    broker.clock = Late()
    code, out, _ = consumed(broker, *T, "--max-messages", "1", *words)
    assert (code, out) == (0, "late\n")


def test_no_messages_and_no_policy() -> None:
    assert consumed(filled(), *T, "--max-messages", "0")[:2] == (0, "")
    code, out, err = consumed(filled(), *T, "--command-property", "auto.offset.reset=none")
    assert (code, out) == (0, "")
    assert "Undefined offset with no reset policy for partitions: [t-0, t-1]\n" in err


def test_an_error_of_a_partition_ends_the_reading() -> None:
    broker = filled()
    broker.errors = [(FETCH, 29)]
    code, out, err = consumed(broker, *T, "--partition", "0", "--from-beginning")
    assert (code, out) == (0, "")
    assert err.splitlines()[1:] == [
        "Topic authorization failed. (t-0)",
        "Processed a total of 0 messages",
    ]


def test_configs_reach_the_requests() -> None:
    broker = filled()
    words = ["--isolation-level", "read_committed", "--timeout-ms", "0"]
    for config in ("fetch.max.wait.ms=0", "fetch.min.bytes=3", "fetch.max.bytes=4",
                   "max.partition.fetch.bytes=5"):  # fmt: skip
        words += ["--command-property", config]
    consumed(broker, *T, *words)
    (asked,) = (body for key, body in broker.asked if key == FETCH)
    assert (asked.isolation_level, asked.min_bytes, asked.max_bytes) == (1, 3, 4)
    assert asked.topics[0].partitions[0].partition_max_bytes == 5
    assert {body.isolation_level for key, body in broker.asked if key == LIST_OFFSETS} == {1}


def test_json_records_one_a_line() -> None:
    _, out, _ = consumed(filled(), *T, "--from-beginning", "--max-messages", "2", "--json")
    assert [json.loads(line)["value"] for line in out.splitlines()] == ["t0", "t1"]


def test_bytes_are_printed_as_they_are() -> None:
    log = Log()
    log.append((b"\xc3\xa9", b"\xe2\x82\xac"))
    words = ["--from-beginning", "--max-messages", "1", "--property", "print.key=true"]
    assert consumed(Broker(t=[log]), *T, *words)[1].splitlines()[1] == "\u00e9\t\u20ac"


def test_a_reader_that_goes_away(capfd: pytest.CaptureFixture[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as gone, pytest.MonkeyPatch.context() as patched:
        patched.setattr("sys.stdout", gone)
        broker = filled()
        with pytest.raises(BrokenPipeError):
            console_consumer.run([*T, "--from-beginning"], broker.opened, broker.clock)
        patched.undo()
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, gone.fileno())
        os.close(devnull)
    assert "Processed a total of 2 messages" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
     ([*S, "--include", "x", "--partition", "0"], "The topic is required when partition"),
     ([*S, "--include", "("], "( is an invalid regex."),
     ([*T, "--from-beginning", "--command-property", "auto.offset.reset=latest"],
      "Can't simultaneously specify --from-beginning and 'auto.offset.reset=latest'"),
     ([*T, "--partition", "0", "--offset", "9223372036854775808"], "The provided offset value"),
     ([*T, "--property", "a=b", "--formatter-property", "c=d"], "Options --formatter-property and"),
     ([*T, "--consumer-property", "a=b", "--command-property", "c=d"], "and --consumer-property"),
     (["--topic", "t"], 'Missing required argument "[bootstrap-server]"')],
)  # fmt: skip
def test_command_lines_that_are_refused(words: list[str], said: str) -> None:
    broker = filled()
    code, _, err = consumed(broker, *words)
    assert code == 1
    assert said in err.splitlines()[0]
    assert broker.asked == []
