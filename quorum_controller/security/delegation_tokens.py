"""Delegation tokens (KIP-48, KIP-900): create, renew, expire, describe, and their removal.

Only a client authenticated by other means gets a token: requests over PLAINTEXT are refused with
DELEGATION_TOKEN_REQUEST_NOT_ALLOWED before any other check. The token's HMAC is derived from its id
and `delegation.token.secret.key`, so the log contains no secret.
Source: apache/kafka: metadata/.../controller/DelegationTokenControlManager.java,
core/.../server/{ControllerApis,KafkaApis,DelegationTokenManager}.scala.
"""

import base64
import hashlib
import hmac
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from metadata.features import LEVEL_DELEGATION_TOKENS
from metadata.image import DelegationToken, Image, sorted_items
from metadata.records import DelegationTokenRecord, RemoveDelegationTokenRecord
from quorum_controller.bodies import NO_TIME
from quorum_controller.config import TokenSettings
from quorum_controller.handler_result import HandlerResult
from quorum_controller.query_context import QueryContext
from quorum_controller.result import RECORDS_PER_SLICE_MAX, Draft
from quorum_controller.security.authorization import (
    ANONYMOUS,
    Action,
    Operation,
    ResourceType,
    is_allowed,
)
from quorum_controller.services import Services
from wire.api_keys import (
    CREATE_DELEGATION_TOKEN,
    DESCRIBE_DELEGATION_TOKEN,
    EXPIRE_DELEGATION_TOKEN,
    RENEW_DELEGATION_TOKEN,
)
from wire.errors import ApiError, ErrorCode
from wire.messages import codec
from wire.messages.codec import Entity
from wire.types import milliseconds

if TYPE_CHECKING:
    from kio.schema.create_delegation_token.v3.request import CreateDelegationTokenRequest
    from kio.schema.describe_delegation_token.v3.request import DescribeDelegationTokenRequest
    from kio.schema.expire_delegation_token.v2.request import ExpireDelegationTokenRequest
    from kio.schema.renew_delegation_token.v2.request import RenewDelegationTokenRequest

NOT_ALLOWED: Final = ApiError(ErrorCode.delegation_token_request_not_allowed)
_TIMESTAMP_MS_MAX: Final = 253_402_300_799_999
"""End of the year 9999: the last time that a response can carry."""
_USER: Final = "User"
_NO_TIMESTAMP: Final = -1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


# --- creation -----------------------------------------------------------------------------------


def create_delegation_token(
    draft: Draft, request: "CreateDelegationTokenRequest", services: Services
) -> HandlerResult | ApiError:
    """Create a token for the requester or, if it may do so for others, for the given owner."""
    requester = services.context.principal
    owner = requester
    if request.owner_principal_name:
        owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
    error = _unusable(draft.image, services)
    if (
        error is None
        and owner != requester
        and not services.may(draft.image, Operation.CREATE_TOKENS, ResourceType.USER, owner)
    ):
        error = ErrorCode.delegation_token_authorization_failed
    if error is None and any(r.principal_type != _USER for r in request.renewers):
        error = ErrorCode.invalid_principal_type
    if error is not None:
        return HandlerResult(_created(error, owner, requester, None, "", b""))
    settings = services.config.tokens
    lifetime_ms = milliseconds(request.max_lifetime)
    lifetime_ms = min(
        settings.max_lifetime_ms, lifetime_ms if lifetime_ms > 0 else _TIMESTAMP_MS_MAX
    )
    now_ms = services.wall_ms
    max_timestamp = _sum(now_ms, lifetime_ms)
    token = DelegationToken(
        owner=owner,
        requester=requester,
        renewers=tuple(f"{r.principal_type}:{r.principal_name}" for r in request.renewers),
        issue_timestamp_ms=now_ms,
        max_timestamp_ms=max_timestamp,
        expiration_timestamp_ms=min(max_timestamp, _sum(now_ms, settings.expiry_ms)),
    )
    token_id = base64.urlsafe_b64encode(services.new_uuid()).decode().rstrip("=")
    assert token_id not in draft.image.delegation_tokens, "a token id came twice"
    _emit(draft, token_id, token, token.expiration_timestamp_ms)
    return HandlerResult(
        _created(ErrorCode.none, owner, requester, token, token_id, _hmac(settings, token_id))
    )


def create_delegation_token_error(
    _request: "CreateDelegationTokenRequest", error: ApiError
) -> Entity:
    """The response with this code; the principals are unknown."""
    return _created(error.code, ANONYMOUS, ANONYMOUS, None, "", b"")


