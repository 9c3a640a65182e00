"""Needs of a test that a machine may lack: Java, a browser, the right to mount.

Without it the test is left out on a person's machine and fails where everything must run:
`scripts/test --all` (sets KRAFTLINE_REQUIRE_PEERS) and continuous integration (sets CI).
"""

import os
from collections.abc import Mapping
from typing import NoReturn

import pytest


def must_be_there(environment: Mapping[str, str]) -> bool:
    """True if a test that cannot run is a failure."""
    return bool(environment.get("KRAFTLINE_REQUIRE_PEERS")) or environment.get("CI") == "true"


def is_missing(what: str) -> NoReturn:
    """End the test that needs `what`: skipped, or failed where everything must run."""
    text = f"this test needs {what}"
    if must_be_there(os.environ):
        pytest.fail(text)
    pytest.skip(text)
