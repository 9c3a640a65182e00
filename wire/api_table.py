"""Table of the APIs and their versions, and of those that a listener offers.

The ranges are those of Kafka 4.3 per kind of listener; an API that a node does not serve is not
listed, so that a client never negotiates a version of it. Ranges that reach below what kio can
decode (Produce before 3) are listed as Kafka does, because librdkafka looks for them.
"""

import enum
from collections.abc import Collection, Mapping
from datetime import timedelta
from functools import cache
from typing import Any, Final

import msgspec

from wire.api_keys import API_VERSIONS
from wire.errors import ErrorCode


class ListenerKind(enum.Enum):
    """Kind of a listener: for clients, other brokers' included, or for the nodes of the quorum."""

    BROKER = "broker"
    CONTROLLER = "controller"


class Api(msgspec.Struct, frozen=True):
    """One served API with the versions offered, both ends included."""

    key: int
    name: str
    min_version: int
    max_version: int


class ApiSchema(msgspec.Struct, frozen=True):
    """An API: its schema package, the newest version known, the offered ranges (inclusive)."""

    key: int
    package: str
    newest_version: int
    broker_range: tuple[int, int] | None
    controller_range: tuple[int, int] | None

    @property
    def name(self) -> str:
        """Kafka's name, as in CreateTopics."""
        return "".join(word.capitalize() for word in self.package.split("_"))


# api key, kio package, newest version in kio, range on brokers, range on controllers
SCHEMAS: Final = {
    row[0]: ApiSchema(*row)
    for row in (
        (0, "produce", 13, (0, 13), None),
        (1, "fetch", 18, (4, 18), (4, 18)),
        (2, "list_offsets", 11, (1, 11), None),
        (3, "metadata", 13, (0, 13), None),
        (8, "offset_commit", 10, (2, 10), None),
        (9, "offset_fetch", 10, (1, 10), None),
        (10, "find_coordinator", 6, (0, 6), None),
        (11, "join_group", 9, (0, 9), None),
        (12, "heartbeat", 4, (0, 4), None),
        (13, "leave_group", 5, (0, 5), None),
        (14, "sync_group", 5, (0, 5), None),
        (15, "describe_groups", 6, (0, 6), None),
        (16, "list_groups", 5, (0, 5), None),
        (17, "sasl_handshake", 1, (0, 1), (0, 1)),
        (18, "api_versions", 4, (0, 4), (0, 4)),
        (19, "create_topics", 7, (2, 7), (2, 7)),
        (20, "delete_topics", 6, (1, 6), (1, 6)),
        (21, "delete_records", 2, (0, 2), None),
        (22, "init_producer_id", 6, (0, 5), None),
        (23, "offset_for_leader_epoch", 4, (2, 4), None),
        (24, "add_partitions_to_txn", 5, (0, 5), None),
        (25, "add_offsets_to_txn", 4, (0, 4), None),
        (26, "end_txn", 5, (0, 5), None),
        (27, "write_txn_markers", 2, (1, 2), None),
        (28, "txn_offset_commit", 5, (0, 5), None),
        (29, "describe_acls", 3, (1, 3), (1, 3)),
        (30, "create_acls", 3, (1, 3), (1, 3)),
        (31, "delete_acls", 3, (1, 3), (1, 3)),
        (32, "describe_configs", 4, (1, 4), (1, 4)),
        (33, "alter_configs", 2, (0, 2), (0, 2)),
        (34, "alter_replica_log_dirs", 2, (1, 2), None),
        (35, "describe_log_dirs", 5, (1, 5), None),
        (36, "sasl_authenticate", 2, (0, 2), (0, 2)),
        (37, "create_partitions", 3, (0, 3), (0, 3)),
        (38, "create_delegation_token", 3, (1, 3), (1, 3)),
        (39, "renew_delegation_token", 2, (1, 2), (1, 2)),
        (40, "expire_delegation_token", 2, (1, 2), (1, 2)),
        (41, "describe_delegation_token", 3, (1, 3), (1, 3)),
        (42, "delete_groups", 2, (0, 2), None),
        (43, "elect_leaders", 2, (0, 2), (0, 2)),
        (44, "incremental_alter_configs", 1, (0, 1), (0, 1)),
        (45, "alter_partition_reassignments", 1, (0, 1), (0, 1)),
        (46, "list_partition_reassignments", 0, (0, 0), (0, 0)),
        (47, "offset_delete", 0, (0, 0), None),
        (48, "describe_client_quotas", 1, (0, 1), None),
        (49, "alter_client_quotas", 1, (0, 1), (0, 1)),
        (50, "describe_user_scram_credentials", 0, (0, 0), (0, 0)),
        (51, "alter_user_scram_credentials", 0, (0, 0), (0, 0)),
        (52, "vote", 2, None, (0, 2)),
        (53, "begin_quorum_epoch", 1, None, (0, 1)),
        (54, "end_quorum_epoch", 1, None, (0, 1)),
        (55, "describe_quorum", 2, (0, 2), (0, 2)),
        (56, "alter_partition", 3, None, (2, 3)),
        (57, "update_features", 2, (0, 2), (0, 2)),
        (58, "envelope", 0, None, (0, 0)),
        (59, "fetch_snapshot", 1, None, (0, 1)),
        (60, "describe_cluster", 2, (0, 2), (0, 2)),
        (61, "describe_producers", 0, (0, 0), None),
        (62, "broker_registration", 4, None, (0, 4)),
        (63, "broker_heartbeat", 2, None, (0, 2)),
        (64, "unregister_broker", 0, (0, 0), (0, 0)),
        (65, "describe_transactions", 0, (0, 0), None),
        (66, "list_transactions", 2, (0, 2), None),
        (67, "allocate_producer_ids", 0, None, (0, 0)),
        (68, "consumer_group_heartbeat", 1, (0, 1), None),
        (69, "consumer_group_describe", 1, (0, 1), None),
        (70, "controller_registration", 0, None, (0, 0)),
        (71, "get_telemetry_subscriptions", 0, None, None),
        (72, "push_telemetry", 0, None, None),
        (73, "assign_replicas_to_dirs", 0, None, (0, 0)),
        (74, "list_config_resources", 1, (0, 1), None),
        (75, "describe_topic_partitions", 0, (0, 0), None),
        (76, "share_group_heartbeat", 1, (1, 1), None),
        (77, "share_group_describe", 1, (1, 1), None),
        (78, "share_fetch", 2, (1, 2), None),
        (79, "share_acknowledge", 2, (1, 2), None),
        (80, "add_raft_voter", 1, (0, 1), (0, 1)),
        (81, "remove_raft_voter", 0, (0, 0), (0, 0)),
        (82, "update_raft_voter", 0, None, (0, 0)),
        (83, "initialize_share_group_state", 0, (0, 0), None),
        (84, "read_share_group_state", 0, (0, 0), None),
        (85, "write_share_group_state", 1, (0, 1), None),
        (86, "delete_share_group_state", 0, (0, 0), None),
        (87, "read_share_group_state_summary", 1, (0, 1), None),
        (88, "streams_group_heartbeat", 0, (0, 0), None),
        (89, "streams_group_describe", 0, (0, 0), None),
        (90, "describe_share_group_offsets", 1, (0, 1), None),
        (91, "alter_share_group_offsets", 0, (0, 0), None),
        (92, "delete_share_group_offsets", 0, (0, 0), None),
    )
}


