"""pytest's plugin inside a public suite: gives it a cluster, writes down what each test did.

`scripts.suites.run` loads it into the suite's own environment, where `kraftline` is an installed
wheel, by `-p kraftline_suite`; the variable `KRAFTLINE_SUITE` has what is wanted of it as JSON.
Of a suite it replaces only what would start a container: fixtures of its conftest, or an
environment variable that the suite reads.
"""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

WANTED: Final[dict[str, Any]] = json.loads(os.environ["KRAFTLINE_SUITE"])
"""suite (its name), conftest (its module), nodes, configs, port (or null), address
(of a Kafka that runs, or null), results (the file for the outcomes)."""
CLOSED_PORT: Final = 1
"""Nothing listens there: SSL and SASL are outside the scope."""
TEXT_CHARACTERS: Final = 4_000

Fixtures = dict[str, Any]
_clusters: list[Any] = []
_addresses: list[str] = []
_outcomes: dict[str, dict[str, str]] = {}


def address() -> str:
    """HOST:PORT of the brokers, separated by commas; known once pytest is configured."""
    return _addresses[0]


# ---- by suite: fixtures of its conftest and what stands in for them ---------------------------


def aiokafka(conftest: ModuleType) -> Fixtures:
    """It runs a container by docker's API and asks it for certificates, keytabs and ACLs."""

    @pytest.fixture(scope="session")
    def kafka_image(request: pytest.FixtureRequest) -> str:
        return str(request.config.getoption("--docker-image"))

    @pytest.fixture(scope="session")
    def kafka_server(kafka_image: str) -> Any:
        host, port = address().split(",")[0].split(":")
        closed = (CLOSED_PORT, CLOSED_PORT, CLOSED_PORT)
        return conftest.KafkaServer(host, int(port), *closed, kafka_image)

    @pytest.fixture(scope="session")
    def ssl_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
        return tmp_path_factory.mktemp("no_certificates")

    @pytest.fixture(scope="class")
    def nothing() -> None: ...

    of_security = dict.fromkeys(("acl_manager", "kafka_config", "kerberos_utils"), nothing)
    return {
        "kafka_image": kafka_image,
        "kafka_server": kafka_server,
        "ssl_folder": ssl_folder,
        **of_security,
    }


def quixstreams(conftest: ModuleType) -> Fixtures:
    """It runs containers by testcontainers: one for all tests, others for copying between them."""

    @pytest.fixture(scope="session")
    def network() -> None: ...

    @pytest.fixture(scope="session")
    def kafka_container_factory() -> Callable[[], Iterator[Any]]:
        handed_out: list[str] = []

        def container() -> Iterator[Any]:
            own = not WANTED["address"] and bool(handed_out)
            handed_out.append(_start() if own else address())
            yield conftest.KafkaContainer(handed_out[-1], handed_out[-1])

        return container

    return {"network": network, "kafka_container_factory": kafka_container_factory}


FIXTURES: Final = {"aiokafka": aiokafka, "Quix Streams": quixstreams}

# ---- pytest's hooks ----------------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_plugin_registered(plugin: object) -> None:
    """Replace fixtures of the suite's conftest before pytest looks for them."""
    if isinstance(plugin, ModuleType) and plugin.__name__ == WANTED["conftest"]:
        for name, fixture in FIXTURES[WANTED["suite"]](plugin).items():
            assert hasattr(plugin, name), f"the suite's conftest has no fixture {name} any more"
            setattr(plugin, name, fixture)


def pytest_configure() -> None:
    """Start the cluster before the suite's tests are read: some ask for it then."""
    _addresses.append(WANTED["address"] or _start())
    os.environ["BROKERS"] = address()
    os.environ["KAFKA_URI"] = f"kafka://{address().split(',')[0]}"


def _start() -> str:
    # the wheel in the suite's environment; not there when the tests run against another Kafka
    from kraftline.testing import Cluster  # type: ignore[import-not-found] # noqa: PLC0415

    cluster = Cluster(WANTED["nodes"], configs=WANTED["configs"], port=WANTED["port"])
    cluster.start()
    _clusters.append(cluster)
    return str(cluster.bootstrap_servers)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep the worst of a test's three phases."""
    known = _outcomes.get(report.nodeid)
    if known is not None and (known["outcome"] == "failed" or report.outcome == "passed"):
        return
    text = report.longreprtext
    if isinstance(report.longrepr, tuple):
        text = report.longrepr[2]  # the reason of a skip
    _outcomes[report.nodeid] = {"outcome": report.outcome, "text": text[-TEXT_CHARACTERS:]}


def pytest_sessionfinish() -> None:
    """Write the outcomes and end the cluster."""
    lines = [json.dumps({"test": test, **found}) + "\n" for test, found in _outcomes.items()]
    Path(WANTED["results"]).write_text("".join(lines))
    while _clusters:
        _clusters.pop().stop()
