"""The Dockerfile and compose.yaml, carried out without Docker and a base image.

COPY, RUN and ENTRYPOINT work below an empty directory instead of `/`; hosts of the compose file are
loopback addresses.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from confluent_kafka import Producer

from node.configs.environment import DEFAULT_CLUSTER_ID
from tests.interop.quorum import free_base_port, wait_until

pytestmark = [pytest.mark.interop, pytest.mark.long]
ROOT = Path(__file__).resolve().parents[2]
DIRECTORIES = re.compile(r"(?<![\w./-])/(opt|src|var|mnt)\b")
"""Begins of the paths at which the image has files of ours; others are left as they are."""
BUILD_SECONDS = 600
START_SECONDS = 60
USER = 1000
HTTP = 2000
"""Distance of a free port for HTTP from that for clients."""


class Instruction(NamedTuple):
    """A line of a Dockerfile, with what continues it."""

    word: str
    rest: str


def instructions() -> list[Instruction]:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).splitlines()
    return [Instruction(*line.split(" ", 1)) for line in lines if line]


class Container:
    """A container made by the Dockerfile, below a directory."""

    def __init__(self, root: Path, python: str) -> None:
        self.root = root
        self.environment: dict[str, str] = {"PATH": f"{root / 'bin'}:{os.environ['PATH']}"}
        self.words: dict[str, str] = {}
        """Last value of each instruction that has one."""
        (root / "bin").mkdir(parents=True)
        (root / "bin" / "python").symlink_to(python)
        for word, rest in instructions():
            self._carry_out(word, rest)

    def _carry_out(self, word: str, rest: str) -> None:
        if word == "COPY" and not rest.startswith("--from"):  # all stages share the directory
            self._copy(*rest.split())
        elif word == "RUN":
            done = subprocess.run(
                ["sh", "-ec", self.below(rest)],
                cwd=self.root, env={**os.environ, **self.variables()},
                capture_output=True, text=True, timeout=BUILD_SECONDS, check=False,
            )  # fmt: skip
            assert done.returncode == 0, (rest, done.stdout, done.stderr)
        elif word == "ENV":
            for name, value in (pair.split("=", 1) for pair in rest.split()):
                self.environment[name] = self.below(value).replace(
                    "$PATH", self.environment["PATH"]
                )
        else:
            self.words[word] = rest

    def _copy(self, source: str, target: str) -> None:
        at = Path(self.below(target))
        if source != ".":
            shutil.copy(ROOT / source, at)
            return
        listed = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
        for name in (line[1:] for line in listed if line.startswith("!")):
            given, to = ROOT / name, at / name
            if given.is_dir():
                shutil.copytree(given, to, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(given, to)

    def below(self, text: str) -> str:
        """A text with the directories of the image in it."""
        return DIRECTORIES.sub(lambda found: f"{self.root}{found[0]}", text)

    def variables(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Those of a process inside."""
        config = {"KRAFTLINE_CONFIG": self.below("/mnt/shared/config")}
        return {**self.environment, **config, **(more or {})}

    def process(self, *words: str, **variables: str) -> "subprocess.Popen[str]":
        """A process of the entry point, as the user of the image where that can be had."""
        command = [Path(self.below("/opt/kraftline/bin")) / self.entry_point, *words]
        identity: dict[str, Any] = {"user": USER, "group": USER} if os.getuid() == 0 else {}
        return subprocess.Popen(
            command, cwd="/", env=self.variables(variables),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **identity,
        )  # fmt: skip

    @property
    def entry_point(self) -> str:
        (word,) = yaml.safe_load(self.words["ENTRYPOINT"])
        return str(word)

    def health(self, *words: str, **variables: str) -> tuple[int, str]:
        """Exit code and output of the health check."""
        check = yaml.safe_load(self.words["HEALTHCHECK"].partition("CMD ")[2])
        assert check[0] == self.entry_point
        with self.process(*check[1:], *words, **variables) as process:
            output, _ = process.communicate(timeout=START_SECONDS)
        return process.returncode, output


def python_for_all() -> str:
    """A Python that any user may run, with venv."""
    for candidate in ("/usr/bin/python3", sys.executable):
        probe = [candidate, "-c", "import ensurepip, venv"]
        with contextlib.suppress(OSError):
            if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
                return candidate
    raise AssertionError("no Python with venv")


