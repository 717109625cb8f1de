"""What samples are made by is found where the training sets it, by whatever name it has it."""

import pytest

from autotune.source.edits import Place, Places
from autotune.source.program import parsed
from autotune.source.refusals.settings import Setting, Training
from autotune.source.refusals.whose import MODULE

TEXT = """\
class Table:
    def __init__(self, config):
        self.config = config
        self.level = 1.0

    def set_level(self, level):
        self.level = level


class Meter:
    def __init__(self):
        self.level = 0

    def note(self, loss):
        self.level = loss


def anneal(given, step):
    if step % 250 == 249:
        given["scale"] *= 0.5


def refill(pool, new): pool.append(new)
def refill_all(pool, new): refill(pool, new)
def smooth(pool, new): part = pool.narrow(0, new, 2); part.mul_(2)

config = {"scale": 1.0}
config["scale"] = 2.0
table = Table(config)
loader = DataLoader(table)
meter = Meter()
for epoch in range(9):
    EPOCH
    for step, (x, y) in enumerate(loader):
        loss_of(net(x), y).backward()
        optimizer.step()
        STEP
"""


def found(setting: Setting, *, epoch: str = "pass", step: str = "pass") -> tuple[str, str]:
    """Where it is set in the loop over batches, and in that over epochs."""
    return _found(TEXT.replace("EPOCH", epoch).replace("STEP", step), setting)


def _found(text: str, setting: Setting, seen: tuple[int, ...] = ()) -> tuple[str, str]:
    lines = enumerate(text.splitlines(), 1)
    backward = next((i for i, line in lines if "backward" in line), None)
    own, framework = "/p/train.py", "/packages/framework.py"
    places = Places(backward=Place(path=own if backward else framework, line=backward or 1137))
    program = parsed({"/p/train.py": text}, places, "/p/train.py")
    training = Training(program, [Place(path="/p/train.py", line=line) for line in seen])
    return training.sets_meanwhile(setting), training.sets_later(setting)


def named(name: str, **given: object) -> Setting:
    return Setting(path="dataset", name=name, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("epoch", "step", "places"),
    [
        ("pass", "pass", ("", "")),
        ("pass", "anneal(config, step)", ("train.py:20", "train.py:20")),
        ("anneal(config, epoch)", "pass", ("", "train.py:20")),
        ('config["scale"] = epoch', "pass", ("", "train.py:33")),
        ('config["other"] = epoch', "pass", ("", "")),
    ],
)
def test_an_item_of_a_dict(epoch: str, step: str, places: tuple[str, str]) -> None:
    assert found(named("scale"), epoch=epoch, step=step) == places


