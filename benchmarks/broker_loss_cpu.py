"""A broker with 10,000 of 50,000 replicas is lost: what that costs the active controller.

One controller in this process, its records encoded and committed at once; no network, no disk. CPU
seconds from the decision to the last record, per turn and in all, and how long another request
waits behind a turn. `--json` prints one object.

python -m benchmarks.broker_loss_cpu [--topics 25000] [--brokers 5] [--repeat 3]
"""

import argparse
import gc
import random
import statistics
import time
from typing import Any

from benchmarks.report import parser, show
from metadata import record_codec
from metadata.features import METADATA_VERSION_DEFAULT, record_version
from metadata.image import EMPTY
from metadata.records import (
    FeatureLevelRecord,
    PartitionRecord,
    Record,
    RegisterBrokerRecord,
    RegisteredEndpoint,
    SupportedFeature,
    TopicRecord,
)
from quorum_controller.config import ControllerConfig
from quorum_controller.controller import Controller
from quorum_controller.result import ControllerRequest, Draft, Output
from wire.messages import codec
from wire.types import (
    BrokerEpoch,
    DirectoryId,
    LeaderEpoch,
    NodeId,
    Offset,
    PartitionEpoch,
    TopicId,
)

SESSION_MS = 9_000
HEARTBEAT = 63
LEVEL = METADATA_VERSION_DEFAULT
FIRST = 101


def directory(broker_id: int) -> DirectoryId:
    """The only directory of a broker."""
    return DirectoryId(broker_id.to_bytes(16, "big"))


def cluster(topics: int, brokers: int) -> list[Record]:
    """Records of a cluster with two replicas per topic, evenly placed, all in the ISR."""
    nodes = [NodeId(FIRST + index) for index in range(brokers)]
    records: list[Record] = [FeatureLevelRecord(name="metadata.version", feature_level=LEVEL)]
    records += [
        RegisterBrokerRecord(
            broker_id=node,
            incarnation_id=directory(node),
            broker_epoch=BrokerEpoch(node),
            end_points=(RegisteredEndpoint(name="P", host="h", port=9092),),
            features=(
                SupportedFeature(
                    name="metadata.version", min_supported_version=1, max_supported_version=LEVEL
                ),
            ),
            fenced=False,
            log_dirs=(directory(node),),
        )
        for node in nodes
    ]
    for index in range(topics):
        topic_id = TopicId((index + 1).to_bytes(16, "big"))
        step = 1 + index // brokers % (brokers - 1)
        replicas = (nodes[index % brokers], nodes[(index + step) % brokers])
        records.append(TopicRecord(name=f"loss-{index}", topic_id=topic_id))
        records.append(
            PartitionRecord(
                partition_id=0,
                topic_id=topic_id,
                replicas=replicas,
                isr=replicas,
                leader=replicas[0],
                leader_epoch=LeaderEpoch(0),
                partition_epoch=PartitionEpoch(0),
                directories=tuple(directory(replica) for replica in replicas),
            )
        )
    return records


class Bench:
    """A controller over the cluster; its proposals are encoded and committed by `take`."""

    def __init__(self, topics: int, brokers: int) -> None:
        draft = Draft(EMPTY, Offset(0))
        for record in cluster(topics, brokers):
            draft.emit(record)
        config = ControllerConfig(cluster_id="c", node_id=1, bootstrap_records=())
        rng = random.Random(1)
        self.controller = Controller(config, rng, lambda: rng.randbytes(16))
        self.records = self.bytes = 0
        self.turns: list[float] = []
        self.now_ms = 0
        self.controller.activate(LeaderEpoch(1), draft.end_offset, draft.image, 0, 0)

    def take(self, output: Output) -> None:
        """Encode the proposals and commit them."""
        for proposal in output.proposals:
            for record in proposal.records:
                self.bytes += len(record_codec.encode(record, record_version(record, LEVEL)))
            self.records += len(proposal.records)
        self.controller.commit(self.controller.next_offset)

    def turn(self, output_of: Any) -> None:
        """Run one turn of the controller and record its CPU time."""
        start = time.process_time()
        self.take(output_of())
        self.turns.append(time.process_time() - start)

    def heartbeat(self, broker_id: int, *, stop: bool = False) -> None:
        """Send a heartbeat of a broker that has read everything."""
        new = codec.newest(HEARTBEAT, "request")
        body = new.BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=broker_id,
            current_metadata_offset=self.controller.next_offset - 1,
            want_fence=False,
            want_shut_down=stop,
        )
        request = ControllerRequest(api_key=HEARTBEAT, body=body, reply_token=object())
        self.turn(lambda: self.controller.submit(request, self.now_ms, 0))

    def run_until_quiet(self) -> None:
        """Run turns until no work is due."""
        while self.controller.next_deadline_ms() == self.now_ms:
            self.turn(lambda: self.controller.tick(self.now_ms, 0))


def lose(topics: int, brokers: int, kind: str) -> dict[str, float]:
    """Measure one loss: `death` by silence or `shutdown` at the broker's own request."""
    gc.set_threshold(100_000, 20, 50)  # as in a node
    bench = Bench(topics, brokers)
    gc.collect()
    gc.freeze()
    start = time.process_time()
    if kind == "shutdown":
        bench.heartbeat(FIRST, stop=True)
    else:
        bench.now_ms = SESSION_MS // 2
        for index in range(1, brokers):
            bench.heartbeat(FIRST + index)
        bench.turns.clear()
        bench.records = 0
        bench.now_ms = SESSION_MS + 1
        start = time.process_time()
        bench.turn(lambda: bench.controller.tick(bench.now_ms, 0))
    bench.run_until_quiet()
    seconds = time.process_time() - start
    led = [
        topic
        for topic in bench.controller.latest.topics.values()
        if topic.partitions[0].leader == FIRST
    ]
    assert not led, f"{len(led)} topics are still led by the lost broker"
    gc.unfreeze()
    return {
        "records": bench.records,
        "cpu_ms": round(1000 * seconds, 1),
        "us_per_record": round(1e6 * seconds / bench.records, 2),
        "turns": len(bench.turns),
        "longest_turn_ms": round(1000 * max(bench.turns), 1),
    }


def main() -> None:
    """Print the medians of some rounds."""
    flags: argparse.ArgumentParser = parser(__doc__)
    flags.add_argument("--topics", type=int, default=25_000)
    flags.add_argument("--brokers", type=int, default=5)
    flags.add_argument("--repeat", type=int, default=3)
    options = flags.parse_args()
    rows = {}
    for kind in ("death", "shutdown"):
        rounds = [lose(options.topics, options.brokers, kind) for _ in range(options.repeat)]
        rows[kind] = {name: statistics.median(r[name] for r in rounds) for name in rounds[0]}
    show("broker_loss_cpu", rows, as_json=options.json)


if __name__ == "__main__":
    main()
