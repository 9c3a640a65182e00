"""`--initial-controllers`: what is a list of voters, and Kafka's words for what is none."""

import pytest

from cli.arguments import UsageError
from cli.directory_ids import parse_directory_id
from cli.initial_controllers import initial_controllers
from wire.types import Endpoint

A, B = "QUFBQUFBQUFBQUFBQUFBAQ", "QkJCQkJCQkJCQkJCQkJCAQ"
IN = " in dynamic voter string."


@pytest.mark.parametrize(("text", "found"), [
    (f"1@h:9093:{A}", {1: ("h", 9093)}),
    (f" 2@h:0:{B},1@h:65535:{A} ", {1: ("h", 65535), 2: ("h", 0)}),
    (f",1@h:1:{A},,", {1: ("h", 1)}),
    (f"1@h:1:{A}, +2@h:+1:{B}", {1: ("h", 1), 2: ("h", 1)}),
    (f"2147483647@[::1]:9093:{A}==", {2147483647: ("::1", 9093)}),
])  # fmt: skip
def test_voters(text: str, found: dict[int, tuple[str, int]]) -> None:
    voters = initial_controllers(text, "C")
    where = {key: voter.endpoints for key, voter in voters.by_id.items()}
    assert where == {key: (Endpoint("C", *at),) for key, at in found.items()}
    assert voters.by_id[min(found)].key.directory_id == b"A" * 15 + b"\x01"
    ranges = {(v.kraft_version_min, v.kraft_version_max) for v in voters.by_id.values()}
    assert ranges == {(0, 1)}


@pytest.mark.parametrize(("text", "said"), [
    ("", "No voters given."),
    (",", "No voters given."),
    (" , ", "No voters given."),
    (f"1@h:1:{A}, ,", f"No @ found{IN}"),
    ("1", f"No @ found{IN}"),
    (f"@h:1:{A}", "Invalid @ at beginning of dynamic voter string."),
    (f"x@h:1:{A}", f"Failed to parse node id{IN}"),
    (f"1 @h:1:{A}", f"Failed to parse node id{IN}"),
    (f"2147483648@h:1:{A}", f"Failed to parse node id{IN}"),
    (f"-2147483648@h:1:{A}", f"Invalid negative node id -2147483648{IN}"),
    (f"-2147483649@h:1:{A}", f"Failed to parse node id{IN}"),
    (f"-1@h:1:{A}", f"Invalid negative node id -1{IN}"),
    ("1@", "No hostname found after node id."),
    (f"1@:1:{A}", "No hostname found after node id."),
    (f"1@[]:1:{A}", "No hostname found after node id."),
    (f"1@[::1:1:{A}", "Hostname began with left bracket, but no right bracket was found."),
    ("1@[::1]", "Port section must start with a colon."),
    (f"1@[::1]x:1:{A}", "Port section must start with a colon."),
    ("1@h", "No colon following hostname could be found."),
    ("1@h:1", "No colon following port could be found."),
    ("1@[::1]:1", "No colon following port could be found."),
    (f"1@h:x:{A}", f"Failed to parse port{IN}"),
    (f"1@h::{A}", f"Failed to parse port{IN}"),
    (f"1@h:2147483648:{A}", f"Failed to parse port{IN}"),
    (f"1@h:-2147483649:{A}", f"Failed to parse port{IN}"),
    (f"1@h:-2147483648:{A}", f"Invalid port -2147483648{IN}"),
    (f"1@h:65536:{A}", f"Invalid port 65536{IN}"),
    (f"1@h:-1:{A}", f"Invalid port -1{IN}"),
    ("1@h:1:short", f"Failed to parse directory ID{IN}"),
    (f"1@h:1:{A}:", f"Failed to parse directory ID{IN}"),
    ("1@h:1:AAAAAAAAAAAAAAAAAAAAAQ",
     f"Invalid reserved directory ID AAAAAAAAAAAAAAAAAAAAAQ{IN}"),
    (f"1@h:1:{A},1@g:2:{B}", "Node id 1 was specified more than once."),
    (f"1@h:1:{A},2@g:2:{A}", f"Node ids 1 and 2 have the same directory ID{IN}"),
])  # fmt: skip
def test_what_is_no_list_of_voters(text: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        initial_controllers(text, "C")
    assert str(refused.value) == said


OTHER_LENGTH = (
    "Input string `{}` decoded as {} bytes, which is not equal to the expected 16 bytes of a "
    "base64-encoded UUID"
)


@pytest.mark.parametrize(("text", "said"), [
    ("A" * 25, f"Input string with prefix `{'A' * 24}` is too long to be decoded as a base64 UUID"),
    ("A" * 24, OTHER_LENGTH.format("A" * 24, 18)),
    ("A" * 21, "Last unit does not have enough valid bits"),
    ("A" * 20, OTHER_LENGTH.format("A" * 20, 15)),
    ("short-ID", OTHER_LENGTH.format("short-ID", 6)),
    ("", OTHER_LENGTH.format("", 0)),
    ("A+", "Illegal base64 character 2b"),
    ("A" * 20 + "==", "Illegal base64 character 3d"),
])  # fmt: skip
def test_what_is_no_directory_id(text: str, said: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        parse_directory_id(text)
    assert str(refused.value) == said


@pytest.mark.parametrize("text", ["-_" * 11, "-_" * 11 + "=="])
def test_a_directory_id_with_or_without_its_padding(text: str) -> None:
    assert parse_directory_id(text) == bytes.fromhex("fbffbffbffbffbffbffbffbffbffbffb")