@pytest.mark.parametrize(
    ("epoch", "step", "places"),
    [
        ("pass", "pass", ("", "")),
        ("pass", "meter.note(loss)", ("", "")),  # another class's
        ("renamed.set_level(epoch)", "pass", ("", "train.py:7")),
        ("renamed.level, other = epoch, 1", "pass", ("", "train.py:33")),
        ('setattr(renamed, "level", epoch)', "pass", ("", "train.py:33")),
        ("setattr(renamed, plan[epoch], 1)", "pass", ("", "train.py:33")),
        ("vars(renamed).update(plan[epoch])", "pass", ("", "train.py:33")),
        ("renamed.__dict__.update({plan[epoch]: 1})", "pass", ("", "train.py:33")),
        ("setattr(meter, plan[epoch], 1)", "pass", ("", "")),  # an object of another class
        ("plan.update(level=epoch)", "pass", ("", "")),
        ("renamed.level: float = epoch", "pass", ("", "train.py:33")),
        ("meter.level += 1", "pass", ("", "")),  # an object of another class
        ("val_table.set_level(epoch)", "pass", ("", "")),
        ("val_loader.dataset.set_level(2)", "pass", ("", "")),
        ("val_part.dataset.set_level(2)", "pass", ("", "train.py:7")),  # of what others are too
        ("val_table.set_level(2); renamed.set_level(3)", "pass", ("", "train.py:7")),
        ("for layer in net.modules(): layer.level = 2", "pass", ("", "")),
        ("for part in parts: part.level = 2", "pass", ("", "train.py:33")),
        ("pass", "renamed.level = 0.1", ("train.py:37", "train.py:37")),
        ("table = Table(config)", "pass", ("", "")),  # made anew
        ('object.__setattr__(renamed, "level", 2)', "pass", ("", "train.py:33")),
        ('renamed.__setattr__("level", 2)', "pass", ("", "train.py:33")),
        ('renamed.__setattr__("other", 2)', "pass", ("", "")),
        ('renamed.__dict__["level"] = 2', "pass", ("", "train.py:33")),
        ('vars(renamed)["level"] = 2', "pass", ("", "train.py:33")),
        ('vars(renamed)["other"] = 2', "pass", ("", "")),
        ('vars(meter)["level"] = 2', "pass", ("", "")),
        ("renamed.__dict__ |= stages[epoch]", "pass", ("", "train.py:33")),
        ("del renamed.level", "pass", ("", "train.py:33")),
        ('exec("renamed.level = 2")', "pass", ("", "train.py:33")),
        ('exec("print(renamed.level == 2)")', "pass", ("", "")),
        ('Thread(target=setattr, args=(renamed, "level", 2)).start()', "pass", ("", "train.py:33")),
        ('later(setattr, renamed, "other", 2)', "pass", ("", "")),
    ],
)
def test_an_attribute(epoch: str, step: str, places: tuple[str, str]) -> None:
    assert found(named("level", kinds=("Table",)), epoch=epoch, step=step) == places


@pytest.mark.parametrize(
    ("step", "seen"),
    [
        ("if step % 300 == 0: AUG.p = 0.5", True),
        ('setattr(transforms[0], "p", 0.5)', True),
        ("self.p = 0.5", False),  # of another class
        ("meter.p = 0.5", False),
        ("optimizer.p = 0.5", False),
        ("AUG.inplace = True", False),
    ],
)
def test_an_attribute_of_a_librarys_object(step: str, seen: bool) -> None:
    text = TEXT.replace("meter = Meter()", "meter = Meter()\noptimizer = torch.optim.SGD(weights)")
    kinds = ("Dropout", "Module")
    meanwhile, _ = _found(
        text.replace("EPOCH", "pass").replace("STEP", step), named("p", kinds=kinds)
    )
    assert bool(meanwhile) is seen


@pytest.mark.parametrize(
    ("step", "seen"),
    [
        ("if step % 300 == 0: AUG.set_p(0.5)", True),
        ("transforms[0].strength = 0.5", True),  # a property
        ("meter.set_p(0.5)", False),
        ("optimizer.set_p(0.5)", False),
        ("self.set_p(0.5)", False),
        ("torch.set_p(0.5)", False),
        ("AUG.set_q(0.5)", False),
    ],
)
def test_a_method_or_property_of_a_librarys_object_that_sets_it(step: str, seen: bool) -> None:
    text = TEXT.replace("meter = Meter()", "meter = Meter()\noptimizer = torch.optim.SGD(weights)")
    text = f"import torch\n{text}"
    setting = named("p", kinds=("Noise",), setters=frozenset(("set_p", "strength")))
    meanwhile, _ = _found(text.replace("EPOCH", "pass").replace("STEP", step), setting)
    assert bool(meanwhile) is seen


@pytest.mark.parametrize(
    ("step", "seen"),
    [
        ('if step % 300 == 0: os.environ["NOISE"] = str(step)', True),
        ('environ.update(NOISE="1")', True),
        ("os.environ[name] = value", True),  # perhaps
        ('os.environ["OTHER"] = "1"', False),
        ('print(os.environ["NOISE"])', False),
    ],
)
def test_the_environment(step: str, seen: bool) -> None:
    text = f"import os\nfrom os import environ\n{TEXT}"
    setting = named("environ", scope=MODULE, inside=True, keys=frozenset(("NOISE", "0")))
    meanwhile, _ = _found(text.replace("EPOCH", "pass").replace("STEP", step), setting)
    assert bool(meanwhile) is seen