@pytest.fixture(scope="module")
def container() -> Iterator[Container]:
    """In a folder that any user may enter, which those of pytest are not."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        yield Container(Path(folder) / "container", python_for_all())


@contextlib.contextmanager
def running(
    container: Container, *words: str, **variables: str
) -> Iterator["subprocess.Popen[str]"]:
    process = container.process(*words, **variables)
    try:
        yield process
    finally:
        process.terminate()
        output, _ = process.communicate(timeout=START_SECONDS)
        assert process.returncode == 0, output[-4000:]


def settings(container: Container, port: int, folder: str) -> dict[str, str]:
    """Variables of one combined node."""
    return {
        "KAFKA_NODE_ID": "7",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": f"7@localhost:{port + 1}",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENERS": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1}",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_LOG_DIRS": container.below(f"/var/lib/kafka/data/{folder}"),
    }


def produce(address: str) -> None:
    producer = Producer({"bootstrap.servers": address, "acks": "all", "log_level": 2})
    producer.produce("orders", b"one")
    assert producer.flush(30) == 0


def owner(process: "subprocess.Popen[str]") -> int:
    return Path(f"/proc/{process.pid}").stat().st_uid


def test_a_node_by_variables_is_not_root_and_says_when_it_is_ready(container: Container) -> None:
    port = free_base_port()
    given = settings(container, port, "variables")
    assert container.words["USER"] == f"{USER}:{USER}"
    code, text = container.health(**given)
    assert (code, "node 7 is not ready: no node can be reached" in text) == (1, True), text
    with running(container, **given) as process:
        wait_until(lambda: container.health(**given)[0] == 0, START_SECONDS, lambda: "not ready")
        assert container.health(**given) == (0, "node 7 is ready\n")
        if os.getuid() == 0:
            assert owner(process) == USER
        produce(f"127.0.0.1:{port}")
    properties = Path(given["KAFKA_LOG_DIRS"], "meta.properties").read_text(encoding="utf-8")
    assert f"cluster.id={DEFAULT_CLUSTER_ID}\n" in properties


def test_a_mounted_file_is_weaker_than_variables_and_arguments_are_variables(
    container: Container,
) -> None:
    port = free_base_port()
    given = settings(container, port, "mounted")
    mounted = Path(container.below("/mnt/shared/config"), "server.properties")
    keys = {name[6:].lower().replace("_", "."): value for name, value in given.items()}
    http = f"inspection.listener=127.0.0.1:{port + HTTP}\n"
    mounted.write_text("".join(f"{k}={v}\n" for k, v in keys.items()) + http)
    try:
        of_variable = {"KAFKA_NUM_PARTITIONS": "4", "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw"}
        with running(container, "KAFKA_AUTO_CREATE_TOPICS_ENABLE=true", **of_variable):
            wait_until(lambda: container.health()[0] == 0, START_SECONDS, lambda: "not ready")
            produce(f"127.0.0.1:{port}")
            producer = Producer({"bootstrap.servers": f"127.0.0.1:{port}"})
            assert len(producer.list_topics("orders", 10).topics["orders"].partitions) == 4
    finally:
        mounted.unlink()


def of_loopback(
    environment: Mapping[str, Any], ports: Mapping[str, int], node: int
) -> dict[str, str]:
    """Variables of a service of the compose file with hosts and free ports of this machine."""
    found = {}
    for name, value in environment.items():
        text = (
            str(value)
            .replace("localhost:", f"127.0.0.{node}:")
            .replace("0.0.0.0:", f"127.0.0.{node}:")
        )
        text = re.sub(r"kafka-(\d)", r"127.0.0.\1", text).replace("://:", f"://127.0.0.{node}:")
        found[name] = re.sub(r":(\d+)\b", lambda port: f":{ports.get(port[1], port[1])}", text)
    return found


def test_the_three_nodes_of_the_compose_file(container: Container) -> None:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]
    base = free_base_port()
    inside = {"19092": base, "9093": base + 1000, "9092": base + 1, "8080": base + HTTP}
    with contextlib.ExitStack() as stack:
        given = []
        for node, service in enumerate(services.values(), 1):
            outside = {port.split(":")[1]: inside[port.split(":")[2]] for port in service["ports"]}
            variables = of_loopback(service["environment"], {**inside, **outside}, node)
            variables["KAFKA_LOG_DIRS"] = f"{container.below(variables['KAFKA_LOG_DIRS'])}/{node}"
            given.append(variables)
            stack.enter_context(running(container, **variables))
        for variables in given:
            wait_until(
                lambda variables=variables: container.health(**variables)[0] == 0,
                START_SECONDS,
                lambda variables=variables: container.health(**variables)[1],
            )
        produce(f"127.0.0.2:{base + 1}")
        producer = Producer({"bootstrap.servers": f"127.0.0.3:{base + 1}"})
        (partition,) = producer.list_topics("orders", 10).topics["orders"].partitions.values()
        assert sorted(partition.replicas) == [1, 2, 3]
