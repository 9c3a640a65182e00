"""A test that cannot run is left out on a person's machine only."""

import pytest

from tests.peers import is_missing


@pytest.mark.parametrize("name", ["CI", "KRAFTLINE_REQUIRE_PEERS"])
def test_what_is_missing_is_a_failure_where_everything_must_run(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "true")
    with pytest.raises(pytest.fail.Exception, match="needs a mill"):
        is_missing("a mill")


def test_what_is_missing_is_left_out_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("KRAFTLINE_REQUIRE_PEERS", raising=False)
    with pytest.raises(pytest.skip.Exception, match="needs a mill"):
        is_missing("a mill")