@pytest.mark.parametrize(
    ("step", "places"),
    [
        ("renamed.level[step] = loss", ("train.py:37", "train.py:37")),
        ("renamed.level[:3].clamp_(0, 1)", ("train.py:37", "train.py:37")),
        ("renamed.level *= 0.5", ("train.py:37", "train.py:37")),
        ("if step > 900: renamed.level.index_copy_(0, y, loss)", ("train.py:37", "train.py:37")),
        ("renamed.level.fill(0)", ("train.py:37", "train.py:37")),
        ("np.copyto(renamed.level, loss)", ("train.py:37", "train.py:37")),
        ("torch.add(x, y, out=renamed.level)", ("train.py:37", "train.py:37")),
        ("seen = renamed.level[step]", ("", "")),
        ("seen[renamed.level] = loss", ("", "")),
        ("renamed.level = loss", ("", "")),  # another one, and not in it
        ("renamed.level.append(step)", ("train.py:37", "train.py:37")),
        ("del renamed.level[step]", ("train.py:37", "train.py:37")),
        ("renamed.level[step][:2] = loss", ("train.py:37", "train.py:37")),
        ("renamed.level.loc[step] = loss", ("train.py:37", "train.py:37")),
        ("renamed.level.detach().numpy()[0] = loss", ("train.py:37", "train.py:37")),
        ("renamed.level.data[step] = loss", ("train.py:37", "train.py:37")),
        ("np.add.at(renamed.level, y, loss)", ("train.py:37", "train.py:37")),
        ("nn.init.zeros_(renamed.level)", ("train.py:37", "train.py:37")),
        ("torch._foreach_mul_([other, renamed.level], 2)", ("train.py:37", "train.py:37")),
        ("dict.update(renamed.level, fog=2)", ("train.py:37", "train.py:37")),
        ("operator.setitem(renamed.level, step, 2)", ("train.py:37", "train.py:37")),
        ("memoryview(renamed.level)[:] = loss", ("train.py:37", "train.py:37")),
        ("torch.from_numpy(renamed.level).mul_(2)", ("train.py:37", "train.py:37")),
        ("renamed.level.set(2.0)", ("train.py:37", "train.py:37")),
        ("renamed.level.replace(0, 2, inplace=True)", ("train.py:37", "train.py:37")),
        ("renamed.level.replace(0, 2, inplace=False)", ("", "")),
        ("renamed.level.data = loss", ("train.py:37", "train.py:37")),
        ("other.data = renamed.level", ("", "")),
        ("renamed.level.narrow(0, step, 2).lerp_(loss, 0.5)", ("train.py:37", "train.py:37")),
        ("part = renamed.level[2:4]; part.lerp_(loss, 0.5)", ("train.py:37", "train.py:37")),
        ("part = renamed.level[step]; part[:] = loss", ("train.py:37", "train.py:37")),
        ("part = renamed.level; part += 1", ("train.py:37", "train.py:37")),
        ("for row in renamed.level: row.mul_(2)", ("train.py:37", "train.py:37")),
        ("for i, row in enumerate(renamed.level): row.mul_(2)", ("train.py:37", "train.py:37")),
        ("for row, at in zip(renamed.level, y): row.mul_(at)", ("train.py:37", "train.py:37")),
        ("for row in sorted(): row.mul_(renamed.level)", ("", "")),
        ("part = renamed.level[step]; part += 1", ("", "")),  # a number
        ("part = renamed.level[renamed.level > 3]; part.mul_(2)", ("", "")),  # a copy
        ("part = renamed.level * 2; part.mul_(2)", ("", "")),
        ("smooth(renamed.level, step)", ("train.py:37", "train.py:37")),
        ("other.copy_(renamed.level)", ("", "")),
        ("torch.zeros_like(renamed.level)", ("", "")),
        ("renamed.level.item()", ("", "")),
        ("renamed.level.__len__()", ("", "")),
    ],
)
def test_what_is_written_into_an_array(step: str, places: tuple[str, str]) -> None:
    assert found(named("level", kinds=("Table",), inside=True), step=step) == places


