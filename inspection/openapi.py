"""OpenAPI 3.1 document, made from the declarations that serve the requests."""

from http import HTTPStatus
from typing import Any, Final

import msgspec

from inspection.consistency import CONSISTENCY, OFFSET_HEADER
from inspection.health import HealthView
from inspection.parameters import Parameter
from inspection.problem import CONTENT_TYPE, ProblemBody
from inspection.record_views import RecordView
from inspection.routes import ROUTES, STREAM_PARAMETERS, Route

REF_TEMPLATE: Final = "#/components/schemas/{name}"
VERSION: Final = "1"
EVERYWHERE: Final[tuple[tuple[HTTPStatus, str], ...]] = (
    (HTTPStatus.BAD_REQUEST, "a parameter is refused, or what came is no request of HTTP/1.1"),
    (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the request has a body; none is read"),
    (HTTPStatus.EXPECTATION_FAILED, "Expect asks for something else than 100-continue"),
    (HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the request line or a header is too long"),
    (HTTPStatus.INTERNAL_SERVER_ERROR, "a bug: the node's log has the stack"),
    (
        HTTPStatus.SERVICE_UNAVAILABLE,
        "too many connections (inspection.max.connections), or no linearizable read in time",
    ),
)
"""Refusals that every resource may give."""


def document() -> dict[str, Any]:
    """The whole document."""
    types = [*{route.answer: None for route in ROUTES}, ProblemBody, RecordView]
    schemas, components = msgspec.json.schema_components(types, ref_template=REF_TEMPLATE)
    by_type = dict(zip(types, schemas, strict=True))
    paths = {route.path: {"get": _operation(route, by_type)} for route in ROUTES}
    paths["/v1/metadata/stream"] = {"get": _stream_operation(by_type)}
    for path, summary, operation_id, content_type in (
        ("/metrics", "Prometheus metrics", "metrics", "text/plain"),
        ("/openapi.json", "This document", "openapi", "application/json"),
        ("/", "A page for people", "page", "text/html"),
    ):
        paths[path] = {"get": _plain(summary, operation_id, content_type)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "kraftline metadata inspection",
            "version": VERSION,
            "description": "Read-only views of one node's metadata. Offsets are half-open: `at N` "
            'means all records below N. The ETag is the metadata offset N as W/"N", the same for '
            "every form of the answer; If-None-Match takes it with W/ and without. Only GET and "
            "HEAD are served, another method is 405.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": components, "responses": _common(by_type)},
    }


def _common(by_type: dict[type, dict[str, Any]]) -> dict[str, Any]:
    """Components with the refusals of every resource, for references."""
    return {
        status.name: {**_problem(status, by_type), "description": text}
        for status, text in EVERYWHERE
    }


def _refusals() -> dict[str, Any]:
    return {
        str(status.value): {"$ref": f"#/components/responses/{status.name}"}
        for status, _ in EVERYWHERE
    }


def _operation(route: Route, by_type: dict[type, dict[str, Any]]) -> dict[str, Any]:
    """Operation of a route: its parameters, its answer and its refusals."""
    schema = by_type[route.answer]
    responses: dict[str, Any] = {
        "200": {
            "description": "the answer",
            "content": {
                "application/json": {"schema": schema},
                "application/msgpack": {"schema": {}},
            },
        },
        "406": _problem(HTTPStatus.NOT_ACCEPTABLE, by_type),
        **_refusals(),
    }
    responses["200"]["headers"] = {
        OFFSET_HEADER: {
            "description": "all metadata below this offset is in the answer",
            "schema": {"type": "string"},
        }
    }
    responses["307"] = _redirection(by_type)
    if route.has_etag:
        responses["200"]["headers"]["ETag"] = {
            "description": 'the metadata offset N as W/"N"',
            "schema": {"type": "string"},
        }
        responses["304"] = {"description": "the metadata offset is still the one in If-None-Match"}
    for status in route.statuses:
        if status == HTTPStatus.SERVICE_UNAVAILABLE and route.answer is not HealthView:
            responses[str(status)] = {
                **_problem(HTTPStatus.SERVICE_UNAVAILABLE, by_type),
                "description": "the thread of the records does not answer in time, or too many "
                "connections are open",
            }
        elif status == HTTPStatus.SERVICE_UNAVAILABLE:
            refusal = _problem(HTTPStatus.SERVICE_UNAVAILABLE, by_type)
            content = {**responses["200"]["content"], **refusal["content"]}
            text = "not ready; as a problem: too many connections are open"
            responses[str(status)] = {"description": text, "content": content}
        else:
            responses[str(status)] = _problem(HTTPStatus(status), by_type)
    return {
        "operationId": route.handler.__name__,
        "summary": route.summary,
        "parameters": [_parameter(parameter) for parameter in (*route.parameters, CONSISTENCY)],
        "responses": responses,
    }


def _stream_operation(by_type: dict[type, dict[str, Any]]) -> dict[str, Any]:
    """Operation of the stream of committed records."""
    return {
        "operationId": "stream",
        "summary": "Committed records as they come: server-sent events, or msgpack values one "
        "behind the other; resumable by `Last-Event-ID` (the last offset seen) or `from`",
        "parameters": [
            *(_parameter(parameter) for parameter in (*STREAM_PARAMETERS, CONSISTENCY)),
            {
                "name": "Last-Event-ID",
                "in": "header",
                "required": False,
                "description": "offset of the last record seen",
                "schema": {"type": "string"},
            },
        ],
        "responses": {
            "200": {
                "description": "events `record`, and one `end` whose data says why it ended",
                "content": {
                    "text/event-stream": {"schema": {"type": "string"}},
                    "application/msgpack": {"schema": {}},
                },
            },
            "307": _redirection(by_type),
            "404": _problem(HTTPStatus.NOT_FOUND, by_type),
            "406": _problem(HTTPStatus.NOT_ACCEPTABLE, by_type),
            "410": _problem(HTTPStatus.GONE, by_type),
            **_refusals(),
            "503": {
                **_problem(HTTPStatus.SERVICE_UNAVAILABLE, by_type),
                "description": "too many streams, or too many connections, are open",
            },
        },
    }


def _plain(summary: str, operation_id: str, content_type: str) -> dict[str, Any]:
    return {
        "operationId": operation_id,
        "summary": summary,
        "responses": {
            "200": {"description": summary, "content": {content_type: {"schema": {}}}},
            **_refusals(),
        },
    }


def _problem(status: HTTPStatus, by_type: dict[type, dict[str, Any]]) -> dict[str, Any]:
    return {
        "description": status.phrase,
        "content": {CONTENT_TYPE: {"schema": by_type[ProblemBody]}},
    }


def _redirection(by_type: dict[type, dict[str, Any]]) -> dict[str, Any]:
    return {
        **_problem(HTTPStatus.TEMPORARY_REDIRECT, by_type),
        "description": "consistency is linearizable and another node leads the quorum",
        "headers": {"Location": {"description": "there", "schema": {"type": "string"}}},
    }


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.place.value,
        "required": parameter.is_required,
        "description": parameter.description,
        "schema": parameter.schema(),
    }
