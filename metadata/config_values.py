"""Config values: parsing, checking and writing them as Kafka does, with its error texts.

Source: apache/kafka: clients/.../common/config/ConfigDef.java (parseType, Validator classes).
"""

import math
import re
from typing import Any, Final

from metadata.config_schema import ConfigDefinition, ConfigType, Rule, RuleKind

_INTEGER: Final = re.compile(r"[+-]?\d+")  # any decimal digits, as Java accepts them
_DOUBLE: Final = re.compile(
    r"[+-]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?|Infinity|NaN)"
)
_DIGITS_MAX: Final = 19
_INTEGER_MAX: Final = {
    ConfigType.SHORT: 2**15 - 1,
    ConfigType.INT: 2**31 - 1,
    ConfigType.LONG: 2**63 - 1,
}
_DURATION: Final = re.compile(
    r"([+-]?)P(?:([+-]?[0-9]+)D)?(T(?:([+-]?[0-9]+)H)?(?:([+-]?[0-9]+)M)?"
    r"(?:([+-]?[0-9]+)(?:[.,][0-9]{0,9})?S)?)?",
    re.IGNORECASE,
)
_JAVA_BLANKS: Final = "".join(chr(code) for code in range(0x21))
_JAVA_SPACES: Final = " \t\n\x0b\f\r"
r"""Characters of `\s` in Java's expressions."""


def parse_value(definition: ConfigDefinition, text: str) -> tuple[Any, str | None]:
    """The parsed value (bool, int, float, str, list of str), or the error in the text.

    Returns:
        (value, None), or (None, Kafka's message).
    """
    value, reason = _parse(definition.type, text)
    if reason is not None:
        return None, f"Invalid value {text} for configuration {definition.name}: {reason}"
    if definition.rule is None:
        return value, None
    if definition.rule.kind is RuleKind.LIST:
        value = list(dict.fromkeys(value))
        return value, _list_error(definition.name, definition.rule, value)
    reason = _broken_rule(definition, definition.rule, value)
    if reason is None:
        return value, None
    shown = f"[{', '.join(value)}]" if isinstance(value, list) else value_text(value)
    return value, f"Invalid value {shown} for configuration {definition.name}: {reason}"


def whole_number(text: str) -> int | None:
    """The number as Java's parsers of whole numbers read it; None for other texts.

    Also None for more than 19 digits after leading zeros, which no Java type holds: Python parses
    at most 4300 digits and raises for more.
    """
    if _INTEGER.fullmatch(text) is None:
        return None
    digits = text.lstrip("+-").lstrip("0")
    if len(digits) > _DIGITS_MAX:
        return None
    value = int(digits or "0")
    return -value if text[0] == "-" else value


def value_text(value: Any) -> str | None:
    """A parsed value as Kafka writes it into responses."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(value)
    return _java_double(value) if isinstance(value, float) else str(value)


def _parse(  # noqa: PLR0911 - one case per type
    kind: ConfigType, text: str
) -> tuple[Any, str | None]:
    """Value of a text by Kafka's `ConfigDef.parseType`, or the reason of its refusal."""
    trimmed = text.strip(_JAVA_BLANKS)
    match kind:
        case ConfigType.BOOLEAN:
            if trimmed.lower() in ("true", "false"):
                return trimmed.lower() == "true", None
            return None, "Expected value to be either true or false"
        case ConfigType.LIST:
            parts = trimmed.split(",") if trimmed else []
            return [part.strip(_JAVA_SPACES) for part in parts], None
        case ConfigType.STRING | ConfigType.CLASS | ConfigType.PASSWORD:
            return trimmed, None
        case ConfigType.DOUBLE:
            if _DOUBLE.fullmatch(trimmed):
                is_word = trimmed[-1] in "yN"
                return float(trimmed if is_word else trimmed.rstrip("dDfF")), None
        case ConfigType.SHORT | ConfigType.INT | ConfigType.LONG:
            value = whole_number(trimmed)
            if value is not None and -_INTEGER_MAX[kind] - 1 <= value <= _INTEGER_MAX[kind]:
                return value, None
    return None, f"Not a number of type {kind.value}"


