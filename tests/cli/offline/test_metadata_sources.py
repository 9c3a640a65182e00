"""`at` and `diff` of a folder, `at` of a node's API; a real node: tests/interop/test_cli.py."""

import asyncio
import io
import json
import shutil
import urllib.error
from email.message import Message
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from cli.arguments import UsageError
from cli.offline import at, diff, metadata_sources
from cli.offline.diff import change_line
from metadata import record_codec
from metadata.records import TopicRecord
from storage.segments.segment import segment_name
from tests.inspection.conftest import open_site, ready_world
from wire.batches.batch import encode_batch

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "cli" / "metadata-log"
STATIC = str(GOLDEN / "static-4.3.1" / "n1")
END = 671


def test_topics_at_an_offset_are_printed_as_describe_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert at.run(["45", "topics", STATIC]) == 0
    early = capsys.readouterr().out
    assert at.run(["340", "topics", STATIC]) == 0
    late = capsys.readouterr().out
    assert "Topic: orders\t" in late
    assert early.count("Topic: ") < late.count("Topic: ")


@pytest.mark.parametrize("what", at.WHAT)
def test_everything_can_be_shown(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert at.run(["end", what, STATIC]) == 0
    assert capsys.readouterr().out
    assert at.run(["end", what, STATIC, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["metadata_offset"] == END
    assert answer[what]


def test_offset_zero_is_empty(capsys: pytest.CaptureFixture[str]) -> None:
    assert at.run(["0", "topics", STATIC]) == 0
    assert capsys.readouterr().out == ""


def test_the_image_does_not_depend_on_the_snapshots(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(STATIC, tmp_path / "n1")
    for path in (tmp_path / "n1").rglob("0*.checkpoint"):
        path.unlink()
    for offset in ("103", "250", "500", "end"):
        assert diff.run(["--at", offset, STATIC, str(tmp_path / "n1")]) == 0
        assert capsys.readouterr().out == ""


async def test_the_end_of_a_node_is_its_newest_image(capsys: pytest.CaptureFixture[str]) -> None:
    world = ready_world()
    leader = world.active()
    assert leader is not None
    site = await open_site(world, leader)
    words = ["topics", str(site.client.make_url("/")), "--json"]
    assert await asyncio.to_thread(at.run, ["end", *words]) == 0
    newest = capsys.readouterr().out
    assert await asyncio.to_thread(at.run, [str(site.end_offset), *words]) == 0
    await site.client.close()
    assert newest == capsys.readouterr().out
    answer = json.loads(newest)
    assert answer["metadata_offset"] == site.end_offset
    assert [topic["name"] for topic in answer["topics"]] == ["orders", "payments", "users"]


async def test_what_differs_is_read_from_a_node_page_by_page(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = ready_world()
    leader = world.active()
    assert leader is not None
    site = await open_site(world, leader)
    words = ["0", str(site.end_offset), "--in", str(site.client.make_url("/")), "--json"]
    assert await asyncio.to_thread(diff.run, words) == 1
    whole = json.loads(capsys.readouterr().out)
    monkeypatch.setattr(metadata_sources, "PAGE", 3)
    assert await asyncio.to_thread(diff.run, words) == 1
    await site.client.close()
    assert json.loads(capsys.readouterr().out) == whole
    assert whole["change_count"] == len(whole["changes"]) > 6
    assert whole["next_after"] is None


async def test_who_is_no_node_is_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    async def serve(_: web.Request) -> web.Response:
        return web.json_response([1])

    other = web.Application()
    other.router.add_get("/{path:.*}", serve)
    async with TestServer(other) as server:
        for offset in ("end", "3"):
            words = [offset, "topics", str(server.make_url("/"))]
            assert await asyncio.to_thread(at.run, words) == 1
            assert "so it is not a node's\n" in capsys.readouterr().err


CHANGE = {"kind": "topic", "key": "t", "change": "added", "fields": [],
          "before": None, "after": {"name": "t"}}  # fmt: skip
TOPICS_PAGE = {"metadata_offset": 9, "topics": [{"name": "t"}], "topic_count": 1}
CHANGES_PAGE = {"from_offset": 1, "to_offset": 2, "change_count": 1, "changes": [CHANGE]}


@pytest.mark.parametrize("answer", [
    {"metadata_offset": 1, "topics": 5},
    {"metadata_offset": []},
    {"changes": [1]},
    {"changes": [{}]},
    TOPICS_PAGE | {"topics": [1]},
    TOPICS_PAGE | {"metadata_offset": -1},
    TOPICS_PAGE | {"metadata_offset": 2**63},
    TOPICS_PAGE | {"next_after": 3},
    CHANGES_PAGE | {"changes": {"a": 1}},
    CHANGES_PAGE | {"changes": [CHANGE | {"change": "x"}]},
    CHANGES_PAGE | {"changes": [CHANGE | {"before": 3}]},
    CHANGES_PAGE | {"next_after": "t"},
], ids=str)  # fmt: skip
async def test_an_answer_of_another_shape_is_one_line(
    answer: object, capsys: pytest.CaptureFixture[str]
) -> None:
    async def serve(_: web.Request) -> web.Response:
        return web.json_response(answer)

    other = web.Application()
    other.router.add_get("/{path:.*}", serve)
    async with TestServer(other) as server:
        url = str(server.make_url("/"))
        assert await asyncio.to_thread(at.run, ["end", "topics", url]) == 1
        assert await asyncio.to_thread(diff.run, ["1", "2", "--in", url]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    told = printed.err.splitlines()
    assert [line.endswith(", so it is not a node's") for line in told] == [True, True]


async def test_an_answer_without_an_end_and_a_long_refusal_are_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def serve(request: web.Request) -> web.Response:
        if request.path.startswith("/long"):
            return web.json_response({"detail": "no\n" * 1000}, status=404)
        return web.json_response(TOPICS_PAGE | {"metadata_offset": 1, "x": "y" * 1000})

    monkeypatch.setattr(metadata_sources, "PAGE_BYTES_MAX", 1000)
    other = web.Application()
    other.router.add_get("/{path:.*}", serve)
    async with TestServer(other) as server:
        for path, text in (("/", "the answer has more than 1000 bytes"), ("/long", "no\\nno")):
            words = ["1", "topics", str(server.make_url(path))]
            assert await asyncio.to_thread(at.run, words) == 1
            told = capsys.readouterr().err
            assert text in told
            assert told.count("\n") == 1
            assert len(told) < 1000


def test_the_connection_of_a_refusal_is_closed() -> None:
    content = io.BytesIO(b'{"detail": "no"}')
    error = urllib.error.HTTPError("http://node", 404, "Not Found", Message(), content)
    assert metadata_sources._problem(error) == "no"
    assert content.closed


def pages(answers: dict[str, object]) -> metadata_sources.Fetch:
    """A node that answers what is behind `after` of a URL; behind none for ""."""

    def fetch(url: str, _: int) -> bytes:
        return json.dumps(answers[url.partition("&after=")[2]]).encode()

    return fetch


def test_the_rows_of_all_pages_are_one_answer() -> None:
    first = TOPICS_PAGE | {"topics": [{"name": "a"}], "topic_count": 2, "next_after": "a"}
    last = TOPICS_PAGE | {"topics": [{"name": "b"}], "topic_count": 2, "next_after": None}
    whole = metadata_sources.all_pages(
        "u", metadata_sources.TopicsPage, pages({"": first, "a": last})
    )
    assert whole == metadata_sources.TopicsPage(
        metadata_offset=9, topics=[{"name": "a"}, {"name": "b"}], topic_count=2, next_after=None
    )


def test_pages_that_do_not_go_on_are_refused() -> None:
    def page(after: object) -> dict[str, object]:
        return TOPICS_PAGE | {"next_after": after}

    for answers in ({"": page("b"), "b": page("b")}, {"": page("b"), "b": page("a")}):
        with pytest.raises(UsageError, match=r"&after=b: the page goes on behind '[ab]', not"):
            metadata_sources.all_pages("u", metadata_sources.TopicsPage, pages(answers))
    numbers = {"": CHANGES_PAGE | {"next_after": 10}, "10": CHANGES_PAGE | {"next_after": 9}}
    with pytest.raises(UsageError, match="goes on behind '9', not further"):
        metadata_sources.all_pages("u", metadata_sources.ChangesPage, pages(numbers))


def test_pages_without_an_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(url: str, bytes_max: int) -> bytes:
        assert bytes_max > 0
        number = int(url.partition("&after=")[2] or 0)
        content = json.dumps(CHANGES_PAGE | {"next_after": number + 1}).encode()
        if len(content) > bytes_max:
            raise UsageError("too long")
        return content

    monkeypatch.setattr(metadata_sources, "PAGES_MAX", 7)
    with pytest.raises(UsageError, match="u: more than 7 pages"):
        metadata_sources.all_pages("u", metadata_sources.ChangesPage, fetch)
    monkeypatch.setattr(metadata_sources, "ALL_BYTES_MAX", 1000)
    with pytest.raises(UsageError, match="too long"):
        metadata_sources.all_pages("u", metadata_sources.ChangesPage, fetch)


@pytest.mark.parametrize(("words", "text"), [
    ([str(END + 1), "topics", STATIC], f"offset {END + 1}: "),
    (["-1", "topics", STATIC], "-1"),
    (["x", "topics", STATIC], "'x' is not an offset"),
    (["9" * 400, "topics", STATIC], "is not an offset"),
    (["1.5", "topics", STATIC], "'1.5' is not an offset"),
    (["", "topics", STATIC], "'' is not an offset"),
    (["1", "topics", "nowhere"], "nowhere: "),
    (["1", "topics", "http://127.0.0.1:1"], "http://127.0.0.1:1/v1/metadata/at/1/topics"),
    (["end", "topics", "http://127.0.0.1:1"], "http://127.0.0.1:1/v1/topics?limit=1"),
    (["1", "acls", "http://127.0.0.1:1"], "a node tells only topics"),
    (["1", "nothing", STATIC], "invalid choice: 'nothing'"),
    (["1"], "required"),
])  # fmt: skip
def test_what_cannot_be_had_is_one_line(
    words: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = at.run(words)
    except SystemExit as left:
        code = left.code
    assert code == 1
    error = capsys.readouterr().err
    assert text in error
    assert len(error) < 1000


def test_a_log_cut_behind_a_snapshot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(STATIC, tmp_path / "n1")
    log = tmp_path / "n1" / "__cluster_metadata-0"
    (log / "00000000000000000000.log").unlink()
    assert at.run(["150", "topics", str(tmp_path / "n1")]) == 1
    assert "the oldest that is kept is 209" in capsys.readouterr().err
    assert diff.run(["--at", "300", STATIC, str(tmp_path / "n1")]) == 0


def test_a_damaged_log_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(STATIC, tmp_path / "n1")
    path = tmp_path / "n1" / "__cluster_metadata-0" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[8:12] = (3).to_bytes(4, "big")
    path.write_bytes(data)
    assert at.run(["50", "topics", str(tmp_path / "n1")]) == 1
    assert "cannot be 3 bytes long" in capsys.readouterr().err


def batches(*values: list[bytes], start: int = 0) -> list[bytes]:
    found = []
    for records in values:
        found.append(encode_batch(records, start, 1, 1000))
        start += len(records)
    return found


def moved(batch: bytes, base_offset: int) -> bytes:
    """A batch with another base offset, which no checksum covers."""
    return base_offset.to_bytes(8, "big") + batch[8:]


TOPICS = [
    record_codec.encode(TopicRecord(name=f"t{n}", topic_id=bytes([n]) * 16), 0) for n in range(6)
]
ONE, TWO, THREE = batches(TOPICS[:2], TOPICS[2:4], TOPICS[4:])
NEGATIVE = TWO[:8] + (-61).to_bytes(4, "big", signed=True) + TWO[12:]
FLIPPED = TWO[:-1] + bytes([TWO[-1] ^ 1])
DAMAGED = {
    "negative length": ({0: ONE + NEGATIVE}, "cannot be -61 bytes long"),
    "offset goes back": ({0: ONE + moved(TWO, 1) + THREE}, "it must begin at 2"),
    "offset goes far back": ({0: ONE + TWO + moved(THREE, 0)}, "it must begin at 4"),
    "gap": ({0: ONE + THREE}, "it must begin at 2"),
    "checksum": ({0: ONE + FLIPPED + THREE, 6: b""}, "the checksum does not match"),
    "segment missing": ({0: ONE, 4: THREE}, "(offset 4) does not continue offset 2"),
    "segment cut": ({0: ONE + TWO[:-1], 4: THREE}, "(offset 4) does not continue offset 2"),
    "segment cut, nothing behind": ({0: ONE + TWO[:-1], 4: b""}, "the log ends at 2, before"),
    "segments meet": ({0: ONE + TWO, 2: TWO + THREE}, ""),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_log_damaged_in_any_place_is_one_line(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    segments, text = DAMAGED[kind]
    for base_offset, content in segments.items():
        (tmp_path / segment_name(base_offset)).write_bytes(content)
    assert at.run(["end", "topics", str(tmp_path)]) == (1 if text else 0)
    told = capsys.readouterr().err
    assert text in told
    assert told.count("\n") == bool(text)
    assert diff.run(["0", "end", "--in", str(tmp_path)]) == (2 if text else 1)
    assert text in capsys.readouterr().err


def test_the_end_of_a_log_whose_last_segment_is_empty_is_the_name_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / segment_name(0)).write_bytes(ONE + TWO)
    (tmp_path / segment_name(4)).touch()
    assert at.run(["end", "topics", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metadata_offset"] == 4


def test_a_torn_last_batch_is_not_of_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for torn in (THREE[:-1], THREE[:-1] + b"?"):
        (tmp_path / segment_name(0)).write_bytes(ONE + TWO + torn)
        assert at.run(["end", "topics", str(tmp_path), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["metadata_offset"] == 4


def test_diff_is_0_1_or_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert diff.run(["100", "100", "--in", STATIC]) == 0
    assert diff.run(["100", "130", "--in", STATIC]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("+ topic s-rd-one ") for line in lines)
    assert any(line.startswith("- feature share.version ") for line in lines)
    for words in (["100", "x", "--in", STATIC], ["100"], [STATIC, "nowhere"],
                  ["1", "2", "--in", STATIC, "--at", "3"]):  # fmt: skip
        assert diff.run(words) == 2
        assert capsys.readouterr().err


def test_diff_as_json_counts_its_changes(capsys: pytest.CaptureFixture[str]) -> None:
    assert diff.run(["100", "130", "--in", STATIC, "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["from_offset"], answer["to_offset"]) == (100, 130)
    assert answer["change_count"] == len(answer["changes"]) > 0


def test_a_change_names_the_fields() -> None:
    change = {"kind": "partition", "key": "t-0", "change": "changed", "fields": ["leader"],
              "before": {"leader": 1, "isr": [1]},
              "after": {"leader": None, "isr": [1]}}  # fmt: skip
    assert change_line(change) == "~ partition t-0 leader=1 -> null\n"


def test_a_linearizable_read_is_asked_of_every_page_of_a_node(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def fetched(url: str, bytes_max: int) -> bytes:
        del bytes_max
        asked.append(url)
        if "/diff" in url:
            return b'{"from_offset": 1, "to_offset": 2, "change_count": 0, "changes": []}'
        return b'{"metadata_offset": 9, "topics": [], "topic_count": 0}'

    monkeypatch.setattr(metadata_sources.all_pages, "__defaults__", (fetched,))
    monkeypatch.setattr(metadata_sources.one_page, "__defaults__", (fetched,))
    linearizable = ["--consistency", "linearizable"]
    assert at.run(["end", "topics", "http://n:1", *linearizable]) == 0
    assert diff.run(["1", "2", "--in", "http://n:1", *linearizable]) == 0
    assert at.run(["3", "topics", "http://n:1", "--consistency", "local"]) == 0
    assert asked == [
        "http://n:1/v1/topics?limit=1&consistency=linearizable",
        "http://n:1/v1/metadata/at/9/topics?consistency=linearizable&limit=1000",
        "http://n:1/v1/metadata/diff?from=1&to=2&consistency=linearizable&limit=1000",
        "http://n:1/v1/metadata/at/3/topics?limit=1000",
    ]
    assert at.run(["1", "topics", STATIC, *linearizable]) == 1
    assert diff.run(["1", "2", "--in", STATIC, *linearizable]) == 2
    refusals = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in refusals] == [
        "--consistency linearizable is for http"
    ] * 2