@pytest.mark.parametrize(
    ("step", "inside", "place"),
    [
        ("hard = hard + [step]", False, "train.py:37"),
        ("hard.append(step)", True, "train.py:37"),
        ("hard[step] = loss", True, "train.py:37"),
        ("hard += [step]", True, "train.py:37"),
        ("hard.data[step] = loss", True, "train.py:37"),
        ("refill(hard, step)", True, "train.py:37"),
        ("refill(other, new=hard)", True, ""),
        ("refill_all(hard, step)", True, "train.py:37"),
        ("refill_all(other, hard)", True, ""),
        ('globals()["hard"] = []', False, "train.py:37"),
        ("globals().update(hard=[])", False, "train.py:37"),
        ("globals().update(easy=[])", False, ""),
        ("sys.modules[__name__].hard = []", False, "train.py:37"),
        ("table.hard = []", False, ""),
        ("print(hard)", True, ""),
        ("table.hard.append(step)", True, ""),  # an attribute
        ("other[hard] = loss", True, ""),
    ],
)
def test_a_variable_of_a_module(step: str, inside: bool, place: str) -> None:
    assert found(named("hard", scope=MODULE, inside=inside), step=step) == (place, place)


MINER = """\
import levels
hard = []


def note(step):
    GLOBAL
    hard.append(step)
    hard = [step]


def main():
    hard, easy = [], []

    class Mined:
        def __getitem__(self, index):
            return easy[index]

    for x, y in loader:
        loss_of(net(x), y).backward()
        STEP
"""


@pytest.mark.parametrize(
    ("step", "setting", "place"),
    [
        ("hard.append(1)", named("hard", scope="main", inside=True), "train.py:20"),
        ("hard.append(1)", named("hard", scope=MODULE, inside=True), ""),
        ("hard.append(1)", named("hard", scope="note", inside=True), ""),
        ("note(1)", named("hard", scope=MODULE, inside=True), "train.py:7"),
        ("note(1)", named("hard", scope=MODULE), "train.py:8"),
        ("easy = [1]", named("easy", scope=MODULE), "train.py:20"),  # a function's in it reads it
        ("hard = [1]", named("hard", scope=MODULE), ""),  # none does
        ("levels.noise = 0.1", named("noise", scope=MODULE), "train.py:20"),
        ("net.noise = 0.1", named("noise", scope=MODULE), ""),
    ],
)
def test_whose_variable_it_is_counts(step: str, setting: Setting, place: str) -> None:
    text = MINER.replace("GLOBAL", "global hard").replace("STEP", step)
    assert _found(text, setting)[0] == place
    if step == "note(1)":
        text = MINER.replace("GLOBAL", "pass").replace("STEP", step)
        assert _found(text, setting)[0] == ""


CACHED = """\
class Table:
    def __init__(self):
        self.cache = {}

    def __getitem__(self, index):
        return self.load(index)

    def load(self, index):
        self.cache[index] = read(index)
        return self.cache[index]

    def refresh(self, index):
        self.cache[index] = label(index)


for x, y in loader:
    loss_of(net(x), y).backward()
    STEP
"""


@pytest.mark.parametrize(
    ("step", "place"), [("torch.load('x')", ""), ("data.refresh(3)", "train.py:13")]
)
def test_what_making_a_sample_changes_itself_is_another_matter(step: str, place: str) -> None:
    setting = named("cache", kinds=("Table",), inside=True)
    assert _found(CACHED.replace("STEP", step), setting)[0] == place


