"""Programs that `autotune run` starts: real processes, set up and otherwise as they are."""

import shlex
import signal
import sys
from pathlib import Path

import pytest

from autotune import launch
from tests.injection.programs import (
    PLAIN,
    TRAIN,
    TUNED,
    WITH_TUNED,
    autotune_run,
    searched,
)


def test_a_program_gets_its_settings_and_is_otherwise_as_it_is(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text("import builtins\nbuiltins.theirs = 'startup module'\n")
    text = PLAIN + (
        "open('model.txt', 'w').write(sys.stdin.read())\n"
        "print(sys.argv[1:])\n"
        "print(theirs, [each for each in sys.path if 'startup' in each])\n"
        "sys.exit(7)\n"
    )
    out = searched(tmp_path / "train.py", text, TUNED)

    ran = autotune_run(out, "--", "--epochs", "2 or 3", said="from stdin", PYTHONPATH=str(other))

    assert ran.stdout == f"{WITH_TUNED}['--epochs', '2 or 3']\nstartup module []\n"
    assert ran.stderr == ("autotune: train.py with threads 1, num_workers 1, optimizer fused\n")
    assert ran.returncode == 7
    assert (tmp_path / "model.txt").read_text() == "from stdin"
    assert (tmp_path / "train.py").read_text() == text


def test_a_signal_that_ends_the_program_is_how_the_command_ends(tmp_path: Path) -> None:
    out = searched(tmp_path / "train.py", "import os\nos.kill(os.getpid(), 15)\n", {"threads": 1})

    assert autotune_run(out).returncode == -signal.SIGTERM


def test_children_that_train_get_the_settings_however_they_are_started(tmp_path: Path) -> None:
    text = TRAIN + (
        "if __name__ == '__main__':\n"
        "    import torch.multiprocessing as processes\n"
        "    for kind in ('fork', 'spawn'):\n"
        "        child = processes.get_context(kind).Process(target=train)\n"
        "        child.start()\n"
        "        child.join()\n"
    )
    out = searched(tmp_path / "train.py", text, TUNED)

    shell = f"""sh -c '"$0" -c pass; exec "$0" "$@"' {shlex.quote(sys.executable)}"""
    ran = autotune_run(out, "--with", shell)

    assert ran.stdout == 2 * WITH_TUNED, ran.stderr


def test_a_program_that_compiles_its_whole_step_gets_the_settings(tmp_path: Path) -> None:
    own = "            nn.functional.cross_entropy(model(x), y).backward()\n"
    compiled = """
    @torch.compile(backend="eager")
    def fit(x, y):
        nn.functional.cross_entropy(model(x), y).backward()

    for _"""
    text = PLAIN.replace(own, "            fit(x, y)\n").replace("\n    for _", compiled, 1)
    assert text.count("fit(x, y)") == 2
    out = searched(tmp_path / "train.py", text, TUNED)

    ran = autotune_run(out)

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == WITH_TUNED


@pytest.mark.slow
def test_processes_that_train_together_get_the_settings(tmp_path: Path) -> None:
    wrapped = "    model = nn.parallel.DistributedDataParallel(model)\n    optimizer ="
    text = TRAIN.replace("    optimizer =", wrapped) + (
        "torch.distributed.init_process_group('gloo')\n"
        "train()\n"
        "torch.distributed.destroy_process_group()\n"
    )
    out = searched(tmp_path / "train.py", text, TUNED)

    torchrun = f"{shlex.quote(sys.executable)} -m torch.distributed.run --nproc-per-node 2"
    ran = autotune_run(out, "--with", f"{torchrun} --standalone")

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == 2 * WITH_TUNED, ran.stderr


def test_a_setting_that_does_not_take_effect_is_named(tmp_path: Path) -> None:
    out = searched(tmp_path / "train.py", PLAIN, TUNED)
    (tmp_path / "train.py").write_text("# the loader is on another line now\n" + PLAIN)
    line = 1 + next(at for at, text in enumerate(PLAIN.splitlines()) if "DataLoader(" in text)

    ran = autotune_run(out)

    where = f"no DataLoader is built at {tmp_path / 'train.py'}:{line}, where the search found it"
    asked = "num_workers = 1 was asked for, and the run had 0"
    assert ran.stderr.splitlines() == [
        f"autotune: {launch.CHANGED.format('train.py')}",
        "autotune: train.py with threads 1, num_workers 1, optimizer fused",
        f"autotune: not in effect: {asked}; {where}",
    ]
    assert ran.stdout == WITH_TUNED.replace("workers 1", "workers 0")


@pytest.mark.slow
def test_what_only_the_first_look_needed_is_gone_after_it(tmp_path: Path) -> None:
    text = TRAIN.replace(
        "    sys.stdout", "    print(hooks(model, optimizer))\n    sys.stdout", 1
    ) + (
        "def hooks(model, optimizer):\n"
        "    found = {\n"
        "        'call': nn.Module.__call__, 'model': vars(model).get('_compiled_call_impl'),\n"
        "        'backward': torch.autograd.backward, 'step': optimizer.step,\n"
        "        'zero_grad': torch.optim.Optimizer.zero_grad, 'draw': DataLoader.__iter__,\n"
        "        'build': DataLoader.__init__,\n"
        "    }\n"
        "    return [n for n, each in found.items() if '/autotune/' in file_of(each)]\n"
        "def file_of(each):\n"
        "    each = getattr(each, 'func', each)\n"
        "    name = getattr(getattr(each, '__code__', None), 'co_filename', '')\n"
        "    of_torch = name.endswith('torch/_compile.py')  # what leaves a hook untraced\n"
        "    return file_of(each.__wrapped__) if of_torch else name\n"
        "train()\n"
    )

    outs = (
        searched(tmp_path / "few" / "train.py", text, {"num_workers": 1}),
        searched(tmp_path / "split" / "train.py", text, {"micro_batches": 2}),
    )
    few, split = map(autotune_run, outs)

    assert few.stdout.splitlines()[0] == "['build']", few.stderr
    assert {"model", "backward", "step", "zero_grad"} <= set(eval(split.stdout.splitlines()[0]))


def test_each_fold_s_model_has_the_settings_from_its_first_step_on(tmp_path: Path) -> None:
    noting = (
        "    laid = []\n"
        "    model[0].register_forward_pre_hook(lambda conv, _: laid.append(\n"
        "        conv.weight.is_contiguous(memory_format=torch.channels_last)))\n"
    )
    text = TRAIN.replace("    optimizer =", f"{noting}    optimizer =").replace(
        "    sys.stdout.write(",
        "    print(laid.count(True), laid.count(False))\n    sys.stdout.write(",
    )
    out = searched(
        tmp_path / "train.py", f"{text}for _ in range(5):\n    train()\n", {"channels_last": True}
    )

    ran = autotune_run(out)

    assert ran.stdout.splitlines()[::2] == 5 * ["8 0"], ran.stderr


@pytest.mark.parametrize("offers", ["tuned", "standalone"])
def test_a_recipe_runs_as_the_program_written_for_it(tmp_path: Path, offers: str) -> None:
    (tmp_path / "beside.py").write_text("ROWS = 32\n")
    recipe = (
        "import torch\nfrom torch import nn\nfrom torch.utils.data import TensorDataset\n"
        "from beside import ROWS\n"
        "def build_model(): return nn.Linear(4, 2)\n"
        "def build_dataset():\n"
        "    print(torch.get_num_threads(), __file__)\n"
        "    return TensorDataset(torch.randn(ROWS, 4), torch.randint(0, 2, (ROWS,)))\n"
    )
    out = searched(tmp_path / "recipe.py", recipe, {"threads": 1})
    if offers == "tuned":
        (out / "recipe_tuned.py").write_text(f"{recipe}print('tuned')\nbuild_dataset()\n")

    ran = autotune_run(out, "--", "--epochs", "1")

    assert ran.returncode == 0, ran.stderr
    if offers == "tuned":  # its source has the setting
        assert ran.stdout.startswith("tuned\n") and "recipe.py" in ran.stdout
    else:
        assert ran.stdout.startswith(f"1 {tmp_path / 'recipe.py'}\n")


def test_tensors_of_own_classes_keep_them_in_workers_where_copies_are_changed(
    tmp_path: Path,
) -> None:
    masks = (  # as torchvision has them: only these methods give a mask again
        "KEEPS = {torch.Tensor.to, torch.Tensor.cuda}\n"
        "class Mask(torch.Tensor):\n"
        "    @classmethod\n"
        "    def __torch_function__(cls, function, types, args=(), kwargs=None):\n"
        "        with torch._C.DisableTorchFunctionSubclass():\n"
        "            found = function(*args, **kwargs or {})\n"
        "        return found.as_subclass(cls) if function in KEEPS else found\n"
        "class Masked(TensorDataset):\n"
        "    def __getitem__(self, index):\n"
        "        mask = torch.zeros(2).as_subclass(Mask).to(torch.float64)\n"
        "        print(type(mask).__name__, flush=True)\n"
        "        return super().__getitem__(index)\n"
        "train()\n"
    )
    text = TRAIN.replace("TensorDataset(", "Masked(") + masks
    out = searched(tmp_path / "train.py", text, {"num_workers": 1, "non_blocking": True})

    ran = autotune_run(out)

    assert ran.stdout.splitlines()[:-1] == 128 * ["Mask"], ran.stderr
