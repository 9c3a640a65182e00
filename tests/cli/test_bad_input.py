"""Command lines that cannot be: one clear line, exit code 1, nobody is asked."""

import json
from base64 import b64decode
from pathlib import Path

import pytest

from cli.admin import configs
from cli.admin.config_entities import Change
from cli.admin.configs import parse_pairs
from cli.admin.controller_properties import controller_of
from cli.admin.quotas import java_double
from cli.admin.reassignment_plan import proposed
from cli.admin.scram import Credential
from cli.arguments import UsageError
from cli.main import main
from tests.cli.recorded_cluster import RecordedCluster

S = ["--bootstrap-server", "127.0.0.1:1"]
HUGE = "9" * 50
LONG = "x" * 40_000


def run(words: list[str]) -> int:
    try:
        return main(words)
    except SystemExit as left:
        return int(left.code)


BAD = [
    (["topics", *S, "--create"], 'Missing required argument "[topic]"'),
    (["topics", *S, "--create", "--topic", ""], "must not be empty"),
    (["topics", *S, "--create", "--topic", LONG], "are more than 32767"),
    (["topics", *S, "--create", "--topic", "t", "--partitions", "x"], "not a whole number"),
    (["topics", *S, "--create", "--topic", "t", "--partitions", HUGE], "not a whole number"),
    (["topics", *S, "--create", "--topic", "t", "--partitions", "1.5"], "not a whole number"),
    (["topics", *S, "--create", "--list"], "exactly one action"),
    (["topics", *S, "--list", "--partitions", "3"],
     'Option "[list]" can\'t be used with option "[partitions]"'),
    (["topics", *S, "--describe", "--at-min-isr-partitions", "--unavailable-partitions"],
     "can't be used with option"),
    (["topics", *S, "--alter", "--topic", "t"], 'Missing required argument "[partitions]"'),
    (["topics", *S, "--list", "--no-such-flag"], "unrecognized arguments: --no-such-flag"),
    (["topics", *S, "--lis"], "unrecognized arguments: --lis"),
    (["topics", "--bootstrap-server", "nonsense", "--list"], "Invalid url in bootstrap.servers"),
    (["topics", "--bootstrap-server", "h:99999", "--list"], "Invalid url in bootstrap.servers"),
    (["topics", "--bootstrap-server", "", "--list"], "Invalid url in bootstrap.servers"),
    (["configs", *S], "exactly one action: --describe, --alter"),
    (["configs", *S, "--describe"], "At least one entity type must be specified"),
    (["configs", *S, "--describe", "--entity-type", "planets"], "Invalid entity type planets"),
    (["configs", *S, "--alter", "--entity-type", "topics", "--entity-name", "t"],
     "At least one of --add-config"),
    (["configs", *S, "--alter", "--entity-type", "topics", "--add-config", "a=b"],
     "must be specified with --alter"),
    (["configs", *S, "--alter", "--entity-type", "topics", "--entity-name", "t", "--add-config",
      "a"], 'must be in the format "key=val"'),
    (["configs", *S, "--alter", "--entity-type", "topics", "--entity-name", "t", "--delete-config",
      ","], "no config is named"),
    (["configs", *S, "--alter", "--topic", "t", "--add-config-file", "nowhere.properties"],
     "nowhere.properties: "),
    (["configs", *S, "--describe", "--entity-type", "brokers", "--entity-name", "one"],
     "must be a valid integer broker id, but it is: one"),
    (["configs", *S, "--describe", "--entity-type", "brokers", "--entity-name", HUGE],
     "must be a valid integer broker id"),
    (["configs", *S, "--describe", "--entity-type", "topics", "--entity-default"],
     "--entity-default is not allowed"),
    (["configs", *S, "--describe", "--entity-type", "topics", "--entity-type", "users"],
     "Only 'users' and 'clients'"),
    (["configs", *S, "--describe", "--topic", "a", "--entity-type", "topics"],
     "should not be used in conjunction"),
    (["configs", *S, "--bootstrap-controller", "h:1", "--describe", "--topic", "a"],
     "Only one of --bootstrap-server or --bootstrap-controller"),
    (["configs", "--describe", "--topic", "a"], "must be specified"),
    (["features", *S], "required"),
    (["features", *S, "explode"], "invalid choice: 'explode'"),
    (["acls", *S], "exactly one action"),
    (["acls", *S, "--add", "--topic", "t"], "--allow-principal, --deny-principal"),
    (["acls", *S, "--add", "--allow-principal", "User:a"], "at least one resource"),
    (["acls", *S, "--add", "--allow-principal", "alice", "--topic", "t"],
     "principalType:principalName but got alice"),
    (["acls", *S, "--add", "--allow-principal", "User:a", "--topic", "t", "--operation", "Fly"],
     "'Fly' is not an operation"),
    (["acls", *S, "--add", "--allow-principal", "User:a", "--topic", "t",
      "--resource-pattern-type", "match"], "is not valid when adding acls"),
    (["acls", *S, "--list", "--resource-pattern-type", "fuzzy"], "'fuzzy' is not valid"),
    (["acls", *S, "--add", "--producer", "--allow-principal", "User:a"], "must specify a --topic"),
    (["acls", *S, "--remove", "--principal", "User:a", "--topic", "t"], "only available if --list"),
    (["reassign", *S], "exactly one action"),
    (["reassign", *S, "--execute"], 'Missing required argument "[reassignment-json-file]"'),
    (["reassign", *S, "--execute", "--reassignment-json-file", "nowhere"], "nowhere: "),
    (["reassign", *S, "--list", "--timeout", "0"],
     'Option "[timeout]" can\'t be used with action "[list]"'),
    (["reassign", *S, "--list", "--additional"],
     'Option "[additional]" can\'t be used with action "[list]"'),
    (["reassign", "--bootstrap-controller", "h:1", "--verify", "--reassignment-json-file", "p"],
     'Option "[bootstrap-controller]" can\'t be used with action "[verify]"'),
    (["reassign", *S, "--execute", "--reassignment-json-file", "p", "--throttle", "0"],
     "--throttle must be a number above 0"),
    (["reassign", *S, "--execute", "--reassignment-json-file", "p",
      "--replica-alter-log-dirs-throttle", "0"],
     "--replica-alter-log-dirs-throttle must be a number above 0"),
    (["reassign", *S, "--generate", "--broker-list", "1"],
     'Missing required argument "[topics-to-move-json-file]"'),
    (["leader-election", *S], "election-type"),
    (["leader-election", *S, "--election-type", "free"], "Unknown election type 'free'"),
    (["leader-election", *S, "--election-type", "unclean"], "One and only one"),
    (["leader-election", *S, "--election-type", "unclean", "--topic", "t"],
     "Missing required option(s): partition"),
    (["leader-election", *S, "--election-type", "unclean", "--topic", "t", "--partition", "-1"],
     "not a whole number"),
    (["cluster", "unregister", *S, "--id", "x"], "not a whole number"),
    (["cluster", "unregister", *S], "required"),
    (["cluster", "cluster-id"], "must be specified"),
    (["dump-log"], "This tool helps to parse a log file"),
    (["dump-log", "--print-data-log"], 'Missing required argument "[files]"'),
    (["dump-log", "--files", "x.log", "--key-decoder-class", "x.Y"], "invalid choice: 'x.Y'"),
    (["dump-log", "--files", "x.log", "--max-bytes", "0"], "not a whole number from 1"),
    (["storage"], "required"),
    (["storage", "format", "-t", "x"], "required"),
    (["storage", "format", "-t", "x", "-c", "nowhere"], "nowhere: "),
    (["storage", "version-mapping", "-r", "9.9"], "Unknown metadata.version '9.9'"),
    (["storage", "feature-dependencies", "-f", "x"], "equals sign not found"),
    (["storage", "feature-dependencies", "-f", "x=1"], "Unknown feature: x"),
    (["storage", "feature-dependencies", "-f", "group.version=9"], "group.version"),
    (["storage", "feature-dependencies", "-f", "group.version=" + HUGE], "unable to parse"),
    (["features", "feature-dependencies", "--feature", "metadata.version=99"], "99"),
    (["completion", "tcsh"], "invalid choice: 'tcsh'"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "text"), BAD, ids=lambda value: str(value)[:60])
