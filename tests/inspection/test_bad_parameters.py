"""Every declared parameter in every wrong form, and unknown ones everywhere.

Walked from the declarations, so that a new resource or parameter is tested without a change here.
"""

from collections.abc import AsyncIterator, Iterator
from urllib.parse import quote, unquote

import msgspec
import pytest
import pytest_asyncio
from yarl import URL

from coordinator.records.kinds import CONSUMER_OFFSETS, TRANSACTION_STATE
from inspection.parameters import Choice, Flag, Parameter, Place, WholeNumber
from inspection.routes import ROUTES, STREAM_PARAMETERS
from tests.inspection.conftest import Site, open_site, ready_world
from tests.inspection.records import Beside
from tests.kernel.harness import World

pytestmark = pytest.mark.asyncio(loop_scope="module")

STREAM = "/v1/metadata/stream"
VALID = {
    "id": "1", "name": "orders", "type": "topic", "offset": "1", "from": "1", "topic": "orders",
    "partition": "0",
}  # fmt: skip
"""A value for each parameter that a request cannot be without."""
WRONG_NUMBERS = ("", " ", "x", "1.5", "1e3", "0x1", "+1", "01", "-0x", "\u0661", "1 ", "9" * 500)
NUL_AND_LONG = ("\x00", "a\x00b", "x" * 1001)


@pytest.fixture(scope="module")
def served_world() -> World:
    """No request here changes anything: one serves them all.

    Groups and transactional ids have coordinators, which are other nodes.
    """
    world = ready_world()
    for name in (CONSUMER_OFFSETS, TRANSACTION_STATE):
        world.client(1).create_topic(name, replicas=2)
    world.run_for(50)
    return world


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(served_world: World) -> AsyncIterator[Site]:
    """A node with records, whose resources are all there."""
    leader = served_world.active()
    assert leader is not None
    opened = await open_site(served_world, leader, Beside(served_world.kernel(leader)))
    served_world.run_for(600)  # a NoOp record is committed
    yield opened
    await opened.client.close()
    assert opened.errors == []


def declared() -> Iterator[tuple[str, tuple[Parameter, ...]]]:
    """Every path with its parameters."""
    for route in ROUTES:
        yield route.path, route.parameters
    yield from (("/metrics", ()), ("/openapi.json", ()), ("/", ()))
    yield STREAM, STREAM_PARAMETERS


def wrong_texts(parameter: Parameter) -> tuple[str, ...]:
    """Texts that the declaration rules out."""
    match parameter:
        case WholeNumber():
            limits = (str(parameter.minimum - 1), str(parameter.maximum + 1))
            return WRONG_NUMBERS + limits
        case Choice():
            return ("", "x", parameter.choices[0].upper(), f"{parameter.choices[0]} ", "x" * 5000)
        case Flag():
            return ("1", "yes", "TRUE", "truefalse", "x" * 5000)
        case _:
            return NUL_AND_LONG if parameter.form is None else (*NUL_AND_LONG, "x", "-", "x-y")


def target(path: str, parameters: tuple[Parameter, ...], wrong: str, text: str) -> str:
    """The path with all that is required, one parameter having this text."""
    query = []
    for parameter in parameters:
        is_wrong = parameter.name == wrong != ""
        value = text if is_wrong else VALID.get(parameter.name, "")
        if parameter.place is Place.PATH:
            path = path.replace(f"{{{parameter.name}}}", quote(value, safe=""))
        elif is_wrong or parameter.is_required:
            query.append(f"{parameter.name}={quote(value, safe='')}")
    return path + ("?" + "&".join(query) if query else "")


PATHS = [pytest.param(*row, id=row[0]) for row in declared()]
CASES = [
    pytest.param(path, parameters, parameter, id=f"{path} {parameter.name}")
    for path, parameters in declared()
    for parameter in parameters
]


async def refused(site: Site, url: str, parameter: str, status: int = 400) -> dict[str, str]:
    """The problem of a request; it is one short line that names the parameter."""
    response = await site.client.get(URL(url, encoded=True))
    assert response.status == status, url[:200]
    assert response.headers["Content-Type"] == "application/problem+json"
    problem: dict[str, str] = await response.json(content_type=None)
    assert problem["parameter"] == parameter, url[:200]
    assert parameter in problem["detail"]
    assert len(problem["detail"]) < 600
    assert len(problem["detail"].splitlines()) == 1
    return problem


@pytest.mark.parametrize(("path", "parameters", "parameter"), CASES)
async def test_a_wrong_value_names_its_parameter(
    site: Site, path: str, parameters: tuple[Parameter, ...], parameter: Parameter
) -> None:
    for text in wrong_texts(parameter):
        if text or parameter.place is Place.QUERY:  # without text it is another path
            url = target(path, parameters, parameter.name, text)
            problem = await refused(site, url, parameter.name)
            assert problem["allowed"]


