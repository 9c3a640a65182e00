"""UpdateFeatures: changes of finalized feature levels (KIP-584, KIP-778).

A level is accepted if this controller, every registered broker and every registered controller
support it, and every voter is registered: the error names the first that does not. One refused
feature refuses the whole request.
Source: apache/kafka: metadata/.../controller/FeatureControlManager.java, QuorumFeatures.java,
server-common/.../Feature.java; 4.3.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, cast

from kio.schema.update_features.v1 import response as _per_feature_v1

from metadata.features import (
    ELR_VERSION,
    FORMAT_CHANGE_LEVELS,
    KRAFT_VERSION,
    LEVEL_CONTROLLER_REGISTRATION,
    METADATA_VERSION_MIN,
    METADATA_VERSION_NAMES,
    missing_dependency,
)
from metadata.image import METADATA_VERSION, Image
from metadata.records import FeatureLevelRecord, NoOpRecord, SupportedFeature
from quorum_controller.bodies import NO_TIME
from quorum_controller.handler_result import HandlerResult
from quorum_controller.partitions.elr import elr_activation_records
from quorum_controller.result import Draft
from quorum_controller.services import Services
from wire.api_keys import UPDATE_FEATURES
from wire.errors import ApiError, ErrorCode
from wire.messages import codec
from wire.messages.codec import Entity, Schema
from wire.messages.upgrade_types import SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, UPGRADE

if TYPE_CHECKING:
    from kio.schema.update_features.v2.request import UpdateFeaturesRequest

_update_features: Final = codec.newest(UPDATE_FEATURES, "response")
_per_feature: Final = cast(Schema, _per_feature_v1)

_ROWS_VERSION_MAX: Final = 1
"""Last version in which a successful response has a row per feature."""
_FAILED: Final = "The update failed for all features since the following feature had an error: "


def update_features(
    draft: Draft, request: "UpdateFeaturesRequest", services: Services
) -> HandlerResult | ApiError:
    """Change levels; with validate_only the draft stays empty.

    Returns:
        An UpdateFeaturesResponse: INVALID_UPDATE_VERSION names feature, level and reason.
    """
    image = draft.image
    updates = {str(u.feature): u for u in request.feature_updates}
    proposed = {METADATA_VERSION: image.metadata_version, **dict(image.features.items())}
    proposed |= {name: int(update.max_version_level) for name, update in updates.items()}
    raised: int | None = None
    records: list[FeatureLevelRecord | NoOpRecord] = []
    for name, update in updates.items():
        level, kind = int(update.max_version_level), int(update.upgrade_type)
        error = _update_error(image, services, name, level, kind, proposed)
        if error is not None:
            refused = ApiError(ErrorCode.invalid_update_version, _FAILED + error)
            return HandlerResult(update_features_error(request, refused))
        if name == KRAFT_VERSION:
            records += [NoOpRecord()] if kind == UPGRADE else []
            raised = level if level > services.quorum.kraft_version else None
        else:
            records.append(FeatureLevelRecord(name=name, feature_level=level))
    if not request.validate_only:
        if ELR_VERSION in updates and proposed[ELR_VERSION] > 0:
            for record in elr_activation_records(image, services.electorate.defaults):
                draft.emit(record)
        for record in records:
            draft.emit(record)
    if request.validate_only:
        raised = None
    if services.context.api_version <= _ROWS_VERSION_MAX:
        return HandlerResult(_row_per_feature(request), kraft_version=raised)
    response = update_features_error(request, ApiError(ErrorCode.none))
    return HandlerResult(response, kraft_version=raised)


def update_features_error(_request: "UpdateFeaturesRequest", error: ApiError) -> Entity:
    """The response with this code and text."""
    return _update_features.UpdateFeaturesResponse(
        throttle_time=NO_TIME, error_code=error.code, error_message=error.message
    )


def _row_per_feature(request: "UpdateFeaturesRequest") -> Entity:
    return _per_feature.UpdateFeaturesResponse(
        throttle_time=NO_TIME,
        error_code=ErrorCode.none,
        error_message=None,
        results=tuple(
            _per_feature.UpdatableFeatureResult(
                feature=update.feature, error_code=ErrorCode.none, error_message=None
            )
            for update in request.feature_updates
        ),
    )


def _update_error(  # noqa: PLR0911 - one return per check, in Kafka's order
    image: Image,
    services: Services,
    name: str,
    level: int,
    kind: int,
    proposed: Mapping[str, int],
) -> str | None:
    """Reason to refuse a level of a feature, None if it is allowed."""
    prefix = f"Invalid update version {level} for feature {name}. "
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return f"{prefix}The controller does not support the given upgrade type."
    current = _current_level(image, services, name)
    if level < 0:
        return f"{prefix}A feature version cannot be less than 0."
    reason = _unsupported_by(image, services, name, level)
    if reason is not None:
        return prefix + reason
    if level < current and kind == UPGRADE:
        return (
            f"{prefix}Can't downgrade the version of this feature without setting the upgrade "
            "type to either safe or unsafe downgrade."
        )
    if level > current and kind != UPGRADE:
        return f"{prefix}Can't downgrade to a newer version."
    if name == METADATA_VERSION:
        return _metadata_version_error(current, level, is_unsafe=kind == UNSAFE_DOWNGRADE)
    if name == KRAFT_VERSION and level < current:
        return f"{prefix}Can't downgrade the version of this feature."
    if name == KRAFT_VERSION and level > current and services.quorum.raise_refusal is not None:
        return services.quorum.raise_refusal
    missing = missing_dependency(name, level, proposed)
    return None if missing is None else prefix + missing


def _current_level(image: Image, services: Services, name: str) -> int:
    """The finalized level; that of kraft.version is in raft's records, whatever the image has."""
    if name == METADATA_VERSION:
        return image.metadata_version
    if name == KRAFT_VERSION:
        return services.quorum.kraft_version
    return image.features.get(name, 0)


