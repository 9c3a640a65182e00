"""Clusters for tests and `kraftline dev`, as processes: they start, work, and leave nothing."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from testing import Cluster, ClusterError, WarmError, warm_up
from testing.warm_client import Warm
from tests.interop.quorum import wait_until
from tests.peers import is_missing

ROOT = Path(__file__).parents[2]


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    """The system's temporary folder of the processes that a test starts."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path / f"kraftline-testing-{os.getuid()}"


def round_trip(cluster: Cluster, topic: str) -> bytes | None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    producer.produce(topic, b"hello")
    assert producer.flush(10) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "g",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    try:
        message = consumer.poll(20)
        assert message is not None
        return message.value()
    finally:
        consumer.close()


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def started_dev(*words: str) -> tuple[subprocess.Popen[str], dict[str, str], list[int]]:
    """The command, its ready line, its warm process and nodes."""
    command = [sys.executable, "-m", "cli", "dev", "--json", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    with process.stdout as output:
        ready = json.loads(output.readline())
    (warm,) = children(process.pid)
    return process, ready, [warm, *children(warm)]


def test_three_nodes_and_their_faults():
    with Cluster(3) as kafka:
        assert round_trip(kafka, "t") == b"hello"
        for leader in (1, 2, 3):
            kafka.elect("t", 0, leader)
            assert kafka.leader("t") == leader
        for ask, reason in (
            (lambda: kafka.elect("t", 0, 9), r"broker 9 holds no replica of t-0: \[\d, \d, \d\]"),
            (lambda: kafka.leader("t", 1), "topic t has partitions 0 to 0, no 1"),
            (lambda: kafka.leader("u"), "there is no topic u; there are: __consumer_offsets, t"),
        ):
            with pytest.raises(ClusterError, match=f"^{reason}$"):
                ask()
        kafka.kill(3)
        assert kafka.pids().keys() == {1, 2}
        wait_until(lambda: kafka.leader("t") in (1, 2), 10, lambda: str(kafka.logs()))
        kafka.restart(3)
        assert kafka.pids().keys() == {1, 2, 3}
        kafka.pause(2)
        path = Path(f"/proc/{kafka.pids()[2]}/stat")  # it stops when it next gets a core
        wait_until(lambda: path.read_text().rpartition(")")[2].split()[0] == "T", 5, path.read_text)
        kafka.resume(2)
        kafka.wait_ready()
        assert '"started"' in kafka.logs()[1]
        with pytest.raises(ClusterError, match="no node 4"):
            kafka.kill(4)
        folder = kafka.folder
    assert not folder.exists()


def produced(cluster: Cluster, topic: str, **config: object) -> list[int | str]:
    """Offset of one record, or the name of the error, after all retries."""
    found: list[int | str] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0, **config})
    producer.produce(
        topic, b"x", on_delivery=lambda e, m: found.append(m.offset() if e is None else e.name())
    )
    assert producer.flush(20) == 0
    return found


def test_faults_at_the_door_of_requests():
    with Cluster() as kafka:
        assert produced(kafka, "t") == [0]
        with kafka.refuse("Produce", "NOT_LEADER_OR_FOLLOWER", times=2, topic="t") as fault:
            assert produced(kafka, "u") == [0]
            assert produced(kafka, "t") == [1]
        assert fault.hits == 2
        with kafka.refuse("Produce", "INVALID_RECORD"):
            assert produced(kafka, "t") == ["INVALID_RECORD"]
        with kafka.drop("Produce", done=True):
            assert produced(kafka, "t") == [3], "record 2 is there, as its answer was lost"
        with kafka.drop("Produce", done=True) as fault:
            assert produced(kafka, "t", **{"enable.idempotence": True}) == [4]
        assert fault.hits == 1
        with kafka.drop("Produce", partition=0, topic="t") as fault:
            assert produced(kafka, "t") == [5]
        assert fault.hits == 1
        for api in ("Produce", "Metadata"):
            with kafka.delay(api, 300, times=1) as fault:
                started = time.monotonic()
                assert len(produced(kafka, "t")) == 1
                assert time.monotonic() - started >= 0.3
            assert fault.hits == 1
        kafka.pause(1)
        with pytest.raises(WarmError, match="is it paused"):
            kafka.drop("Produce")
        kafka.resume(1)
        kafka.end_faults()
        assert len(produced(kafka, "t")) == 1
        with pytest.raises(WarmError, match="no API 'Prodcue'; is it Produce"):
            kafka.refuse("Prodcue", "INVALID_RECORD")
        fault = kafka.drop("Fetch")
        kafka.restart(1)
        assert fault.hits == 0