def _created(
    code: ErrorCode,
    owner: str,
    requester: str,
    token: DelegationToken | None,
    token_id: str,
    secret: bytes,
) -> Entity:
    """Response to CreateDelegationToken; without a token all its times are -1."""
    new = codec.newest(CREATE_DELEGATION_TOKEN, "response")
    owner_type, _, owner_name = owner.partition(":")
    requester_type, _, requester_name = requester.partition(":")
    return new.CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp=_moment(token.issue_timestamp_ms if token else _NO_TIMESTAMP),
        expiry_timestamp=_moment(token.expiration_timestamp_ms if token else _NO_TIMESTAMP),
        max_timestamp=_moment(token.max_timestamp_ms if token else _NO_TIMESTAMP),
        token_id=token_id,
        hmac=secret,
        throttle_time=NO_TIME,
    )


# --- renewal and expiry -------------------------------------------------------------------------


def renew_delegation_token(
    draft: Draft, request: "RenewDelegationTokenRequest", services: Services
) -> HandlerResult | ApiError:
    """Extend a token of which the requester is owner or renewer."""
    found = _token(draft.image, request.hmac, services)
    if isinstance(found, ErrorCode):
        return HandlerResult(_ended(RENEW_DELEGATION_TOKEN, found))
    token_id, token = found
    now_ms, settings = services.wall_ms, services.config.tokens
    if _is_expired(token, now_ms):
        return HandlerResult(_ended(RENEW_DELEGATION_TOKEN, ErrorCode.delegation_token_expired))
    if not _may_change(token, services):
        return HandlerResult(
            _ended(RENEW_DELEGATION_TOKEN, ErrorCode.delegation_token_owner_mismatch)
        )
    period_ms = milliseconds(request.renew_period)
    period_ms = min(settings.expiry_ms, period_ms if period_ms > 0 else _TIMESTAMP_MS_MAX)
    end_ms = min(token.max_timestamp_ms, _sum(now_ms, period_ms))
    _emit(draft, token_id, token, end_ms)
    return HandlerResult(_ended(RENEW_DELEGATION_TOKEN, ErrorCode.none, end_ms))


def expire_delegation_token(
    draft: Draft, request: "ExpireDelegationTokenRequest", services: Services
) -> HandlerResult | ApiError:
    """Change the expiry of a token; a negative period removes it now."""
    found = _token(draft.image, request.hmac, services)
    if isinstance(found, ErrorCode):
        return HandlerResult(_ended(EXPIRE_DELEGATION_TOKEN, found))
    token_id, token = found
    if not _may_change(token, services):
        return HandlerResult(
            _ended(EXPIRE_DELEGATION_TOKEN, ErrorCode.delegation_token_owner_mismatch)
        )
    now_ms = services.wall_ms
    period_ms = milliseconds(request.expiry_time_period)
    if period_ms < 0:
        draft.emit(RemoveDelegationTokenRecord(token_id=token_id))
        return HandlerResult(_ended(EXPIRE_DELEGATION_TOKEN, ErrorCode.none, now_ms))
    if _is_expired(token, now_ms):
        return HandlerResult(_ended(EXPIRE_DELEGATION_TOKEN, ErrorCode.delegation_token_expired))
    end_ms = min(token.max_timestamp_ms, _sum(now_ms, period_ms))
    _emit(draft, token_id, token, end_ms)
    return HandlerResult(_ended(EXPIRE_DELEGATION_TOKEN, ErrorCode.none, end_ms))


def renew_delegation_token_error(
    _request: "RenewDelegationTokenRequest", error: ApiError
) -> Entity:
    """The response with this code."""
    return _ended(RENEW_DELEGATION_TOKEN, error.code)


def expire_delegation_token_error(
    _request: "ExpireDelegationTokenRequest", error: ApiError
) -> Entity:
    """The response with this code."""
    return _ended(EXPIRE_DELEGATION_TOKEN, error.code)


def _ended(api_key: int, code: ErrorCode, end_ms: int | None = None) -> Entity:
    """The response of renewal or expiry; for None, Kafka's -1 if NOT_ALLOWED, else its 0."""
    if end_ms is None:
        end_ms = _NO_TIMESTAMP if code == NOT_ALLOWED.code else 0
    new = codec.newest(api_key, "response")
    response = (
        new.RenewDelegationTokenResponse
        if api_key == RENEW_DELEGATION_TOKEN
        else new.ExpireDelegationTokenResponse
    )
    return response(error_code=code, expiry_timestamp=_moment(end_ms), throttle_time=NO_TIME)


def remove_expired_tokens(draft: Draft, now_ms: int) -> None:
    """Remove expired tokens, at most one slice of them."""
    for token_id, token in sorted_items(draft.image.delegation_tokens):
        if len(draft.records) >= RECORDS_PER_SLICE_MAX:
            return
        if _is_expired(token, now_ms):
            draft.emit(RemoveDelegationTokenRecord(token_id=token_id))


