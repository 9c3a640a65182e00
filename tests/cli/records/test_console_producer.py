"""`console-producer`: lines, readers, configs and what is told of the records."""

import io
import json
import os
from pathlib import Path
from typing import IO

import pytest

from cli.arguments import UsageError
from cli.records import console_producer
from cli.records.clients.client_configs import number_of, producer_config
from cli.records.clients.producer import ProducerConfig
from cli.records.formats.line_reader import ReadError, ReadRecord, reader_of
from cli.records.formats.lines import Lines
from tests.cli.records.broker import PRODUCE, Broker
from tests.cli.records.golden import captured, outputs, run_command
from tests.cli.records.recorded_topics import AUDIT, broker, write_files
from wire.batches.compression import Codec

S = ["--bootstrap-server", "h:1", "--topic", "t"]


def all_lines(content: IO[bytes]) -> list[str | None]:
    lines, found = Lines(content), []
    while True:
        try:
            found.append(lines.next_line(None))
        except EOFError:
            return found


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b"", []), (b"a", ["a"]), (b"a\n", ["a"]), (b"a\n\nb", ["a", "", "b"]),
     (b"a\r\nb\rc\r\n", ["a", "b", "c"]), (b"\r\r\n\n", ["", "", ""]), (b"\xff\n", ["\ufffd"]),
     (b"a\r", ["a"])],
)  # fmt: skip
def test_lines(content: bytes, expected: list[str]) -> None:
    assert all_lines(io.BytesIO(content)) == expected


class Portions(io.BytesIO):
    """A stream that gives a byte at a time."""

    def read(self, _size: int | None = -1, /) -> bytes:
        return super().read(1)


def test_of_two_ends_behind_a_carriage_return_one_belongs_to_it() -> None:
    assert all_lines(Portions(b"a\r\n\nb\r\r\nc")) == ["a", "", "b", "", "c"]


def test_lines_of_a_pipe_come_when_they_are_written() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream, os.fdopen(writing, "wb", buffering=0) as pipe:
        lines = Lines(stream)
        assert lines.next_line(0) is None
        pipe.write(b"a\r")
        assert lines.next_line(0) == "a"
        pipe.write(b"\nb")
        assert lines.next_line(0) is None
        pipe.close()
        assert lines.next_line(None) == "b"
        with pytest.raises(EOFError):
            lines.next_line(None)


@pytest.mark.parametrize(
    ("properties", "line", "expected"),
    [
        ({}, "a\tb", ReadRecord(None, b"a\tb", ())),
        ({"parse.key": " TRUE "}, "a\tb\tc", ReadRecord(b"a", b"b\tc", ())),
        ({"parse.key": "true", "key.separator": "::"}, "a::b", ReadRecord(b"a", b"b", ())),
        ({"parse.key": "true", "ignore.error": "true"}, "ab", ReadRecord(None, b"ab", ())),
        ({"parse.key": "true", "null.marker": "-"}, "-\t-", ReadRecord(None, None, ())),
        ({"parse.headers": "true"}, "a:1,b:\tv", ReadRecord(None, b"v", (("a", b"1"), ("b", b"")))),
        ({"parse.headers": "true", "parse.key": "true"}, "a:b:c\tk\tv",
         ReadRecord(b"k", b"v", (("a", b"b:c"),))),
        ({"parse.headers": "true", "null.marker": "-"}, "-\tv", ReadRecord(None, b"v", ())),
        ({"parse.headers": "true"}, "a:1,\tv", ReadRecord(None, b"v", (("a", b"1"),))),
        ({"parse.headers": "true"}, ",,\tv", ReadRecord(None, b"v", ())),
        ({"parse.headers": "true", "null.marker": "-"}, "a:-\tv",
         ReadRecord(None, b"v", (("a", None),))),
        ({"parse.headers": "true", "ignore.error": "true"}, "x,a:1\tv",
         ReadRecord(None, b"v", (("x", None), ("a", b"1")))),
        ({"parse.headers": "true", "headers.separator": "[;|]", "headers.key.separator": "=",
          "headers.delimiter": " "}, "a=1;b=2| v",
         ReadRecord(None, b"v", (("a", b"1"), ("b", b"2")))),
    ],
)  # fmt: skip
def test_records_of_lines(properties: dict[str, str], line: str, expected: ReadRecord) -> None:
    assert reader_of({"other": "x", **properties}).record(line, 1) == expected