def test_a_node_without_the_switch_takes_no_fault():
    with Cluster(faults=False) as kafka:
        with pytest.raises(ClusterError, match="started with faults=False"):
            kafka.drop("Produce")
        with pytest.raises(WarmError, match="started without faults"):
            kafka._asked().ask("fault", pid=kafka.pids()[1], action="drop", api="Produce")


def test_all_nodes_are_killed_and_come_back():
    with Cluster(3) as kafka:
        assert round_trip(kafka, "before") == b"hello"
        for node_id in kafka.ids:
            kafka.kill(node_id)
        for node_id in kafka.ids:
            kafka.restart(node_id)
        assert kafka.leader("before") != -1
        assert round_trip(kafka, "after") == b"hello"


def test_the_leader_of_a_partition_is_killed_and_another_one_serves():
    with Cluster(3) as kafka:
        assert produced(kafka, "t") == [0]
        killed = kafka.kill_leader("t")
        assert produced(kafka, "t") == [1]
        assert kafka.leader("t") not in (killed, -1)


async def test_async_form_side_by_side():
    async with Cluster() as one, Cluster() as other:
        assert one.bootstrap_servers != other.bootstrap_servers
        assert one.folder != other.folder


def test_a_node_that_cannot_start_says_why():
    with pytest.raises(ClusterError, match="Invalid value x for configuration num"):
        Cluster(configs={"num.partitions": "x"}).start()


def test_ctrl_c_removes_the_folder_and_ends_with_0(own_folder):
    process, ready, pids = started_dev()
    assert Path(ready["folder"]).is_dir()
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0
    assert not any(lives(pid) for pid in pids)
    assert list(own_folder.iterdir()) == []


def test_sigkill_leaves_no_process_and_no_folder(own_folder):
    process, _, pids = started_dev("--nodes", "3")
    assert len(pids) == 4
    process.kill()
    process.wait()
    wait_until(lambda: not any(map(lives, pids)), 20, lambda: f"{pids} live")
    assert list(own_folder.iterdir()) == []


def test_sigkill_of_the_warm_process_leaves_no_node(own_folder):
    process, ready, (warm, *nodes) = started_dev()
    os.kill(warm, signal.SIGKILL)
    assert process.wait(20) == 1
    wait_until(lambda: not any(map(lives, nodes)), 20, lambda: f"{nodes} live")
    again, _, _ = started_dev()
    assert not Path(ready["folder"]).exists(), "the next start removes it"
    again.terminate()
    assert again.wait(20) == 0
    assert list(own_folder.iterdir()) == []


def test_a_folder_that_is_kept_has_its_records_at_the_next_start(tmp_path):
    kept = tmp_path / "kept"
    for expected in (0, 1):
        with Cluster(folder=kept) as kafka:
            producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
            delivered = []
            producer.produce("t", b"x", on_delivery=lambda _, m, d=delivered: d.append(m.offset()))
            producer.flush(10)
            assert delivered == [expected]


