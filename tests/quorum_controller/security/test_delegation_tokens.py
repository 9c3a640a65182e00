"""Delegation tokens: life from creation to removal, and every refusal."""

import hashlib
import hmac
from datetime import timedelta
from types import SimpleNamespace

import pytest

from metadata.apply import apply_all
from metadata.delta import MetadataDelta
from metadata.image import EMPTY, Image
from quorum_controller.config import ControllerConfig, TokenSettings
from quorum_controller.result import Draft, RequestContext
from quorum_controller.security.authorization import AccessRules, Caller
from quorum_controller.security.delegation_tokens import remove_expired_tokens
from tests.quorum_controller.controller_harness import Harness
from tests.quorum_controller.history import SUPER, handled, queried, samples
from tests.quorum_controller.history import decoded as decoded_sample
from wire.api_keys import (
    CREATE_DELEGATION_TOKEN,
    DESCRIBE_DELEGATION_TOKEN,
    EXPIRE_DELEGATION_TOKEN,
    RENEW_DELEGATION_TOKEN,
)
from wire.errors import ErrorCode

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
LEVEL_21 = Image(features=EMPTY.features.set("metadata.version", 21))
ALICE = RequestContext(principal="User:alice", is_forwarded=True)
BOB = RequestContext(principal="User:bob", is_forwarded=True)
EVE = RequestContext(principal="User:eve", is_forwarded=True)


def creation(**more):
    bob = SimpleNamespace(principal_type="User", principal_name="bob")
    fields = {
        "owner_principal_type": "",
        "owner_principal_name": "",
        "renewers": (bob,),
        "max_lifetime": timedelta(milliseconds=-1),
    }
    return SimpleNamespace(**(fields | more))


def create(image=LEVEL_21, context=ALICE, wall_ms=NOW_MS, **more):
    response, records = handled(
        CREATE_DELEGATION_TOKEN, image, creation(**more), context=context, wall_ms=wall_ms
    )
    return response, apply_all(image, records, 0, MetadataDelta())


def change(api_key, image, secret, hours, context=ALICE, wall_ms=NOW_MS):
    period = timedelta(hours=hours)
    body = SimpleNamespace(hmac=secret, renew_period=period, expiry_time_period=period)
    response, records = handled(api_key, image, body, context=context, wall_ms=wall_ms)
    return response.error_code.name, apply_all(image, records, 0, MetadataDelta())


def end_ms(image):
    (token,) = image.delegation_tokens.values()
    return token.expiration_timestamp_ms


def test_a_token_is_created_renewed_and_removed():
    response, image = create()
    assert response.error_code is ErrorCode.none
    assert (response.principal_type, response.principal_name) == ("User", "alice")
    key = b"golden-secret"
    assert response.hmac == hmac.new(key, response.token_id.encode(), hashlib.sha512).digest()
    assert end_ms(image) == NOW_MS + 24 * HOUR_MS
    code, image = change(RENEW_DELEGATION_TOKEN, image, response.hmac, 2, context=BOB)
    assert (code, end_ms(image)) == ("none", NOW_MS + 2 * HOUR_MS)
    code, image = change(EXPIRE_DELEGATION_TOKEN, image, response.hmac, 1)
    assert (code, end_ms(image)) == ("none", NOW_MS + HOUR_MS)
    code, image = change(EXPIRE_DELEGATION_TOKEN, image, response.hmac, -1)
    assert (code, len(image.delegation_tokens)) == ("none", 0)


def test_no_renewal_beyond_the_life_of_a_token():
    response, image = create(max_lifetime=timedelta(hours=3))
    _, image = change(RENEW_DELEGATION_TOKEN, image, response.hmac, 10)
    assert end_ms(image) == NOW_MS + 3 * HOUR_MS