@pytest.mark.parametrize(
    ("properties", "line", "said"),
    [
        ({"parse.headers": "true"}, "ab", "No headers delimiter found on line number 7: 'ab'"),
        ({"parse.headers": "true"}, "\tb",
         "No header key separator found in pair '' on line number 7"),
        ({"parse.headers": "true", "null.marker": "-"}, "-:1\tv",
         "Header keys should not be equal to the null marker '-' as they can't be null"),
    ],
)  # fmt: skip
def test_lines_that_are_no_records(properties: dict[str, str], line: str, said: str) -> None:
    with pytest.raises(ReadError) as error:
        reader_of(properties).record(line, 7)
    assert str(error.value) == said


@pytest.mark.parametrize(
    ("properties", "said"),
    [({"headers.separator": "\t"}, "headers.delimiter and headers.separator may not be equal"),
     ({"headers.key.separator": "\t"}, "headers.delimiter and headers.key.separator may not"),
     ({"headers.key.separator": ","}, "headers.separator and headers.key.separator may not"),
     ({"null.marker": "\t"}, "null.marker and key.separator may not be equal"),
     ({"null.marker": ":"}, "null.marker and headers.key.separator may not be equal"),
     ({"key.separator": ""}, "key.separator may not be empty"),
     ({"headers.separator": "("}, "headers.separator is not a regular expression")],
)  # fmt: skip
def test_readers_that_cannot_be(properties: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        reader_of(properties)


def test_configs() -> None:
    assert producer_config({}) == ProducerConfig()
    made = producer_config({
        "acks": "1", "compression.type": "zstd", "linger.ms": "7", "batch.size": "1",
        "retries": "2", "request.timeout.ms": "9", "max.block.ms": "8", "delivery.timeout.ms": "16",
        "max.request.size": "6", "retry.backoff.ms": "5", "anything": "else",
    })  # fmt: skip
    assert made == ProducerConfig(
        acks=1, codec=Codec.ZSTD, linger_ms=7, batch_size_bytes=1, retries=2, request_timeout_ms=9,
        max_block_ms=8, delivery_timeout_ms=16, max_request_bytes=6, retry_backoff_ms=5,
        is_idempotent=False,
    )  # fmt: skip
    for off in ({"retries": "0"}, {"max.in.flight.requests.per.connection": "6"},
                {"enable.idempotence": "false"}):  # fmt: skip
        assert not producer_config(off).is_idempotent
    assert producer_config({"linger.ms": "200000"}).delivery_timeout_ms == 230_000


@pytest.mark.parametrize(
    ("properties", "said"),
    [({"acks": "1", "enable.idempotence": "true"}, "Must set acks to all in order to use"),
     ({"retries": "0", "enable.idempotence": "true"}, "Must set retries to non-zero"),
     ({"enable.idempotence": "yes"}, "Expected value to be either true or false"),
     ({"linger.ms": "-1"}, "Invalid value -1 for configuration linger.ms: Value must be at least"),
     ({"batch.size": "2147483648"}, "Not a number of type INT"),
     ({"buffer.memory": "x"}, "configuration buffer.memory: Not a number of type LONG"),
     ({"delivery.timeout.ms": "5"}, "delivery.timeout.ms should be equal to or larger than")],
)  # fmt: skip
def test_configs_that_cannot_be(properties: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        producer_config(properties)


def test_records_land_where_kafkas_landed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    keyed, audit = broker(), Broker(audit=1)
    captured(outputs()["data-4.3.1/producer-key"], keyed)
    new = [[r.key for r in log.records()] for log in keyed.topics["payments"].logs]
    assert new[0][-4:] == [b"k3", b"k4", b"k5", b"k7"]
    assert new[1][-4:] == [b"k0", b"k1", b"k2", b"k6"]
    for name in ("producer-headers", "producer-null-marker"):
        captured(outputs()[f"data-4.3.1/{name}"], audit)
    found = [(r.key, r.value, r.headers) for r in audit.topics["audit"].logs[0].records()]
    assert found == AUDIT[:5]


def test_flags_take_precedence_over_properties() -> None:
    made = Broker(t=1)
    flags = ["--command-property", "acks=1", "--command-property", "request.timeout.ms=77",
             "--command-property", "compression.type=zstd", "--compression-codec"]  # fmt: skip
    assert run_command(console_producer.run, [*S, *flags], made, "a\n")[0] == 0
    assert run_command(
        console_producer.run, [*S, *flags[:4], "--request-required-acks", "all"], made, "a\n"
    )[0] == 0  # fmt: skip
    first, second = (body for key, body in made.asked if key == PRODUCE)
    assert (first.acks, first.timeout.total_seconds(), second.acks) == (1, 0.077, -1)
    assert [batch[22] & 7 for batch in made.topics["t"].logs[0].batches] == [Codec.GZIP, 0]


def test_sync_stops_at_the_first_error() -> None:
    made = Broker(t=1)
    made.errors = [(PRODUCE, 10)]
    code, out, err = run_command(console_producer.run, [*S, "--sync"], made, "a\nb\n")
    assert (code, out) == (1, "")
    assert err.startswith("The request included a message larger")
    assert made.topics["t"].logs[0].batches == []


def test_json_tells_where_each_record_is() -> None:
    made = Broker(t=1)
    made.errors = [(PRODUCE, 10)]
    words = [*S, "--json", "--batch-size", "1"]
    code, out, err = run_command(console_producer.run, words, made, "a\nb\n")
    assert code == 0
    bad, good = map(json.loads, out.splitlines())
    assert bad["error"].startswith("The request included")
    at = made.clock.wall_ms()
    assert good == {"topic": "t", "partition": 0, "offset": 0, "timestamp": at}
    assert err.startswith("Error when sending message to topic t with key: null, value: 1 bytes")


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--line-reader", "x.Y"], "--line-reader x.Y is not known here"),
     (["--command-property", "security.protocol=SSL"], "security.protocol SSL is not spoken"),
     (["--property", "a=b", "--reader-property", "c=d"], "cannot be specified together"),
     (["--timeout", "x"], "'x' is not a whole number")],
)  # fmt: skip
def test_command_lines_that_are_refused(words: list[str], said: str) -> None:
    made = Broker(t=1)
    code, _, err = run_command(console_producer.run, [*S, *words], made, "a\n")
    assert code == 1
    assert said in err.splitlines()[0]
    assert made.asked == []


@pytest.mark.parametrize(
    ("name", "low"),
    [("linger.ms", 0), ("batch.size", 0), ("retries", 0), ("retry.backoff.ms", 0),
     ("request.timeout.ms", 0), ("delivery.timeout.ms", 0), ("max.block.ms", 0),
     ("max.request.size", 0), ("buffer.memory", 0), ("metadata.max.age.ms", 0),
     ("send.buffer.bytes", -1), ("receive.buffer.bytes", -1),
     ("max.in.flight.requests.per.connection", 1), ("fetch.max.wait.ms", 0),
     ("fetch.min.bytes", 0), ("fetch.max.bytes", 0), ("max.partition.fetch.bytes", 0),
     ("max.poll.records", 1)],
)  # fmt: skip
def test_the_lowest_value_of_a_config(name: str, low: int) -> None:
    assert number_of({name: str(low)}, name, 5) == low
    with pytest.raises(UsageError, match=f"{name}: Value must be at least {low}$"):
        number_of({name: str(low - 1)}, name, 5)
