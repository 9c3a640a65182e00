"""`storage format` of a quorum whose voters are records: flags, configurations, what is written."""

from pathlib import Path

import msgspec
import pytest

from kernel.quorum.voter_records import membership_of
from metadata.snapshot import decode_snapshot
from storage.log_dir.meta_properties import encode_uuid, read_meta_properties
from storage.os_vfs import OsVfs
from tests.cli.node_folder import PROPERTIES, do_format, golden


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "n1").mkdir()
    (tmp_path / "n1" / "server.properties").write_text(PROPERTIES, encoding="utf-8")
    return tmp_path


DYNAMIC = PROPERTIES.replace(
    "controller.quorum.voters=1@127.0.0.1:29101",
    "controller.quorum.bootstrap.servers=127.0.0.1:29101",
)
BROKER = DYNAMIC.replace("roles=controller", "roles=broker").replace(
    "listeners=CONTROLLER", "listeners=PLAINTEXT"
).replace("CONTROLLER:PLAINTEXT", "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT")  # fmt: skip
ONE = "1@127.0.0.1:29101:QUFBQUFBQUFBQUFBQUFBAQ"
CHECKPOINT = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"


def initial(folder: Path) -> dict[str, tuple[str, int]]:
    """Directory id -> host and port of each voter of the checkpoint."""
    controls = decode_snapshot((folder / "n1" / "log" / CHECKPOINT).read_bytes()).control_records
    voters = membership_of(controls).voters
    assert voters is not None
    assert {e.listener for v in voters.by_id.values() for e in v.endpoints} == {"CONTROLLER"}
    return {
        encode_uuid(voter.key.directory_id or b""): (each.host, each.port)
        for voter in voters.by_id.values()
        for each in voter.endpoints
    }


def directory_id(folder: Path) -> str:
    found = read_meta_properties(OsVfs(), str(folder / "n1" / "log"))
    assert found is not None
    assert found.directory_id is not None
    return encode_uuid(found.directory_id)


def configure(folder: Path, text: str) -> None:
    (folder / "n1" / "server.properties").write_text(text, encoding="utf-8")


@pytest.mark.parametrize(("flags", "kind", "is_voter"), [
    (("--initial-controllers", ONE), "dynamic metadata voter", True),
    (("-I", ONE.replace("1@", "2@")), "dynamic metadata", False),
    (("-s",), "dynamic metadata voter", True),
    (("-N",), "metadata", None),
])  # fmt: skip
def test_a_controller_of_a_dynamic_quorum(
    flags: tuple[str, ...],
    kind: str,
    *,
    is_voter: bool | None,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure(folder, DYNAMIC)
    code, out, err = do_format(capsys, *flags)
    assert (code, err) == (0, "")
    assert f"Formatting {kind} directory n1/log with metadata.version 4.3-IV0.\n" in out
    assert "kraft.version" not in out, "it is no record of the bootstrap checkpoint"
    if is_voter is None:
        assert not (folder / "n1" / "log" / "__cluster_metadata-0").exists()
        return
    ((voter, where),) = initial(folder).items()
    assert where == ("127.0.0.1", 29101)
    assert (directory_id(folder) == voter) == is_voter


def test_json_of_the_initial_voters(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    configure(folder, DYNAMIC)
    out = do_format(capsys, "--standalone", "--json")[1]
    answer = msgspec.json.decode(out)
    assert answer["kraft_version"] == 1
    assert answer["initial_voters"] == [
        {
            "id": 1,
            "directory_id": directory_id(folder),
            "endpoints": ["CONTROLLER://127.0.0.1:29101"],
        }
    ]


@pytest.mark.parametrize("flags", [(), ("--no-initial-controllers",)])
def test_a_broker_needs_no_flag(
    flags: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(folder, BROKER)
    code, out, _ = do_format(capsys, *flags, "--json")
    assert code == 0
    assert '"kraft_version":1,"initial_voters":[]' in out


def test_static_voters_stay_static(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    """As in Kafka `--no-initial-controllers` is no error then."""
    code, out, _ = do_format(capsys, "--no-initial-controllers", "--json")
    assert code == 0
    assert '"kraft_version":0,"initial_voters":[]' in out
    assert not (folder / "n1" / "log" / "__cluster_metadata-0").exists()


def test_the_advertised_listener_is_the_endpoint(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    """The first of controller.listener.names; of a listener without a host `localhost`."""
    configure(folder, DYNAMIC + "advertised.listeners=CONTROLLER://c.example:7\n")
    assert do_format(capsys, "-s")[0] == 0
    assert list(initial(folder).values()) == [("c.example", 7)]
    before = directory_id(folder)
    (folder / "n1" / "log" / "meta.properties").unlink()
    configure(folder, DYNAMIC.replace("//127.0.0.1:29101", "//:29101"))
    assert do_format(capsys, "-s")[0] == 0
    assert list(initial(folder).values()) == [("localhost", 29101)]
    assert directory_id(folder) != before


CONFLICT = "You cannot specify controller.quorum.voters and format the node with"
TO_0 = "Cannot set kraft.version to 0 if controller.quorum.voters is empty and one of the flags"
TO_1 = "Cannot set kraft.version to 1 unless controller.quorum.voters is empty and one of the flags"


@pytest.mark.parametrize(("text", "flags", "said"), [
    (PROPERTIES, ("--standalone",), CONFLICT),
    (PROPERTIES, ("-I", ONE), CONFLICT),
    (PROPERTIES, ("-f", "kraft.version=1"), TO_1),
    (PROPERTIES, ("-N", "-f", "kraft.version=1"), TO_1),
    (DYNAMIC, ("-s", "-f", "kraft.version=0"), TO_0),
    (DYNAMIC, ("-N", "-f", "kraft.version=0"), TO_0),
    (DYNAMIC, ("-s", "-f", "kraft.version=2"), "No feature:kraft.version with feature level 2"),
    (DYNAMIC, ("-I", ""), "No voters given."),
    (BROKER, ("-s",), "You can only use --standalone on a controller."),
    (BROKER, ("-f", "kraft.version=0"), TO_0),
    (DYNAMIC.replace("node.id=1", "node.id=x"), ("-s",), "Invalid value x for configuration"),
    (DYNAMIC.replace("bootstrap.servers=127.0.0.1:29101", "bootstrap.servers= "), ("-s",),
     "If using process.roles, either controller.quorum.bootstrap.servers must contain the set"),
])  # fmt: skip
def test_flags_that_do_not_fit_the_configuration(
    text: str,
    flags: tuple[str, ...],
    said: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure(folder, text)
    code, out, err = do_format(capsys, *flags)
    assert (code, out) == (1, "")
    assert err.startswith(said)
    assert err.count("\n") == 1
    assert not (folder / "n1" / "log").exists()


@pytest.mark.parametrize("flags", [("-s", "-N"), ("-s", "-I", ONE), ("-N", "-I", ONE)])
def test_one_kind_of_voters(
    flags: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(folder, DYNAMIC)
    with pytest.raises(SystemExit) as left:
        do_format(capsys, *flags)
    assert left.value.code == 1
    assert "not allowed with argument" in capsys.readouterr().err


def test_without_a_flag(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    configure(folder, DYNAMIC)
    expected = golden("dynamic-4.3.1/storage-format-dynamic-no-flag")
    exit_code, _, err = do_format(capsys)
    assert exit_code == expected["exit"]
    assert str(expected["stderr"]).strip().endswith(err.strip())
