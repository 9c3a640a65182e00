"""Scenarios of the quorum controller: requests in, records and answers out, commits by hand.

Record lines come first, in log order; an answer is `=> request ...` and leaves only when what it
was computed from is committed. Random draws are all zeros: placement begins with the first broker.
"""

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from kio.schema.broker_registration.v4.request import Feature, Listener
from kio.schema.create_topics.v7.request import CreatableReplicaAssignment
from kio.schema.delete_topics.v6.request import DeleteTopicState

from metadata.image import EMPTY
from metadata.records import FeatureLevelRecord
from quorum_controller import bodies
from quorum_controller.config import ControllerConfig
from quorum_controller.controller import Controller
from quorum_controller.result import ControllerRequest, Output
from simulator.scenarios.command import (
    Command,
    ScenarioError,
    to_int,
    to_ints,
)
from simulator.scenarios.controller_text import (
    IdNames,
    answer_text,
    image_lines,
    record_text,
)
from simulator.scenarios.scripted_rng import ScriptedRng
from wire import api_keys
from wire.types import LeaderEpoch, NodeId, Offset

CLUSTER_ID: Final = "cluster"
METADATA_VERSION_LEVEL: Final = 21
SLICES_MAX: Final = 100

_CREATABLE_ASSIGNMENT: Any = CreatableReplicaAssignment
_CREATABLE_TOPIC: Any = bodies.CreatableTopic
_FEATURE: Any = Feature
_LISTENER: Any = Listener
_CREATE: Any = bodies.CreateTopicsRequest
_DELETE: Any = bodies.DeleteTopicsRequest
_REGISTER: Any = bodies.BrokerRegistrationRequest
_HEARTBEAT: Any = bodies.BrokerHeartbeatRequest
_UNREGISTER: Any = bodies.UnregisterBrokerRequest
_DELETE_STATE: Any = DeleteTopicState
"""kio's constructors want its phantom integers, which plain integers satisfy at run time."""