BUS = """\
class Shake:
    def __init__(self):
        self.strength = 1.0


shake = Shake()
WEATHER = {"fog": 0.1, "rain": 0.2}


@bell.on("step")
def harder(step):
    shake.strength = step / 1000


def thaw(optimizer, *_):
    shake.strength = 2.0


REGISTERED
for x, y in loader:
    loss_of(net(x), y).backward()
    STEP
"""
SCHEDULE = """\
class Plan:
    def __call__(self, step):
        shake.strength = step / 1000

"""
OF_ITSELF = """\
class Shake:
    def __call__(self, step):
        self.strength = step / 1000

"""


@pytest.mark.parametrize(
    ("there", "registered", "places"),
    [
        (True, "pass", ("train.py:12", "train.py:12")),
        (False, "pass", ("", "")),
        (False, "optimizer.register_step_post_hook(thaw)", ("train.py:16", "train.py:16")),
        (False, "callbacks.append(thaw)", ("train.py:16", "train.py:16")),
        (False, "hooks.add(partial(thaw, optimizer))", ("train.py:16", "train.py:16")),
        (False, "stages = {12: thaw}", ("train.py:16", "train.py:16")),
        (
            False,
            'hooks.on(12, lambda: setattr(shake, "strength", 2.0))',
            ("train.py:19", "train.py:19"),
        ),
        (False, "Thread(target=thaw, daemon=True).start()", ("train.py:16", "train.py:16")),
        (False, "signal.signal(signal.SIGUSR1, thaw)", ("train.py:16", "train.py:16")),
        (
            False,
            "class Clock(threading.Thread):\n    def run(self): shake.strength = 2.0",
            ("train.py:20", "train.py:20"),
        ),
        (False, "Process(target=thaw).start()", ("", "")),  # of another process
        (False, "LambdaLR(optimizer, lr_lambda=thaw)", ("train.py:16", "train.py:16")),
        *(
            (False, SCHEDULE + given, ("train.py:21", "train.py:21"))
            for given in ("LambdaLR(optimizer, Plan())", "plan = Plan(); LambdaLR(optimizer, plan)")
        ),
        (False, f"{SCHEDULE}data.map(Plan())", ("", "")),
        (False, f"{OF_ITSELF}LambdaLR(optimizer, Shake())", ("train.py:21", "train.py:21")),
        (False, f"{OF_ITSELF}data.map(Shake())", ("", "")),  # it may make samples
        (
            False,
            "def turn(name): setattr(Shake, name, 2)\n\nThread(target=turn).start()",
            ("train.py:19", "train.py:19"),
        ),
        (
            False,
            (
                "class Dials: fog = 0\ndef turn(name): setattr(Dials, name, 2)\n\n"
                "Thread(target=turn).start()"
            ),
            ("", ""),  # of another class
        ),
        (False, "print(thaw)", ("", "")),
        (False, "stages = [print, thaw]", ("train.py:16", "train.py:16")),
        (False, "stages = (lambda: setattr(shake, 'strength', 2), 3)", ("train.py:19",) * 2),
        (False, "stages = (thaw, freeze)", ("", "")),  # they may be data of such names
        (False, "MODELS.register(thaw)", ("", "")),
    ],
)
def test_functions_that_are_left_with_others_run_too(
    there: bool, registered: str, places: tuple[str, str]
) -> None:
    text = BUS.replace("REGISTERED", registered).replace("STEP", "pass")
    text = text if there else text.replace('@bell.on("step")', "@cached")
    assert _found(text, named("strength", kinds=("Shake",))) == places


