"""The OpenAPI 3.1 document, made from the declarations that serve the requests."""

from http import HTTPStatus
from typing import Any, Final

import msgspec

from inspection.parameters import Parameter
from inspection.problem import CONTENT_TYPE, ProblemBody
from inspection.record_views import RecordView
from inspection.routes import ROUTES, STREAM_PARAMETERS, Route

REF_TEMPLATE: Final = "#/components/schemas/{name}"
VERSION: Final = "1"


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
        paths[path] = {"get": _plain(summary, operation_id, content_type, by_type)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "kraftline metadata inspection",
            "version": VERSION,
            "description": "Read-only views of one node's metadata. Offsets are half-open: `at N` "
            "means all records below N. The ETag is the metadata offset.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": components},
    }


def _operation(route: Route, by_type: dict[type, dict[str, Any]]) -> dict[str, Any]:
    schema = by_type[route.answer]
    responses: dict[str, Any] = {
        "200": {
            "description": "the answer",
            "content": {
                "application/json": {"schema": schema},
                "application/msgpack": {"schema": {}},
            },
        },
        "400": _bad_request(by_type),
        "406": _problem(HTTPStatus.NOT_ACCEPTABLE, by_type),
    }
    if route.has_etag:
        responses["200"]["headers"] = {
            "ETag": {"description": "the metadata offset", "schema": {"type": "string"}}
        }
        responses["304"] = {"description": "the metadata offset is still the one in If-None-Match"}
    for status in route.statuses:
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            content = {
                "application/json": {"schema": schema},
                "application/msgpack": {"schema": {}},
            }
            responses[str(status)] = {"description": "not ready", "content": content}
        else:
            responses[str(status)] = _problem(HTTPStatus(status), by_type)
    return {
        "operationId": route.handler.__name__,
        "summary": route.summary,
        "parameters": [_parameter(parameter) for parameter in route.parameters],
        "responses": responses,
    }


def _stream_operation(by_type: dict[type, dict[str, Any]]) -> dict[str, Any]:
    return {
        "operationId": "stream",
        "summary": "Committed records as they come: server-sent events, or msgpack values one "
        "behind the other; resumable by `Last-Event-ID` (the last offset seen) or `from`",
        "parameters": [
            *(_parameter(parameter) for parameter in STREAM_PARAMETERS),
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
            "400": _bad_request(by_type),
            "406": _problem(HTTPStatus.NOT_ACCEPTABLE, by_type),
            "404": _problem(HTTPStatus.NOT_FOUND, by_type),
            "410": _problem(HTTPStatus.GONE, by_type),
            "503": _problem(HTTPStatus.SERVICE_UNAVAILABLE, by_type),
        },
    }


def _plain(
    summary: str, operation_id: str, content_type: str, by_type: dict[type, dict[str, Any]]
) -> dict[str, Any]:
    return {
        "operationId": operation_id,
        "summary": summary,
        "responses": {
            "200": {"description": summary, "content": {content_type: {"schema": {}}}},
            "400": _bad_request(by_type),
        },
    }


def _problem(status: HTTPStatus, by_type: dict[type, dict[str, Any]]) -> dict[str, Any]:
    return {
        "description": status.phrase,
        "content": {CONTENT_TYPE: {"schema": by_type[ProblemBody]}},
    }


def _bad_request(by_type: dict[type, dict[str, Any]]) -> dict[str, Any]:
    """A request that is no HTTP, such as a line above 8190 bytes, is refused before the API."""
    response = _problem(HTTPStatus.BAD_REQUEST, by_type)
    response["content"]["text/plain"] = {"schema": {"type": "string"}}
    return response


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.place.value,
        "required": parameter.is_required,
        "description": parameter.description,
        "schema": parameter.schema(),
    }
