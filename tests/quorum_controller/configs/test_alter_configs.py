"""Changes of configs: which records they make, what ELR and cordoned folders forbid."""

import pytest
from kio.schema.alter_configs.v2 import request as legacy
from kio.schema.broker_registration.v4.request import Feature
from kio.schema.incremental_alter_configs.v1 import request as incremental

from metadata.image import CONFIG_BROKER, CONFIG_TOPIC
from metadata.records import FeatureLevelRecord
from quorum_controller.configs.alter_configs import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
)
from quorum_controller.result import Draft, RequestContext
from quorum_controller.topics.topics import RECORDS_EXCEEDED
from tests.quorum_controller.controller_harness import Harness, names, topic
from wire.api_keys import ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from wire.errors import ErrorCode


@pytest.fixture
def harness():
    made = Harness().start(1)
    made.create(topic("a", configs=[("retention.ms", "5")]))
    return made


def alter(harness, kind, name, *changes, validate_only=False, **context):
    """The (code, text) of one resource."""
    body = incremental.IncrementalAlterConfigsRequest(
        resources=(
            incremental.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=tuple(
                    incremental.AlterableConfig(name=n, config_operation=o, value=v)
                    for n, o, v in changes
                ),
            ),
        ),
        validate_only=validate_only,
    )
    context = RequestContext(**context)
    (row,) = harness.call(INCREMENTAL_ALTER_CONFIGS, body, context=context).responses
    return int(row.error_code), row.error_message


def replace_all(harness, kind, name, **configs):
    body = legacy.AlterConfigsRequest(
        resources=(
            legacy.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=tuple(
                    legacy.AlterableConfig(name=n.replace("_", "."), value=v)
                    for n, v in configs.items()
                ),
            ),
        ),
        validate_only=False,
    )
    (row,) = harness.call(ALTER_CONFIGS, body).responses
    return int(row.error_code), row.error_message


def alter_two(harness):
    """Codes of the newer request for a broker and the default of all."""
    config = incremental.AlterableConfig(
        name="log.cleaner.threads", config_operation=SET, value="2"
    )
    resources = tuple(
        incremental.AlterConfigsResource(resource_type=4, resource_name=n, configs=(config,))
        for n in ("1", "")
    )
    body = incremental.IncrementalAlterConfigsRequest(resources=resources, validate_only=False)
    return [row.error_code for row in harness.call(INCREMENTAL_ALTER_CONFIGS, body).responses]


def replace_two(harness):
    """Codes of the older request for a broker and the default of all."""
    config = legacy.AlterableConfig(name="log.cleaner.threads", value="2")
    resources = tuple(
        legacy.AlterConfigsResource(resource_type=4, resource_name=n, configs=(config,))
        for n in ("1", "")
    )
    body = legacy.AlterConfigsRequest(resources=resources, validate_only=False)
    return [row.error_code for row in harness.call(ALTER_CONFIGS, body).responses]


def configs_of(harness, kind, name):
    return dict(harness.image.config(kind, name).items())


def test_a_list_grows_from_its_default_and_shrinks(harness):
    assert alter(harness, 2, "a", ("cleanup.policy", APPEND, "compact")) == (0, None)
    assert configs_of(harness, CONFIG_TOPIC, "a")["cleanup.policy"] == "delete,compact"
    assert alter(harness, 2, "a", ("cleanup.policy", SUBTRACT, "delete")) == (0, None)
    assert configs_of(harness, CONFIG_TOPIC, "a")["cleanup.policy"] == "compact"


def test_commas_at_the_end_of_a_list_say_nothing(harness):
    """Java's split drops them; a part between two commas stays."""
    assert alter(harness, 2, "a", ("cleanup.policy", APPEND, "compact,,")) == (0, None)
    assert configs_of(harness, CONFIG_TOPIC, "a")["cleanup.policy"] == "delete,compact"
    before = len(harness.log)
    assert alter(harness, 2, "a", ("cleanup.policy", APPEND, ",")) == (0, None)
    assert len(harness.log) == before


def test_only_a_list_grows_and_only_by_a_value(harness):
    text = "Can't APPEND to key retention.ms because its type is not LIST."
    assert alter(harness, 2, "a", ("retention.ms", APPEND, "6")) == (40, text)
    text = "Null value not supported for : cleanup.policy"
    assert alter(harness, 2, "a", ("cleanup.policy", APPEND, None)) == (42, text)
    assert configs_of(harness, CONFIG_TOPIC, "a") == {"retention.ms": "5"}


