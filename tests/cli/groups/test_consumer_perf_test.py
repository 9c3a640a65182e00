"""`kraftline consumer-perf-test` in memory; recorded outputs: test_golden_outputs.py."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from cli.arguments import UsageError
from cli.groups import consumer_perf_test
from cli.groups.consuming_rate import rate, shown
from cli.groups.date_format import DateFormat
from tests.cli.groups.group_broker import OFFSET_COMMIT
from tests.cli.groups.member_broker import HEARTBEAT, JOIN_GROUP, MemberBroker
from tests.cli.records.broker import FETCH, Log, Topic
from tests.cli.records.golden import Run, run_command

HEAD = ("rebalance.time.ms", "fetch.time.ms", "fetch.MB.sec", "fetch.nMsg.sec")
MIB = 1024 * 1024


def broker(count: int = 4, fetch_ms: int = 0) -> MemberBroker:
    """Records of an eighth of a MiB, one in each answer, which takes so long."""
    made = MemberBroker(t=[Log()])
    for _ in range(count):
        made.topics["t"].logs[0].append((b"k", bytes(MIB // 8 - 1)))
    made.batches_max = 1
    fetch = made.answers[FETCH]

    def slow(asked: Any, request: Any) -> Any:
        made.clock.at_ms += fetch_ms
        return fetch(asked, request)

    made.answers[FETCH] = slow
    return made


def ran(made: MemberBroker, *words: str) -> Run:
    line = ["--bootstrap-server", "h:1", *words]
    return run_command(consumer_perf_test.run, line, made)


def rows(run: Run) -> list[list[str]]:
    """The columns of each line behind the first: those behind the times."""
    code, out, err = run
    assert (code, err) == (0, "")
    return [line.split(", ")[1:] for line in out.splitlines()[1:]]


def test_rates_of_all_and_of_what_joining_left() -> None:
    made = broker(fetch_ms=500)
    made.held_ms = {JOIN_GROUP: 1000}
    (row,) = rows(ran(made, "--topic", "t", "--num-records", "4"))
    assert row[1:] == ["0.5000", "0.1250", "4", "1.0000", "2000", "2000", "0.2500", "2.0000"]
    (request, *_) = made.asked_for(FETCH)
    assert request.topics[0].partitions[0].partition_max_bytes == MIB
    assert made.left == ["me"]
    assert len(made.asked_for(OFFSET_COMMIT)) == 1, "at its end"


def test_a_line_for_each_interval_the_first_with_the_time_of_joining() -> None:
    made = broker(6, fetch_ms=1000)
    made.held_ms = {JOIN_GROUP: 500}
    words = ["--topic", "t", "--num-records", "6", "--show-detailed-stats"]
    found = rows(ran(made, *words, "--reporting-interval", "2000"))
    assert found == [
        ["0", "0.1250", "0.0625", "1", "0.5000", "1000", "1000", "0.1250", "1.0000"],
        ["0", "0.3750", "0.1250", "3", "1.0000", "0", "2000", "0.1250", "1.0000"],
        ["0", "0.6250", "0.1250", "5", "1.0000", "0", "2000", "0.1250", "1.0000"],
    ]
    made = broker(1)
    made.held_ms = {JOIN_GROUP: 500}
    (row,) = rows(ran(made, *words[:3], "1", "--show-detailed-stats", "--reporting-interval", "9"))
    assert row[5:] == ["1000", "0", "0.0000", "0.0000"], "no time was left to fetch"
    _, out, _ = ran(broker(), *words[:4])
    assert out.splitlines()[1].startswith("WARNING: Exiting before consuming the expected number")


def test_a_later_rebalance_is_in_the_sum_alone() -> None:
    made = broker(2, fetch_ms=4000)
    made.errors = [(HEARTBEAT, 27)]
    made.held_ms = {JOIN_GROUP: 1000}
    words = ["--topic", "t", "--num-records", "2", "--reporting-interval", "1"]
    (row,) = rows(ran(made, *words))
    assert row[5:7] == ["3000", "8000"]
    made = broker(2, fetch_ms=4000)
    made.errors = [(HEARTBEAT, 27)]
    made.held_ms = {JOIN_GROUP: 1000}
    found = rows(ran(made, *words, "--show-detailed-stats"))
    assert [row[5:7] for row in found] == [["2000", "4000"], ["0", "5000"]]


@pytest.mark.parametrize(("timeout", "at_ms"), [(["--timeout", "200"], 300), ([], 10_100)])
def test_it_ends_when_no_record_came_for_the_time_out(timeout: list[str], at_ms: int) -> None:
    made = broker(1)
    code, out, err = ran(made, "--topic", "t", "--num-records", "2", "--hide-header", *timeout)
    warning, row = out.splitlines()
    assert (code, err, row.split(", ")[4]) == (0, "", "1")
    assert f"timeout ({at_ms - 100} ms) exceeded." in warning
    assert made.clock.at_ms == at_ms


def test_each_record_begins_the_time_out_anew() -> None:
    made = broker(4, fetch_ms=300)
    (row,) = rows(ran(made, "--topic", "t", "--num-records", "4", "--timeout", "400"))
    assert row[3] == "4"


def test_what_is_read_and_who_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "c.properties"
    path.write_text(
        "session.timeout.ms=7000\ngroup.id=other\nisolation.level=read_committed\n"
        "fetch.min.bytes=5\nmax.partition.fetch.bytes=9\nauto.offset.reset=latest\n"
    )
    made = broker(1)
    made.topics["t2"] = Topic("t2", [Log()])
    made.topics["t2"].logs[0].append(b"v")
    words = ["--include", "t.*", "--messages", "2", "--group", "g", "--fetch-size", "77"]
    words += ["--show-detailed-stats", "--reporting-interval", "1"]
    made.held_ms = {JOIN_GROUP: 5}
    code, out, err = ran(made, *words, "--consumer.config", str(path), "--json")
    one, two, told = out.splitlines()
    assert (code, err) == (0, "")
    assert one == "Warning: --messages is deprecated. Use --num-records instead."
    assert two == "Warning: --consumer.config is deprecated. Use --command-config instead."
    found = json.loads(told)
    assert (found["records"], found["bytes"]) == (2, MIB // 8 + 1)
    assert (found["start_time"], found["end_time"]) == (1_795_000_000_000, 1_795_000_000_010)
    assert (found["rebalance_time_ms"], found["fetch_time_ms"]) == (10, 0)
    joined = made.asked_for(JOIN_GROUP)[-1]
    assert (joined.group_id, joined.session_timeout.total_seconds()) == ("g", 7)
    assert {
        p.partition_max_bytes for t in made.asked_for(FETCH)[0].topics for p in t.partitions
    } == {77}
    fetch = made.asked_for(FETCH)[0]
    assert (fetch.isolation_level, fetch.min_bytes) == (1, 5)
    _, out, _ = ran(broker(1), "--topic", "t", "--num-records", "1", "--from-latest", "--json")
    assert json.loads(out.splitlines()[-1])["records"] == 0
    drawn = broker(1)
    ran(drawn, "--topic", "t", "--num-records", "1")
    assert drawn.asked_for(JOIN_GROUP)[0].group_id.startswith("perf-consumer-")


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ((), 1000),
        (("--command-property", "max.poll.records=100"), 700),
        (("--command-property", "max.poll.records=5000"), 1200),
    ],
)
def test_it_ends_behind_the_poll_that_has_enough(words: tuple[str, ...], count: int) -> None:
    made = MemberBroker(t=[Log()])
    for _ in range(1200):
        made.topics["t"].logs[0].append((b"k", b"v"))
    asked = ("--topic", "t", "--num-records", "700", "--json", *words)
    _, out, _ = ran(made, *asked)
    assert json.loads(out)["records"] == count
    (commit,) = made.asked_for(OFFSET_COMMIT)
    assert commit.topics[0].partitions[0].committed_offset == count, "the others were not read"


def test_its_connections_have_a_name_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    made = broker(1)
    opened = made.opened
    monkeypatch.setattr(made, "opened", lambda options: (seen.append(options), opened(options))[1])
    words = ["--topic", "t", "--num-records", "1"]
    ran(made, *words)
    ran(made, *words, "--command-property", "client.id=mine")
    assert [options.command_property for options in seen] == [
        ["client.id=perf-consumer-client"], ["client.id=mine"],
    ]  # fmt: skip


def test_refusals() -> None:
    topic, count = ["--topic", "t"], ["--num-records", "1"]
    both = "Exactly one of the following arguments is required: "
    for words, said in (
        (count, f"{both}[topic], [include]"),
        ([*topic, "--include", "x", *count], f"{both}[topic], [include]"),
        ([*topic, *count, "--messages", "1"], f"{both}[messages], [num-records]"),
        ([*topic, *count, "--reporting-interval", "0"], "argument --reporting-interval: '0' is"),
        ([*topic, *count, "--consumer.config", "a", "--command-config", "b"],
         'Option "[consumer.config]" can\'t be used with option "[command-config]"'),
        ([*topic, *count, "--date-format", "Q"], "Illegal date format 'Q': letters are y, M, d, H"),
    ):  # fmt: skip
        code, out, err = ran(broker(), *words)
        assert (code, out) == (1, "")
        assert err.startswith(said)
    code, _, err = run_command(consumer_perf_test.run, [*topic, *count], broker())
    assert (code, err.splitlines()[0]) == (1, 'Missing required argument "[bootstrap-server]"')


def test_a_group_that_refuses_is_one_line() -> None:
    made = broker()
    made.errors = [(JOIN_GROUP, 30)]
    code, out, err = ran(made, "--topic", "t", "--num-records", "1")
    assert (code, err) == (1, "Group authorization failed.\n")
    assert out.count("\n") == 1


def test_numbers_are_written_as_java_writes_them() -> None:
    assert [shown(number) for number in (0.00015, 2.5, 1e6, 0.0, math.inf, math.nan)] == [
        "0.0002", "2.5000", "1000000.0000", "0.0000", "Infinity", "NaN",
    ]  # fmt: skip
    assert shown(-math.inf) == "-Infinity"
    assert (rate(3, 2000), rate(1, 0)) == (1.5, math.inf)
    assert math.isnan(rate(0, 0))


def test_times_of_a_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "UTC-3")
    time.tzset()
    at_ms = 1_795_000_000_007
    for pattern, text in (
        ("yyyy-MM-dd HH:mm:ss:SSS", "2026-11-18 14:06:40:007"),
        ("yy.M.d H:m:s,S", "26.11.18 14:6:40,7"),
        ("yyyy-MM-dd'T'HH''mm 'o''clock'", "2026-11-18T14'06 o'clock"),
        ("", ""),
    ):
        assert DateFormat(pattern).shown(at_ms) == text
    monkeypatch.undo()
    time.tzset()
    for pattern in ("E", "MMM", "yyyy 'open"):
        with pytest.raises(UsageError, match="Illegal date format"):
            DateFormat(pattern)
