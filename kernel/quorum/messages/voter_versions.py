"""ApiVersions as a leader sends it to a new voter, for its range of kraft.version (KIP-853)."""

from typing import TYPE_CHECKING, Final

from metadata.features import KRAFT_VERSION
from raft import messages as raft
from wire.api_keys import API_VERSIONS
from wire.messages import codec

if TYPE_CHECKING:
    from kio.schema.api_versions.v4.response import ApiVersionsResponse

SOFTWARE_NAME: Final = "kraftline"
SOFTWARE_VERSION: Final = "0.1.0"


def request_to_wire(message: raft.ApiVersionsRequest) -> codec.Entity:
    """Return the body of a message."""
    del message
    return codec.newest(API_VERSIONS, "request").ApiVersionsRequest(
        client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION
    )


def response_from_wire(body: "ApiVersionsResponse") -> raft.ApiVersionsResponse:
    """Return the message of a body; a range that begins at 0 is only in versions from 4 on."""
    ranges = {row.name: (row.min_version, row.max_version) for row in body.supported_features}
    return raft.ApiVersionsResponse(
        error_code=body.error_code.value, kraft_version=ranges.get(KRAFT_VERSION)
    )
