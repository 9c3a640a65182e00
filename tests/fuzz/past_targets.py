"""Targets: `at`, `diff`, `log verify` of a folder with the metadata log, and pages of a node."""

import json
import shutil
import struct
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from cli.arguments import UsageError
from cli.offline import at, diff, log_verify
from cli.offline.metadata_sources import ChangesPage, TopicsPage, all_pages
from cli.offline.offline_log import METADATA_FOLDER
from storage.segments.segment import segment_name
from tests.fuzz.batch_targets import _record_seeds as record_seeds
from tests.fuzz.engine import Target
from tests.fuzz.mutation import mutated
from wire.batches.batch import encode_batch, iterate_batches

GOLDEN = Path(__file__).parent.parent / "golden" / "cli" / "metadata-log" / "single-4.3.1" / "n1"
READ_MAX = 1 << 14
"""An image of more takes more memory than a decoder may: its parts are objects."""
COUNT = struct.Struct(">i")
SNAPSHOT = 45
SNAPSHOT_NAME = f"{SNAPSHOT:020d}-{1:010d}.checkpoint"
NAMES = (
    segment_name(0), segment_name(SNAPSHOT), SNAPSHOT_NAME, segment_name(0, ".index"),
    segment_name(0, ".timeindex"), "leader-epoch-checkpoint", "quorum-state",
)  # fmt: skip


@cache
def _holder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="kraftline-fuzz-")


@cache
def _sound() -> Path:
    """The folder as Kafka left it, to compare with."""
    folder = Path(_holder().name, "sound", METADATA_FOLDER)
    shutil.copytree(GOLDEN / METADATA_FOLDER, folder)
    return folder


Command = tuple[Callable[[Sequence[str]], int], tuple[str, ...]]


@cache
def _commands() -> list[Command]:
    """Commands to run on `{}`; with --json standard output is JSON, or empty."""
    found: list[Command] = [(at.run, ("end", what, "{}", "--json")) for what in at.WHAT]
    found += [(at.run, (offset, "topics", "{}")) for offset in ("3", "45", "50", "end")]
    return [
        *found,
        (diff.run, ("0", "end", "--in", "{}")),
        (diff.run, ("0", "end", "--in", "{}", "--json")),
        (diff.run, ("{}", str(_sound()))),
        (log_verify.run, ("verify", "{}")),
        (log_verify.run, ("verify", "{}", str(_sound()), "--json")),
    ]


def _packed(command: int, files: dict[str, bytes]) -> bytes:
    """Number of the command, then each of NAMES: length, or -1 for none, and content."""
    parts = []
    for name in NAMES:
        content = files.get(name)
        parts.append(COUNT.pack(-1) if content is None else COUNT.pack(len(content)) + content)
    return bytes([command]) + b"".join(parts)


def _ran(data: bytes) -> tuple[Command, int, str, str]:
    """The command, its exit code, standard output and standard error."""
    data = data[:READ_MAX]
    folder = Path(_holder().name, "damaged", METADATA_FOLDER)
    folder.mkdir(parents=True, exist_ok=True)
    position = 1
    for name in NAMES:
        size = -1
        if position + COUNT.size <= len(data):
            (size,) = COUNT.unpack_from(data, position)
            position += COUNT.size
        if size < 0:
            (folder / name).unlink(missing_ok=True)
            continue
        (folder / name).write_bytes(data[position : position + size])
        position += size
    commands = _commands()
    command = commands[data[0] % len(commands)] if data else commands[0]
    run, words = command
    out, complaints = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(complaints):
        code = run([word.format(folder) for word in words])
    return command, code, out.getvalue(), complaints.getvalue()


def _is_told(value: tuple[Command, int, str, str], _data: bytes, _rng: Random) -> None:
    """A result, or one line that says why there is none."""
    (run, words), code, out, complaints = value
    assert code in (0, 1, 2)
    has_failed = code == (1 if run is at.run else 2)
    assert complaints.count("\n") == has_failed
    assert (_holder().name in complaints) == has_failed
    if has_failed:
        assert out == "" or words[0] == "verify"
    elif "--json" in words:
        json.loads(out)


