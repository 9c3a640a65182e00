"""`server start --format`: the voters that a folder of a dynamic quorum is formatted with."""

from pathlib import Path

import pytest

from cli import server
from cli.initial_controllers import STATIC_VOTERS
from cli.main import main
from node.configs.config import read_config
from node.identity import Identity, prepare
from storage.log_dir.meta_properties import encode_uuid
from storage.os_vfs import OsVfs
from tests.cli.node_folder import PROPERTIES
from tests.cli.test_dynamic_format import BROKER, CHECKPOINT, DYNAMIC, ONE, configure, initial
from wire.types import DirectoryId

CLUSTER_ID = "Z29sZGVuLXNoYXJlZC0wMQ"
PATH = Path("n1/server.properties")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "n1").mkdir()
    configure(tmp_path, PROPERTIES)
    return tmp_path


def formatted(*flags: str) -> Identity:
    options = server._parse(["start", str(PATH), "--format", CLUSTER_ID, *flags])
    voters = server._initial_voters(options)
    return prepare(OsVfs(), read_config(PATH), options.format, lambda: b"i" * 16, 0, voters)


@pytest.mark.parametrize("flags", [("-s",), ("--initial-controllers", ONE)])
def test_the_first_voters_are_written(folder: Path, flags: tuple[str, ...]) -> None:
    configure(folder, DYNAMIC)
    (directory_id,) = formatted(*flags).directory_ids.values()
    assert initial(folder) == {encode_uuid(directory_id): ("127.0.0.1", 29101)}
    assert flags == ("-s",) or ONE.endswith(encode_uuid(directory_id))


def test_a_formatted_folder_keeps_its_voters(folder: Path) -> None:
    configure(folder, DYNAMIC)
    formatted("--initial-controllers", ONE).locks[0].release()
    before = initial(folder)
    formatted("--initial-controllers", ONE.replace("29101", "29999"))
    assert initial(folder) == before


@pytest.mark.parametrize("text", [DYNAMIC, BROKER])
@pytest.mark.parametrize("flags", [(), ("-N",)])
def test_a_node_that_joins_has_none(folder: Path, text: str, flags: tuple[str, ...]) -> None:
    configure(folder, text)
    assert formatted(*flags).directory_ids == {"n1/log": DirectoryId(b"i" * 16)}
    assert not (folder / "n1" / "log" / CHECKPOINT).exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-s"], server.VOTERS_WITHOUT_FORMAT),
        (["-N"], server.VOTERS_WITHOUT_FORMAT),
        (["-I", ONE], server.VOTERS_WITHOUT_FORMAT),
        (["-s", "--format", "x"], STATIC_VOTERS),
        (["-I", "1@a", "--format", "x"], STATIC_VOTERS),
    ],
)
def test_flags_that_do_not_fit(
    capsys: pytest.CaptureFixture[str], folder: Path, words: list[str], said: str
) -> None:
    assert main(["server", "start", str(PATH), *words]) == 1
    assert capsys.readouterr().err == said + "\n"
    assert not (folder / "n1" / "log" / "meta.properties").exists()


def test_a_list_that_cannot_be_read(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    configure(folder, DYNAMIC)
    assert main(["server", "start", str(PATH), "--format", "x", "-I", "1@a"]) == 1
    said = "No colon following hostname could be found.\n"
    assert capsys.readouterr().err == said
    assert not (folder / "n1" / "log").exists(), "nothing is made before the list is read"
