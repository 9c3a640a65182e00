"""`quorum describe --elections`: what each node saw of the elections, over HTTP."""

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

from cli.admin.elections import addresses, describe_elections
from cli.arguments import UsageError
from cli.connect import ClusterError
from cli.main import main

KNOWN_MS = 1_700_000_000_123


def seen(cause: str, role: str, leaderless_ms: int | None = 40) -> dict[str, Any]:
    return {
        "cause": cause,
        "evidence": f"evidence of {cause}",
        "role": role,
        "lost_epoch": 5,
        "lost_leader_id": 1,
        "known_ms": KNOWN_MS,
        "leaderless_ms": leaderless_ms,
    }


def election(epoch: int, leader_id: int | None, found: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "epoch": epoch,
        "leader_id": leader_id,
        "offset": 3,
        "timestamp_ms": 1_000 if leader_id is not None else None,
        "seen": found,
    }


ANSWERS = {
    "http://n1:1/v1/quorum": {
        "node_id": 1,
        "elections": [
            election(4, 3, None),
            election(5, 1, None),
            election(6, 2, seen("stalled_flush", "leader")),
        ],
    },
    "http://n2:2/v1/quorum": {
        "node_id": 2,
        "elections": [
            election(5, 1, seen("announced", "follower", None)),
            election(6, 2, seen("resignation", "follower")),
        ],
    },
}


def answers_of(*urls: str) -> Callable[[str, int], bytes]:
    def fetch(url: str, bytes_max: int) -> bytes:
        assert bytes_max == 4 * 1024 * 1024
        if url not in urls:
            raise UsageError(f"{url}: connection refused")
        return json.dumps(ANSWERS[url]).encode()

    return fetch


BOTH = answers_of(*ANSWERS)


def test_the_table_has_a_row_for_each_node_that_saw_an_election() -> None:
    output = describe_elections(("http://n2:2", "http://n1:1"), as_json=False, fetch=BOTH)
    rows = [line.split("  ") for line in output.text.splitlines()]
    shown = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    assert shown == [
        ["Epoch", "LeaderId", "Time", "LeaderlessMs", "Cause", "SeenBy", "SeenAs", "Evidence"],
        ["4", "3", "1970-01-01T00:00:01.000Z", *["-"] * 5],
        ["5", "1", "2023-11-14T22:13:20.123Z", "-", "announced", "2", "follower",
         "evidence of announced"],
        ["6", "2", "2023-11-14T22:13:20.123Z", "40", "stalled_flush", "1", "leader",
         "evidence of stalled_flush"],
        ["6", "2", "2023-11-14T22:13:20.123Z", "40", "resignation", "2", "follower",
         "evidence of resignation"],
    ]  # fmt: skip
    assert (output.error, output.exit_code) == ("", 0)
    assert {line.index("2023") for line in output.text.splitlines()[2:]} == {17}
    assert not any(line.endswith(" ") for line in output.text.splitlines())


def test_the_object_has_what_every_node_saw() -> None:
    output = describe_elections(("http://n2:2", "http://n1:1"), as_json=True, fetch=BOTH)
    elections = json.loads(output.text)["elections"]
    assert [(one["epoch"], one["leader_id"]) for one in elections] == [(4, 3), (5, 1), (6, 2)]
    assert [[each["node_id"] for each in one["seen"]] for one in elections] == [[], [2], [1, 2]]
    assert elections[2]["seen"][0] == {"node_id": 1, **seen("stalled_flush", "leader")}


def test_epochs_ascend_and_one_that_nobody_saw_has_one_row() -> None:
    def fetch(url: str, bytes_max: int) -> bytes:
        del bytes_max
        node_id = int(url[len("http://n")])
        epochs = (5, 6) if node_id == 1 else (4, 5)
        elections = [election(epoch, 3, None) for epoch in epochs]
        return json.dumps({"node_id": node_id, "elections": elections}).encode()

    output = describe_elections(("http://n1:1", "http://n2:2"), as_json=False, fetch=fetch)
    assert [line.split()[0] for line in output.text.splitlines()[1:]] == ["4", "5", "6"]


def test_a_leader_and_a_time_that_nobody_knows_are_dashes() -> None:
    def fetch(url: str, bytes_max: int) -> bytes:
        del url, bytes_max
        return json.dumps({"node_id": 1, "elections": [election(4, None, None)]}).encode()

    output = describe_elections(("http://n1:1",), as_json=False, fetch=fetch)
    assert output.text.splitlines()[1].split() == ["4", *["-"] * 7]


def test_a_node_that_does_not_answer_is_a_line_and_no_failure() -> None:
    first = answers_of("http://n1:1/v1/quorum")
    output = describe_elections(("http://n1:1", "http://n2:2"), as_json=False, fetch=first)
    assert output.error == "http://n2:2/v1/quorum: connection refused\n"
    assert output.exit_code == 0
    with pytest.raises(ClusterError, match="n1:1/v1/quorum: connection refused\nhttp://n2:2"):
        describe_elections(("http://n1:1", "http://n2:2"), as_json=False, fetch=answers_of())


def test_what_is_no_answer_of_a_node_names_it() -> None:
    with pytest.raises(ClusterError, match="http://n1:1: "):
        describe_elections(("http://n1:1",), as_json=False, fetch=lambda *_: b"<html>")


def test_addresses() -> None:
    assert addresses("a:1, http://b:2/") == ("http://a:1", "http://b:2")
    for wrong in ("a", ":1", "a:", "a:1,", "a:x", "a:\u0661"):
        with pytest.raises(UsageError, match="is not HOST:PORT"):
            addresses(wrong)


def test_the_command_asks_over_http(capsys: pytest.CaptureFixture[str]) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == "/v1/quorum"
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(ANSWERS["http://n1:1/v1/quorum"]).encode())

        def log_message(self, *_: object) -> None:
            """Nothing is logged."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.handle_request)
    thread.start()
    address = f"127.0.0.1:{server.server_port}"
    words = ["quorum", "describe", "--elections", "--inspection-server", address, "--json"]
    assert main(words) == 0
    thread.join()
    server.server_close()
    assert json.loads(capsys.readouterr().out)["elections"][2]["seen"][0]["role"] == "leader"


def test_the_address_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quorum", "describe", "--elections"]) == 1
    assert capsys.readouterr().err == "--elections needs --inspection-server HOST:PORT,...\n"