@cache
def _folders() -> list[bytes]:
    folder = GOLDEN / METADATA_FOLDER
    whole = {name: (folder / name).read_bytes() for name in NAMES if (folder / name).is_file()}
    content = whole[segment_name(0)]
    batches = list(iterate_batches(content))
    cut = next(b.position for b in batches if b.header.base_offset == SNAPSHOT)
    rolled = {segment_name(0): content[:cut], segment_name(SNAPSHOT): content[cut:]}
    behind = {SNAPSHOT_NAME: whole[SNAPSHOT_NAME], segment_name(SNAPSHOT): content[cut:]}
    kinds = (whole, whole | rolled, rolled, behind)
    return [_packed(number, files) for files in kinds for number in range(len(_commands()))]


def _odd_folder(rng: Random) -> bytes:
    """Sound batches of odd records."""
    seeds, content, offset = record_seeds(), b"", 0
    for _ in range(rng.randrange(1, 8)):
        values = [rng.choice(seeds) for _ in range(rng.randrange(1, 5))]
        values = [mutated(v, seeds, rng)[:500] if rng.random() < 0.2 else v for v in values]
        content += encode_batch(values, offset, 1, 1000)
        offset += len(values)
    return _packed(rng.randrange(len(_commands())), {segment_name(0): content})


# ---- answers of a node -------------------------------------------------------------------------


def _pages(data: bytes) -> tuple[Any, int]:
    """The whole answer, and how often was asked. One byte of kind, then pages with NUL between."""
    answers = iter(data[1:].split(b"\0"))
    asked = 0

    def fetch(url: str, bytes_max: int) -> bytes:
        nonlocal asked
        asked += 1
        assert bytes_max > 0
        return next(answers, b"")

    kinds = (TopicsPage, ChangesPage)
    return all_pages("http://n", kinds[data[0] % 2 if data else 0], fetch), asked


def _pages_are_shown(found: tuple[Any, int], data: bytes, _rng: Random) -> None:
    """All that is accepted can be printed, in both forms."""
    page, asked = found
    assert 1 <= asked <= data.count(b"\0") + 1
    again = json.loads(msgspec.json.encode(page))
    assert again["next_after"] is None
    if isinstance(page, TopicsPage):
        lines = [at.fields_line(row) for row in page.topics]
    else:
        lines = [diff.change_line(row) for row in msgspec.to_builtins(page)["changes"]]
    "".join(lines).encode()


def _page(rng: Random, kind: int, after: int | None) -> bytes:
    row: dict[str, Any] = {"name": "t", "n": rng.choice((1, None, "a b", [1], {"a": 1.5}))}
    if kind == 0:
        mark = None if after is None else str(after)
        head = {"metadata_offset": 7, "topics": [row], "topic_count": 1}
        return json.dumps(head | {"next_after": mark}).encode()
    change = {
        "kind": "topic", "key": "t", "change": rng.choice(("added", "removed", "changed")),
        "fields": ["n"], "before": row, "after": rng.choice((None, row)),
    }  # fmt: skip
    head = {"from_offset": 1, "to_offset": 7, "change_count": 1, "changes": [change]}
    return json.dumps(head | {"next_after": after}).encode()


def _answer(rng: Random) -> bytes:
    kind, count = rng.randrange(2), rng.randrange(4)
    pages = [_page(rng, kind, number) for number in range(count)]
    return bytes([kind]) + b"\0".join([*pages, _page(rng, kind, None)])


def targets() -> list[Target]:
    """All of this file."""
    answers = [_answer(Random(seed)) for seed in range(8)]
    return [
        Target("past-folders", _folders(), _ran, (), _is_told, _odd_folder, weight=0.3),
        Target("node-pages", answers, _pages, (UsageError,), _pages_are_shown, _answer),
    ]
