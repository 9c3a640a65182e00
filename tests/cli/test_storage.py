"""Formatting and info with Kafka's texts; the folders it leaves."""

from pathlib import Path

import pytest

from cli.folders import _formatted_lines
from cli.main import main
from cli.release_versions import new_cluster_levels
from kernel.formatting import FormatRequest
from metadata.records import FeatureLevelRecord
from metadata.snapshot import decode_snapshot
from node.configs.config import read_config
from tests.cli.node_folder import CLUSTER, PROPERTIES, do_format, golden, storage


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "n1").mkdir()
    (tmp_path / "n1" / "server.properties").write_text(PROPERTIES, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("release", "name"),
    [
        ("3.9-IV0", "static-3.9.1/storage-format-n1"),
        ("3.9", "static-3.9.1/storage-format-n1"),
    ],
)
def test_format_prints_kafkas_lines(
    release: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = golden(name)
    assert do_format(capsys, "-r", release) == (0, expected["stdout"], "")


def test_lines_for_a_level_that_our_nodes_do_not_run() -> None:
    config = read_config(Path("n1/server.properties"))
    request = FormatRequest(cluster_id=CLUSTER, features={"metadata.version": 4}, now_ms=0)
    lines = _formatted_lines(["n1/log"], config, request, 4)
    assert "".join(lines) == golden("old-metadata-versions-3.9.1/storage-format-n1")["stdout"]


ELR, GROUP = "eligible.leader.replicas.version", "group.version"
SHARE, STREAMS, TRANSACTION = "share.version", "streams.version", "transaction.version"


@pytest.mark.parametrize(
    ("flags", "features"),
    [
        ((), {"metadata.version": 30, ELR: 1, GROUP: 1, TRANSACTION: 2}),
        (("-r", "3.9"), {"metadata.version": 21}),
        (("-r", "4.0"), {"metadata.version": 25, GROUP: 1, TRANSACTION: 2}),
        (("-f", "metadata.version=25"), {"metadata.version": 25, GROUP: 1, TRANSACTION: 2}),
        (("-r", "4.1"), {"metadata.version": 27, ELR: 1, GROUP: 1, TRANSACTION: 2}),
        (
            ("-r", "4.3-IV0"),
            {"metadata.version": 30, ELR: 1, GROUP: 1, SHARE: 1, STREAMS: 1, TRANSACTION: 2},
        ),
        (("-r", "4.0-IV1", "-f", f"{ELR}=1"), {"metadata.version": 23, ELR: 1, GROUP: 1}),
        (("-f", "group.version=0"), {"metadata.version": 30, ELR: 1, TRANSACTION: 2}),
        (
            ("-f", f"{ELR}=0", "-f", "kraft.version=0"),
            {"metadata.version": 30, GROUP: 1, TRANSACTION: 2},
        ),
        (
            ("-r", "4.0", "-f", f"{GROUP}=0", "-f", f"{ELR}=1"),
            {"metadata.version": 25, ELR: 1, TRANSACTION: 2},
        ),
    ],
)
def test_the_records_that_a_new_cluster_starts_with(
    flags: tuple[str, ...],
    features: dict[str, int],
    capsys: pytest.CaptureFixture[str],
    folder: Path,
) -> None:
    """As `kafka-storage format` 4.3.1 writes them; without flags what our brokers serve."""
    assert do_format(capsys, *flags)[0] == 0
    content = (folder / "n1" / "log" / "bootstrap.checkpoint").read_bytes()
    records = decode_snapshot(content).records
    found = [(r.name, r.feature_level) for r in records if isinstance(r, FeatureLevelRecord)]
    assert found == list(features.items())
    assert len(found) == len(records)


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("-r", "3.3-IV0"), "metadata.version 3.3-IV0 is not supported: a node of this software"),
        (("-f", "metadata.version=31"), "No MetadataVersion with feature level 31."),
        (("-f", f"{TRANSACTION}=3"), f"No feature:{TRANSACTION} with feature level 3"),
        (
            ("-f", "x.version=1"),
            ("Unsupported feature: x.version. Supported features are: "
            f"{ELR}, {GROUP}, kraft.version, {SHARE}, {STREAMS}, {TRANSACTION}"),
        ),
        (
            ("-r", "3.9", "-f", f"{ELR}=1"),
            f"{ELR} could not be set to 1 because it depends on metadata.version level 23",
        ),
        (
            ("-r", "3.9", "-f", "metadata.version=21"),
            "Use --release-version instead of --feature metadata.version=X to avoid ambiguity.",
        ),
        (("-f", "metadata.version=10", "-S", "SCRAM-SHA-256=[name=a,password=b]"),
         "SCRAM is only supported in metadata.version 3.5-IV2 or later."),
    ],
)  # fmt: skip
def test_levels_that_no_cluster_starts_with(
    flags: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    exit_code, _, err = do_format(capsys, *flags)
    assert exit_code == 1
    assert err.startswith(text)
    assert not (folder / "n1" / "log").exists()


def test_a_quorum_of_static_voters_starts_at_kraft_version_0() -> None:
    assert new_cluster_levels("4.3", {})["kraft.version"] == 0


def test_bootstrap_checkpoint_is_kafkas_for_the_default_level(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    assert do_format(capsys)[0] == 0
    assert main(["dump-log", "--cluster-metadata-decoder", "--files",
                 "n1/log/bootstrap.checkpoint"]) == 0  # fmt: skip
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" headerKeys: [] ")[1] for line in lines if line.startswith("|")] == [
        'SnapshotHeader {"version":0,"lastContainedLogTimestamp":0}',
        (
            'payload: {"type":"FEATURE_LEVEL_RECORD","version":0,'
            '"data":{"name":"metadata.version","featureLevel":30}}'
        ),
        (
            'payload: {"type":"FEATURE_LEVEL_RECORD","version":0,'
            '"data":{"name":"eligible.leader.replicas.version","featureLevel":1}}'
        ),
        (
            'payload: {"type":"FEATURE_LEVEL_RECORD","version":0,'
            '"data":{"name":"group.version","featureLevel":1}}'
        ),
        (
            'payload: {"type":"FEATURE_LEVEL_RECORD","version":0,'
            '"data":{"name":"transaction.version","featureLevel":2}}'
        ),
        'SnapshotFooter {"version":0}',
    ]
    assert (folder / "n1" / "log" / "bootstrap.checkpoint").stat().st_size == 355


