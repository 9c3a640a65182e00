"""UpdateFeatures: every reason to refuse a level in Kafka's words, and the records of the rest."""

import pytest
from kio.schema.update_features.v2.request import FeatureUpdateKey, UpdateFeaturesRequest

from metadata.features import missing_dependency
from metadata.image import CONFIG_BROKER
from metadata.records import (
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    RegisterControllerRecord,
    SupportedFeature,
)
from quorum_controller.result import Draft
from tests.quorum_controller.controller_harness import Harness, names
from wire.api_keys import UPDATE_FEATURES
from wire.errors import ErrorCode

METADATA, KRAFT = "metadata.version", "kraft.version"
GROUP, ELR = "group.version", "eligible.leader.replicas.version"
UPGRADE, SAFE, UNSAFE = 1, 2, 3
FAILED = "The update failed for all features since the following feature had an error: "
LOWER = (
    "Can't downgrade the version of this feature without setting the upgrade type to either safe"
    " or unsafe downgrade."
)
TYPE = "The controller does not support the given upgrade type."
SILENT = "controller 2 has not registered, and may not support this feature"


def cluster(level=25, *, registered=(), voter_ids=(1, 2), **finalized):
    """Node 1 leads; `registered` are controllers and their ranges of metadata.version."""
    harness = Harness(level=level, voter_ids=voter_ids)
    draft = Draft(harness.image, harness.controller.next_offset)
    for controller_id, (low, high) in dict(registered).items():
        ranges = ((METADATA, low, high), (GROUP, 0, 1), (ELR, 0, 1))
        draft.emit(
            RegisterControllerRecord(
                controller_id=controller_id,
                incarnation_id=bytes([controller_id] * 16),
                features=tuple(
                    SupportedFeature(
                        name=name, min_supported_version=first, max_supported_version=last
                    )
                    for name, first, last in ranges
                ),
            )
        )
    for name, feature_level in finalized.items():
        draft.emit(FeatureLevelRecord(name=name.replace("_", "."), feature_level=feature_level))
    harness.take_draft(draft)
    return harness


def update(harness, *updates, **more):
    """Code, text and the names of the records."""
    before = len(harness.log)
    keys = tuple(
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
        for name, level, kind in updates
    )
    answer = harness.call(UPDATE_FEATURES, UpdateFeaturesRequest(feature_updates=keys), **more)
    return answer.error_code, answer.error_message, names(harness.log[before:])


def both(**more):
    return cluster(registered={2: (7, 30)}, **more)


NOT_HERE = "Local controller 1 does not support this feature."
NEWER = "Can't downgrade to a newer version."
BELOW_0 = "A feature version cannot be less than 0."
NO_ELR = f"{ELR} could not be set to 1 because it depends on metadata.version level 23"
LOSSY = (
    "Unsupported metadata.version downgrade from 25 to 22. Refusing to perform the requested"
    " downgrade because it might delete metadata information."
)
LOSSY_UNSAFE = (
    "Unsupported metadata.version downgrade from 25 to 22. Unsafe metadata downgrade is not"
    " supported in this version."
)


def knowing_itself():
    return cluster(registered={1: (7, 7), 2: (7, 30)})


def one_supports(low, high):
    return lambda: cluster(registered={2: (low, high)})


@pytest.mark.parametrize(
    ("make", "name", "level", "kind", "reason"),
    [
        (both, GROUP, 1, 0, TYPE),
        (both, GROUP, 1, 4, TYPE),
        (both, GROUP, -1, SAFE, BELOW_0),
        (both, GROUP, 2, UPGRADE, "Local controller 1 only supports versions 0-1"),
        (both, "no.such", 1, UPGRADE, NOT_HERE),
        (both, KRAFT, 1, UPGRADE, "Controller 2 does not support this feature."),
        (both, KRAFT, 2, UPGRADE, "Local controller 1 only supports versions 0-1"),
        (one_supports(7, 26), METADATA, 27, UPGRADE, "Controller 2 only supports versions 7-26"),
        (one_supports(26, 26), METADATA, 27, UPGRADE, "Controller 2 only supports versions 26"),
        (cluster, METADATA, 26, UPGRADE, SILENT),
        (both, METADATA, 24, UPGRADE, LOWER),
        (both, METADATA, 26, SAFE, NEWER),
        (both, METADATA, 26, UNSAFE, NEWER),
        (both, METADATA, 22, SAFE, LOSSY),
        (both, METADATA, 22, UNSAFE, LOSSY_UNSAFE),
        (lambda: both(level=22), ELR, 1, UPGRADE, NO_ELR),
    ],
)
def test_a_level_is_refused(make, name, level, kind, reason):
    harness = make()
    before = dict(harness.image.features.items()), harness.image.metadata_version
    is_whole = reason.startswith("Unsupported")
    text = reason if is_whole else f"Invalid update version {level} for feature {name}. {reason}"
    code, found, records = update(harness, (name, level, kind))
    assert (code, found, records) == (ErrorCode.invalid_update_version, FAILED + text, [])
    assert (dict(harness.image.features.items()), harness.image.metadata_version) == before