PLUGIN_TEST = """
import os, signal, unittest
import pytest
from confluent_kafka import Producer
from testing import Cluster

def produce(kafka, topic):
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(topic, b"x")
    assert producer.flush(10) == 0
    return producer.list_topics(topic, timeout=5).topics[topic].partitions

def test_one(kafka, kafka_topic):
    assert len(produce(kafka, kafka_topic)) == 1

@pytest.mark.kafka(configs={"num.partitions": 4})
def test_configs(kafka, kafka_topic):
    assert len(produce(kafka, kafka_topic)) == 4

def test_three(kafka_cluster, kafka_topic):
    assert len(produce(kafka_cluster, kafka_topic)[0].replicas) == 3

def test_factory(kafka_factory, kafka):
    assert kafka_factory(configs={"num.partitions": 2}).folder != kafka.folder

def test_fails(kafka):
    assert kafka.nodes == 5

@pytest.fixture
def broken(kafka):
    raise RuntimeError("a fixture of the user")

def test_setup_fails(broken): ...

class OrdersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kafka = cls.enterClassContext(Cluster())

    def test_one(self):
        self.assertEqual(len(produce(self.kafka, "t")), 1)

    def test_two(self):
        self.assertEqual(self.kafka.leader("t"), 1)

def test_killed(kafka_cluster):
    if "KILL" in os.environ:
        print("pids:", *kafka_cluster.pids().values(), flush=True)
        os.kill(os.getpid(), signal.Signals[os.environ["KILL"]])
        signal.pause()
"""


def run_pytest(
    folder: Path, *words: str, test: str = PLUGIN_TEST
) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(test)
    command = [sys.executable, "-m", "pytest", "-p", "no:schemathesis"]
    return subprocess.run(
        [*command, "-c", os.devnull, "--rootdir", str(folder), *words, str(folder / "test_it.py")],
        capture_output=True, text=True, timeout=100, check=False, cwd=folder,
    )  # fmt: skip


@pytest.mark.parametrize("words", [(), ("-n", "2")])
def test_fixtures_and_the_logs_of_a_failure(own_folder, tmp_path, words):
    done = run_pytest(tmp_path, *words)
    assert "1 failed, 7 passed, 1 error" in done.stdout, done.stdout + done.stderr
    assert done.stdout.count("kafka node 1 at 127.0.0.1:") >= 2, "of the failure and of the error"
    assert '"event": "started"' in done.stdout
    assert list(own_folder.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "code"),
    [("SIGKILL", -signal.SIGKILL), ("SIGTERM", -signal.SIGTERM), ("SIGINT", 2)],
)
def test_a_runner_that_is_killed_leaves_nothing(own_folder, tmp_path, monkeypatch, name, code):
    monkeypatch.setenv("KILL", name)
    done = run_pytest(tmp_path, "-s", "-k", "test_killed")
    assert done.returncode == code, done.stdout + done.stderr
    pids = [int(word) for word in done.stdout.partition("pids:")[2].split("\n")[0].split()]
    assert len(pids) == 3
    wait_until(lambda: not any(map(lives, pids)), 20, lambda: f"{pids} live")
    wait_until(lambda: not list(own_folder.iterdir()), 20, lambda: str(list(own_folder.iterdir())))


def test_a_warm_process_starts_a_cluster_at_once():
    warm_up().ask("ping")
    started = time.perf_counter()
    with Cluster():
        assert time.perf_counter() - started < 5, "a generous bound: benchmarks/testing_start.py"


def test_an_answer_that_is_not_waited_for_is_nobody_elses(own_folder):
    def interrupt(*_):
        raise KeyboardInterrupt

    warm = Warm()
    folder = Path(warm.ask("folder"))
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            warm.ask("ready", ports=[1], nodes=1, timeout_s=3)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not warm.is_usable
    with pytest.raises(WarmError, match="not waited for"):
        warm.ask("ping")
    assert warm.process.wait(30) == 0
    assert not folder.exists()


def test_a_fork_has_no_part_in_a_cluster(own_folder):
    warm = Warm()
    assert warm.ask("ping") == {}
    pid = os.fork()
    if pid == 0:
        try:
            warm.ask("ping")
        except WarmError as error:
            os._exit("not of a fork" in str(error))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
    assert warm.ask("ping") == {}
    warm.close()


