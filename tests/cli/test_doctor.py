import json

from tests.cli.conftest import Run


def test_every_ability_is_yes_or_no(run: Run) -> None:
    answer = run("doctor", "--device", "cpu")

    machine, abilities = answer.stdout.split("\n\n")
    assert answer.exit_code == 0
    assert "torch" in machine
    assert all(line.startswith(("yes  ", "no   ")) for line in abilities.splitlines())


def test_json_is_one_document(run: Run) -> None:
    document = json.loads(run("doctor", "--device", "cpu", "--json").stdout)

    assert document["machine"]["device"] == "cpu"
    assert document["abilities"]


def test_a_device_that_there_is_not_is_refused(run: Run) -> None:
    answer = run("doctor", "--device", "abacus")

    assert answer.exit_code == 2
    assert "cpu or cuda" in answer.stderr
