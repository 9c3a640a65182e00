"""SCRAM credentials of users (KIP-554): AlterUserScramCredentials and their description.

Clients send the salted password; the two keys derived from it are stored (RFC 5802). A user may
occur once in a request, whatever the mechanism.
Source: apache/kafka: metadata/.../controller/ScramControlManager.java, image/ScramImage.java.
"""

import hashlib
import hmac
from typing import TYPE_CHECKING, Final, cast

from metadata.features import LEVEL_SCRAM
from metadata.image import Image
from metadata.records import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from quorum_controller.bodies import NO_TIME
from quorum_controller.handler_result import HandlerResult
from quorum_controller.query_context import QueryContext
from quorum_controller.result import Draft
from quorum_controller.services import Services
from wire.api_keys import ALTER_USER_SCRAM_CREDENTIALS, DESCRIBE_USER_SCRAM_CREDENTIALS
from wire.errors import ApiError, ErrorCode
from wire.messages import codec
from wire.messages.codec import Entity

if TYPE_CHECKING:
    from kio.schema.alter_user_scram_credentials.v0.request import (
        AlterUserScramCredentialsRequest,
        ScramCredentialDeletion,
        ScramCredentialUpsertion,
    )
    from kio.schema.describe_user_scram_credentials.v0.request import (
        DescribeUserScramCredentialsRequest,
    )

    _Change = ScramCredentialDeletion | ScramCredentialUpsertion

_alter: Final = codec.newest(ALTER_USER_SCRAM_CREDENTIALS, "response")
_describe: Final = codec.newest(DESCRIBE_USER_SCRAM_CREDENTIALS, "response")


ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16_384
_HASH_NAMES: Final = {1: "sha256", 2: "sha512"}
"""Hash algorithms by Kafka's number of the mechanism."""

_TWICE: Final = ApiError(
    ErrorCode.duplicate_resource, "A user credential cannot be altered twice in the same request"
)
_LEVEL_TOO_LOW: Final = ApiError(
    ErrorCode.unsupported_version, "The current metadata.version does not support SCRAM"
)


def alter_user_scram_credentials(
    draft: Draft, request: "AlterUserScramCredentialsRequest", _services: Services
) -> HandlerResult | ApiError:
    """Set and delete credentials; a row per user: accepted ones first, then refused ones."""
    errors: dict[str, ApiError] = {}
    taken: dict[str, _Change] = {}
    for change in _changes(request):
        user = str(change.name)
        if user in errors:
            continue
        if user in taken:
            del taken[user]
            errors[user] = _TWICE
            continue
        error = _change_error(draft.image, change)
        if error is None:
            taken[user] = change
        else:
            errors[user] = error
    for user, change in taken.items():
        draft.emit(_record(user, change))
    rows = dict.fromkeys(taken, ApiError(ErrorCode.none)) | errors
    return HandlerResult(_alter_response(rows))


def alter_user_scram_credentials_error(
    request: "AlterUserScramCredentialsRequest", error: ApiError
) -> Entity:
    """The response with this error for every user of the request."""
    users = [str(change.name) for change in _changes(request)]
    return _alter_response(dict.fromkeys(users, error))


def _changes(request: "AlterUserScramCredentialsRequest") -> "tuple[_Change, ...]":
    return (*request.deletions, *request.upsertions)


def _alter_response(rows: dict[str, ApiError]) -> Entity:
    return _alter.AlterUserScramCredentialsResponse(
        throttle_time=NO_TIME,
        results=tuple(
            _alter.AlterUserScramCredentialsResult(
                user=user, error_code=error.code, error_message=error.message
            )
            for user, error in rows.items()
        ),
    )


def _change_error(  # noqa: PLR0911 - one return per check
    image: Image, change: "_Change"
) -> ApiError | None:
    if image.metadata_version < LEVEL_SCRAM:
        return _LEVEL_TOO_LOW
    if not change.name:
        return ApiError(ErrorCode.unacceptable_credential, "Username must not be empty")
    if int(change.mechanism) not in _HASH_NAMES:
        return ApiError(ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism")
    iterations = getattr(change, "iterations", None)
    if iterations is None:
        if (int(change.mechanism), str(change.name)) not in image.scram:
            text = "Attempt to delete a user credential that does not exist"
            return ApiError(ErrorCode.resource_not_found, text)
        return None
    if iterations < ITERATIONS_MIN:
        return ApiError(ErrorCode.unacceptable_credential, "Too few iterations")
    if iterations > ITERATIONS_MAX:
        return ApiError(ErrorCode.unacceptable_credential, "Too many iterations")
    return None


def _record(
    user: str, change: "_Change"
) -> UserScramCredentialRecord | RemoveUserScramCredentialRecord:
    mechanism = int(change.mechanism)
    if not hasattr(change, "iterations"):
        return RemoveUserScramCredentialRecord(name=user, mechanism=mechanism)
    upsertion = cast("ScramCredentialUpsertion", change)
    stored_key, server_key = scram_keys(mechanism, upsertion.salted_password)
    return UserScramCredentialRecord(
        name=user,
        mechanism=mechanism,
        salt=bytes(upsertion.salt),
        stored_key=stored_key,
        server_key=server_key,
        iterations=int(upsertion.iterations),
    )


def scram_keys(mechanism: int, salted_password: bytes) -> tuple[bytes, bytes]:
    """StoredKey and ServerKey of RFC 5802 section 3."""
    name = _HASH_NAMES[mechanism]
    client_key = hmac.digest(salted_password, b"Client Key", name)
    return (
        hashlib.new(name, client_key).digest(),
        hmac.digest(salted_password, b"Server Key", name),
    )


def describe_user_scram_credentials(
    image: Image, request: "DescribeUserScramCredentialsRequest", _: QueryContext
) -> Entity:
    """Mechanisms and iterations per user, never keys; all users if the request names none."""
    named = [str(user.name) for user in request.users or ()]
    users = named or sorted({user for _, user in image.scram})
    return _describe.DescribeUserScramCredentialsResponse(
        throttle_time=NO_TIME,
        error_code=ErrorCode.none,
        error_message="",
        results=tuple(
            _described(image, user, count=named.count(user)) for user in dict.fromkeys(users)
        ),
    )


def _described(image: Image, user: str, *, count: int) -> Entity:
    infos = tuple(
        _describe.CredentialInfo(mechanism=number, iterations=image.scram[number, user].iterations)
        for number in _HASH_NAMES
        if (number, user) in image.scram
    )
    error, text = ErrorCode.none, ""
    if count > 1:
        error, infos = ErrorCode.duplicate_resource, ()
        text = (
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        )
    elif not infos:
        error = ErrorCode.resource_not_found
        text = f"Attempt to describe a user credential that does not exist: {user}"
    return _describe.DescribeUserScramCredentialsResult(
        user=user, error_code=error, error_message=text, credential_infos=infos
    )
