"""What holds for all tests: fewer random examples in quick runs, no collector while they load.

Signals do what they do at a prompt: `&` in a script has them ignore SIGINT, `nohup` SIGHUP.
"""

import gc
import signal
from collections.abc import Generator

import pytest
from hypothesis import settings

from tests.selection import QUICK_PROFILE, QUICK_SHARE

EXAMPLES = 100  # hypothesis' own

settings.register_profile(QUICK_PROFILE, max_examples=EXAMPLES // QUICK_SHARE)


signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


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
