"""SCRAM credentials of users; the client salts, so that no password leaves this machine."""

import hashlib
import os
from typing import Any, Final

from cli.admin.config_entities import Change
from cli.arguments import UsageError
from cli.connect import Api, check, error_text, newest
from cli.kafka_errors import exception_text

DESCRIBE_CREDENTIALS: Final = 50
ALTER_CREDENTIALS: Final = 51
RESOURCE_NOT_FOUND: Final = 91
MECHANISMS: Final = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}
NAMES: Final = frozenset(MECHANISMS)
_NAME_OF: Final = {number: name for name, (number, _) in MECHANISMS.items()}
ITERATIONS_DEFAULT: Final = 4096
ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384
SALT_BYTES: Final = 20


def is_about(change: Change) -> bool:
    """Return True if the change names a SCRAM mechanism."""
    return bool(NAMES & {*change.added, *change.deleted})


class Credential:
    """A credential from `iterations=N,password=P` for one mechanism."""

    def __init__(self, mechanism: str, text: str) -> None:
        """Parse the text.

        Raises:
            UsageError: another form, no password, or iterations out of range.
        """
        self.number, self._hash = MECHANISMS[mechanism]
        fields = dict(part.strip().partition("=")[::2] for part in text.split(",") if part.strip())
        unknown = sorted(fields.keys() - {"iterations", "password"})
        if unknown or not fields.get("password"):
            raise UsageError(
                f"{mechanism} needs [iterations=N,password=P], not "
                + (f"'{unknown[0]}'" if unknown else "an empty password")
            )
        count = fields.get("iterations", str(ITERATIONS_DEFAULT))
        is_number = count.isascii() and count.isdigit() and len(count) < 10
        self.iterations = int(count) if is_number else 0
        if not ITERATIONS_MIN <= self.iterations <= ITERATIONS_MAX:
            raise UsageError(
                f"Iterations {count[:20]} should be from {ITERATIONS_MIN} to {ITERATIONS_MAX} "
                f"for {mechanism}"
            )
        self._password = fields["password"].encode()

    def salted(self, salt: bytes) -> bytes:
        """The salted password; the cluster never receives the password itself."""
        return hashlib.pbkdf2_hmac(self._hash, self._password, salt, self.iterations)


def alter(api: Api, user: str, change: Change) -> None:
    """Set and delete credentials of one user.

    Raises:
        UsageError: a credential has another form or range.
        ClusterError: refused; nothing was changed.
    """
    module = newest(ALTER_CREDENTIALS)
    upsertions = []
    for name, text in change.added.items():
        credential = Credential(name, text)
        salt = os.urandom(SALT_BYTES)
        upsertions.append(
            module.ScramCredentialUpsertion(
                name=user,
                mechanism=credential.number,
                iterations=credential.iterations,
                salt=salt,
                salted_password=credential.salted(salt),
            )
        )
    deletions = tuple(
        module.ScramCredentialDeletion(name=user, mechanism=MECHANISMS[name][0])
        for name in change.deleted
    )
    request = module.AlterUserScramCredentialsRequest(
        deletions=deletions, upsertions=tuple(upsertions)
    )
    for result in api.call(ALTER_CREDENTIALS, request).results:
        check(result)


def describe(api: Api, user: str | None) -> list[Any]:
    """Rows of users with credentials: of one user, or of all."""
    module = newest(DESCRIBE_CREDENTIALS)
    users = None if user is None else (module.UserName(name=user),)
    request = module.DescribeUserScramCredentialsRequest(users=users)
    answer = check(api.call(DESCRIBE_CREDENTIALS, request))
    return [row for row in answer.results if int(row.error_code) != RESOURCE_NOT_FOUND]


def line(row: Any) -> str:
    """The output line of one user."""
    if int(row.error_code):
        error = exception_text(int(row.error_code), row.error_message).rpartition(".errors.")[2]
        return (
            f"Error retrieving SCRAM credential configs for user-principal '{row.user}': {error}\n"
        )
    credentials = ", ".join(
        f"{_NAME_OF.get(int(info.mechanism), 'UNKNOWN')}=iterations={info.iterations}"
        for info in row.credential_infos
    )
    return f"SCRAM credential configs for user-principal '{row.user}' are {credentials}\n"


def as_object(row: Any) -> dict[str, Any]:
    """One user as a JSON value."""
    if int(row.error_code):
        return {"user": row.user, "error": error_text(row.error_code, row.error_message)}
    return {
        "user": row.user,
        "credentials": {
            _NAME_OF.get(int(info.mechanism), "UNKNOWN"): int(info.iterations)
            for info in row.credential_infos
        },
    }
