"""compose.yaml as `docker compose` reads it; tests/interop/test_docker.py starts its nodes."""

from pathlib import Path

import yaml

FILE = Path(__file__).parents[2] / "compose.yaml"


def test_one_service_builds_the_image_of_all_and_nobody_pulls_it() -> None:
    services = yaml.safe_load(FILE.read_text(encoding="utf-8"))["services"].values()
    assert [one["build"] for one in services if "build" in one] == ["."]
    assert {(one["image"], one["pull_policy"]) for one in services} == {("kraftline", "never")}
    assert len(services) == 3
