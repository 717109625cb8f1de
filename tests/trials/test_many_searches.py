"""Several searches share one study in a database: none tries what another has, and what a killed
one was trying is tried again.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import TrialState

from autotune import flow
from autotune.errors import UsageError
from autotune.trials.study import Study
from autotune.trials.trial import EXHAUSTED
from tests import builders
from tests.trials.test_study import SPACE

WITHIN_SECONDS = 120


def started(*words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "tests.trials.worker", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def three_of_which_one_is_killed(*words: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What the killed search was trying, and all that was begun."""
    victim, *others = started(*words, "2"), started(*words), started(*words)
    begun = []
    try:
        assert victim.stdout is not None
        for _ in range(3):
            line = victim.stdout.readline()
            assert line, victim.communicate()
            begun.append(json.loads(line))
        victim.kill()
        for other in others:
            said, wrong = other.communicate(timeout=WITHIN_SECONDS)
            assert other.returncode == 0, wrong
            *tried, end = [json.loads(line) for line in said.splitlines()]
            assert end == {"ending": EXHAUSTED}
            begun += tried
    finally:
        for each in (victim, *others):
            each.kill()
            each.communicate()
    return begun[2], begun


def hold_together(address: str, *words: str) -> None:
    interrupted, begun = three_of_which_one_is_killed(address, *words)
    configs = Counter(json.dumps(each["config"], sort_keys=True) for each in begun)
    lost = json.dumps(interrupted["config"], sort_keys=True)
    assert len(configs) == SPACE.size
    assert {config for config, times in configs.items() if times > 1} == {lost}
    with Study(SPACE, builders.profile(), key="program", storage=address) as study:
        assert len(study.trials) == SPACE.size
        states = Counter(each.state for each in study._found)
        assert states[TrialState.COMPLETE] == SPACE.size and not states[TrialState.RUNNING]
        if "elsewhere" in words:
            retried = [each for each in study._found if "retry_history" in each.system_attrs]
            assert interrupted["number"] in [each.system_attrs["failed_trial"] for each in retried]
        assert study.best is not None
        assert study.best.config["threads"] == 1 and study.best.config["num_workers"]


@pytest.mark.slow
@pytest.mark.parametrize("address", ["sqlite:///{}/study.db", "{}/study.journal"])
def test_three_searches_share_a_file_and_one_is_killed(tmp_path: Path, address: str) -> None:
    hold_together(address.format(tmp_path))


@pytest.fixture
def postgresql() -> Iterator[str]:
    """The address of a server of its own, reached through a socket in a temporary folder."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
    control = shutil.which("pg_ctl") or (str(found[-1]) if found else None)
    if control is None or importlib.util.find_spec("psycopg") is None:
        pytest.skip("there is no PostgreSQL server, or no psycopg to reach it")
    owner = None if os.geteuid() else "postgres"  # it does not run as root
    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        if owner:
            shutil.chown(folder, owner)

        def run(*words: str) -> None:
            subprocess.run([control, *words], check=True, capture_output=True, user=owner)

        data = f"{folder}/data"
        run("initdb", "-D", data, "-o", "-A trust -U tuner")
        run("start", "-w", "-D", data, "-l", f"{folder}/log", "-o", f"-k {folder} -h ''")
        try:
            yield f"postgresql://tuner@/postgres?host={folder}"
        finally:
            run("stop", "-m", "immediate", "-D", data)


@pytest.mark.postgresql
@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("elsewhere",)], ids=["here", "elsewhere"])
def test_three_searches_share_a_server_and_one_is_killed(
    postgresql: str, words: tuple[str, ...]
) -> None:
    hold_together(postgresql, *words)


def test_a_database_without_its_driver_says_which_extra_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(UsageError, match="driver") as refused:
        Study(SPACE, builders.profile(), key="program", storage="postgresql://ada:secret@db/tuning")
    assert "torch-autotune[postgresql]" in refused.value.advice
    assert "secret" not in refused.value.message


def test_a_database_that_cannot_be_reached_is_said_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be kept") as refused:
        Study(SPACE, builders.profile(), key="program", storage=f"sqlite:///{tmp_path}/no/study.db")
    assert str(tmp_path) in refused.value.message


def test_a_database_is_asked_for_before_anything_is_measured(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("raise KeyError('this is not even run')\n")
    options = flow.Options(storage=f"sqlite:///{tmp_path}/no/study.db")
    with pytest.raises(UsageError, match="cannot be kept"):
        flow.search(script, options=options)