@pytest.mark.parametrize(
    ("step", "place"),
    [
        ("WEATHER.update(stages[step])", "train.py:22"),
        ('WEATHER.update({"fog": 0.3})', "train.py:22"),
        ("WEATHER.update(fog=0.3)", "train.py:22"),
        ("WEATHER |= stages[step]", "train.py:22"),
        ("WEATHER[name] = 0.3", "train.py:22"),
        ('WEATHER.update({"rain": 0.3})', ""),  # by which no sample is made
        ('WEATHER["rain"] = 0.3', ""),
        ('WEATHER.pop("rain")', ""),
        ("WEATHER.update(rain=0.3)", ""),
    ],
)
def test_a_dict_of_which_some_items_count(step: str, place: str) -> None:
    setting = named("WEATHER", scope=MODULE, inside=True, keys=frozenset({"fog"}))
    text = BUS.replace("REGISTERED", "pass").replace("STEP", step)
    assert _found(text, setting)[0] == place


CALLED_BACK = """\
class Quads:
    def __init__(self):
        self.targets = zeros(9)

    def mend(self, new):
        self.targets = new


class Mends(BASE):
    def METHOD(self, trainer, module):
        self.quads.mend(self.guesses)


def main():
    quads = Quads()
    trainer = Trainer(callbacks=[Mends(quads)])
    trainer.fit(model, DataLoader(quads))
"""


@pytest.mark.parametrize(
    ("base", "method", "places"),
    [
        ("Callback", "on_train_epoch_end", ("", "train.py:6")),
        ("pl.Callback", "on_validation_batch_end", ("", "train.py:6")),
        ("TrainerCallback", "on_step_end", ("train.py:6", "")),
        ("LightningModule", "on_train_batch_start", ("train.py:6", "")),
        ("LightningModule", "training_step", ("train.py:6", "")),
        ("LightningModule", "validation_step", ("", "train.py:6")),
        ("Seq2SeqTrainer", "compute_loss", ("train.py:6", "")),
        ("Callback", "describe", ("", "")),
        ("Callback", "on_train_start", ("", "")),
        ("Dataset", "on_epoch_end", ("", "")),
    ],
)
def test_what_a_framework_calls_while_it_trains(
    base: str, method: str, places: tuple[str, str]
) -> None:
    text, targets = CALLED_BACK.replace("METHOD", method), named("targets", kinds=("Quads",))
    assert _found(text.replace("BASE", base), targets) == places
    own = f"\n\nclass Own({base}):\n    pass\n"
    assert _found(text.replace("BASE", "Own") + own, targets) == places


ANEW = """\
class Parts:
    def __init__(self, rows):
        self.parts = []
        self.split(rows)

    def split(self, rows):
        for row in rows:
            self.add(row)

    def add(self, row):
        self.parts.append(row)


for epoch in range(9):
    parts = Parts(rows)
    for x, y in DataLoader(parts):
        loss_of(net(x), y).backward()
    LATER
"""


@pytest.mark.parametrize(
    ("later", "place"),
    [("pass", ""), ("parts.add(9)", "train.py:11"), ("parts.split(9)", "train.py:11")],
)
def test_what_a_dataset_that_is_made_anew_fills_is_its_own(later: str, place: str) -> None:
    setting = named("parts", kinds=("Parts",), inside=True)
    assert _found(ANEW.replace("LATER", later), setting) == ("", place)


FOUND_BY_NAME = """\
class Shake:
    strength = 1.0


class Harder:
    def __init__(self, shake):
        self.shake = shake

    def after(self, step):
        self.shake.strength = 2.0


def main(listeners, event):
    shake = Shake()
    for x, y in loader:
        loss_of(net(x), y).backward()
        for listener in listeners:
            TOLD


for epoch in range(9):
    main([Harder(shake)], "after")
"""


