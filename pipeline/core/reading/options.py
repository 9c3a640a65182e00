"""Options of the source, checked once: names and meanings as in Spark's Kafka source.

Keys are case-insensitive and values are strings, as Spark passes them. Every refusal names the
option, its value and the allowed values.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pipeline.core.errors import BadInputError
from pipeline.core.reading.split import MAX_SPLIT_BYTES, OPEN_COST_BYTES
from pipeline.core.records.batches import BATCH_BYTES_MAX
from pipeline.core.records.schema import DECODE_MODES

EARLIEST: Final = -2
LATEST: Final = -1
MODES: Final = ("FAILFAST", "PERMISSIVE", "DROPMALFORMED")
VALIDATE_LEVELS: Final = ("none", "header", "crc", "full")
ISOLATION_LEVELS: Final = ("read_uncommitted", "read_committed")
REPLICAS: Final = ("one", "all")
HIGH_WATERMARK: Final = "high_watermark"
END: Final = "end"

# topic -> partition -> offset or time in ms
Positions = dict[str, dict[int, int]]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Every option of the batch source and of the stream; defaults as documented.

    Offsets are EARLIEST, LATEST or per partition; times are ms since 1970; None is "not given".
    """

    paths: tuple[str, ...]
    subscribe: tuple[str, ...] | None = None
    subscribe_pattern: str | None = None
    assign: dict[str, tuple[int, ...]] | None = None
    starting_offsets: int | Positions = EARLIEST
    ending_offsets: int | Positions = LATEST
    starting_timestamp: int | None = None
    ending_timestamp: int | None = None
    starting_offsets_by_timestamp: Positions | None = None
    ending_offsets_by_timestamp: Positions | None = None
    starting_offsets_by_timestamp_strategy: str = "error"
    fail_on_data_loss: bool = True
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_split_bytes: int = MAX_SPLIT_BYTES
    open_cost_bytes: int = OPEN_COST_BYTES
    max_batch_bytes: int = BATCH_BYTES_MAX
    decode: str = "records"
    validate: str = "crc"
    mode: str = "FAILFAST"
    include_control: bool = False
    include_hidden: bool = False
    include_headers: bool = False
    include_snapshots: bool = False
    isolation: str = "read_uncommitted"
    columns: str = "full"
    errors_path: str | None = None
    replicas: str = "one"
    until: str | None = None
    # the stream only
    inspect: tuple[str, ...] = ()
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    max_trigger_delay_ms: int = 15 * 60_000

    def wants(self, topic: str, partition: int) -> bool:
        """Return True if subscribe, subscribePattern or assign includes the partition."""
        if self.assign is not None:
            return partition in self.assign.get(topic, ())
        if self.subscribe is not None:
            return topic in self.subscribe
        if self.subscribe_pattern is not None:
            return re.fullmatch(self.subscribe_pattern, topic) is not None
        return True

    @property
    def ends_at_high_watermark(self) -> bool:
        """Return True if nothing above a known high watermark is read."""
        return (self.until or (HIGH_WATERMARK if self.replicas == "one" else END)) != END


def parse_options(given: Mapping[str, str]) -> Options:
    """Read the options of `spark.read.format(...).options(...)`.

    Raises:
        BadInputError: no path, an unknown option, or a value that is not allowed.
    """
    values = {name.lower(): str(value) for name, value in given.items()}
    fields: dict[str, Any] = {"paths": _paths(values)}
    for name, value in values.items():
        if name in ("path", "paths"):
            continue
        if name not in _BY_NAME:
            shown = ", ".join(sorted(option for option, _ in _BY_NAME.values()))
            raise BadInputError(f"option {name!r} is unknown; there are: path, {shown}")
        option, parse = _BY_NAME[name]
        if option == "upTo" and "until" in values:
            raise BadInputError("only one of until and upTo, its older name, can be given")
        fields[_snake(option)] = parse(option, value)
    chosen = [name for name in ("subscribe", "subscribe_pattern", "assign") if name in fields]
    if len(chosen) > 1:
        raise BadInputError("only one of subscribe, subscribePattern and assign can be given")
    return Options(**fields)


def parse_stream_options(given: Mapping[str, str]) -> Options:
    """Read the options of `spark.readStream.format(...)`: no end, as in Spark's Kafka source.

    Raises:
        BadInputError: as `parse_options`, an option sets an end, or all replicas are asked for.
    """
    for name in given:
        option, _ = _BY_NAME.get(name.lower(), (name, None))
        if option.startswith("ending"):
            raise BadInputError(
                f"{option} is not valid in streaming queries: a stream reads on;"
                " trigger(availableNow=True) ends it where the partitions end now"
            )
    options = parse_options(given)
    if options.replicas != "one":
        raise BadInputError(
            f"replicas={options.replicas} is not valid in streaming queries: a stream has one"
            " offset per partition, allowed: one"
        )
    return options


def _paths(values: Mapping[str, str]) -> tuple[str, ...]:
    paths: list[str] = []
    if "path" in values:
        paths.append(values["path"])
    if "paths" in values:
        try:
            listed = json.loads(values["paths"])
        except (ValueError, RecursionError) as error:
            raise BadInputError(f"paths is not a JSON array: {values['paths']!r}") from error
        if not isinstance(listed, list):
            raise BadInputError(f"paths is not a JSON array: {values['paths']!r}")
        paths += map(str, listed)
    if not paths:
        raise BadInputError("no path: give .load(PATH) or option path")
    return tuple(paths)