def _metadata_version_error(current: int, level: int, *, is_unsafe: bool) -> str | None:
    if level not in METADATA_VERSION_NAMES or level < METADATA_VERSION_MIN:
        highest = max(METADATA_VERSION_NAMES)
        return (
            f"Invalid metadata.version {level}. Valid versions are from {METADATA_VERSION_MIN} to "
            f"{highest}."
        )
    if level >= current or not FORMAT_CHANGE_LEVELS & set(range(level + 1, current + 1)):
        return None
    reason = (
        "Unsafe metadata downgrade is not supported in this version."
        if is_unsafe
        else "Refusing to perform the requested downgrade because it might delete metadata "
        "information."
    )
    return f"Unsupported metadata.version downgrade from {current} to {level}. {reason}"


def _unsupported_by(image: Image, services: Services, name: str, level: int) -> str | None:
    """The text about the first node that does not support the level, None if all do."""
    config = services.config
    low, high = config.supported_features.get(name, (0, 0))
    reason = _range_error(level, f"Local controller {config.node_id}", low, high)
    if reason is not None:
        return reason
    for broker_id in sorted(image.brokers):
        features = image.brokers[broker_id].features
        reason = _range_error(level, f"Broker {broker_id}", *_range_of(features, name))
        if reason is not None:
            return reason
    if image.metadata_version < LEVEL_CONTROLLER_REGISTRATION:
        return None
    for controller_id in sorted(image.controllers):
        if controller_id == config.node_id:
            continue
        features = image.controllers[controller_id].features
        reason = _range_error(level, f"Controller {controller_id}", *_range_of(features, name))
        if reason is not None:
            return reason
    for voter_id in services.quorum.voter_ids:
        if voter_id != config.node_id and voter_id not in image.controllers:
            return f"controller {voter_id} has not registered, and may not support this feature"
    return None


def _range_of(features: Iterable[SupportedFeature], name: str) -> tuple[int, int]:
    for feature in features:
        if feature.name == name:
            return feature.min_supported_version, feature.max_supported_version
    return (0, 0)


def _range_error(level: int, who: str, low: int, high: int) -> str | None:
    if low <= level <= high:
        return None
    if high == 0:
        return f"{who} does not support this feature."
    return f"{who} only supports versions {low if low == high else f'{low}-{high}'}"