class ControllerScenario:
    """Environment of tests/scenarios/controller."""

    def __init__(self) -> None:
        self.names = IdNames()
        self.now_ms = 0
        self.said: list[str] = []
        self.waiting: dict[int, tuple[str, int]] = {}
        """Reply token -> the name of the request and its api key."""
        self.next_token = 1
        self.controller = self._make({})
        self.commands: dict[str, Callable[[Command], None]] = {
            "controller": self._configure,
            "activate": self._activate,
            "commit": self._commit,
            "tick": self._tick,
            "resign": self._resign,
            "brokers": self._brokers,
            "register": self._register,
            "heartbeat": self._heartbeat,
            "unregister": self._unregister,
            "create-topics": self._create_topics,
            "delete-topics": self._delete_topics,
            "image": self._image,
        }

    def run(self, command: Command) -> list[str]:
        """Perform one command; return the records and answers that came out."""
        if command.name not in self.commands:
            allowed = ", ".join(sorted(self.commands))
            raise ScenarioError(f"no command {command.name!r}, allowed: {allowed}")
        self.said = []
        self.commands[command.name](command)
        return self.said

    # --- life cycle -----------------------------------------------------------------------------

    def _make(self, settings: dict[str, int | bool]) -> Controller:
        level = FeatureLevelRecord(name="metadata.version", feature_level=METADATA_VERSION_LEVEL)
        defaults: dict[str, Any] = {"max_idle_interval_ms": 0}
        config = ControllerConfig(
            cluster_id=CLUSTER_ID, node_id=1, bootstrap_records=(level,), **(defaults | settings)
        )
        return Controller(config, ScriptedRng(), self.names.new_topic_id)

    def _configure(self, command: Command) -> None:
        """`controller [idle_ms=500] [delete=off] [pending_max=2]`: other settings."""
        settings: dict[str, int | bool] = {
            "max_idle_interval_ms": command.number_option("idle_ms", 0),
            "delete_topic_enable": command.option("delete", "on") == "on",
            "pending_requests_max": command.number_option("pending_max", 10_000),
        }
        self.controller = self._make(settings)

    def _activate(self, command: Command) -> None:
        """`activate epoch=3`: become active, after the LeaderChange record that raft wrote."""
        controller = self.controller
        epoch = LeaderEpoch(command.number_option("epoch", 1))
        image = controller.committed
        offset = max(image.provenance.end_offset, 0) if image is not EMPTY else 0
        self._take(controller.activate(epoch, Offset(offset + 1), image, self.now_ms, 0))

    def _resign(self, command: Command) -> None:
        """`resign [leader=2]`: lose the leadership; what was not committed is forgotten."""
        leader = command.option("leader", "-")
        self.controller.known_leader_id = None if leader == "-" else NodeId(to_int(leader))
        self._take(self.controller.resign())

    def _commit(self, command: Command) -> None:
        """`commit [5]`: commit everything proposed, or what is below the high watermark."""
        end = command.number(0, "high watermark") if command.rest(0) else None
        watermark = self.controller.next_offset if end is None else Offset(end)
        self._take(self.controller.commit(watermark)[1])

    def _tick(self, command: Command) -> None:
        """`tick 9000`: let time pass; what is due is done, with every slice of longer work."""
        self.now_ms += command.number(0, "ms")
        for _ in range(SLICES_MAX):
            self._take(self.controller.tick(self.now_ms, 0))
            deadline_ms = self.controller.next_deadline_ms()
            if deadline_ms is None or deadline_ms > self.now_ms:
                return
        raise ScenarioError(f"not done after {SLICES_MAX} slices")

    # --- requests -------------------------------------------------------------------------------

    def _submit(self, name: str, api_key: int, body: Any) -> None:
        token = self.next_token
        self.next_token += 1
        self.waiting[token] = (name, api_key)
        request = ControllerRequest(api_key=api_key, body=body, reply_token=token)
        self._take(self.controller.submit(request, self.now_ms, 0))

    def _take(self, output: Output) -> None:
        for proposal in output.proposals:
            for index, record in enumerate(proposal.records):
                offset = proposal.base_offset + index
                self.said.append(f"{offset} {record_text(record, self.names)}")
        for answer in output.answers:
            assert isinstance(answer.reply_token, int), f"{answer=}"
            name, api_key = self.waiting.pop(answer.reply_token)
            self.said.append(f"=> {name}: {answer_text(api_key, answer.body)}")

    def _brokers(self, command: Command) -> None:
        """`brokers 1,2,3 [racks=a,b,c]`: register, unfence and commit brokers."""
        ids = to_ints(command.argument(0, "ids"))
        racks = command.option("racks", "")
        rack_of = dict(zip(ids, racks.split(","), strict=True)) if racks else {}
        for broker_id in ids:
            self._submit_registration(broker_id, rack=rack_of.get(broker_id), incarnation=broker_id)
            self._take(self.controller.commit(self.controller.next_offset)[1])
            self._submit_heartbeat(broker_id)
            self._take(self.controller.commit(self.controller.next_offset)[1])

    def _register(self, command: Command) -> None:
        """`register 1 [rack=a] [incarnation=7] [cluster=other]`."""
        broker_id = command.number(0, "id")
        self._submit_registration(
            broker_id,
            rack=command.option("rack", "") or None,
            incarnation=command.number_option("incarnation", broker_id),
            cluster_id=command.option("cluster", CLUSTER_ID),
        )

    def _submit_registration(
        self,
        broker_id: int,
        *,
        rack: str | None,
        incarnation: int,
        cluster_id: str = CLUSTER_ID,
    ) -> None:
        """Submit the registration of a broker with one listener and one log directory."""
        listener = _LISTENER(name="PLAINTEXT", host=f"b{broker_id}", port=9092, security_protocol=0)
        feature = _FEATURE(
            name="metadata.version",
            min_supported_version=1,
            max_supported_version=METADATA_VERSION_LEVEL,
        )
        body = _REGISTER(
            broker_id=broker_id,
            cluster_id=cluster_id,
            incarnation_id=uuid.UUID(bytes=self.names.fixed("I", incarnation)),
            listeners=(listener,),
            features=(feature,),
            rack=rack,
            log_dirs=(uuid.UUID(bytes=self.names.fixed("D", broker_id)),),
        )
        self._submit(f"register {broker_id}", api_keys.BROKER_REGISTRATION, body)

    def _heartbeat(self, command: Command) -> None:
        """`heartbeat 1 [offset=5] [epoch=4] [fence] [stop]`: caught up by default."""
        self._submit_heartbeat(
            command.number(0, "id"),
            offset=command.number_option("offset", self.controller.next_offset - 1),
            epoch=command.number_option("epoch", -2),
            wants_fence=command.has("fence"),
            wants_stop=command.has("stop"),
        )

    def _submit_heartbeat(
        self,
        broker_id: int,
        *,
        offset: int | None = None,
        epoch: int = -2,
        wants_fence: bool = False,
        wants_stop: bool = False,
    ) -> None:
        broker = self.controller.latest.brokers.get(NodeId(broker_id))
        known_epoch = -1 if broker is None else broker.epoch
        body = _HEARTBEAT(
            broker_id=broker_id,
            broker_epoch=known_epoch if epoch == -2 else epoch,
            current_metadata_offset=self.controller.next_offset - 1 if offset is None else offset,
            want_fence=wants_fence,
            want_shut_down=wants_stop,
        )
        self._submit(f"heartbeat {broker_id}", api_keys.BROKER_HEARTBEAT, body)

    def _unregister(self, command: Command) -> None:
        """`unregister 1`."""
        broker_id = command.number(0, "id")
        body = _UNREGISTER(broker_id=broker_id)
        self._submit(f"unregister {broker_id}", api_keys.UNREGISTER_BROKER, body)

    def _create_topics(self, command: Command) -> None:
        """`create-topics orders:2:3 manual:1-2/2-3 [validate] [timeout_ms=30000]`.

        `name:partitions:factor`, or `name:` and the replicas of each partition.
        """
        is_validating = command.has("validate")
        words = [word for word in command.rest(0) if word != "validate"]
        body = _CREATE(
            topics=tuple(_topic(word) for word in words),
            timeout=timedelta(milliseconds=command.number_option("timeout_ms", 30_000)),
            validate_only=is_validating,
        )
        self._submit("create-topics", api_keys.CREATE_TOPICS, body)

    def _delete_topics(self, command: Command) -> None:
        """`delete-topics orders`."""
        states = tuple(_DELETE_STATE(name=name, topic_id=None) for name in command.rest(0))
        body = _DELETE(topics=states, timeout=timedelta(seconds=30))
        self._submit("delete-topics", api_keys.DELETE_TOPICS, body)

    def _image(self, command: Command) -> None:
        """`image [committed]`: brokers and partitions, by default with everything proposed."""
        is_committed = command.has("committed")
        image = self.controller.committed if is_committed else self.controller.latest
        self.said += image_lines(image)


def _topic(word: str) -> Any:
    """Topic to create, from its word."""
    name, _, rest = word.partition(":")
    partitions, is_counted, factor = rest.partition(":")
    if is_counted:
        return _CREATABLE_TOPIC(
            name=name,
            num_partitions=to_int(partitions),
            replication_factor=to_int(factor),
            assignments=(),
            configs=(),
        )
    assignments = tuple(
        _CREATABLE_ASSIGNMENT(
            partition_index=index, broker_ids=tuple(map(to_int, replicas.split("-")))
        )
        for index, replicas in enumerate(rest.split("/"))
    )
    return _CREATABLE_TOPIC(
        name=name, num_partitions=-1, replication_factor=-1, assignments=assignments, configs=()
    )
