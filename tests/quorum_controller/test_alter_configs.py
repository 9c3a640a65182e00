"""Changes of configs: which records they make, what ELR and cordoned folders forbid."""

import pytest
from controller_harness import Harness, names, topic
from kio.schema.alter_configs.v2 import request as legacy
from kio.schema.broker_registration.v4.request import Feature
from kio.schema.incremental_alter_configs.v1 import request as incremental

from metadata.image import CONFIG_BROKER, CONFIG_TOPIC
from quorum_controller.alter_configs import APPEND, DELETE, SET, SUBTRACT
from quorum_controller.result import RequestContext
from wire.api_keys import ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS


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


def test_all_configs_of_a_resource_or_none(harness):
    before = configs_of(harness, CONFIG_TOPIC, "a")
    code, _ = alter(harness, 2, "a", ("segment.ms", SET, "9"), ("retention.ms", SET, "soon"))
    assert code == 40
    assert configs_of(harness, CONFIG_TOPIC, "a") == before


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