def test_a_topic_config_that_does_not_change_makes_no_record(harness):
    before = len(harness.log)
    assert alter(harness, 2, "a", ("retention.ms", SET, "5")) == (0, None)
    assert len(harness.log) == before


def test_a_broker_config_always_makes_a_record(harness):
    for _ in range(2):
        before = len(harness.log)
        assert alter(harness, 4, "1", ("log.cleaner.threads", SET, "2")) == (0, None)
        assert names(harness.log[before:]) == ["Config"]


def test_the_older_request_removes_what_it_does_not_name(harness):
    assert replace_all(harness, 2, "a", segment_ms="600000") == (0, None)
    assert configs_of(harness, CONFIG_TOPIC, "a") == {"segment.ms": "600000"}


def test_the_older_request_repeats_a_value_of_a_broker_only(harness):
    for kind, name, config in ((2, "a", "segment_ms"), (4, "1", "log_cleaner_threads")):
        replace_all(harness, kind, name, **{config: "600000"})
        before = len(harness.log)
        assert replace_all(harness, kind, name, **{config: "600000"}) == (0, None)
        assert names(harness.log[before:]) == (["Config"] if kind == 4 else [])


def test_all_configs_of_a_resource_or_none(harness):
    before = configs_of(harness, CONFIG_TOPIC, "a")
    code, _ = alter(harness, 2, "a", ("segment.ms", SET, "9"), ("retention.ms", SET, "soon"))
    assert code == 40
    assert configs_of(harness, CONFIG_TOPIC, "a") == before


@pytest.mark.parametrize("request_of", [alter_two, replace_two])
def test_more_records_than_a_batch_holds_are_refused_for_every_resource(
    harness, monkeypatch, request_of
):
    monkeypatch.setattr("quorum_controller.configs.alter_configs.RECORDS_PER_BATCH_MAX", 1)
    before = len(harness.log)
    assert request_of(harness) == [RECORDS_EXCEEDED.code] * 2
    assert len(harness.log) == before


@pytest.mark.parametrize("validate_only", [False, True])
def test_the_records_that_clear_the_elr_are_counted_too(monkeypatch, validate_only):
    cluster = Harness(level=29)
    newest = Feature(name="metadata.version", min_supported_version=7, max_supported_version=29)
    assert cluster.register(1, features=(newest,)).error_code == 0
    cluster.heartbeat(1)
    cluster.create(topic("a"))
    draft = Draft(cluster.image, cluster.controller.next_offset)
    draft.emit(FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1))
    cluster.take_draft(draft)
    change = ("min.insync.replicas", SET, "2")
    with monkeypatch.context() as patch:
        patch.setattr("quorum_controller.configs.alter_configs.RECORDS_PER_BATCH_MAX", 1)
        code, _ = alter(cluster, 2, "a", change, validate_only=validate_only)
    assert code == RECORDS_EXCEEDED.code
    before = len(cluster.log)
    assert alter(cluster, 2, "a", change) == (0, None)
    assert names(cluster.log[before:]) == ["Config", "ClearElr"]


def test_validate_only_changes_nothing(harness):
    before = len(harness.log)
    change = ("retention.ms", SET, "6")
    assert alter(harness, 2, "a", change, validate_only=True) == (0, None)
    assert len(harness.log) == before


def test_a_deleted_config_is_gone(harness):
    assert alter(harness, 2, "a", ("retention.ms", DELETE, None)) == (0, None)
    assert configs_of(harness, CONFIG_TOPIC, "a") == {}


def test_a_value_may_be_as_long_as_a_short_string(harness):
    fits = ",".join(["1:2"] * 8192)
    assert len(fits) == 32_767
    name = "leader.replication.throttled.replicas"
    assert alter(harness, 2, "a", (name, SET, fits)) == (0, None)
    code, text = alter(harness, 2, "a", (name, SET, fits + "3"))
    assert (code, text.endswith("maximum value size of 32767 bytes.")) == (40, True)


def test_a_broker_that_is_not_registered_has_no_configs(harness):
    change = ("log.cleaner.threads", SET, "2")
    assert alter(harness, 4, "9", change) == (102, "No node with id 9 found.")
    assert alter(harness, 4, "", change) == (0, None)
    assert configs_of(harness, CONFIG_BROKER, "") == {"log.cleaner.threads": "2"}