def whole_number(text: str) -> int | None:
    """Parse a number from 0 on of at most 18 digits, which fits 64 bits; None for another text.

    NB: `str.isdigit` holds for characters that `int` refuses, such as a superscript two.
    """
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def _snake(option: str) -> str:
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", option).lower()
    return {"max_trigger_delay": "max_trigger_delay_ms", "up_to": "until"}.get(name, name)


def _text(option: str, value: str) -> str:  # noqa: ARG001  # one shape for all parsers
    return value


def _names(option: str, value: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in value.split(",") if name.strip())
    if not names:
        raise BadInputError(f"{option} is empty: names, separated by commas")
    return names


def _pattern(option: str, value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise BadInputError(f"{option} {value!r} is not a pattern: {error}") from error
    return value


def _boolean(option: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise BadInputError(f"{option} is {value!r}, allowed: true, false")
    return value.lower() == "true"


def _choice(*allowed: str) -> Any:
    def parse(option: str, value: str) -> str:
        for name in allowed:
            if value.lower() == name.lower():
                return name
        raise BadInputError(f"{option} is {value!r}, allowed: {', '.join(allowed)}")

    return parse


def _up_to(option: str, value: str) -> str:
    """The older name of `until`, with values of its own."""
    return {"hw": HIGH_WATERMARK, "logEnd": END}[_choice("hw", "logEnd")(option, value)]


def _positive(option: str, value: str) -> int:
    number = whole_number(value.strip())
    if not number:
        raise BadInputError(f"{option} is {value!r}, allowed: a whole number from 1 on")
    return number


_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000}


def _duration(option: str, value: str) -> int:
    found = re.fullmatch(r"([0-9]{1,12})\s*(ms|s|m|min|h)", value.strip())
    if found is None:
        raise BadInputError(f"{option} is {value!r}, allowed: a number and ms, s, m or h")
    return int(found[1]) * _UNITS_MS[found[2]]


def _milliseconds(option: str, value: str) -> int:
    number = whole_number(value.strip())
    if number is None:
        raise BadInputError(f"{option} is {value!r}, allowed: milliseconds since 1970")
    return number


def _starting(option: str, value: str) -> int | Positions:
    if value.lower() == "latest":
        return LATEST
    return EARLIEST if value.lower() == "earliest" else _positions(option, value)


def _ending(option: str, value: str) -> int | Positions:
    if value.lower() == "earliest":
        raise BadInputError(f"{option} can not be earliest: latest, or JSON")
    return LATEST if value.lower() == "latest" else _positions(option, value)


def _positions(option: str, value: str) -> Positions:
    """Parse positions such as `{"topic": {"0": 23}}`."""
    shape = f'{option} is {value!r}, allowed: JSON like {{"topic": {{"0": 23}}}}'
    try:
        parsed = json.loads(value)
        found = {
            str(topic): {int(partition): int(at) for partition, at in partitions.items()}
            for topic, partitions in parsed.items()
        }
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise BadInputError(shape) from error
    if any(at < EARLIEST for partitions in found.values() for at in partitions.values()):
        raise BadInputError(f"{shape}; -2 is earliest, -1 is latest")
    return found


def _assign(option: str, value: str) -> dict[str, tuple[int, ...]]:
    try:
        parsed = json.loads(value)
        return {str(topic): tuple(map(int, numbers)) for topic, numbers in parsed.items()}
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        shape = '{"topic": [0, 1]}'
        raise BadInputError(f"{option} is {value!r}, allowed: JSON like {shape}") from error


_PARSERS: Final[dict[str, Any]] = {
    "subscribe": _names,
    "subscribePattern": _pattern,
    "assign": _assign,
    "startingOffsets": _starting,
    "endingOffsets": _ending,
    "startingTimestamp": _milliseconds,
    "endingTimestamp": _milliseconds,
    "startingOffsetsByTimestamp": _positions,
    "endingOffsetsByTimestamp": _positions,
    "startingOffsetsByTimestampStrategy": _choice("error", "latest"),
    "failOnDataLoss": _boolean,
    "minPartitions": _positive,
    "maxRecordsPerPartition": _positive,
    "maxSplitBytes": _positive,
    "openCostBytes": _positive,
    "maxBatchBytes": _positive,
    "decode": _choice(*DECODE_MODES),
    "validate": _choice(*VALIDATE_LEVELS),
    "mode": _choice(*MODES),
    "includeControl": _boolean,
    "includeHidden": _boolean,
    "includeHeaders": _boolean,
    "includeSnapshots": _boolean,
    "isolation": _choice(*ISOLATION_LEVELS),
    "columns": _text,
    "errorsPath": _text,
    "replicas": _choice(*REPLICAS),
    "until": _choice(HIGH_WATERMARK, END),
    "upTo": _up_to,
    "inspect": _names,
    "maxOffsetsPerTrigger": _positive,
    "minOffsetsPerTrigger": _positive,
    "maxBytesPerTrigger": _positive,
    "maxTriggerDelay": _duration,
}
_BY_NAME: Final = {name.lower(): (name, parse) for name, parse in _PARSERS.items()}
