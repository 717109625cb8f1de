"""Settings as people write them."""

from pathlib import Path

import pytest

from autotune.errors import UsageError
from autotune.knobs.config import parse_knob_option, parse_knob_options, read_settings
from autotune.knobs.knob import Value


@pytest.mark.parametrize(
    ("text", "name", "values"),
    [
        ("num_workers=0,2,4", "num_workers", (0, 2, 4)),
        ("num_workers = 2, 2", "num_workers", (2,)),
        ("num_workers=off", "num_workers", None),
        ("channels_last=true", "channels_last", (True,)),
        ("channels_last=on,no", "channels_last", (True, False)),
        ("compile=off,reduce-overhead", "compile", ("off", "reduce-overhead")),
        ("precision=bf16", "precision", ("bf16",)),
    ],
)
def test_an_option_names_a_knob_and_values(
    text: str, name: str, values: tuple[Value, ...] | None
) -> None:
    assert parse_knob_option(text) == (name, values)


@pytest.mark.parametrize(
    ("text", "message", "advice"),
    [
        ("num_workers", "says no values", "NAME=off"),
        ("num_workers=", "says no values", "NAME=off"),
        ("num_worker=2", "no knob called 'num_worker'", "did you mean num_workers"),
        ("colour=2", "no knob called 'colour'", "the knobs are threads"),
        ("num_workers=many", "num_workers cannot be many", "a whole number from 0 to 256"),
        ("num_workers=-1", "num_workers cannot be -1", "a whole number from 0 to 256"),
        ("channels_last=2", "channels_last cannot be 2", "false or true"),
        ("precision=fp8", "precision cannot be fp8", "fp32 or tf32 or bf16 or fp16"),
    ],
)
def test_a_wrong_option_says_what_is_right(text: str, message: str, advice: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        parse_knob_option(text)
    assert advice in caught.value.advice


def test_a_knob_is_named_once() -> None:
    assert parse_knob_options(["compile=off", "threads=1,2"]) == {
        "compile": None,
        "threads": (1, 2),
    }
    with pytest.raises(UsageError, match="--knob threads is there twice"):
        parse_knob_options(["threads=1", "threads=off"])


def test_settings_are_read_from_their_table(tmp_path: Path) -> None:
    path = tmp_path / "tuned.toml"
    path.write_text('[settings]\nnum_workers = 4\ncompile = "default"\n[program]\nname = "x"\n')
    assert read_settings(path) == {"num_workers": 4, "compile": "default"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("settings = 3", "no \\[settings\\] table"),
        ("[settings", "is not TOML"),
        ("[settings]\nworkers = 4", "no knob called 'workers'"),
        ('[settings]\nnum_workers = "4"', "num_workers cannot be 4"),
    ],
)
def test_a_broken_file_of_settings_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "tuned.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        read_settings(path)


def test_a_missing_file_of_settings_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_settings(tmp_path / "none.toml")
