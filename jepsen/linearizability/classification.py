"""Classes of the outcomes of controller requests, by what they prove.

| outcome | class |
|---|---|
| no error | `ok` |
| TOPIC_ALREADY_EXISTS, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, STALE_BROKER_EPOCH, |
  DUPLICATE_BROKER_REGISTRATION | `ok` with the error: it shows the state (an observation) |
| INVALID_*, POLICY_VIOLATION, authorization, unsupported versions | `fail`: refused unseen |
| NOT_CONTROLLER | `info`: on losing leadership the controller fails its deferred writes with it,
    and they are in the log and may commit later (apache/kafka: `QuorumController.renounce`,
    `deferredEventQueue.failAll`); `fail` only if no byte of the request was sent |
| REQUEST_TIMED_OUT, NETWORK_EXCEPTION, UNKNOWN_SERVER_ERROR, a connection that broke after the
    first byte | `info` |
| connection refused, or closed before the first byte | `fail` |
| any other error | `info`: an error that was never analysed proves nothing |

Clients must not retry: a create that is sent again answers TOPIC_ALREADY_EXISTS to its own
success.
"""

from typing import Final, NamedTuple

from jepsen.linearizability.history import FAIL, INFO, OK

NO_ERROR: Final = 0

OBSERVATIONS: Final[dict[int, str]] = {
    3: "UNKNOWN_TOPIC_OR_PARTITION",
    36: "TOPIC_ALREADY_EXISTS",
    77: "STALE_BROKER_EPOCH",
    100: "UNKNOWN_TOPIC_ID",
    101: "DUPLICATE_BROKER_REGISTRATION",
}
"""Errors of requests that were judged by the state and changed nothing."""

REFUSALS: Final[dict[int, str]] = {
    17: "INVALID_TOPIC_EXCEPTION",
    29: "TOPIC_AUTHORIZATION_FAILED",
    31: "CLUSTER_AUTHORIZATION_FAILED",
    35: "UNSUPPORTED_VERSION",
    37: "INVALID_PARTITIONS",
    38: "INVALID_REPLICATION_FACTOR",
    39: "INVALID_REPLICA_ASSIGNMENT",
    40: "INVALID_CONFIG",
    42: "INVALID_REQUEST",
    44: "POLICY_VIOLATION",
}
"""Errors of requests refused for what they are, in any state: they certainly did not happen."""

UNKNOWN_OUTCOMES: Final[dict[int, str]] = {
    -1: "UNKNOWN_SERVER_ERROR",
    7: "REQUEST_TIMED_OUT",
    13: "NETWORK_EXCEPTION",
    41: "NOT_CONTROLLER",
}
"""Errors that leave it unknown whether the request happened, or will."""


class Outcome(NamedTuple):
    """Class of a completion: `ok`, `fail` or `info`, and the error to write beside it."""

    type: str
    error: str | None


def classify(error_code: int | None, *, is_sent: bool = True) -> Outcome:
    """Classify an answer by what it proves.

    Args:
        error_code: Error code of the response for this operation; None: there was no response.
        is_sent: False only if the client knows that no byte of the request left it.
    """
    if not is_sent:
        return Outcome(FAIL, "not sent")
    if error_code is None:
        return Outcome(INFO, "no response")
    if error_code == NO_ERROR:
        return Outcome(OK, None)
    if error_code in OBSERVATIONS:
        return Outcome(OK, OBSERVATIONS[error_code])
    if error_code in REFUSALS:
        return Outcome(FAIL, REFUSALS[error_code])
    return Outcome(INFO, UNKNOWN_OUTCOMES.get(error_code, f"error {error_code}"))
