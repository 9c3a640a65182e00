"""Settings of all tests: fewer random examples in quick runs, no import of files that a run leaves
out, no collector while they load, a time limit.

Signals do what they do at a prompt: `&` in a script has them ignore SIGINT, `nohup` SIGHUP.
"""

import gc
import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.selection import QUICK_PROFILE, QUICK_SHARE, is_left_out
from tests.time_limits import give_time, raise_through_hypothesis

EXAMPLES = 100  # hypothesis' own

settings.register_profile("default", deadline=None)  # else a busy machine fails properties
settings.load_profile("default")
settings.register_profile(QUICK_PROFILE, max_examples=EXAMPLES // QUICK_SHARE, deadline=None)


signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file of which no test is taken: None lets others decide."""
    return is_left_out(collection_path, config.option.markexpr) or None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of modules, classes and tests come to stay, and the little garbage with them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """After those of the folders, which mark what is there."""
    give_time(items)


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer() -> Generator[None, object, object]:
    """A test under hypothesis ends too when its time is over."""
    result = yield
    raise_through_hypothesis()
    return result
