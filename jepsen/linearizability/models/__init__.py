"""Sequential models, by the names of the command line."""

from collections.abc import Callable
from typing import Final

from jepsen.linearizability.model import Model
from jepsen.linearizability.models.append_log import AppendLog
from jepsen.linearizability.models.config_map import ConfigMap
from jepsen.linearizability.models.key_value import KeyValue
from jepsen.linearizability.models.register import CasRegister, Register
from jepsen.linearizability.models.topic_set import TopicSet

MODELS: Final[dict[str, Callable[[], Model]]] = {
    "cas-register": CasRegister,
    "kv": KeyValue,
    "register": Register,
    "topic-set": TopicSet,
    "config-map": ConfigMap,
    "append-log": AppendLog,
}


def model_named(name: str) -> Model:
    """Make a model by its name.

    Raises:
        ValueError: No model has the name.
    """
    if name not in MODELS:
        raise ValueError(f"model '{name}' is not one of {', '.join(MODELS)}")
    return MODELS[name]()