UNKNOWN_VERSION: Final = -1


def counted_version(api_key: int, version: int) -> int:
    """Version under which a request is counted: one for all that an API has not.

    Clients write what they like into a header; what is kept for each pair must stay small.
    """
    return version if 0 <= version <= SCHEMAS[api_key].newest_version else UNKNOWN_VERSION


_NAMES: Final = {key: schema.name for key, schema in SCHEMAS.items()}


def apis(listener_kind: ListenerKind, served: Collection[int]) -> dict[int, Api]:
    """The APIs of a listener by key, ascending; ApiVersions is always one of them."""
    table = {}
    for key in sorted({*served, API_VERSIONS}):
        schema = SCHEMAS[key]
        offered = (
            schema.broker_range if listener_kind is ListenerKind.BROKER else schema.controller_range
        )
        assert offered is not None, f"{schema.name} is not an API of a {listener_kind.value}"
        table[key] = Api(key, schema.name, *offered)
    return table


def api_name(api_key: int) -> str:
    """Kafka's name of the API, or its number."""
    return _NAMES.get(api_key) or f"API {api_key}"


@cache
def _listed(key: int, min_version: int, max_version: int) -> Any:
    """One row of an ApiVersions response, shared by all connections."""
    from kio.schema.api_versions.v4 import response as v4  # noqa: PLC0415
    from kio.static.primitive import i16  # noqa: PLC0415

    return v4.ApiVersion(
        api_key=i16(key), min_version=i16(min_version), max_version=i16(max_version)
    )


def api_versions_body(
    table: Mapping[int, Api],
    supported_features: Mapping[str, tuple[int, int]] | None = None,
    finalized_features: Mapping[str, int] | None = None,
    finalized_features_epoch: int = -1,
    error: ErrorCode = ErrorCode.none,
) -> Any:
    """The ApiVersions response: the APIs of the table and the feature levels of the cluster.

    With the error UNSUPPORTED_VERSION only ApiVersions itself is listed, so that the client can
    repeat the request in a version that this node knows.
    """
    from kio.schema.api_versions.v4 import response as v4  # noqa: PLC0415
    from kio.static.primitive import i16, i32Timedelta, i64  # noqa: PLC0415

    is_refusal = error is ErrorCode.unsupported_version
    listed = [table[API_VERSIONS]] if is_refusal else table.values()
    return v4.ApiVersionsResponse(
        error_code=error,
        api_keys=tuple(_listed(api.key, api.min_version, api.max_version) for api in listed),
        throttle_time=i32Timedelta.parse(timedelta(0)),
        supported_features=tuple(
            v4.SupportedFeatureKey(name=name, min_version=i16(lowest), max_version=i16(highest))
            for name, (lowest, highest) in (supported_features or {}).items()
        ),
        finalized_features_epoch=i64(finalized_features_epoch),
        finalized_features=tuple(
            v4.FinalizedFeatureKey(
                name=name, max_version_level=i16(level), min_version_level=i16(level)
            )
            for name, level in (finalized_features or {}).items()
        ),
    )
