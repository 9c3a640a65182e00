"""StandardAuthorizer's decision, and ACLs created, described and deleted."""

from types import SimpleNamespace

import pytest

from metadata.apply import apply_all
from metadata.delta import MetadataDelta
from metadata.image import EMPTY, Acl
from metadata.image import Image as ImageType
from quorum_controller.result import RECORDS_PER_BATCH_MAX
from quorum_controller.security.authorization import (
    AccessRules,
    Action,
    Caller,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    cluster_error,
    host_text,
    is_allowed,
    is_allowed_somewhere,
)
from quorum_controller.topics.topics import RECORDS_EXCEEDED
from tests.quorum_controller.history import handled, queried
from wire import api_keys as keys
from wire.api_keys import CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS
from wire.errors import ErrorCode

ALICE = Caller("User:alice", "10.0.0.1")
ALLOW, DENY = Permission.ALLOW, Permission.DENY
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


def acl(name="t", operation=Operation.READ, permission=ALLOW, **more):
    fields = {
        "resource_type": ResourceType.TOPIC,
        "pattern_type": LITERAL,
        "principal": "User:alice",
        "host": "*",
    }
    return Acl(
        resource_name=name,
        operation=int(operation),
        permission_type=int(permission),
        **{key: int(v) if isinstance(v, int) else v for key, v in (fields | more).items()},
    )


def image(*acls) -> ImageType:
    found = EMPTY.acls
    for number, entry in enumerate(acls):
        found = found.set(number.to_bytes(16, "big"), entry)
    return ImageType(acls=found)


def may(acls, operation=Operation.READ, name="t", rules=AccessRules(), caller=ALICE):  # noqa: B008
    return is_allowed(image(*acls), rules, caller, Action(operation, ResourceType.TOPIC, name))


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ((), False),
        ((acl(),), True),
        ((acl("other"),), False),
        ((acl("*"),), True),
        ((acl("*", pattern_type=PREFIXED),), False),
        ((acl("", pattern_type=PREFIXED),), True),
        ((acl("t", pattern_type=PREFIXED),), True),
        ((acl("tt", pattern_type=PREFIXED),), False),
        ((acl(principal="User:*"),), True),
        ((acl(principal="User:bob"),), False),
        ((acl(host="10.0.0.1"),), True),
        ((acl(host="10.0.0.2"),), False),
        ((acl(operation=Operation.ALL),), True),
        ((acl(operation=Operation.WRITE),), False),
        ((acl(resource_type=ResourceType.GROUP),), False),
        ((acl(), acl(permission=DENY)), False),
        ((acl(), acl("*", permission=DENY)), False),
        ((acl(), acl("t", permission=DENY, pattern_type=PREFIXED)), False),
        ((acl(), acl(permission=DENY, host="10.0.0.2")), True),
        ((acl(), acl(operation=Operation.ALL, permission=DENY, principal="User:*")), False),
    ],
)
def test_who_may_read(acls, expected):
    assert may(acls) is expected


