"""The generated pages of the documentation by their path below docs/."""

from pathlib import Path
from typing import Final

from scripts.reference import api_versions, commands, compatibility, configs, metrics
from scripts.reference.nodes import served

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"


def pages() -> dict[str, str]:
    """Texts of all pages."""
    nodes = served()
    return {
        "compatibility.md": compatibility.text(),
        "reference/api-versions.md": api_versions.text(nodes.apis),
        "reference/commands.md": commands.text(),
        "reference/configs.md": configs.text(),
        "reference/metrics.md": metrics.text(nodes.metrics),
    }