def test_refused_changes():
    response, image = create()
    for api_key in (RENEW_DELEGATION_TOKEN, EXPIRE_DELEGATION_TOKEN):
        assert change(api_key, image, b"x", 1)[0] == "delegation_token_not_found"
        refused = change(api_key, image, response.hmac, 1, context=EVE)[0]
        assert refused == "delegation_token_owner_mismatch"
        late = NOW_MS + 25 * HOUR_MS
        assert (
            change(api_key, image, response.hmac, 1, wall_ms=late)[0] == "delegation_token_expired"
        )


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"context": RequestContext(principal="User:alice")}, "request_not_allowed"),
        ({"image": EMPTY}, "unsupported_version"),
        ({"renewers": (SimpleNamespace(principal_type="Group", principal_name="g"),)}, None),
        ({"owner_principal_type": "User", "owner_principal_name": "eve"}, "authorization_failed"),
    ],
)
def test_refused_creations(more, code):
    response, image = create(**more)
    names = {None: "invalid_principal_type", "unsupported_version": "unsupported_version"}
    assert response.error_code.name == names.get(code, f"delegation_token_{code}")
    assert not image.delegation_tokens
    assert response.hmac == b""


def test_without_a_secret_key():
    config = ControllerConfig(cluster_id="x", node_id=1, bootstrap_records=())
    response, _ = handled(
        CREATE_DELEGATION_TOKEN, LEVEL_21, creation(), context=ALICE, config=config
    )
    assert response.error_code is ErrorCode.delegation_token_auth_disabled


def test_expired_tokens_are_swept():
    _, image = create()
    draft = Draft(image, 0)
    remove_expired_tokens(draft, NOW_MS + 24 * HOUR_MS)
    assert not draft.records
    remove_expired_tokens(draft, NOW_MS + 24 * HOUR_MS + 1)
    assert not draft.image.delegation_tokens


def test_a_controller_sweeps_expired_tokens():
    settings = TokenSettings(secret_key="k", sweep_interval_ms=1_000)
    cluster = Harness(tokens=settings, session_timeout_ms=10**9).start(1)
    cluster.call(CREATE_DELEGATION_TOKEN, creation(), context=ALICE)
    assert len(cluster.image.delegation_tokens) == 1
    cluster.wall_ms += 25 * HOUR_MS
    cluster.tick(1_000)
    cluster.commit()
    assert not cluster.image.delegation_tokens


@pytest.mark.parametrize(
    ("principal", "owners", "count"),
    [
        ("User:alice", None, 1),
        ("User:bob", None, 1),
        ("User:eve", None, 0),
        ("User:alice", (), 0),
        ("User:alice", ("bob",), 1),
        ("User:alice", ("eve",), 0),
    ],
)
def test_who_sees_which_token(principal, owners, count):
    _, image = create()
    asked = owners and tuple(
        SimpleNamespace(principal_type="User", principal_name=name) for name in owners
    )
    settings = {
        "caller": Caller(principal),
        "access": AccessRules(),
        "is_authenticated": True,
        "tokens": TokenSettings(secret_key="k"),
    }
    response = queried(DESCRIBE_DELEGATION_TOKEN, image, SimpleNamespace(owners=asked), **settings)
    assert len(response.tokens) == count
    plain = queried(DESCRIBE_DELEGATION_TOKEN, image, SimpleNamespace(owners=asked), access=SUPER)
    assert plain.error_code is ErrorCode.delegation_token_request_not_allowed


CREATED = [s for s in samples("token_answers") if s["api_key"] == CREATE_DELEGATION_TOKEN]


@pytest.mark.parametrize("sample", CREATED, ids=lambda sample: str(sample["ms"]))
def test_a_recorded_creation_gives_the_same_times_and_principals(sample):
    request, expected = decoded_sample(sample)
    issued_ms = round(expected.issue_timestamp.timestamp() * 1000)
    response, _ = handled(
        CREATE_DELEGATION_TOKEN, LEVEL_21, request, context=ALICE, wall_ms=issued_ms
    )
    for name in expected.__dataclass_fields__:
        if name not in ("token_id", "hmac"):  # drawn, and made with a secret
            assert getattr(response, name) == getattr(expected, name), name
    assert (len(response.token_id), len(response.hmac)) == (22, 64)
