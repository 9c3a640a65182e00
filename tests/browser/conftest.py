"""A browser for the tests that need one."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.webdriver import Browser
from tests.peers import is_missing


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    if shutil.which("chromedriver") is None:
        is_missing("chromium and chromium-driver")
    opened = Browser(tmp_path)
    yield opened
    opened.close()