@pytest.mark.parametrize(
    ("name", "cluster_id", "flags"),
    [
        ("storage-format-again", CLUSTER, []),
        ("storage-format-again-ignore", CLUSTER, ["--ignore-formatted"]),
        ("storage-format-bad-id", "not-a-uuid", []),
        ("storage-format-other-id", "A" * 22, ["--ignore-formatted"]),
    ],
)
def test_second_format(
    name: str, cluster_id: str, flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert do_format(capsys)[0] == 0
    expected = golden(f"static-4.3.1/{name}")
    exit_code, out, err = do_format(capsys, *flags, cluster_id=cluster_id)
    assert (exit_code, out) == (expected["exit"], expected["stdout"])
    # Kafka names the Java class, or says the line twice
    assert str(expected["stderr"]).strip().endswith(err.strip())


def test_info(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    expected = golden("static-4.3.1/storage-info-unformatted")
    info = ("info", "-c", "n1/server.properties")
    assert storage(capsys, *info) == (1, expected["stdout"], "")
    do_format(capsys)
    meta = folder / "n1" / "log" / "meta.properties"
    text = meta.read_text(encoding="utf-8")
    directory_id = next(line[13:] for line in text.splitlines() if line.startswith("directory.id="))
    expected = golden("static-4.3.1/storage-info-formatted")
    out = str(expected["stdout"]).replace("68VSW2kuPpds7RUUZwQD9A", directory_id)
    assert storage(capsys, *info) == (0, out, "")


@pytest.mark.parametrize(
    ("name", "release", "more"),
    [
        ("storage-format-3.0", "3.0-IV1", []),
        ("storage-format-3.3-scram", "3.3-IV0", ["--add-scram", "SCRAM-SHA-256=[name=z]"]),
    ],
)
def test_refusals_of_old_releases(
    name: str, release: str, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    expected = golden(f"old-metadata-versions-3.9.1/{name}")
    exit_code, _, err = do_format(capsys, "-r", release, *more)
    assert exit_code == expected["exit"]
    assert str(expected["stderr"]).strip().endswith(err.strip())


def test_a_directory_id_never_starts_with_a_dash(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """argparse would take it for a flag."""
    draws = [0xF8 << 56, 0, 1 << 56, 0]

    class Random:
        def randrange(self, stop: int) -> int:
            return draws.pop(0) % stop

    monkeypatch.setattr("cli.folders.SystemRandom", Random)
    assert do_format(capsys)[0] == 0
    properties = (folder / "n1" / "log" / "meta.properties").read_text()
    assert "directory.id=AQAAAAAAQACAAAAAAAAAAA\n" in properties
    assert draws == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (bytes(range(256)), "n1/server.properties: 'utf-8' codec can't decode byte 0x80"),
        (b"log.dirs=x\\ud800\n", "n1/server.properties: log.dirs: \\ud800 is half of a pair"),
        (b"broker.rack=\\u12\n", "n1/server.properties: broker.rack: malformed \\uxxxx"),
        (None, "n1/server.properties: No such file or directory"),
    ],
)
def test_a_file_that_is_no_properties(
    capsys: pytest.CaptureFixture[str], folder: Path, content: bytes | None, said: str
) -> None:
    path = folder / "n1" / "server.properties"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    for code, out, err in (
        do_format(capsys),
        storage(capsys, "info", "-c", "n1/server.properties"),
    ):
        assert (code, out) == (1, "")
        assert said in err
        assert err.count("\n") == 1
    assert [path.name for path in folder.iterdir()] == ["n1"]


def test_random_uuid_is_22_characters_without_a_leading_dash(capsys) -> None:
    """tests/wire/test_random_ids.py has the bits."""
    for _ in range(50):
        assert main(["storage", "random-uuid"]) == 0
        text = capsys.readouterr().out.strip()
        assert len(text) == 22
        assert not text.startswith("-")


SCRAM = 'SCRAM-SHA-256=[name=alice-boot,salt="Z29sZGVu",password=bootpw,iterations=4096]'


def test_a_scram_credential_is_the_one_that_kafka_prints_and_writes(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    code, out, _ = do_format(capsys, "--add-scram", SCRAM)
    assert code == 0
    printed = out.partition("ApiMessageAndVersion(UserScram")[2].partition(")]")[0]
    assert printed
    assert printed in str(golden("static-4.3.1/storage-format-n1")["stdout"])
    assert main(["dump-log", "--cluster-metadata-decoder", "--files",
                 "n1/log/bootstrap.checkpoint"]) == 0  # fmt: skip
    assert '"type":"USER_SCRAM_CREDENTIAL_RECORD"' in capsys.readouterr().out


@pytest.mark.parametrize(("entry", "text"), [
    ("SCRAM-SHA-1=[name=a,password=b]", "The add-scram mechanism SCRAM-SHA-1 is not supported"),
    ("SCRAM-SHA-256", "Failed to parse value"),
    ("SCRAM-SHA-256=[password=b]", "You must supply 'name'"),
    ("SCRAM-SHA-256=[name=a]", "an empty password"),
    ("SCRAM-SHA-256=[name=a,password=b,iterations=10]", "Iterations 10"),
    ("SCRAM-SHA-256=[name=a,password=b,salt=*]", "salt: * is not base64"),
])  # fmt: skip
def test_credentials_that_cannot_be(
    entry: str, text: str, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    code, _, err = do_format(capsys, "--add-scram", entry)
    assert code == 1
    assert text in err
    assert not (folder / "n1" / "log").exists(), "nothing is half applied"


@pytest.mark.parametrize("cluster_id", ["", " ", "a\nnode.id=2"])
def test_a_cluster_id_that_meta_properties_cannot_hold(
    cluster_id: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exit_code, out, err = do_format(capsys, cluster_id=cluster_id)
    assert (exit_code, out) == (1, "")
    assert err.startswith(f"cluster id {cluster_id!r}; allowed: 1 to 1000 printable ASCII")
    assert not (folder / "n1" / "log").exists()


@pytest.mark.parametrize("cluster_id", ["bad id!!", "a/b", "a=b", ":b", "#x"])
def test_cluster_ids_that_kafka_takes_too(
    cluster_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert do_format(capsys, cluster_id=cluster_id)[0] == 0
    _, out, _ = storage(capsys, "info", "-c", "n1/server.properties")
    assert f"cluster.id={cluster_id}, " in out
