"""`producer-perf-test` and `verifiable-producer`: rates, statistics, events, flags."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli.records import producer_perf_test, verifiable_producer
from cli.records.measuring import Stats
from cli.records.throttle import Throttle
from tests.cli.records.broker import PRODUCE, Broker, Time
from tests.cli.records.golden import run_command

S = ["--bootstrap-server", "h:1", "--topic", "t"]


def values(broker: Broker) -> list[bytes | None]:
    return [record.value for record in broker.topics["t"].logs[0].records()]


def measured(broker: Broker, *words: str) -> tuple[int, str, str]:
    return run_command(producer_perf_test.run, [*S, *words], broker)


def test_a_rate() -> None:
    clock = Time()
    throttle = Throttle(200, clock)
    assert [throttle.ahead_ms(count) for count in (0, 1, 10)] == [0, 5, 50]
    clock.sleep_ms(49)
    assert [throttle.ahead_ms(count) for count in (9, 10)] == [0, 1]
    assert Throttle(-1, clock).ahead_ms(10**9) == 0


def test_statistics(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Time()
    stats = Stats(100, 50, clock)
    for latency_ms in range(100):
        clock.sleep_ms(1)
        stats.record(latency_ms, 1024)
    assert capsys.readouterr().out == (
        "50 records sent, 1000.0 records/sec (0.98 MB/sec), 24.5 ms avg latency, "
        "49.0 ms max latency.\n"
        "50 records sent, 1000.0 records/sec (0.98 MB/sec), 74.5 ms avg latency, "
        "99.0 ms max latency.\n"
    )
    assert stats.total(" steady state") == (
        "100 steady state records sent, 1000.000000 records/sec (0.98 MB/sec), 49.50 ms avg "
        "latency, 99.00 ms max latency, 50 ms 50th, 95 ms 95th, 99 ms 99th, 99 ms 99.9th.\n"
    )


def test_latencies_of_many_records_are_samples() -> None:
    stats = Stats(1_000_000, 10**9, Time())
    for latency_ms in (1, 2, 3, 4):
        stats.record(latency_ms, 1)
    assert stats.summary()["latency_ms"]["99th"] == 3
    assert Stats(5, 10, Time()).summary()["latency_ms"]["50th"] == 0, "nothing was acknowledged"


def test_a_throughput_is_kept_while_batches_linger() -> None:
    broker = Broker(t=1)
    flags = ["--num-records", "20", "--record-size", "10", "--throughput", "100", "--json"]
    flags += ["--command-property", "linger.ms=15"]
    code, out, _ = measured(broker, *flags)
    assert code == 0
    assert broker.clock.now_ms() == 200
    found = json.loads(out)
    assert (found["all"]["records"], found["all"]["latency_ms_max"], found["steady"]) == (
        20, 15, None,
    )  # fmt: skip
    assert len(broker.topics["t"].logs[0].batches) == 10
    letters = b"".join(value or b"" for value in values(broker))
    assert (len(letters), letters.isalpha(), letters.isupper()) == (200, True, True)
    assert len(set(values(broker))) == 20


def test_payloads(tmp_path: Path) -> None:
    broker = Broker(t=1)
    measured(broker, "--num-records", "3", "--payload-monotonic", "--throughput", "-1")
    assert values(broker) == [b"0", b"1", b"2"]
    path = tmp_path / "payloads"
    path.write_text("a;b;;")
    words = ["--num-records", "40", "--throughput", "-1", "--payload-delimiter", ";"]
    _, out, _ = measured(broker, *words, "--payload-file", str(path))
    assert out.startswith(f"Reading payloads from: {path}\nNumber of records read: 2\n40 records")
    assert set(values(broker)[3:]) == {b"a", b"b"}


def test_steady_state_begins_behind_the_warmup() -> None:
    flags = ["--num-records", "30", "--payload-monotonic", "--throughput", "10"]
    flags += ["--warmup-records", "20", "--reporting-interval", "600"]
    _, out, _ = measured(Broker(t=1), *flags)
    heads = [line.partition(" ")[0] for line in out.splitlines()]
    assert heads == ["Warmup", "7", "30", "10"], "no lines of the warm-up"
    assert out.splitlines()[-1].startswith("10 steady state records sent, ")


def test_records_that_fail_are_told_and_not_counted() -> None:
    broker = Broker(t=1)
    broker.errors = [(PRODUCE, 10)]
    flags = ["--num-records", "4", "--payload-monotonic", "--throughput", "10", "--json"]
    code, out, err = measured(broker, *flags)
    assert code == 0
    assert json.loads(out)["all"]["records"] == 3
    assert err.startswith("The request included a message larger")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--record-size", "1"], "argument --num-records is required"),
        (["--num-records", "1", "--throughput", "1"], "one of the arguments --record-size"),
        (["--num-records", "1", "--throughput", "1", "--record-size", "1", "--warmup-records", "1"],
         "The value for --warmup-records must be strictly fewer"),
        (["--num-records", "1", "--throughput", "1", "--record-size", "1",
          "--transaction-duration-ms", "0"], "argument --transaction-duration-ms: '0' is not"),
        (["--num-records", "1", "--throughput", "1", "--record-size", "1", "--command-property",
          "transactional.id=x", "acks=1"], "Cannot set a transactional.id without also enabling"),
        (["--num-records", "1", "--throughput", "1", "--payload-file", "/no/such"],
         "File does not exist or empty file provided."),
        (["--num-records", "1", "--throughput", "0", "--record-size", "1"], "'0' is not a rate"),
    ],
)  # fmt: skip
def test_command_lines_that_are_refused(words: list[str], said: str) -> None:
    broker = Broker(t=1)
    code, _, err = measured(broker, *words)
    assert code == 1
    assert said in err.splitlines()[0]
    assert broker.asked == []


def test_the_bootstrap_may_be_a_property() -> None:
    words = ["--topic", "t", "--num-records", "1", "--throughput", "-1", "--record-size", "1"]
    words += ["--producer-props", "bootstrap.servers=h:1", "acks=1"]
    broker = Broker(t=1)
    assert run_command(producer_perf_test.run, words, broker)[0] == 0
    assert [body.acks for key, body in broker.asked if key == PRODUCE] == [1]


def told(broker: Broker, *words: str) -> list[dict[str, Any]]:
    code, out, _ = run_command(verifiable_producer.run, [*S, *words], broker)
    assert code == 0
    return [json.loads(line) for line in out.splitlines()]


def test_events_of_records_and_errors() -> None:
    broker = Broker(t=1)
    broker.errors = [(PRODUCE, 19)]
    events = told(broker, "--max-messages", "3", "--throughput", "10")
    names = [event["name"] for event in events]
    sent = ["producer_send_error", "producer_send_success", "producer_send_success"]
    assert names == ["startup_complete", *sent, "shutdown_complete", "tool_data"]
    assert events[1]["message"].startswith("Messages are rejected since"), "without a retry"
    assert (events[2]["key"], events[2]["value"], events[2]["offset"]) == (None, "1", 0)
    assert {key: events[-1][key] for key in ("sent", "acked", "target_throughput")} == {
        "sent": 3, "acked": 2, "target_throughput": 10,
    }  # fmt: skip
    assert events[-1]["avg_throughput"] == pytest.approx(2 / 0.3)
    (record, *_) = broker.topics["t"].logs[0].records()
    assert record.timestamp_ms >= Time().wall_ms(), "the time of the clock, without another"


def test_keys_prefixes_and_times() -> None:
    broker = Broker(t=1)
    words = ["--max-messages", "3", "--repeating-keys", "2", "--value-prefix", "5", "--acks", "1"]
    told(broker, *words, "--message-create-time", "1000", "--throughput", "100")
    records = broker.topics["t"].logs[0].records()
    assert [(r.key, r.value) for r in records] == [(b"0", b"5.0"), (b"1", b"5.1"), (b"0", b"5.2")]
    assert [r.timestamp_ms for r in records] == [1000, 1010, 1030]
    assert {body.acks for key, body in broker.asked if key == PRODUCE} == {1}


@pytest.mark.parametrize("flag", ["--max-messages", "--throughput", "--message-create-time"])
def test_below_minus_one_is_no_number_of_records(flag: str) -> None:
    words = [*S, "--max-messages", "1"]
    assert run_command(verifiable_producer.run, [*words, flag, "-2"], Broker(t=1))[0] == 1
    if flag != "--max-messages":  # which would not end
        assert run_command(verifiable_producer.run, [*words, flag, "-1"], Broker(t=1))[0] == 0


def test_without_a_throughput_nothing_is_waited_for() -> None:
    broker = Broker(t=1)
    told(broker, "--max-messages", "3")
    assert broker.clock.now_ms() == 0
