"""HTTP application: routes to handlers, views to bytes, refusals to problems. Reads only."""

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from importlib import resources as package_files
from typing import Any, Final

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from inspection.consistency import CONSISTENCY, OFFSET_HEADER, wait_for
from inspection.health import HealthView
from inspection.metrics import NodeMetrics
from inspection.negotiation import (
    JSON,
    MSGPACK,
    accepts_gzip,
    is_known,
    negotiated,
    refused_expectation,
)
from inspection.openapi import document
from inspection.parameters import read_parameters
from inspection.problem import CONTENT_TYPE, Problem
from inspection.records_side import RecordsStalledError
from inspection.resources import ImageView, Service
from inspection.routes import ROUTES, Route
from inspection.stream import STREAMS_MAX, Streams

COMPRESSED_FROM_BYTES: Final = 1024
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
OnError = Callable[[str, str], None]
"""Callback for an unexpected exception, with the path of the request and the stack."""

_json = msgspec.json.Encoder()
_msgpack = msgspec.msgpack.Encoder()
STREAMS: Final = web.AppKey("streams", Streams)


def application(
    service: Service, on_error: OnError, streams_max: int = STREAMS_MAX
) -> web.Application:
    """Build the aiohttp application of one node, with at most `streams_max` streams at once."""
    app = web.Application(middlewares=[_edge(on_error)])
    for route in ROUTES:
        app.router.add_get(route.path, _resource(service, route), expect_handler=_expectation)
    streams = Streams(service.node, streams_max=streams_max)
    app[STREAMS] = streams
    app.router.add_get("/v1/metadata/stream", streams.serve, expect_handler=_expectation)
    metrics = NodeMetrics(service.node, service.counts)
    described = _json.encode(document())
    page = package_files.files(__package__).joinpath("static/index.html").read_bytes()

    async def scraped() -> bytes:
        """Return all metrics; those of the records are left out while these do not answer."""
        try:
            counts = await service.node.records_counts()
        except RecordsStalledError:
            counts = None
        return metrics.text(counts)

    for path, serve in (
        ("/metrics", _plain(scraped, METRICS_TYPE)),
        ("/openapi.json", _constant(described, JSON)),
        ("/", _constant(page, "text/html; charset=utf-8")),
    ):
        app.router.add_get(path, serve, expect_handler=_expectation)

    async def close_streams(_: web.Application) -> None:
        streams.close()

    app.on_shutdown.append(close_streams)
    return app


def _constant(content: bytes, content_type: str) -> Handler:
    """Handler of a resource that never changes."""

    async def unchanged() -> bytes:
        return content

    return _plain(unchanged, content_type)


def _plain(content: Callable[[], Awaitable[bytes]], content_type: str) -> Handler:
    """Handler of a resource with one media type and no parameters."""

    async def serve(request: web.Request) -> web.StreamResponse:
        read_parameters((), {}, list(request.query.items()))
        return _finished(request, await content(), content_type)

    return serve


def _resource(
    service: Service, route: Route
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Handler of a route: negotiates the form, reads the parameters, answers with an ETag."""

    async def serve(request: web.Request) -> web.StreamResponse:
        media_type = negotiated(request.headers.get("Accept"), (JSON, MSGPACK))
        query = list(request.query.items())
        values = read_parameters((*route.parameters, CONSISTENCY), request.match_info, query)
        await wait_for(service.node, values.pop(CONSISTENCY.name), request.path_qs)
        end_offset = service.node.image.provenance.end_offset
        etag = f'W/"{end_offset}"' if route.has_etag else None
        headers = {
            "Cache-Control": "no-cache",
            "Vary": "Accept, Accept-Encoding",
            OFFSET_HEADER: str(end_offset),
        }
        if etag is not None:
            headers["ETag"] = etag
            if is_known(etag, request.headers.get("If-None-Match")):
                return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
        answer = await route.handler(service, values)
        assert isinstance(answer, route.answer), f"{type(answer)} from {route.path}"
        encode = _msgpack.encode if media_type == MSGPACK else _json.encode
        if isinstance(answer, ImageView):
            content = await asyncio.to_thread(encode, answer)
        else:
            content = encode(answer)
        status = HTTPStatus.OK
        if isinstance(answer, HealthView) and answer.status != "ok":
            status = HTTPStatus.SERVICE_UNAVAILABLE
        return _finished(request, content, media_type, status, headers)

    return serve


def _finished(
    request: web.Request,
    content: bytes,
    content_type: str,
    status: HTTPStatus = HTTPStatus.OK,
    headers: dict[str, str] | None = None,
) -> web.Response:
    """Response with the common headers, compressed if it is large and the client accepts that."""
    response = web.Response(
        body=content,
        status=status,
        headers={
            "Content-Type": content_type,
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-cache",
            "Vary": "Accept-Encoding",
            **(headers or {}),
        },
        zlib_executor_size=COMPRESSED_FROM_BYTES * 64,
    )
    is_wanted = accepts_gzip(request.headers.get("Accept-Encoding"))
    if len(content) >= COMPRESSED_FROM_BYTES and is_wanted:
        response.enable_compression(web.ContentCoding.gzip)
    return response


def _edge(on_error: OnError) -> Any:
    """Middleware that turns every refusal into a problem document."""

    @web.middleware
    async def edge(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            if request.body_exists and request.method in ("GET", "HEAD"):
                return _body_refused()
            return await handler(request)
        except Problem as problem:
            return _problem(problem)
        except web.HTTPNotFound:
            return _problem(
                Problem(
                    HTTPStatus.NOT_FOUND,
                    f"there is no resource {request.path!r}; /openapi.json lists them",
                )
            )
        except web.HTTPMethodNotAllowed as refusal:
            response = _problem(
                Problem(
                    HTTPStatus.METHOD_NOT_ALLOWED,
                    f"{request.method} is not served: the API only reads (GET, HEAD)",
                    parameter="method",
                    value=request.method,
                    allowed="GET, HEAD",
                )
            )
            response.headers["Allow"] = ", ".join(sorted(refusal.allowed_methods))
            return response
        except Exception:  # noqa: BLE001 - top of a request: the log has the stack
            on_error(request.path, traceback.format_exc())
            return _problem(
                Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "a bug: the node's log has the stack")
            )

    return edge


async def _expectation(request: web.Request) -> web.StreamResponse | None:
    """Handle `Expect`: a body that waits for 100 Continue is refused instead of awaited."""
    refused = refused_expectation(request.headers["Expect"])
    return None if refused is None else _problem(refused)


def _body_refused() -> web.Response:
    """Refuse a body of any size, since no resource reads one; the connection ends."""
    response = _problem(
        Problem(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            "the request has a body, and the API reads none; allowed: 0 bytes",
            parameter="body",
            allowed="0 bytes",
        )
    )
    response.force_close()
    return response


def _problem(problem: Problem) -> web.Response:
    return web.Response(
        body=_json.encode(problem.body),
        status=problem.status,
        headers={
            "Content-Type": CONTENT_TYPE,
            "X-Content-Type-Options": "nosniff",
            **problem.headers,
        },
    )
