"""Apache Kafka as a peer: jars through Maven, its tools, and clusters on loopback.

Used by the benchmarks that measure both in one run and by the tests that compare with Kafka.
"""

import base64
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.clusters import maven
from benchmarks.clusters.protocol import ProtocolError, find_leader

KAFKA_VERSION = "4.3.1"
CLUSTER_ID = base64.urlsafe_b64encode(b"kraftline-peer-1").decode().rstrip("=")


def jars() -> Path:
    """The folder with Kafka's class path, fetched once per version.

    A missing Java or Maven is a failure, not a skip: a run that claims a comparison must make it.
    """
    for program in ("java", "mvn"):
        assert shutil.which(program), f"{program} is needed to compare with real Kafka"
    group = "org.apache.kafka"
    names = "kafka_2.13", "kafka-tools"
    return maven.fetched(
        f"kafka-{KAFKA_VERSION}", [f"{group}:{name}:{KAFKA_VERSION}" for name in names]
    )


def file_connectors() -> Path:
    """The folder with Connect's connectors for files, a plugin path of its workers."""
    name = "connect-file"
    dependency = f"org.apache.kafka:{name}:{KAFKA_VERSION}"
    return maven.fetched(f"{name}-{KAFKA_VERSION}", [dependency], only=[name])


def mirror_maker() -> Path:
    """The folder with the jars of MirrorMaker that are not among Kafka's own."""
    names = ["connect-mirror", "connect-mirror-client"]
    dependency = f"org.apache.kafka:connect-mirror:{KAFKA_VERSION}"
    return maven.fetched(f"connect-mirror-{KAFKA_VERSION}", [dependency], only=names)


def java(
    main_class: str, *words: str, heap: str = "256m", beside: Sequence[Path] = ()
) -> list[str]:
    """Command line of a Kafka class; `beside` are more folders of jars."""
    path = ":".join(f"{folder}/*" for folder in (jars(), *beside))
    return ["java", f"-Xmx{heap}", "-XX:+UseSerialGC", "-cp", path, main_class, *words]


def tool(main_class: str, *words: str) -> str:
    """Run a Kafka tool and return its standard output; a failure shows both outputs."""
    done = subprocess.run(
        java(main_class, *words), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"{main_class} {words}\n{done.stdout[-2000:]}{done.stderr[-3000:]}"
    return done.stdout


def dump_metadata_log(folder: Path) -> str:
    """Output of Kafka's DumpLogSegments for a metadata log folder."""
    files = ",".join(str(path) for path in sorted(folder.glob("*.log")))
    return tool(
        "org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", files
    )


def format_node(properties: Path, cluster_id: str, *words: str) -> None:
    """Run Kafka's own `kafka-storage format`."""
    tool("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(properties), *words)


def start_node(properties: Path, log: Path, heap: str = "512m") -> subprocess.Popen[bytes]:
    """Start `kafka.Kafka` with a properties file; its output goes to `log`."""
    with log.open("ab") as out:
        return subprocess.Popen(
            java("kafka.Kafka", str(properties), heap=heap), stdout=out, stderr=out
        )


class KafkaCluster:
    """Combined Kafka nodes in a folder, on consecutive ports."""

    def __init__(
        self,
        folder: Path,
        base_port: int,
        settings: dict[str, str] | None = None,
        *,
        nodes: int = 3,
    ) -> None:
        self.folder = folder
        self.brokers = [f"127.0.0.1:{base_port + i}" for i in range(nodes)]
        self.controllers = [f"127.0.0.1:{base_port + 1000 + i}" for i in range(nodes)]
        self._settings = settings or {}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def format(self) -> None:
        """Write the properties of each node and format its folder."""
        voters = ",".join(f"{i + 1}@{a}" for i, a in enumerate(self.controllers))
        for index, (broker, controller) in enumerate(
            zip(self.brokers, self.controllers, strict=True)
        ):
            home = self.folder / f"node{index + 1}"
            home.mkdir(parents=True)
            lines = {
                "process.roles": "broker,controller",
                "node.id": str(index + 1),
                "controller.quorum.voters": voters,
                "listeners": f"PLAINTEXT://{broker},CONTROLLER://{controller}",
                "controller.listener.names": "CONTROLLER",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "log.dirs": str(home / "data"),
                "offsets.topic.replication.factor": "3",
                **self._settings,
            }
            properties = home / "server.properties"
            properties.write_text("".join(f"{k}={v}\n" for k, v in lines.items()))
            format_node(properties, CLUSTER_ID)

    def start(self, node_id: int) -> None:
        """Start one node without waiting for it."""
        home = self.folder / f"node{node_id}"
        self._processes[node_id] = start_node(home / "server.properties", home / "node.log")

    def up(self) -> None:
        """Format and start all nodes, and wait for a leader."""
        self.format()
        self.launch()

    def launch(self) -> None:
        """Start all formatted nodes, and wait for a leader."""
        for node_id in range(1, len(self.controllers) + 1):
            self.start(node_id)
        deadline = time.monotonic() + 60
        while True:
            try:
                find_leader(self.controllers)
            except (ProtocolError, OSError):
                assert time.monotonic() < deadline, "Kafka found no leader in 60 s"
                time.sleep(0.05)
            else:
                return

    def pid(self, node_id: int) -> int:
        """Return the process id of a node."""
        return self._processes[node_id].pid

    def stop(self, node_id: int, sent: signal.Signals = signal.SIGKILL) -> None:
        """Signal a node and wait for its end."""
        self._processes[node_id].send_signal(sent)
        self._processes[node_id].wait(60)

    def down(self) -> None:
        """End every node."""
        for process in self._processes.values():
            process.kill()
            process.wait(60)
