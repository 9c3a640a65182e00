"""Application of the records about brokers, controllers and features to the image."""

from typing import Any, Final

from msgspec.structs import replace

from metadata.delta import MetadataDelta
from metadata.errors import IllegalRecordError
from metadata.image import Broker, Controller, Image, sorted_directories
from metadata.records import (
    REGISTRATION_FENCE,
    REGISTRATION_IN_CONTROLLED_SHUTDOWN,
    REGISTRATION_NO_CHANGE,
    REGISTRATION_UNFENCE,
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    ZkMigrationStateRecord,
)
from metadata.schema import Record
from wire.types import Offset


def _register_broker(
    image: Image, record: RegisterBrokerRecord, offset: Offset, delta: MetadataDelta
) -> Image:
    cordoned = record.cordoned_log_dirs
    broker = Broker(
        id=record.broker_id,
        epoch=record.broker_epoch,
        incarnation_id=record.incarnation_id,
        endpoints=record.end_points,
        features=record.features,
        rack=record.rack,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        log_dirs=sorted_directories(record.log_dirs),
        cordoned_log_dirs=None if cordoned is None else sorted_directories(cordoned),
        registration_offset=offset,
        is_migrating_zk_broker=record.is_migrating_zk_broker,
    )
    delta.brokers.add(broker.id)
    return replace(image, brokers=image.brokers.set(broker.id, broker))


def _unregister_broker(
    image: Image, record: UnregisterBrokerRecord, offset: Offset, delta: MetadataDelta
) -> Image:
    del offset
    broker = _registered(image, record, record.broker_id, record.broker_epoch)
    delta.brokers.add(broker.id)
    return replace(image, brokers=image.brokers.delete(broker.id))


def _fence_broker(
    image: Image, record: FenceBrokerRecord, offset: Offset, delta: MetadataDelta
) -> Image:
    del offset
    broker = _registered(image, record, record.id, record.epoch)
    return _with_broker(image, replace(broker, fenced=True), delta)


def _unfence_broker(
    image: Image, record: UnfenceBrokerRecord, offset: Offset, delta: MetadataDelta
) -> Image:
    del offset
    broker = _registered(image, record, record.id, record.epoch)
    return _with_broker(image, replace(broker, fenced=False), delta)


def _change_registration(
    image: Image, record: BrokerRegistrationChangeRecord, offset: Offset, delta: MetadataDelta
) -> Image:
    del offset
    broker = _registered(image, record, record.broker_id, record.broker_epoch)
    changes: dict[str, Any] = {}
    if record.fenced != REGISTRATION_NO_CHANGE:
        if record.fenced not in (REGISTRATION_FENCE, REGISTRATION_UNFENCE):
            raise IllegalRecordError(record, f"fenced={record.fenced} is unknown")
        changes["fenced"] = record.fenced == REGISTRATION_FENCE
    if record.in_controlled_shutdown != REGISTRATION_NO_CHANGE:
        if record.in_controlled_shutdown != REGISTRATION_IN_CONTROLLED_SHUTDOWN:
            raise IllegalRecordError(
                record, f"in_controlled_shutdown={record.in_controlled_shutdown} is unknown"
            )
        changes["in_controlled_shutdown"] = True
    if record.log_dirs:
        changes["log_dirs"] = sorted_directories(record.log_dirs)
    if record.cordoned_log_dirs is not None:
        changes["cordoned_log_dirs"] = sorted_directories(record.cordoned_log_dirs)
    return _with_broker(image, replace(broker, **changes), delta)


def _register_controller(
    image: Image, record: RegisterControllerRecord, offset: Offset, delta: MetadataDelta
) -> Image:
    del offset
    controller = Controller(
        id=record.controller_id,
        incarnation_id=record.incarnation_id,
        zk_migration_ready=record.zk_migration_ready,
        endpoints=record.end_points,
        features=record.features,
    )
    delta.controllers.add(controller.id)
    return replace(image, controllers=image.controllers.set(controller.id, controller))


def _set_feature_level(
    image: Image, record: FeatureLevelRecord, offset: Offset, delta: MetadataDelta
) -> Image:
    # Support of the level by this software is checked at start-up (`features.unsupported`): tools
    # must be able to read a log whatever it finalizes.
    del offset
    if record.feature_level < 0:
        raise IllegalRecordError(record, "a level below 0")
    delta.features.add(record.name)
    features = image.features
    if record.feature_level > 0:
        return replace(image, features=features.set(record.name, record.feature_level))
    if record.name not in features:
        return image
    return replace(image, features=features.delete(record.name))


def _set_zk_migration_state(
    image: Image, record: ZkMigrationStateRecord, offset: Offset, delta: MetadataDelta
) -> Image:
    del offset
    delta.zk_migration_state = True
    return replace(image, zk_migration_state=record.zk_migration_state)


def _registered(image: Image, record: Record, broker_id: Any, epoch: Any) -> Broker:
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise IllegalRecordError(record, f"broker {broker_id} is not registered")
    if broker.epoch != epoch:
        raise IllegalRecordError(record, f"broker {broker_id} has epoch {broker.epoch}")
    return broker


def _with_broker(image: Image, broker: Broker, delta: MetadataDelta) -> Image:
    delta.brokers.add(broker.id)
    return replace(image, brokers=image.brokers.set(broker.id, broker))


CLUSTER_RECORDS: Final[dict[type[Record], Any]] = {
    RegisterBrokerRecord: _register_broker,
    UnregisterBrokerRecord: _unregister_broker,
    FenceBrokerRecord: _fence_broker,
    UnfenceBrokerRecord: _unfence_broker,
    BrokerRegistrationChangeRecord: _change_registration,
    RegisterControllerRecord: _register_controller,
    FeatureLevelRecord: _set_feature_level,
    ZkMigrationStateRecord: _set_zk_migration_state,
}