def test_one_clear_line(
    words: list[str], text: str, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert run(words) == 1
    shown = capsys.readouterr()
    first = shown.err.splitlines()[0]
    assert text in first
    assert len(first) < 900
    assert "no node can be reached" not in shown.err + shown.out
    assert "Traceback" not in shown.err


@pytest.mark.parametrize(("content", "text"), [
    ("", "not JSON"),
    ("[]", "not a JSON object"),
    ("{}", "'partitions' is not a list"),
    ('{"partitions": []}', "with at least one"),
    ('{"version": 2, "partitions": [{}]}', "Not supported version field value 2"),
    ('{"partitions": [{"topic": 1, "partition": 0}]}', "'topic' is 1"),
    ('{"partitions": [{"topic": "t", "partition": -1}]}', "'partition' of t is -1"),
    ('{"partitions": [{"topic": "t", "partition": 0}]}', "'replicas' of t-0"),
    ('{"partitions": [{"topic": "t", "partition": 0, "replicas": []}]}', "'replicas' of t-0"),
    ('{"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 1]}]}', "duplicate entries"),
    ('{"partitions": [{"topic": "t", "partition": 0, "replicas": [99999999999]}]}', "broker ids"),
    ('{"partitions": [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": [7]}]}',
     "'log_dirs' of t-0 is not a list of log directories"),
    ('{"partitions": [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": "/d"}]}',
     "'log_dirs' of t-0 is not a list of log directories"),
    ('{"partitions": [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": []}]}',
     "Size of replicas list [1] is different from size of log dirs list [] for partition t-0"),
    (('{"partitions": [{"topic": "t", "partition": 0, "replicas": [1]},'
     ' {"topic": "t", "partition": 0, "replicas": [2]}]}'), "duplicate topic partitions: t-0"),
])  # fmt: skip
def test_files_of_reassign(
    content: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "plan.json"
    path.write_text(content)
    assert run(["reassign", *S, "--execute", "--reassignment-json-file", str(path)]) == 1
    shown = capsys.readouterr()
    assert text in shown.err
    assert len(shown.err.splitlines()) == 1


def test_files_of_leader_election(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "partitions.json"
    row = {"topic": "t", "partition": 1}
    path.write_text(json.dumps({"partitions": [row, row]}))
    words = ["--election-type", "preferred", "--path-to-json-file", str(path)]
    assert run(["leader-election", *S, *words]) == 1
    assert "duplicate partitions: t-1" in capsys.readouterr().err


@pytest.mark.parametrize(("change", "text"), [
    ("consumer_byte_rate=fast", "Cannot parse quota configuration value"),
    ("consumer_byte_rate=nan", "Cannot parse quota configuration value"),
    ("SCRAM-SHA-256=[iterations=1,password=p]", "Iterations 1 should be from 4096 to 16384"),
    ("SCRAM-SHA-256=[iterations=x,password=p]", "Iterations x"),
    ("SCRAM-SHA-256=[iterations=5000]", "an empty password"),
    ("SCRAM-SHA-256=[secret=p]", "'secret'"),
    ("SCRAM-SHA-256=[password=p],consumer_byte_rate=1", "both quota and SCRAM"),
])  # fmt: skip
def test_values_for_users(change: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--alter", "--entity-type", "users", "--entity-name", "u", "--add-config", change]
    cluster = RecordedCluster("static-4.3.1", 340)
    assert configs.run([*S, *words], cluster.opened) == 1
    shown = capsys.readouterr()
    assert text in shown.err
    assert len(shown.err.splitlines()) == 1


def test_pairs_keep_lists_together() -> None:
    assert parse_pairs("a=b,c=[d,e],f=[g=h,i=j], k = l ") == {
        "a": "b", "c": "d,e", "f": "g=h,i=j", "k": "l"
    }  # fmt: skip
    assert parse_pairs("a=") == {"a": ""}
    with pytest.raises(UsageError):
        parse_pairs("=b")


@pytest.mark.parametrize(("value", "text"), [
    (10.0, "10.0"), (12.5, "12.5"), (0.0, "0.0"), (1e7, "1.0E7"), (9999999.0, "9999999.0"),
    (12345678.9, "1.23456789E7"), (1e-4, "1.0E-4"), (2.0**53, "9.007199254740992E15"),
    (1.5e300, "1.5E300"), (-2e9, "-2.0E9"),
])  # fmt: skip
def test_numbers_as_java_prints_them(value: float, text: str) -> None:
    assert java_double(value) == text


def test_a_credential_is_the_one_that_rfc_7677_computes() -> None:
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = Credential("SCRAM-SHA-256", "password=pencil,iterations=4096").salted(salt)
    assert salted.hex() == "c4a49510323ab4f952cac1fa99441939e78ea74d6be81ddf7096e87513dc615d"


class FixedRng:
    """Always the lowest number."""

    def randrange(self, _stop: int) -> int:
        return 0


def test_proposals_spread_over_brokers_and_racks() -> None:
    current = {("t", number): (1, 2) for number in range(6)}
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    plan = proposed(current, racks, FixedRng(), is_rack_aware=True)
    assert plan.keys() == current.keys()
    for replicas in plan.values():
        assert len({racks[broker] for broker in replicas}) == 2
    leaders = [replicas[0] for replicas in plan.values()]
    assert {leaders.count(broker) for broker in racks} <= {1, 2}
    with pytest.raises(ValueError, match="larger than available brokers: 1"):
        proposed(current, {1: None}, FixedRng(), is_rack_aware=True)
    with pytest.raises(ValueError, match="Not all brokers have rack information"):
        proposed(current, {1: "a", 2: None}, FixedRng(), is_rack_aware=True)
    assert proposed(current, {1: "a", 2: None}, FixedRng(), is_rack_aware=False)


def test_a_change_without_configs_is_none() -> None:
    assert Change({}, ()).added == {}


@pytest.mark.parametrize(("key", "value", "text"), [
    ("node.id", "", "node.id '' is no number from 0 to 2147483647"),
    ("node.id", "2147483648", "node.id '2147483648' is no number from 0 to 2147483647"),
    ("node.id", "-1", "node.id was negative in configuration file."),
    ("listeners", "C://h:65536", "'C://h:65536' is not a listener"),
    ("listeners", "C://h:000000999999", "'C://h:000000999999' is not a listener"),
    ("listeners", "C://h:000000" + "9" * 5000, "...' is not a listener"),
    ("listeners", "C://a\\nb:x", "'C://a\\nb:x' is not a listener"),
])  # fmt: skip
def test_a_controller_that_no_request_can_name_is_one_line(
    key: str, value: str, text: str, tmp_path: Path
) -> None:
    (tmp_path / "meta.properties").write_text(
        "version=1\nnode.id=1\ncluster.id=c\ndirectory.id=q80vMCWbTQqNtVLiwDrp-g\n"
    )
    properties = {
        "node.id": "7", "process.roles": "controller", "log.dirs": str(tmp_path),
        "controller.listener.names": "C", "listeners": "C://h:9093",
    }  # fmt: skip
    path = tmp_path / "server.properties"
    path.write_text("".join(f"{name}={text}\n" for name, text in properties.items()))
    found = controller_of(path)
    assert (found.node_id, list(map(str, found.endpoints))) == (7, ["C://h:9093"])
    properties[key] = value
    path.write_text("".join(f"{name}={text}\n" for name, text in properties.items()))
    with pytest.raises(UsageError) as refused:
        controller_of(path)
    assert text in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300
