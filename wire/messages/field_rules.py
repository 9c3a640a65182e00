"""Fields that changed name or shape between versions of an API.

A rule belongs to a field of the TARGET class (api key, class, field) and applies where the source
class has no field of that name: given the target class, it returns the function from the source
entity to the value. The same table serves both directions.
"""

import sys
import uuid
from collections.abc import Callable
from typing import Any, Final

from wire.api_keys import (
    ALTER_PARTITION,
    DELETE_TOPICS,
    END_QUORUM_EPOCH,
    FETCH,
    LEAVE_GROUP,
    UPDATE_FEATURES,
)
from wire.messages.upgrade_types import SAFE_DOWNGRADE, UPGRADE
from wire.types import METADATA_TOPIC_ID, METADATA_TOPIC_NAME

_METADATA_TOPIC_UUID: Final = uuid.UUID(bytes=METADATA_TOPIC_ID)

Rule = Callable[[type], Callable[[Any], Any]]


def _value(function: Callable[[Any], Any]) -> Rule:
    return lambda _target: function


def _nested(target: type, name: str) -> type:
    """The class of a sibling entity in the module of the target."""
    nested = getattr(sys.modules[target.__module__], name)
    assert isinstance(nested, type)
    return nested


def _replica_state(target: type) -> Callable[[Any], Any]:
    replica_state = _nested(target, "ReplicaState")
    return lambda old: replica_state(replica_id=old.replica_id)


def _topic_id(old: Any) -> uuid.UUID | None:
    """The id of the metadata topic, None (zero id) for other names: only it is fetched by name."""
    return _METADATA_TOPIC_UUID if old.topic == METADATA_TOPIC_NAME else None


def _topic_name(new: Any) -> str:
    return METADATA_TOPIC_NAME if new.topic_id == _METADATA_TOPIC_UUID else ""


def _delete_topic_states(target: type) -> Callable[[Any], Any]:
    state = _nested(target, "DeleteTopicState")
    return lambda old: tuple(state(name=name, topic_id=None) for name in old.topic_names)


def _leaving_members(target: type) -> Callable[[Any], Any]:
    member = _nested(target, "MemberIdentity")
    return lambda old: (member(member_id=old.member_id, group_instance_id=None, reason=None),)


def _preferred_candidates(target: type) -> Callable[[Any], Any]:
    replica = _nested(target, "ReplicaInfo")
    return lambda old: tuple(
        replica(candidate_id=candidate_id, candidate_directory_id=None)
        for candidate_id in old.preferred_successors
    )


def _new_isr_with_epochs(target: type) -> Callable[[Any], Any]:
    broker_state = _nested(target, "BrokerState")
    return lambda old: tuple(broker_state(broker_id=broker_id) for broker_id in old.new_isr)


FIELD_RULES: Final[dict[tuple[int, str, str], Rule]] = {
    (FETCH, "FetchRequest", "replica_state"): _replica_state,
    (FETCH, "FetchRequest", "replica_id"): _value(lambda new: new.replica_state.replica_id),
    (FETCH, "FetchTopic", "topic_id"): _value(_topic_id),
    (FETCH, "FetchTopic", "topic"): _value(_topic_name),
    (FETCH, "ForgottenTopic", "topic_id"): _value(_topic_id),
    (FETCH, "ForgottenTopic", "topic"): _value(_topic_name),
    (FETCH, "FetchableTopicResponse", "topic_id"): _value(_topic_id),
    (FETCH, "FetchableTopicResponse", "topic"): _value(_topic_name),
    (DELETE_TOPICS, "DeleteTopicsRequest", "topics"): _delete_topic_states,
    (DELETE_TOPICS, "DeleteTopicsRequest", "topic_names"): _value(
        lambda new: tuple(state.name or "" for state in new.topics)
    ),
    (LEAVE_GROUP, "LeaveGroupRequest", "members"): _leaving_members,
    (LEAVE_GROUP, "LeaveGroupRequest", "member_id"): _value(lambda new: new.members[0].member_id),
    (END_QUORUM_EPOCH, "PartitionData", "preferred_candidates"): _preferred_candidates,
    (END_QUORUM_EPOCH, "PartitionData", "preferred_successors"): _value(
        lambda new: tuple(candidate.candidate_id for candidate in new.preferred_candidates)
    ),
    (ALTER_PARTITION, "PartitionData", "new_isr_with_epochs"): _new_isr_with_epochs,
    (ALTER_PARTITION, "PartitionData", "new_isr"): _value(
        lambda new: tuple(state.broker_id for state in new.new_isr_with_epochs)
    ),
    (UPDATE_FEATURES, "FeatureUpdateKey", "upgrade_type"): _value(
        lambda old: SAFE_DOWNGRADE if old.allow_downgrade else UPGRADE
    ),
    (UPDATE_FEATURES, "FeatureUpdateKey", "allow_downgrade"): _value(
        lambda new: new.upgrade_type != UPGRADE
    ),
}