def test_a_broker_is_found_by_a_long_number(harness):
    """Python's int takes at most 4,300 digits, Java's any number of leading zeros."""
    change = ("log.cleaner.threads", SET, "2")
    assert alter(harness, 4, "0" * 5_000 + "1", change) == (0, None)
    code, text = alter(harness, 4, "0" * 5_000 + "9", change)
    assert (code, text.startswith("No node with id 000")) == (102, True)


@pytest.mark.parametrize(("least", "code"), [("9", 0), ("10", 0), ("11", 40)])
def test_the_shortest_compaction_lag_is_at_most_the_longest(harness, least, code):
    changes = (("max.compaction.lag.ms", SET, "10"), ("min.compaction.lag.ms", SET, least))
    assert alter(harness, 2, "a", *changes)[0] == code


@pytest.mark.parametrize(
    ("pattern", "code"),
    [
        ("client_id=a.*", 0),
        (" client_id = a", 0),
        ("client_id=a==", 0),  # as Java splits: empty parts at the end are none
        ("client_id=", 40),
        ("client_id=a=b", 40),
        ("client=a", 40),
        ("client_id=(", 40),
        pytest.param("client_id=a{99999999999}", 40, id="repetition"),
        pytest.param("client_id=" + "(" * 5_000 + ")" * 5_000, 40, id="nesting"),
    ],
)
def test_a_client_is_matched_by_a_name_and_an_expression(harness, pattern, code):
    assert alter(harness, 16, "m", ("match", SET, pattern))[0] == code


CORDON = ("cordoned.log.dirs", SET, "/x")


def test_cordoning_needs_its_level(harness):
    code, text = alter(harness, 4, "1", CORDON, is_forwarded=True)
    assert (code, "requires metadata.version >= 4.3-IV0" in text) == (40, True)


def test_only_a_broker_adds_folders_to_the_cordoned_ones():
    harness = Harness(level=30)
    newest = Feature(name="metadata.version", min_supported_version=7, max_supported_version=30)
    assert harness.register(1, features=(newest,)).error_code == 0
    code, text = alter(harness, 4, "1", CORDON)
    assert (code, "must be a subset of the current" in text) == (40, True)
    assert alter(harness, 4, "1", CORDON, is_forwarded=True) == (0, None)
    assert alter(harness, 4, "1", CORDON) == (0, None)
    assert alter(harness, 4, "1", ("cordoned.log.dirs", SET, "")) == (0, None)


@pytest.mark.parametrize("unit", ["bytes", "ms"])
def test_without_copies_local_retention_is_the_whole_one(unit):
    """apache/kafka: LogConfig.validateRetentionConfigsWhenRemoteCopyDisabled."""
    cluster = Harness(properties={"remote.log.storage.system.enable": "true"}).start(1)
    cluster.create(topic("a", configs=[("remote.storage.enable", "true")]))
    retained = [(f"retention.{unit}", SET, "5000"), (f"local.retention.{unit}", SET, "4000")]
    disabled = ("remote.log.copy.disable", SET, "true")
    assert alter(cluster, CONFIG_TOPIC, "a", *retained) == (0, None)
    code, text = alter(cluster, CONFIG_TOPIC, "a", disabled)
    assert code == ErrorCode.invalid_config
    assert text is not None
    assert f"the `local.retention.{unit}` and `retention.{unit}` must be set" in text
    equal = (f"local.retention.{unit}", SET, "5000")
    assert alter(cluster, CONFIG_TOPIC, "a", disabled, equal) == (0, None)
    same = (f"local.retention.{unit}", SET, "-2")
    assert alter(cluster, CONFIG_TOPIC, "a", same) == (0, None)


def test_a_resource_that_comes_twice_is_refused_each_time_and_others_are_not(harness):
    change = incremental.AlterableConfig(name="retention.ms", config_operation=SET, value="7")
    harness.create(topic("b"))
    resources = tuple(
        incremental.AlterConfigsResource(resource_type=2, resource_name=name, configs=(change,))
        for name in ("a", "b", "a")
    )
    body = incremental.IncrementalAlterConfigsRequest(resources=resources, validate_only=False)
    rows = harness.call(INCREMENTAL_ALTER_CONFIGS, body).responses
    said = [(row.error_code.name, row.error_message) for row in rows]
    twice = ("invalid_request", "Duplicate resource.")
    assert said == [twice, ("none", None), twice]
