"""Target: `dump-log` over segments, snapshots and indexes with other files beside them."""

import json
import struct
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO, TextIOBase
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from typing_extensions import override

from cli.offline.dump_log import run
from tests.fuzz.engine import Target
from wire.batches.batch import encode_control_batch

GOLDEN = Path(__file__).parent.parent / "golden"
BYTES_MAX = 6000
READ_MAX = 1 << 14
"""An index of more takes more memory than a decoder may: its entries are held as objects."""
EACH = 12
COUNT = struct.Struct(">i")
SEGMENT = "0" * 20
SNAPSHOT = f"{SEGMENT}-{1:010d}.checkpoint"
FILES = (".log", ".checkpoint", ".index", ".timeindex", ".snapshot", ".txnindex")
BESIDE = (".log", ".index")
OPTIONS = (
    (), ("--deep-iteration",), ("--print-data-log",), ("--cluster-metadata-decoder",), ("--json",),
    ("--offsets-decoder",), ("--transaction-log-decoder",), ("--index-sanity-check",),
    ("--verify-index-only",), ("--json", "--print-data-log"), ("--max-bytes", "300"),
    ("--skip-record-metadata",), ("--json", "--cluster-metadata-decoder"),
)  # fmt: skip
JSON_OPTIONS = tuple(number for number, words in enumerate(OPTIONS) if "--json" in words)


class _Lines(TextIOBase):
    """Looks at each line and keeps none: a file of many small records prints much."""

    def __init__(self, *, is_json: bool) -> None:
        self.is_json = is_json
        self._begun = ""

    @override
    def write(self, text: str) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            if self.is_json:
                json.loads(line)
        return len(text)


@cache
def _folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="kraftline-fuzz-")


def _packed(option: int, suffix: str, content: bytes, beside: dict[str, bytes]) -> bytes:
    """Options, kind of file, what is beside it (each behind its length), the file itself."""
    parts = [COUNT.pack(len(beside.get(name, b""))) + beside.get(name, b"") for name in BESIDE]
    return bytes([option, FILES.index(suffix)]) + b"".join(parts) + content


def _dumped(data: bytes) -> tuple[int, str]:
    """Exit code and what was complained of."""
    data = data[:READ_MAX]
    option, kind, *_ = data[:2] + bytes(2)
    words, suffix = OPTIONS[option % len(OPTIONS)], FILES[kind % len(FILES)]
    folder, position = Path(_folder().name), 2
    for name in BESIDE:
        size = 0
        if position + COUNT.size <= len(data):
            size = max(0, COUNT.unpack_from(data, position)[0])
            position += COUNT.size
        (folder / f"{SEGMENT}{name}").write_bytes(data[position : position + size])
        position += size
    path = folder / (SNAPSHOT if suffix == ".checkpoint" else f"{SEGMENT}{suffix}")
    path.write_bytes(data[position:])
    complaints = StringIO()
    with redirect_stdout(_Lines(is_json="--json" in words)), redirect_stderr(complaints):
        code = run([*words, "--files", str(path)])
    return code, complaints.getvalue()


def _is_told(found: tuple[int, str], _data: bytes, _rng: Random) -> None:
    """Check that a file that cannot be read to its end is told in one line, by name or as Kafka."""
    code, complaints = found
    assert code in (0, 1)
    if code == 1:
        assert complaints.startswith((_folder().name, 'Exception in thread "main" '))
        assert complaints.count("\n") == 1


@cache
def _dumps() -> list[bytes]:
    found = []
    for suffix in FILES:
        contents = {
            path.read_bytes(): path
            for path in sorted(GOLDEN.rglob(f"*{suffix}"))
            if path.is_file() and 0 < path.stat().st_size <= BYTES_MAX
        }
        for number, content in enumerate(sorted(contents, key=lambda c: (len(c), c))[:EACH]):
            beside = dict(_beside(contents[content])) if "index" in suffix else {}
            options = number % len(OPTIONS), JSON_OPTIONS[number % len(JSON_OPTIONS)]
            found += [_packed(option, suffix, content, beside) for option in options]
    return found


def _beside(path: Path) -> Iterator[tuple[str, bytes]]:
    for suffix in BESIDE:
        other = path.with_suffix(suffix)
        if other.is_file() and other != path:
            yield suffix, other.read_bytes()[:BYTES_MAX]


def _control_batch(rng: Random) -> bytes:
    """Control records of any types and values under a right checksum, printed as text or JSON."""
    records = [
        (rng.randrange(8), rng.randbytes(rng.randrange(20))) for _ in range(rng.randrange(1, 9))
    ]
    if rng.random() < 0.5:
        records = [(kind, bytes(2) + value[2:]) for kind, value in records]
    return _packed(rng.choice((2, 9)), ".log", encode_control_batch(records, 0, 1, 5), {})


def targets() -> list[Target]:
    """All of this file."""
    return [Target("dump-log", _dumps(), _dumped, (), _is_told, _control_batch, weight=0.5)]
