"""`kraftline recover` on folders of Kafka: what it prints, refuses and writes, and exit codes."""

import fcntl
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from cli.main import main
from cli.offline import recover_records
from cli.offline.recover_records import NamedRecord, records_between
from wire.batches.batch import Batch

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "storage"
VOTERS = "1@127.0.0.1:29101,2@127.0.0.1:29102,3@127.0.0.1:29103"
IDS = {1: "2wkc7HCOayuXBghnhvWTsw", 2: "hWe5WY36sOJ8DIpOWECK3A", 3: "z4tMVSaVn2DplJklQ_dqpA"}
OTHER = "MTIzNDU2Nzg5MDEyMzQ1Ng"
PARTITION = "__cluster_metadata-0"


class Folders:
    """Copies of recorded folders, and the command run on them."""

    def __init__(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.path = path
        self._capsys = capsys

    def put(self, recorded: str, name: str = "n1") -> str:
        shutil.copytree(GOLDEN / recorded, self.path / name)
        for each in (self.path / name).rglob("*"):
            each.chmod(0o755 if each.is_dir() else 0o644)
        return str(self.path / name)

    def config(self, *, voters: str = VOTERS) -> str:
        path = self.path / "server.properties"
        path.write_text(
            "process.roles=controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
            f"listeners=CONTROLLER://127.0.0.1:29101\nlog.dirs={self.path}/n1\n"
            f"controller.quorum.voters={voters}\n"
        )
        return str(path)

    def run(self, *words: str) -> tuple[int, str, str]:
        code = main(["recover", *words])
        printed = self._capsys.readouterr()
        return code, printed.out, printed.err

    def json(self, *words: str) -> Any:
        return json.loads(self.run(*words, "--json")[1])

    def state(self) -> dict[str, Any]:
        return dict(json.loads((self.path / "n1" / PARTITION / "quorum-state").read_text()))

    def content(self) -> dict[str, bytes]:
        """All files but the locks, which reading takes."""
        files = [each for each in self.path.rglob("*") if each.is_file() and each.name != ".lock"]
        return {str(each): each.read_bytes() for each in files}


@pytest.fixture
def folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Folders:
    return Folders(tmp_path, capsys)


def test_one_of_three_needs_the_flag(folders: Folders) -> None:
    target = folders.put("kraft-upgrade/n1")
    config = folders.config()
    before = folders.content()
    code, text, _ = folders.run("plan", "-c", config)
    assert code == 1
    assert f"  {target}: node 1:{IDS[1]}; kraft.version 1; epoch 1; records from 0 to 87" in text
    assert "Proven committed: the records below 85.\n" in text
    assert f"in {target}, with the log of {target} below offset 87, in epoch 1001.\n" in text
    assert "    offset 85 epoch 1 BROKER_REGISTRATION_CHANGE_RECORD 101\n" in text
    assert f"  of the snapshot at 85: voters 1:{IDS[1]}, 2:{IDS[2]}, 3:{IDS[3]}; here 1:" in text
    assert "of the configuration" not in text
    assert f"missing 2:{IDS[2]}, 3:{IDS[3]}; proves nothing\n" in text
    assert "NOT PROVEN: 1 of 3 voters are here, 2 are needed: " in text
    assert "committed, in epoch 1 from offset 87 on, in later epochs from 85 on." in text
    assert f"Must be empty before they return: 2:{IDS[2]}, 3:{IDS[3]}\n" in text
    code, text, error = folders.run("apply", "-c", config)
    assert (code, error.count("\n")) == (1, 1)
    assert "--accept-data-loss" in error
    assert folders.run("apply", "-c", config, "--accept-data-loss", "--dry-run")[0] == 1
    assert folders.content() == before, "nothing is written"
    code, text, error = folders.run("apply", "-c", config, "--accept-data-loss")
    assert (code, error) == (0, "")
    assert f"Recovered {target}; audit: {target}/recovery-0000001001.json\n" in text
    assert "Start node 1, then the brokers.\n" in text
    assert f"the folders of 2:{IDS[2]}, 3:{IDS[3]} before they start: by its directory id" in text
    assert folders.state() | {"data_version": 1, "leaderEpoch": 1001} == folders.state()
    audit = json.loads((folders.path / "n1" / "recovery-0000001001.json").read_text())
    assert (audit["state"], audit["accepted_data_loss"]) == ("done", True)
    assert json.loads(audit["quorum_state_before"])["leaderEpoch"] == 1
    assert audit["folders"][0]["end_offset"] == 87


def test_two_of_three_and_a_broker_prove_that_nothing_is_missing(folders: Folders) -> None:
    folders.put("kraft-upgrade/n1")
    others = [folders.put(f"kraft-upgrade/{name}", name) for name in ("n2", "n101")]
    config = folders.config(voters="")
    code, text, _ = folders.run("plan", "-c", config, *others)
    assert code == 0
    assert "No committed record is missing.\n" in text
    assert "NOT PROVEN" not in text
    assert "Kept, though" not in text
    assert f"missing 3:{IDS[3]}; proves the records below 87 committed\n" in text
    found = folders.json("plan", "-c", config, *others)
    assert (found["is_proven"], found["committed_end_offset"], found["source"]) == (
        True, 87, str(folders.path / "n1"),
    )  # fmt: skip
    assert [each["id"] for each in found["wiped_before_return"]] == [2, 3]
    assert [each["counts_as_voter"] for each in found["folders"]] == [True] * 3
    found = folders.json("plan", "-c", config, others[1], "--copy", others[0])
    assert not found["is_proven"], "a copy is no evidence"
    assert [each["counts_as_voter"] for each in found["folders"]] == [True, True, False]
    _, text, _ = folders.run("plan", "-c", config, others[1], "--copy", others[0])
    assert text.count("counts as no voter's: ") == 1


def test_records_that_only_another_folder_has(folders: Folders) -> None:
    """The log of node 2 is cut, and one batch of it is of a later epoch than node 1's."""
    folders.put("kraft-upgrade/n1")
    other = folders.put("kraft-upgrade/n2", "n2")
    log = Path(other) / PARTITION / "00000000000000000000.log"
    content = bytearray(log.read_bytes())
    last = content.rindex((86).to_bytes(8, "big"))
    content[last + 12 : last + 16] = (2).to_bytes(4, "big")  # not covered by the checksum
    log.write_bytes(content)
    found = folders.json("plan", "-c", folders.config(), other)
    (left,) = found["left_behind"]
    assert (left["folder"], left["begin_offset"], left["end_offset"]) == (
        str(folders.path / "n1"), 86, 87,
    )  # fmt: skip
    assert [(each["offset"], each["type"]) for each in left["records"]] == [(86, "NO_OP_RECORD")]
    _, text, _ = folders.run("plan", "-c", folders.config(), other)
    assert "Dropped from " in text
    assert "offsets 86 to 87; none was committed.\n    offset 86 epoch 1 NO_OP_RECORD\n" in text
    answer = folders.json("apply", "-c", folders.config(), other)
    assert answer["epoch"] == 1002
    audit = Path(answer["audit"])
    audit.write_bytes(audit.read_bytes().replace(b'"done"', b'"begun"'))
    (Path(other) / ".lock").unlink()
    assert folders.json("apply", "-c", folders.config())["is_resumed"]
    assert (Path(other) / ".lock").exists(), "the log that may have to be copied is locked too"
    assert folders.json("plan", "-c", folders.config())["end_offset"] == 89


def test_a_static_quorum_needs_a_word_about_its_cluster_id(folders: Folders) -> None:
    folders.put("static")
    config = folders.config()
    words = ("apply", "-c", config, "--accept-data-loss")
    before = folders.content()
    code, _, error = folders.run(*words)
    assert (code, error.count("\n")) == (2, 1)
    assert "kraft.version is 0: no directory id tells" in error
    code, _, error = folders.run(*words, "--cluster-id", "Z29sZGVuLXNoYXJlZC0wMQ")
    assert (code, "is the cluster id that old folders have" in error) == (2, True)
    assert folders.run(*words, "--cluster-id", " ")[0] == 2
    assert folders.content() == before
    code, text, _ = folders.run(*words, "--cluster-id", OTHER)
    assert code == 0
    assert "Set controller.quorum.voters=1@127.0.0.1:29101 on every node.\n" in text
    assert f"relabel --from Z29sZGVuLXNoYXJlZC0wMQ --cluster-id {OTHER} DIR..." in text
    assert "of every broker, and the other ones of node 1.\n" in text
    assert "the folders of 2, 3 before they start: INCONSISTENT_CLUSTER_ID.\n" in text
    assert folders.state()["currentVoters"] == [{"voterId": 1}]
    assert f"cluster.id={OTHER}\n" in (folders.path / "n1" / "meta.properties").read_text()


def test_a_folder_without_quorum_state_says_nothing_of_the_voters(folders: Folders) -> None:
    target = folders.put("static")
    config = folders.config()
    code, text, _ = folders.run("plan", "-c", config)
    assert (code, "    and 44 more: --json\n" in text) == (1, True)
    (Path(target) / PARTITION / "quorum-state").unlink()
    with (Path(target) / PARTITION / "00000000000000000619.log").open("ab") as file:
        file.write(b"torn")
    code, text, _ = folders.run("plan", "-c", config)
    assert code == 1
    assert "NOT PROVEN: 0 of 3 voters are here" in text
    assert "; its last bytes are torn (batch header is cut: 4 bytes are left)\n" in text


def test_voters_that_were_added_and_removed(folders: Folders) -> None:
    """A log of Kafka's from its formatting on."""
    target = Path(folders.put("kraft-upgrade/n1")) / PARTITION
    shutil.rmtree(target)
    shutil.copytree(GOLDEN.parent / "metadata" / "dynamic-4.3.1", target)
    for each in target.glob("*-000000000[1-9].checkpoint"):
        each.unlink()
    code, text, _ = folders.run("plan", "-c", folders.config())
    assert code == 1
    assert "  of the checkpoint 0-0: voters 1:" in text
    lines = [
        line.split("voters ")[1].split(";")[0] for line in text.splitlines() if "  from" in line
    ]
    sets = ["".join(each.split(":")[0] for each in line.split(", ")) for line in lines]
    assert sets == ["123", "1234", "124", "1245", "245", "245"]


def test_a_static_quorum_that_keeps_its_cluster_id(folders: Folders) -> None:
    folders.put("static")
    words = ("--accept-data-loss", "--keep-cluster-id")
    code, text, _ = folders.run("apply", "-c", folders.config(), *words)
    assert code == 0
    assert "relabel" not in text
    assert "nothing refuses it but the configuration.\n" in text


@pytest.mark.parametrize(("voters", "said"), [
    ("1@127.0.0.1:29101", "controller.quorum.voters names [1], quorum-state of "),
    ("", "kraft.version is 0, where no record names the voters: the configuration must have "),
    ("1@", "`1@` is not in the form"),
])  # fmt: skip
def test_static_voters_that_are_not_those_of_the_folder(
    voters: str, said: str, folders: Folders
) -> None:
    folders.put("static")
    code, out, error = folders.run("plan", "-c", folders.config(voters=voters))
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert said in error


def test_a_folder_in_use_is_refused(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    """As another process has it; locks of one process do not meet."""
    target = folders.put("kraft-upgrade/n1")

    def taken(*_: object) -> None:
        raise BlockingIOError

    monkeypatch.setattr(fcntl, "lockf", taken)
    for words in (("plan", "-c", folders.config()), ("relabel", "--from", "a", target)):
        more = ("--cluster-id", "b") if words[0] == "relabel" else ()
        code, _, error = folders.run(*words, *more)
        assert (code, error.count("\n")) == (2, 1)
        assert "a node with this log directory is running" in error


def test_bad_folders_are_one_line(folders: Folders) -> None:
    target = folders.put("kraft-upgrade/n1")
    stranger = folders.put("static", "n9")
    nothing = folders.path / "nothing"
    nothing.mkdir()
    config = folders.config()
    missing = str(folders.path / "missing")
    for folder, said in (
        (stranger, f"{stranger} is of cluster "),
        (str(nothing), f"{nothing}: no meta.properties"),
        (missing, f"{missing}: no such directory"),
    ):
        code, out, error = folders.run("plan", "-c", config, folder)
        assert (code, out, error.count("\n")) == (2, "", 1)
        assert error.startswith(said)
    state = Path(target) / PARTITION / "quorum-state"
    state.write_text("")
    code, _, error = folders.run("plan", "-c", config)
    assert (code, error.count("\n")) == (2, 1)
    assert str(state) in error
    assert folders.run("plan", "-c", missing)[0] == 2


def test_an_interrupted_recovery_is_finished(folders: Folders) -> None:
    target = folders.put("kraft-upgrade/n1")
    config = folders.config()
    folders.run("apply", "-c", config, "--accept-data-loss")
    path = folders.path / "n1" / "recovery-0000001001.json"
    done = path.read_bytes()
    path.write_bytes(done.replace(b'"done"', b'"begun"'))
    code, text, _ = folders.run("plan", "-c", config)
    assert "A recovery to epoch 1001 was interrupted: `apply` finishes it.\n" in text
    assert folders.run("apply", "-c", config, "--dry-run") == (code, text, "")
    code, text, _ = folders.run("apply", "-c", config)
    assert code == 0
    assert text.startswith(f"Finished the interrupted recovery {target}; audit: {path}\n")
    assert path.read_bytes() == done
    assert folders.state()["leaderEpoch"] == 1001
    answer = folders.json("apply", "-c", config)
    assert (answer["is_resumed"], answer["epoch"]) == (False, 2001)


def test_relabelling_of_brokers(folders: Folders) -> None:
    broker, other = folders.put("kraft-upgrade/n101", "n101"), folders.put("static", "n9")
    old = "Z29sZGVuLXNoYXJlZC0wMw"
    words = ("relabel", "--from", old, "--cluster-id", OTHER)
    before = folders.content()
    code, out, error = folders.run(*words, broker, other)
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert error.startswith(f"{other} is of cluster ")
    (folders.path / "nothing").mkdir()
    code, out, error = folders.run(*words, broker, str(folders.path / "nothing"))
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert folders.run(*words, broker, "--dry-run")[:2] == (0, "")
    assert folders.content() == before, "all are checked before one is written"
    assert folders.run(*words, broker)[1] == f"{broker}: cluster.id is {OTHER}\n"
    assert folders.json(*words, broker) == {"cluster_id": OTHER, "relabelled": []}
    assert f"cluster.id={OTHER}\n" in (Path(broker) / "meta.properties").read_text()


def test_records_have_the_names_of_what_they_are_about(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = {
        each.type: each.name
        for each in records_between(folders.put("kraft-upgrade/n1"), 0, 87)
        if each.name
    }
    assert named["TOPIC_RECORD"] == named["PARTITION_RECORD"].rpartition("-")[0]
    assert named["FEATURE_LEVEL_RECORD"]
    assert named["KRaftVoters"] == "voters 1,2,3"
    assert (named["LeaderChange"], named["KRaftVersion"]) == ("1", "1")
    assert named["BROKER_REGISTRATION_CHANGE_RECORD"] == "101"
    folder = str(folders.path / "n1")
    assert records_between(folder, 9, 9) == []
    names = [each.name for each in records_between(folder, 80, 82)]
    assert names == ["up-s-0", "up-s-1"], "their topic was made before"
    named_of, read = recover_records._named, []

    def noted(batch: Batch, topics: dict[bytes, str]) -> list[NamedRecord]:
        read.append(batch.header.base_offset)
        return named_of(batch, topics)

    monkeypatch.setattr(recover_records, "_named", noted)
    assert [each.offset for each in records_between(folder, 84, 86)] == [84, 85]
    assert read == [70, 85], "one batch has the level and the voters behind others"
