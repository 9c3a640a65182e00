"""A leader dies; the history of the metadata tells of it, to DuckDB and to Spark."""

import subprocess
import sys
import time

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from with_duckdb import opened, states
from with_spark import leader_at, leader_changes

from kraftline import pipeline

TOPIC = "orders"


@pytest.fixture
def lived(kafka_cluster, tmp_path):
    """A history in which the leader of a topic died: its folder, the dead one, the next one."""
    admin = AdminClient({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, 1, 3)])[TOPIC].result(10)
    dead = kafka_cluster.leader(TOPIC)
    kafka_cluster.kill(dead)
    while (led_by := kafka_cluster.leader(TOPIC)) in {dead, -1}:
        time.sleep(0.05)
    nodes = [kafka_cluster.folder / f"node{node}" for node in kafka_cluster.ids]
    command = [sys.executable, "-m", "kraftline", "pipeline", "history"]
    out = str(tmp_path / "history")
    subprocess.run([*command, "--input", *nodes, "--output", out], check=True)
    return out, dead, led_by


def test_both_tell_of_the_leader_that_died(lived):
    folder, dead, led_by = lived
    leaders = [leader for _, leader, _, _ in states(folder, TOPIC)]
    assert (leaders[0], leaders[-1]) == (dead, led_by)
    (first,) = (
        opened(folder)
        .execute("SELECT min(valid_from_offset) FROM partitions WHERE topic = ?", [TOPIC])
        .fetchone()
    )

    spark = pipeline.session("history", "local[2]")
    changes = leader_changes(spark, folder, TOPIC)
    assert (0, dead, led_by, "failover") in changes
    assert leader_at(spark, folder, TOPIC, first) is None, "before it was created"
    spark.stop()
