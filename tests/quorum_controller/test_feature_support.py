"""A level is finalized when everybody who is registered supports it."""

from kio.schema.broker_registration.v4.request import Feature
from kio.schema.update_features.v2.request import FeatureUpdateKey, UpdateFeaturesRequest

from tests.quorum_controller.controller_harness import Harness
from wire.api_keys import UPDATE_FEATURES
from wire.errors import ErrorCode

METADATA_VERSION = "metadata.version"


def supporting(level):
    return Feature(name=METADATA_VERSION, min_supported_version=7, max_supported_version=level)


def upgrade(cluster, level):
    update = FeatureUpdateKey(feature=METADATA_VERSION, max_version_level=level, upgrade_type=1)
    answer = cluster.call(UPDATE_FEATURES, UpdateFeaturesRequest(feature_updates=(update,)))
    return answer.error_code, answer.error_message


def test_one_broker_that_does_not_support_a_level_is_named():
    cluster = Harness(level=20)
    for broker_id, level in ((1, 22), (2, 21), (3, 22)):
        assert cluster.register(broker_id, features=(supporting(level),)).error_code == 0
    code, text = upgrade(cluster, 22)
    assert code == ErrorCode.invalid_update_version
    assert "Broker 2" in text
    assert cluster.image.metadata_version == 20
    assert upgrade(cluster, 21) == (ErrorCode.none, None)
    assert cluster.image.metadata_version == 21