@pytest.mark.parametrize("granted", list(Operation)[2:])
def test_some_operations_imply_others(granted):
    describing = {"ALL", "DESCRIBE", "READ", "WRITE", "DELETE", "ALTER"}
    configuring = {"ALL", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"}
    assert may([acl(operation=granted)], Operation.DESCRIBE) is (granted.name in describing)
    assert may([acl(operation=granted)], Operation.DESCRIBE_CONFIGS) is (
        granted.name in configuring
    )
    # A denial implies nothing: DESCRIBE stays allowed by READ, unless DESCRIBE or ALL is denied.
    denied = [acl(), acl(operation=granted, permission=DENY)]
    assert may(denied, Operation.DESCRIBE) is (granted.name not in ("ALL", "DESCRIBE"))


def test_settings_of_the_authorizer():
    assert may([acl(permission=DENY)], rules=AccessRules(frozenset({"User:alice"})))
    everyone = AccessRules(allows_without_acl=True)
    assert may([], rules=everyone)
    assert may([acl("other")], rules=everyone)
    assert not may([acl(principal="User:bob")], rules=everyone), "there is an ACL, for others"


def test_cluster_operations():
    rules = AccessRules()
    cluster = {"resource_type": ResourceType.CLUSTER, "name": "kafka-cluster"}
    granted = image(acl(operation=Operation.ALTER, **cluster))
    assert cluster_error(granted, rules, ALICE, 43) is None
    refused = cluster_error(image(), rules, ALICE, 43)
    assert refused is not None
    assert refused.code is ErrorCode.cluster_authorization_failed
    assert cluster_error(image(), None, ALICE, 43) is None
    assert cluster_error(image(), rules, ALICE, 19) is None, "CreateTopics looks at topics"


NEEDED = {
    Operation.CLUSTER_ACTION: {
        keys.FETCH, keys.VOTE, keys.BEGIN_QUORUM_EPOCH, keys.END_QUORUM_EPOCH, keys.FETCH_SNAPSHOT,
        keys.UPDATE_RAFT_VOTER, keys.ALTER_PARTITION, keys.ENVELOPE, keys.BROKER_REGISTRATION,
        keys.BROKER_HEARTBEAT, keys.ALLOCATE_PRODUCER_IDS, keys.CONTROLLER_REGISTRATION,
        keys.ASSIGN_REPLICAS_TO_DIRS,
    },
    Operation.ALTER: {
        keys.CREATE_ACLS, keys.DELETE_ACLS, keys.ELECT_LEADERS, keys.ALTER_PARTITION_REASSIGNMENTS,
        keys.ALTER_USER_SCRAM_CREDENTIALS, keys.UPDATE_FEATURES, keys.UNREGISTER_BROKER,
        80, 81,  # AddRaftVoter, RemoveRaftVoter
    },
    Operation.DESCRIBE: {
        keys.DESCRIBE_ACLS, keys.DESCRIBE_LOG_DIRS, keys.LIST_PARTITION_REASSIGNMENTS,
        keys.DESCRIBE_USER_SCRAM_CREDENTIALS, keys.DESCRIBE_QUORUM,
    },
    Operation.DESCRIBE_CONFIGS: {keys.DESCRIBE_CLIENT_QUOTAS, keys.LIST_CONFIG_RESOURCES},
    Operation.ALTER_CONFIGS: {keys.ALTER_CLIENT_QUOTAS},
}  # fmt: skip


def test_what_each_api_needs_of_the_cluster():
    found = {}
    for api_key in range(128):
        error = cluster_error(image(), AccessRules(), ALICE, api_key)
        if error is not None:
            found.setdefault(error.message, set()).add(api_key)
    assert found == {
        f"Request of User:alice needs {operation.name} permission.": needing
        for operation, needing in NEEDED.items()
    }


def test_addresses_as_acls_have_them():
    assert host_text(bytes([127, 0, 0, 1])) == "127.0.0.1"
    assert host_text(bytes(15) + b"\x01") == "0:0:0:0:0:0:0:1"


def creation(**more):
    fields = {
        "resource_type": 2,
        "resource_name": "t",
        "resource_pattern_type": 3,
        "principal": "User:a",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    return SimpleNamespace(**(fields | more))


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"resource_type": 1}, "Invalid resourceType ANY"),
        ({"resource_type": 99}, "Invalid resourceType UNKNOWN"),
        ({"resource_pattern_type": 2}, "Invalid patternType MATCH"),
        ({"operation": 1}, "Invalid operation ANY"),
        ({"permission_type": 1}, "Invalid permissionType ANY"),
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"resource_type": 4}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        (
            {"principal": "alice"},
            (
                "Could not parse principal from `alice` (no colon is present separating the "
                "principal type from the principal name)"
            ),
        ),
    ],
)
def test_wrong_acls_are_refused_alone(more, text):
    request = SimpleNamespace(creations=(creation(**more), creation(), creation()))
    response, records = handled(CREATE_ACLS, EMPTY, request)
    codes = [row.error_code for row in response.results]
    assert codes == [ErrorCode.invalid_request, ErrorCode.none, ErrorCode.none]
    assert response.results[0].error_message == text
    assert len(records) == 1, "the third is the second"


@pytest.mark.parametrize(
    ("more", "count"), [({}, 0), ({"principal": "User:b"}, 1), ({"permission_type": 2}, 1)]
)
def test_an_acl_that_exists_is_not_written_again(more, count):
    first = SimpleNamespace(creations=(creation(),))
    _, records = handled(CREATE_ACLS, EMPTY, first)
    before = apply_all(EMPTY, records, 0, MetadataDelta())
    again = SimpleNamespace(creations=(creation(**more),))
    response, records = handled(CREATE_ACLS, before, again, new_uuid=lambda: b"2" * 16)
    assert [row.error_code for row in response.results] == [ErrorCode.none]
    assert len(records) == count


@pytest.mark.parametrize("excess", [0, 1])
def test_no_more_acls_at_once_than_records_of_a_batch(excess):
    names = [f"t{number}" for number in range(RECORDS_PER_BATCH_MAX + excess)]
    request = SimpleNamespace(creations=tuple(creation(resource_name=name) for name in names))
    response, records = handled(CREATE_ACLS, EMPTY, request)
    expected = (ErrorCode.none, RECORDS_EXCEEDED.code)[excess]
    assert {row.error_code for row in response.results} == {expected}
    assert len(records) == (0 if excess else RECORDS_PER_BATCH_MAX)