@pytest.mark.parametrize(
    ("make", "name", "level", "kind", "records"),
    [
        (both, METADATA, 26, UPGRADE, ["FeatureLevel"]),
        (both, METADATA, 25, UPGRADE, ["FeatureLevel"]),
        (both, METADATA, 23, SAFE, ["FeatureLevel"]),
        (both, METADATA, 24, UNSAFE, ["FeatureLevel"]),
        (both, GROUP, 1, UPGRADE, ["FeatureLevel"]),
        (lambda: both(group_version=1), GROUP, 0, SAFE, ["FeatureLevel"]),
        (both, KRAFT, 0, UPGRADE, ["NoOp"]),
        (both, KRAFT, 0, SAFE, []),
        (both, ELR, 1, UPGRADE, ["Config", "FeatureLevel"]),
        (both, ELR, 0, UPGRADE, ["FeatureLevel"]),
        (lambda: cluster(level=14), METADATA, 14, UPGRADE, ["FeatureLevel"]),
        (lambda: cluster(voter_ids=(1,)), METADATA, 26, UPGRADE, ["FeatureLevel"]),
        (knowing_itself, METADATA, 26, UPGRADE, ["FeatureLevel"]),
    ],
)  # fmt: skip
def test_a_level_is_taken(make, name, level, kind, records):
    """Below level 15 controllers do not register; this one knows itself without a registration."""
    assert update(make(), (name, level, kind)) == (ErrorCode.none, None, records)


def test_a_level_of_kraft_version_in_the_image_is_not_the_current_one():
    """It is finalized by a control record of the log, not by a FeatureLevelRecord."""
    harness = both(kraft_version=1)
    assert update(harness, (KRAFT, 0, UPGRADE)) == (ErrorCode.none, None, ["NoOp"])


def test_one_refused_feature_refuses_all():
    harness = both()
    code, text, records = update(harness, (GROUP, 1, UPGRADE), (METADATA, 24, UPGRADE))
    assert (code, records) == (ErrorCode.invalid_update_version, [])
    assert METADATA in text
    assert harness.image.features.get(GROUP, 0) == 0


def test_levels_of_one_request_count_for_each_other():
    harness = both(level=22)
    code, _, records = update(harness, (ELR, 1, UPGRADE), (METADATA, 23, UPGRADE))
    assert (code, records) == (ErrorCode.none, ["Config", "FeatureLevel", "FeatureLevel"])


def test_eligible_leader_replicas_set_the_minimum_of_the_cluster_once():
    harness = both()
    draft = Draft(harness.image, harness.controller.next_offset)
    draft.emit(
        ConfigRecord(
            resource_type=CONFIG_BROKER, resource_name="", name="min.insync.replicas", value="2"
        )
    )
    harness.take_draft(draft)
    assert update(harness, (ELR, 1, UPGRADE)) == (ErrorCode.none, None, ["FeatureLevel"])


def test_a_dependency_on_a_metadata_version_that_can_hold_features():
    assert missing_dependency(GROUP, 1, {METADATA: 6}) == (
        "group.version could not be set to 1 because it depends on metadata.version=7 (3.3-IV3)"
    )
    assert missing_dependency(GROUP, 1, {METADATA: 7}) is None
    assert missing_dependency(GROUP, 0, {METADATA: 6}) is None
    assert missing_dependency(ELR, 1, {METADATA: 22}) is not None
    assert missing_dependency(ELR, 1, {METADATA: 23}) is None


def test_only_the_no_op_of_kraft_version_is_one():
    harness = both()
    before = len(harness.log)
    update(harness, (KRAFT, 0, UPGRADE))
    assert harness.log[before:] == [NoOpRecord()]