# --- description --------------------------------------------------------------------------------


def describe_delegation_token(
    image: Image, request: "DescribeDelegationTokenRequest", context: QueryContext
) -> Entity:
    """The tokens of the given owners (null: of all) that the caller may describe."""
    if not context.is_authenticated:
        return describe_delegation_token_error(request, NOT_ALLOWED)
    if context.tokens.secret_key is None:
        disabled = ApiError(ErrorCode.delegation_token_auth_disabled)
        return describe_delegation_token_error(request, disabled)
    owners = None
    if request.owners is not None:
        owners = {f"{owner.principal_type}:{owner.principal_name}" for owner in request.owners}
    tokens = tuple(
        _described(token_id, token, context.tokens)
        for token_id, token in sorted_items(image.delegation_tokens)
        if (owners is None or not owners.isdisjoint((token.owner, *token.renewers)))
        and _may_describe(image, token_id, token, context)
    )
    return _description(ErrorCode.none, tokens)


def describe_delegation_token_error(
    _request: "DescribeDelegationTokenRequest", error: ApiError
) -> Entity:
    """The response with this code."""
    return _description(error.code, ())


def _description(code: ErrorCode, tokens: tuple[Entity, ...]) -> Entity:
    new = codec.newest(DESCRIBE_DELEGATION_TOKEN, "response")
    return new.DescribeDelegationTokenResponse(
        error_code=code, tokens=tokens, throttle_time=NO_TIME
    )


def _may_describe(
    image: Image, token_id: str, token: DelegationToken, context: QueryContext
) -> bool:
    if context.caller.principal in (token.owner, *token.renewers) or context.access is None:
        return True
    actions = (
        Action(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token_id),
        Action(Operation.DESCRIBE_TOKENS, ResourceType.USER, token.owner),
    )
    return any(is_allowed(image, context.access, context.caller, action) for action in actions)


def _described(token_id: str, token: DelegationToken, settings: TokenSettings) -> Entity:
    new = codec.newest(DESCRIBE_DELEGATION_TOKEN, "response")
    owner_type, _, owner_name = token.owner.partition(":")
    requester_type, _, requester_name = token.requester.partition(":")
    renewers = [renewer.partition(":") for renewer in token.renewers]
    return new.DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp=token.issue_timestamp_ms,
        expiry_timestamp=token.expiration_timestamp_ms,
        max_timestamp=token.max_timestamp_ms,
        token_id=token_id,
        hmac=_hmac(settings, token_id),
        renewers=tuple(
            new.DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)
            for kind, _, name in renewers
        ),
    )


# --- inside -------------------------------------------------------------------------------------


def _unusable(image: Image, services: Services) -> ErrorCode | None:
    """The error if tokens are unavailable to this request, in Kafka's order."""
    if not services.context.is_forwarded:
        return NOT_ALLOWED.code
    if services.config.tokens.secret_key is None:
        return ErrorCode.delegation_token_auth_disabled
    if image.metadata_version < LEVEL_DELEGATION_TOKENS:
        return ErrorCode.unsupported_version
    return None


def _token(
    image: Image, secret: bytes, services: Services
) -> ErrorCode | tuple[str, DelegationToken]:
    """The id and the token with this HMAC, or an error."""
    error = _unusable(image, services)
    if error is not None:
        return error
    settings = services.config.tokens
    for token_id, token in image.delegation_tokens.items():
        if hmac.compare_digest(_hmac(settings, token_id), secret):
            return token_id, token
    return ErrorCode.delegation_token_not_found


def _may_change(token: DelegationToken, services: Services) -> bool:
    return services.context.principal in (token.owner, *token.renewers)


def _hmac(settings: TokenSettings, token_id: str) -> bytes:
    assert settings.secret_key is not None, "tokens are on"
    return hmac.new(settings.secret_key.encode(), token_id.encode(), hashlib.sha512).digest()


def _emit(draft: Draft, token_id: str, token: DelegationToken, end_ms: int) -> None:
    draft.emit(
        DelegationTokenRecord(
            owner=token.owner,
            requester=token.requester,
            renewers=token.renewers,
            issue_timestamp=token.issue_timestamp_ms,
            max_timestamp=token.max_timestamp_ms,
            expiration_timestamp=end_ms,
            token_id=token_id,
        )
    )


def _is_expired(token: DelegationToken, now_ms: int) -> bool:
    return token.max_timestamp_ms < now_ms or token.expiration_timestamp_ms < now_ms


def _sum(now_ms: int, duration_ms: int) -> int:
    return min(now_ms + duration_ms, _TIMESTAMP_MS_MAX)


def _moment(timestamp_ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=timestamp_ms)
