"""The checksum without the package that has it."""

import sys

import crc32c as package
import pytest

from wire import checksum
from wire.checksum import _extension, _function


@pytest.fixture
def unimported(monkeypatch):
    for name in ("crc32c", "crc32c._crc32c"):
        monkeypatch.delitem(sys.modules, name)


def test_it_is_that_of_the_package(unimported):
    found = _function()
    assert found(b"123456789") == 0xE3069283
    assert found(memoryview(b"6789"), found(b"12345")) == package.crc32c(b"123456789")
    assert "crc32c" not in sys.modules


def test_a_package_that_is_imported_is_taken():
    assert _extension() is None
    assert _function() is package.crc32c


@pytest.mark.parametrize("missing", ["crc32c", "crc32c._crc32c"])
def test_a_package_of_another_layout_is_imported(missing, unimported, monkeypatch):
    find = checksum.PathFinder.find_spec

    class Finder:
        @staticmethod
        def find_spec(name, path=None):
            return None if name == missing else find(name, path)

    monkeypatch.setattr(checksum, "PathFinder", Finder)
    assert _extension() is None
    assert _function()(b"123456789") == 0xE3069283
