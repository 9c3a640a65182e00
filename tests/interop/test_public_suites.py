"""Part of a public suite, fetched, installed beside the wheel of this tree, and run at its fixture.

All of them: `scripts/public_suites` (docs/public_suites.md).
"""

import re
from pathlib import Path

import pytest

from scripts.suites.commands import DONE, NOTHING_FETCHED, main
from tests.peers import is_missing

pytestmark = [pytest.mark.interop, pytest.mark.long]


def test_kafka_pythons_producers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["kafka-python", "--cache", str(tmp_path), "--", "-k", "test_producer_integration"])
    said = capsys.readouterr()
    if code == NOTHING_FETCHED:
        is_missing(said.err)
    assert code == DONE, said.err
    found = re.search(r"^\| kafka-python \| (\d+) \| (\d+) ", said.out, re.MULTILINE)
    assert found is not None, said.out
    assert int(found[1]) >= 10