def test_sigterm_of_the_warm_process_leaves_nothing(own_folder):
    warm = Warm()
    folder = Path(warm.ask("folder"))
    assert folder.is_dir()
    warm.process.terminate()
    assert warm.process.wait(30) == 0
    assert not folder.exists()
    warm.close()


SHARED_TEST = """
from pathlib import Path
import pytest

@pytest.mark.parametrize("n", range(4))
def test_it(kafka, n, tmp_path, worker_id):
    Path("SEEN", f"{worker_id}-{n}").write_text(kafka.bootstrap_servers)

@pytest.mark.kafka(configs={})
def test_own(kafka):
    Path("SEEN", "own").write_text(kafka.bootstrap_servers)
    kafka.kill(1)
"""


@pytest.mark.parametrize(("words", "clusters"), [((), 2), (("--kafka-shared",), 1)])
def test_workers_have_clusters_of_their_own_or_one_for_all(own_folder, tmp_path, words, clusters):
    seen = tmp_path / "seen"
    seen.mkdir()
    test = SHARED_TEST.replace("SEEN", str(seen))
    done = run_pytest(tmp_path, "-n", "2", "--dist", "each", *words, test=test)
    assert "10 passed" in done.stdout, done.stdout + done.stderr
    servers = {file.read_text() for file in seen.iterdir() if file.name != "own"}
    assert len(servers) == clusters
    assert (seen / "own").read_text() not in servers
    assert list(own_folder.iterdir()) == []


def test_two_runs_side_by_side_do_not_meet(own_folder, tmp_path):
    folders = [tmp_path / name for name in ("one", "two")]
    with ThreadPoolExecutor() as pool:
        for folder in folders:
            folder.mkdir()
        for done in pool.map(lambda folder: run_pytest(folder, "-k", "not fails"), folders):
            assert "7 passed" in done.stdout, done.stdout + done.stderr
    assert list(own_folder.iterdir()) == []


def test_a_port_that_is_held_is_refused_in_one_line():
    with Cluster() as kafka:
        port = int(kafka.bootstrap_servers.partition(":")[2])
        with pytest.raises(ClusterError, match=f"^port {port}: Address already in use$"):
            Cluster(port=port).start()
        command = [sys.executable, "-m", "cli", "dev", "--port", str(port)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == f"port {port}: Address already in use\n"


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 24 MiB, for which the tests must be root."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        is_missing("root, to mount a small file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_leaves_no_process_and_no_folder(small_disk, own_folder, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(small_disk))
    process, ready, pids = started_dev()
    producer = Producer(
        {"bootstrap.servers": ready["bootstrap_servers"], "message.timeout.ms": 3000}
    )
    content = os.urandom(500_000)
    while shutil.disk_usage(small_disk).free > 1_000_000 and all(map(lives, pids)):
        producer.produce("t", content)
        if producer.flush(0.5):
            break
    process.send_signal(signal.SIGINT)
    process.wait(20)
    wait_until(lambda: not any(map(lives, pids)), 20, lambda: f"{pids} live")
    base = small_disk / own_folder.name
    assert list(base.iterdir()) == []


def test_a_container_with_little_memory_has_its_clusters_on_the_disk(tmp_path):
    script = 'mount -t tmpfs -o size=64m tmpfs /dev/shm && exec "$@"'
    command = ["unshare", "-m", "sh", "-c", script, "sh", sys.executable, "-m", "cli", "dev"]
    environment = {k: v for k, v in os.environ.items() if k != "TMPDIR"}
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        _, _, logs = (process.stdout.readline() for _ in range(3))
        if not logs:
            is_missing("root, to mount a small file system")
        process.terminate()
        assert logs.startswith("logs:  /")
        assert not logs.startswith("logs:  /dev/shm")
        assert "less than 1024 MiB in /dev/shm" in process.stderr.read()