def _broken_rule(  # noqa: C901, PLR0911, PLR0912 - one case per kind of rule
    definition: ConfigDefinition, rule: Rule, value: Any
) -> str | None:
    """Message of the rule that a value breaks, None if it keeps it."""
    match rule.kind:
        case RuleKind.RANGE:
            if rule.minimum is not None and value < float(rule.minimum):
                return f"Value must be at least {rule.minimum}"
            if rule.maximum is not None and value > float(rule.maximum):
                return f"Value must be no more than {rule.maximum}"
        case RuleKind.ONE_OF:
            if value not in rule.values:
                return f"String must be one of: {', '.join(rule.values)}"
        case RuleKind.ONE_OF_ANY_CASE:
            if value.upper() not in rule.values:
                return f"String must be one of (case insensitive): {', '.join(rule.values)}"
        case RuleKind.NON_EMPTY:
            return None if value else "String must be non-empty"
        case RuleKind.GZIP_LEVEL:
            if value != -1 and not 1 <= value <= 9:
                return "Value must be between 1 and 9 or equal to -1"
        case RuleKind.THROTTLED_REPLICAS:
            return _throttled_replicas_error(definition.name, value)
        case RuleKind.OFFSET_RESET:
            if not _is_offset_reset(value):
                return (
                    f"Invalid value `{value}` for configuration {definition.name}. The value must "
                    "be either 'earliest', 'latest' or of the format "
                    "'by_duration:<PnDTnHnMn.nS>'."
                )
        case RuleKind.NON_NULL | RuleKind.QUORUM_ADDRESSES | RuleKind.LIST:
            return None
    return None


def _list_error(name: str, rule: Rule, values: list[str]) -> str | None:
    if not values and not rule.may_be_empty:
        allowed = f"[{', '.join(rule.values)}]" if rule.values else "any non-empty value"
        return f"Configuration '{name}' must not be empty. Valid values include: {allowed}"
    for value in values:
        if not value:
            return f"Configuration '{name}' values must not be empty."
        if rule.values and value not in rule.values:
            allowed = ", ".join(rule.values)
            return (
                f"Invalid value {value} for configuration {name}: String must be one of: {allowed}"
            )
    return None


def _throttled_replicas_error(name: str, values: list[str]) -> str | None:
    is_replicas = all(re.fullmatch(r"([0-9]+:[0-9]+)?", value) for value in values)
    if is_replicas or "".join(values) == "*":
        return None
    return (
        f"{name} must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
    )


def _is_offset_reset(value: str) -> bool:
    """True for `earliest`, `latest` and `by_duration:` with a non-negative ISO 8601 duration."""
    kind, colon, duration = value.partition(":")
    if not colon:
        return value in ("earliest", "latest")
    found = _DURATION.fullmatch(duration)
    if kind != "by_duration" or found is None:
        return False
    _, days, time, hours, minutes, seconds = found.groups()
    parts = [part for part in (days, hours, minutes, seconds) if part is not None]
    is_complete = bool(parts) and not (time and not (hours or minutes or seconds))
    return is_complete and "-" not in duration


def _java_double(value: float) -> str:
    """The text of Double.toString: plain from 0.001 to below 10 million, else with exponent `E`."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, exponent = f"{value!r}".partition("e")
    if not exponent:
        digits = repr(abs(value)).replace(".", "").rstrip("0")
        shift = len(repr(int(abs(value)))) - 1 if abs(value) >= 1 else _leading_zeros(value)
        digits = digits.lstrip("0")
        mantissa = f"{'-' if value < 0 else ''}{digits[0]}.{digits[1:] or '0'}"
        return f"{mantissa}E{shift}"
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


def _leading_zeros(value: float) -> int:
    """Exponent of a value below one that repr writes without exponent: 0.0005 is -4."""
    fraction = repr(abs(value)).partition(".")[2]
    return -(len(fraction) - len(fraction.lstrip("0")) + 1)
