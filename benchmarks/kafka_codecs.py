"""Figures of Kafka's own codecs for metadata records, from benchmarks/KafkaCodecs.java."""

import subprocess
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.clusters.kafka_peer import jars

SOURCE: Final = Path(__file__).with_name("KafkaCodecs.java")
HEAP: Final = "3g"


def kafkas_figures(*words: str) -> dict[str, Any]:
    """Run one part of it in a JVM, which compiles it first; returns its figures by name.

    A machine without a JDK is a failure: a run that claims a comparison must make it.
    """
    command = ["java", f"-Xmx{HEAP}", "-XX:+UseSerialGC", "-cp", f"{jars()}/*", str(SOURCE)]
    done = subprocess.run([*command, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words=}\n{done.stderr[-3000:]}"
    found: dict[str, Any] = msgspec.json.decode(done.stdout)
    return found