@pytest.mark.parametrize(
    ("told", "seen", "place"),
    [
        ("getattr(listener, event)(step)", (), "train.py:10"),
        ('methodcaller("aft" + "er", step)(listener)', (), "train.py:10"),
        ("getattr(models, event)(step)", (), ""),  # a module's
        ("getattr(listener, event)(Harder.after)", (), ""),  # it is called by its name, or not
        ("listener[event](step)", (), ""),
        ("listener[event](step)", (9,), "train.py:10"),  # by whatever way
        ("listener[event](step)", (13,), ""),  # it runs the training
    ],
)
def test_what_is_found_by_a_name_that_only_a_run_knows(
    told: str, seen: tuple[int, ...], place: str
) -> None:
    text = "from torchvision import models\n" if "models" in told else ""
    text = FOUND_BY_NAME.replace("TOLD", told) + text
    assert _found(text, named("strength", kinds=("Shake",)), seen)[0] == place


RAMP = """\
class Mask:
    share = 0.1


class Ramp:
    def __init__(self, mask):
        self.mask = mask

    def __next__(self):
        self.mask.share = 0.5


def ramp(mask):
    for share in (0.5, 0.8):
        mask.share = share
        yield share


mask = Mask()
schedule = SCHEDULE
for x, y in loader:
    TAKEN
    loss_of(net(x), y).backward()
"""


@pytest.mark.parametrize(
    ("schedule", "taken", "place"),
    [
        ("ramp(mask)", "next(schedule)", "train.py:15"),
        ("ramp(mask)", "schedule.send(None)", "train.py:15"),
        ("ramp(mask)", "for share in schedule: break", "train.py:15"),
        ("ramp(mask)", "for i, share in enumerate(schedule): break", "train.py:15"),
        ("ramp(mask)", "print(schedule)", ""),
        ("Ramp(mask)", "next(schedule)", "train.py:10"),
        ("Ramp(mask)", "print(schedule)", ""),
        ("iter(range(9))", "next(schedule)", ""),
    ],
)
def test_a_generator_that_the_loop_goes_on_with(schedule: str, taken: str, place: str) -> None:
    text = RAMP.replace("SCHEDULE", schedule).replace("TAKEN", taken)
    assert _found(text, named("share", kinds=("Mask",)))[0] == place


KEPT = """\
class Shake:
    strength = 1.0


shake = Shake()


def stage(name):
    def keep(function):
        STAGES[name] = function
        return function
    return keep


@stage("later")
def harder(step):
    shake.strength = step
    RETURNED


class Harder:
    def __enter__(self):
        shake.strength = 2.0


for x, y in loader:
    loss_of(net(x), y).backward()
    STEP
"""


@pytest.mark.parametrize(
    ("step", "returned", "place"),
    [
        ("STAGES[name](step)", "return", "train.py:17"),
        ("STAGES[name](step)", "return shake", ""),  # it may build something
        ("with Harder(): pass", "return shake", "train.py:23"),
        ("print(Harder)", "return shake", ""),
    ],
)
def test_what_a_decorator_keeps_and_what_is_entered(step: str, returned: str, place: str) -> None:
    text = KEPT.replace("STEP", step).replace("RETURNED", returned)
    assert _found(text, named("strength", kinds=("Shake",)))[0] == place


@pytest.mark.parametrize(
    ("step", "seen"),
    [
        ("for note in x: note.learn(y)", True),
        ("for note in x: note.hard = y > 1", True),
        ("x[0].marks.append(step)", True),
        ("for note in x: print(note.hard)", False),
        ("meter.note(y)", False),
    ],
)
def test_what_a_dataset_keeps_and_batches_hold(step: str, seen: bool) -> None:
    kind = (
        "class Note:\n    def __init__(self):\n        self.hard = False\n\n"
        "    def learn(self, loss):\n        self.hard = loss > 1\n\n\n"
    )
    text = (kind + TEXT).replace("EPOCH", "pass").replace("STEP", step)
    kept = (("hard", False), ("marks", False), ("marks", True))
    settings = [named(name, kinds=("Note",), inside=inside) for name, inside in kept]
    assert any(_found(text, each)[0] for each in settings) is seen
