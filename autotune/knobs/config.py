"""Settings as people write them: `--allow LEVEL`, `--knob NAME=VALUES`, and the `[settings]` of a
`tuned.toml`.
"""

import tomllib
from collections.abc import Sequence
from pathlib import Path

from autotune.errors import UsageError
from autotune.knobs import by_name, check
from autotune.knobs.knob import Knob, Semantics, Value

_BOOLEANS = {"true": True, "false": False, "on": True, "off": False, "yes": True, "no": False}


def parse_semantics(text: str) -> Semantics:
    """The level of change that `text` says.

    Raises:
        UsageError: there is no such level.
    """
    try:
        return Semantics(text)
    except ValueError:
        raise UsageError(
            f"allow: {text!r} is not a level of change", f"say {', '.join(Semantics)}"
        ) from None


def parse_knob_option(text: str) -> tuple[str, tuple[Value, ...] | None]:
    """The knob's name and the values to try, from "num_workers=0,2,4"; None for "num_workers=off".

    Raises:
        UsageError: it is not of this form, or there is no such knob, or no such value of it.
    """
    name, equals, values = (part.strip() for part in text.partition("="))
    if not equals or not values:
        raise UsageError(
            f"--knob {text} says no values", "write NAME=VALUE, NAME=VALUE,VALUE or NAME=off"
        )
    knob = by_name(name)
    if values == "off":
        return knob.name, None
    parsed = dict.fromkeys(parse_value(knob, value.strip()) for value in values.split(","))
    return knob.name, tuple(parsed)


def parse_knob_options(texts: Sequence[str]) -> dict[str, tuple[Value, ...] | None]:
    """What `parse_knob_option` gives of each, by the knob's name.

    Raises:
        UsageError: it does; or two are of one knob.
    """
    found: dict[str, tuple[Value, ...] | None] = {}
    for text in texts:
        name, values = parse_knob_option(text)
        if name in found:
            raise UsageError(
                f"--knob {name} is there twice", f"name its values once: --knob {name}=VALUE,VALUE"
            )
        found[name] = values
    return found


def parse_value(knob: Knob, text: str) -> Value:
    """The value of `knob` that `text` says.

    Raises:
        UsageError: the knob cannot take it.
    """
    kind = type(knob.admits[0])
    value: Value = text
    if kind is bool:
        value = _BOOLEANS.get(text.lower(), text)
    elif kind is int and text.removeprefix("-").isdecimal():
        value = int(text)
    check(knob, value)
    return value


def read_settings(path: Path) -> dict[str, Value]:
    """The settings in the file at `path`: a value for each knob that differs from the program.

    Raises:
        UsageError: the file cannot be read, is not TOML, or holds a setting that there is not.
    """
    again = "`autotune search` writes it"
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}", again) from error
    except ValueError as error:
        raise UsageError(f"{path} is not TOML: {error}", again) from error
    settings = tables.get("settings")
    if not isinstance(settings, dict):
        raise UsageError(f"{path} has no [settings] table", again)
    for name, value in settings.items():
        check(by_name(name), value)
    return settings