def wanted(**more):
    fields = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    return SimpleNamespace(**(fields | more))


@pytest.mark.parametrize(
    ("more", "names"),
    [
        ({}, {"t", "te", "*", "u"}),
        ({"resource_name_filter": "t"}, {"t"}),
        ({"resource_name_filter": "t", "pattern_type_filter": 3}, {"t"}),
        ({"resource_name_filter": "t", "pattern_type_filter": 4}, set()),
        ({"resource_name_filter": "test", "pattern_type_filter": 2}, {"te", "*"}),
        ({"resource_type_filter": 3}, set()),
        ({"principal_filter": "User:bob"}, {"u"}),
        ({"operation": 4}, set()),
        ({"permission_type": 2}, set()),
        ({"host_filter": "*"}, {"t", "te", "*", "u"}),
    ],
)
def test_filters_find_and_delete(more, names):
    before = image(
        acl("t"), acl("te", pattern_type=PREFIXED), acl("*"), acl("u", principal="User:bob")
    )
    described = queried(DESCRIBE_ACLS, before, wanted(**more))
    assert {row.resource_name for row in described.resources} == names
    both = SimpleNamespace(filters=(wanted(**more), wanted(**more)))
    response, records = handled(DELETE_ACLS, before, both)
    found = [{a.resource_name for a in row.matching_acls} for row in response.filter_results]
    assert found == [names, names]
    assert len(records) == len(names), "each is deleted once"
    after = apply_all(before, records, 0, MetadataDelta())
    assert not queried(DESCRIBE_ACLS, after, wanted(**more)).resources


def test_unknown_parts_of_filters():
    both = SimpleNamespace(filters=(wanted(pattern_type_filter=9), wanted(operation=0)))
    response, _ = handled(DELETE_ACLS, EMPTY, both)
    assert [row.error_message for row in response.filter_results] == [
        "Unknown patternFilter.",
        "Unknown entryFilter.",
    ]


def test_without_an_authorizer():
    response = queried(DESCRIBE_ACLS, EMPTY, wanted(), access=None)
    assert response.error_code is ErrorCode.security_disabled
    created, _ = handled(CREATE_ACLS, EMPTY, SimpleNamespace(creations=(creation(),)), access=None)
    assert created.results[0].error_message == "No Authorizer is configured."


WRITE = Operation.WRITE


@pytest.mark.parametrize(
    ("acls", "is_one_allowed"),
    [
        ([], False),
        ([acl("t", WRITE)], True),
        ([acl("t", Operation.ALL)], True),
        ([acl("t", Operation.READ)], False),
        ([acl("t", WRITE, principal="User:bob")], False),
        ([acl("t", WRITE, host="10.0.0.2")], False),
        ([acl("g", WRITE, resource_type=ResourceType.GROUP)], False),
        ([acl("*", WRITE)], True),
        ([acl("t", WRITE), acl("t", WRITE, DENY)], False),
        ([acl("t", WRITE), acl("u", WRITE, DENY)], True),
        ([acl("t", WRITE), acl("t", Operation.READ, DENY)], True),
        ([acl("t", WRITE), acl("*", WRITE, DENY)], False),
        ([acl("t", WRITE, pattern_type=PREFIXED), acl("t", WRITE, DENY)], True),
        ([acl("tu", WRITE), acl("t", WRITE, DENY, pattern_type=PREFIXED)], False),
        ([acl("t", WRITE), acl("tu", WRITE, DENY, pattern_type=PREFIXED)], True),
        ([acl("t", WRITE, pattern_type=PREFIXED), acl("*", WRITE, DENY)], False),
        ([acl("t", WRITE), acl("t", WRITE, DENY), acl("u", WRITE)], True),
        ([acl("*", WRITE), acl("hard", WRITE, DENY, pattern_type=PREFIXED)], True),
    ],
)
def test_some_topic_may_be_written(acls, is_one_allowed):
    found = is_allowed_somewhere(image(*acls), AccessRules(), ALICE, WRITE, ResourceType.TOPIC)
    assert found == is_one_allowed


def test_super_users_and_clusters_without_acls_may_write_some_topic():
    deny = image(acl("*", WRITE, DENY))
    for rules, at, may_write in (
        (AccessRules(super_users=frozenset({"User:alice"})), deny, True),
        (AccessRules(allows_without_acl=True), image(), True),
        (AccessRules(allows_without_acl=True), deny, False),
    ):
        assert is_allowed_somewhere(at, rules, ALICE, WRITE, ResourceType.TOPIC) == may_write