@pytest.mark.parametrize(("path", "parameters"), PATHS)
async def test_unknown_repeated_and_missing_parameters(
    site: Site, path: str, parameters: tuple[Parameter, ...]
) -> None:
    url = target(path, parameters, "", "")
    separator = "&" if "?" in url else "?"
    for name in ("nonsense", "x" * 3000, "limit%20"):
        problem = await refused(site, f"{url}{separator}{name}=1", unquote(name)[:80])
        known = {p.name for p in parameters if p.place is Place.QUERY}
        if path.startswith(("/v1", "/livez", "/readyz")):
            known.add("consistency")
        assert set(problem["allowed"].split(", ")) == (known or {"none"})
    for parameter in parameters:
        if parameter.place is Place.QUERY:
            value = VALID.get(parameter.name, "1")
            twice = f"{parameter.name}={value}&{parameter.name}={value}"
            await refused(site, f"{url}{separator}{twice}", parameter.name)
            if parameter.is_required:
                await refused(site, url.partition("?")[0], parameter.name)


@pytest.mark.parametrize("url", [
    "/v1/topics/%ff%fe", "/v1/topics/%00", "/v1/topics/a%2Fb", "/v1/topics/..%2f..%2fetc",
    "/v1/topics/" + "x" * 7000, "/v1/configs/topic/%ff", "/v1/topics?after=%ff", "/%ff",
    "/v1/brokers/%D9%A1", "/v1/topics?limit=%D9%A1", "/v1/topics?=1", "/v1/topics?limit",
    "/v1/topics?" + "&".join(f"p{n}=1" for n in range(1000)), "/v1/topics?limit=" + "9" * 7000,
])  # fmt: skip
async def test_odd_urls_are_refused_and_no_bug(site: Site, url: str) -> None:
    response = await site.client.get(URL(url, encoded=True))
    assert response.status in (400, 404) or (response.status, url) == (200, "/v1/topics?after=%ff")


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5", "9" * 19, "1 2", "\u00b2"])
async def test_a_wrong_last_event_id(site: Site, text: str) -> None:
    headers = {"Last-Event-ID": text} if text else {}
    url = STREAM if text else f"{STREAM}?from=x"
    response = await site.client.get(url, headers=headers)
    assert response.status == 400
    problem = await response.json(content_type=None)
    assert problem["parameter"] == ("Last-Event-ID" if text else "from")


@pytest.mark.parametrize("encoding", ["gzip;q=0", "identity", "", "br", "gzip;q=0, *;q=0", "*;q=0"])
async def test_who_does_not_accept_gzip_gets_none(site: Site, encoding: str) -> None:
    async with site.client.get("/openapi.json", headers={"Accept-Encoding": encoding}) as response:
        assert "Content-Encoding" not in response.headers


@pytest.mark.parametrize("encoding", ["gzip", "GZIP;q=0.5", "br, gzip;q=1", "*", "x-gzip"])
async def test_who_accepts_gzip_gets_it(site: Site, encoding: str) -> None:
    for path in ("/openapi.json", "/metrics", "/", "/v1/metadata/image"):
        async with site.client.get(path, headers={"Accept-Encoding": encoding}) as response:
            assert response.headers["Content-Encoding"] == "gzip", path


@pytest.mark.parametrize("accept", ["application/msgpack", "application/msgpack;q=1, */*;q=0.1"])
async def test_every_resource_comes_as_msgpack(site: Site, accept: str) -> None:
    for route in ROUTES:
        url = target(route.path, route.parameters, "", "")
        plain = await (await site.client.get(url)).json(content_type=None)
        response = await site.client.get(url, headers={"Accept": accept})
        assert (response.status, response.headers["Content-Type"]) == (200, "application/msgpack")
        told = msgspec.msgpack.decode(await response.read())
        assert told.keys() == plain.keys()


async def test_every_resource_answers_head(site: Site) -> None:
    for route in ROUTES:
        url = target(route.path, route.parameters, "", "")
        response = await site.client.head(url)
        assert (response.status, await response.read()) == (200, b"")


async def test_every_resource_of_the_image_has_an_etag(site: Site) -> None:
    for route in ROUTES:
        url = target(route.path, route.parameters, "", "")
        etag = (await site.client.get(url)).headers.get("ETag")
        assert (etag is not None) == route.has_etag
        if etag is not None:
            strong = etag.removeprefix("W/")
            assert strong != etag
            for given in (etag, strong, f'"x", {etag}', f'W/"x",{strong}', "*"):
                again = await site.client.get(url, headers={"If-None-Match": given})
                assert again.status == 304, (url, given)
            for given in ("", "x", '"x"', strong.strip('"')):
                again = await site.client.get(url, headers={"If-None-Match": given})
                assert again.status == 200, (url, given)
