from autotune.knobs.config import read_settings
from autotune.outputs.config import write_config
from tests import builders


def test_the_settings_come_back(tmp_path):
    config = {"num_workers": 4, "channels_last": True, "precision": "bf16", "threads": 1}

    write_config(
        builders.search_result(verdict=builders.verdict(config=config)), tmp_path / "tuned.toml"
    )

    assert read_settings(tmp_path / "tuned.toml") == config


def test_the_file_says_what_it_is_and_how_to_use_it(tmp_path):
    path = tmp_path / "tuned.toml"

    write_config(builders.search_result(), path)

    text = path.read_text()
    assert text.startswith("# Tuned settings of photos\n")
    assert "2.12×" in text
    assert "1.98× to 2.27×, 95 % interval" in text
    assert f"autotune apply {tmp_path}" in text
    assert 'Trainer.from_config("tuned.toml"' in text
    assert "batch_size = 32" in text


def test_nothing_gained_is_no_settings(tmp_path):
    path = tmp_path / "tuned.toml"

    write_config(builders.no_gain_result(), path)

    assert read_settings(path) == {}
    assert "Nothing was gained" in path.read_text()


def test_a_hostile_name_cannot_leave_its_comment(tmp_path):
    path = tmp_path / "tuned.toml"
    target = builders.target(name='x\n[settings]\nnum_workers = 99 # "\x1b\udcff')

    write_config(builders.search_result(target=target), path)

    assert read_settings(path)["num_workers"] == 4
