"""What holds for all tests: fewer random examples in quick runs, no collector while they load."""

import gc
from collections.abc import Generator

import pytest
from hypothesis import settings

from tests.selection import QUICK_PROFILE, QUICK_SHARE

EXAMPLES = 100  # hypothesis' own

settings.register_profile(QUICK_PROFILE, max_examples=EXAMPLES // QUICK_SHARE)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of modules, classes and tests come to stay: nothing of it is garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()
