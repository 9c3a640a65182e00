"""A folder with the server.properties of a node, and `kraftline storage` run in it."""

import msgspec
import pytest

from cli.main import main
from tests.cli.golden import outputs

CLUSTER = "Z29sZGVuLXNoYXJlZC0wMQ"
PROPERTIES = """process.roles=controller
node.id=1
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT
log.dirs=n1/log
listeners=CONTROLLER://127.0.0.1:29101
controller.quorum.voters=1@127.0.0.1:29101
"""


def golden(name: str) -> dict[str, object]:
    """A recorded run of Kafka's tool, by field."""
    return msgspec.to_builtins(outputs()[name])


def storage(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of `kraftline storage`."""
    exit_code = main(["storage", *arguments])
    printed = capsys.readouterr()
    return exit_code, printed.out, printed.err


def do_format(
    capsys: pytest.CaptureFixture[str], *more: str, cluster_id: str = CLUSTER
) -> tuple[int, str, str]:
    """Those of `storage format` of the folder."""
    return storage(capsys, "format", "-t", cluster_id, "-c", "n1/server.properties", *more)
