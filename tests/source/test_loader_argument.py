"""`LoaderArgument`: one setting of the DataLoader, in whatever way the call is written."""

import pytest

from autotune.source.edits import LoaderArgument, Place, Places
from tests.source.programs import PATH, check, rewritten, source

WORKERS = LoaderArgument(name="num_workers", code="4")
NO_WORKERS = LoaderArgument(name="num_workers", code="0")
PINNED = LoaderArgument(name="pin_memory", code="True")


@pytest.mark.parametrize(
    ("edit", "given", "code"),
    [
        (("persistent_workers", "True"), "args.workers", "persistent_workers=args.workers > 0"),
        (("prefetch_factor", "4"), "a or b", "prefetch_factor=4 if (a or b) else None"),
        (("prefetch_factor", "4"), "2", "prefetch_factor=4"),
        (("pin_memory", "True"), "args.workers", "pin_memory=True"),
    ],
)
def test_what_needs_workers_asks_for_them_where_their_number_is_an_option(
    edit: tuple[str, str], given: str, code: str
) -> None:
    text = source(f"loader = DataLoader(data, num_workers={given})")
    argument = LoaderArgument(name=edit[0], code=edit[1])
    done = rewritten(text, argument)
    assert done.text == text.replace(")", f", {code})")
    assert rewritten(done.text, argument).statuses == ["already"]


def test_workers_that_are_not_to_live_on_need_not_be_asked_for() -> None:
    text = source("loader = DataLoader(data, num_workers=args.workers, persistent_workers=True)")
    done = rewritten(text, LoaderArgument(name="persistent_workers", code="False"))
    assert done.text == text.replace("persistent_workers=True", "persistent_workers=False")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("args.workers", "it was args.workers, which has no effect here any more"),
        ("max(\n    2, n)", "it was max( 2, n), which has no effect here any more"),
        ("2", ""),
    ],
)
def test_an_option_that_has_no_effect_any_more_is_said(given: str, said: str) -> None:
    done = rewritten(source(f"loader = DataLoader(data, num_workers={given})"), WORKERS)
    assert (done.statuses, done.reason) == (["done"], said)


def test_workers_that_come_with_unseen_arguments_may_be_none() -> None:
    text = source("""
        kw = dict(num_workers=args.workers)
        loader = DataLoader(data, **kw)
        """)
    done = rewritten(text, LoaderArgument(name="prefetch_factor", code="4"))
    assert done.statuses == ["refused"]
    assert "may be 0" in done.reason


CALLS = {
    "one line": (
        "loader = DataLoader(data, batch_size=8, shuffle=True)",
        "loader = DataLoader(data, batch_size=8, shuffle=True, num_workers=4)",
    ),
    "a comment behind": (
        "loader = DataLoader(data, 8)  # small",
        "loader = DataLoader(data, 8, num_workers=4)  # small",
    ),
    "only the dataset": ("loader = DataLoader(data)", "loader = DataLoader(data, num_workers=4)"),
    "the value is another": (
        "loader = DataLoader(data, num_workers=args.workers, shuffle=True)",
        "loader = DataLoader(data, num_workers=4, shuffle=True)",
    ),
    "the value is given by position": (
        "loader = DataLoader(data, 8, True, None, None, 2, collate)",
        "loader = DataLoader(data, 8, True, None, None, 4, collate)",
    ),
    "one argument a line, trailing comma": (
        """
        loader = DataLoader(
            data,
            shuffle=True,  # every epoch anew
        )
        """,
        """
        loader = DataLoader(
            data,
            shuffle=True,  # every epoch anew
            num_workers=4,
        )
        """,
    ),
    "one argument a line, no trailing comma": (
        """
        loader = DataLoader(
            data,
            shuffle=True  # every epoch anew
        )
        """,
        """
        loader = DataLoader(
            data,
            shuffle=True,  # every epoch anew
            num_workers=4
        )
        """,
    ),
    "aligned under the first": (
        """
        loader = DataLoader(data,
                            shuffle=True)
        """,
        """
        loader = DataLoader(data,
                            shuffle=True,
                            num_workers=4)
        """,
    ),
    "hugging brackets": (
        """
        loader = torch.utils.data.DataLoader(
            data, shuffle=True
        )
        """,
        """
        loader = torch.utils.data.DataLoader(
            data, shuffle=True, num_workers=4
        )
        """,
    ),
    "no room left on the line": (
        "train = DataLoader(train_data, batch_size=args.batch_size, shuffle=True, drop_last=True)",
        """
        train = DataLoader(train_data, batch_size=args.batch_size, shuffle=True, drop_last=True,
                           num_workers=4)
        """,
    ),
    "an options dict of the call's own": (
        """
        options = {'shuffle': True, 'num_workers': 1}
        loader = DataLoader(data, **options)
        """,
        """
        options = {'shuffle': True, 'num_workers': 4}
        loader = DataLoader(data, **options)
        """,
    ),
    "an options dict without it": (
        """
        options = {
            'shuffle': True,  # yes
        }
        loader = DataLoader(data, **options)
        """,
        """
        options = {
            'shuffle': True,  # yes
            'num_workers': 4,
        }
        loader = DataLoader(data, **options)
        """,
    ),
    "an options dict that others use too": (
        """
        options = {'num_workers': 1}
        loader = DataLoader(data, shuffle=True, **options)
        test_loader = OtherLoader(test_data, **options)
        """,
        """
        options = {'num_workers': 1}
        loader = DataLoader(data, shuffle=True, **{**options, "num_workers": 4})
        test_loader = OtherLoader(test_data, **options)
        """,
    ),
    "in a loop over splits": (
        "loaders = {name: DataLoader(sets[name], batch_size=4) for name in sets}",
        "loaders = {name: DataLoader(sets[name], batch_size=4, num_workers=4) for name in sets}",
    ),
    "letters beyond ASCII before it": (
        'größe = "ß"; loader = DataLoader(données["é"], shuffle=True)',
        'größe = "ß"; loader = DataLoader(données["é"], shuffle=True, num_workers=4)',
    ),
}


@pytest.mark.parametrize(("before", "after"), CALLS.values(), ids=CALLS)
def test_workers_are_set_where_and_how_the_call_is_written(before: str, after: str) -> None:
    check(source(before).strip() + "\n", source(after).strip() + "\n", WORKERS)


def test_what_is_the_default_is_not_written() -> None:
    text = "loader = DataLoader(data, 8)\n"
    outcome = rewritten(text, LoaderArgument(name="pin_memory", code="False"), NO_WORKERS)
    assert outcome.text == text
    assert outcome.statuses == ["already", "already"]


def test_without_workers_what_needs_them_goes() -> None:
    check(
        """
        loader = DataLoader(
            data,
            num_workers=8,  # fast
            prefetch_factor=4,  # more
            pin_memory=True,  # stays
            persistent_workers=True,
        )
        """,
        """
        loader = DataLoader(
            data,
            num_workers=0,  # fast
            pin_memory=True,  # stays
        )
        """,
        NO_WORKERS,
    )


def test_without_workers_a_hidden_dict_is_told_so_too() -> None:
    check(
        "loader = DataLoader(data, **options)\n",
        'loader = DataLoader(data, **{**options, "num_workers": 0, "prefetch_factor": None, '
        '"persistent_workers": False, "multiprocessing_context": None, "timeout": 0})\n',
        NO_WORKERS,
    )


def test_several_settings_add_up() -> None:
    check(
        "loader = DataLoader(data)\n",
        "loader = DataLoader(data, num_workers=4, pin_memory=True, prefetch_factor=2)\n",
        WORKERS,
        PINNED,
        LoaderArgument(name="prefetch_factor", code="2"),
    )


REFUSED = {
    "starred arguments": ("loader = DataLoader(*given)", "starred"),
    "several dicts": ("loader = DataLoader(data, **some, **more)", "several"),
    "two on one line": ("a, b = DataLoader(x), DataLoader(y)", "which of several calls"),
    "made elsewhere": ("loader = make_it()  # DataLoader(", "no call of DataLoader"),
    "by another name": ("loader = DL(data)", "no call of DataLoader under that name"),
}


@pytest.mark.parametrize(("text", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_told_apart_is_left_alone(text: str, reason: str) -> None:
    places = Places(loader=Place(path="/project/train.py", line=1))
    outcome = rewritten(text + "\n", WORKERS, places=places)
    assert outcome.text == text + "\n"
    assert outcome.statuses == ["refused"]
    assert reason in outcome.reason
    assert outcome.hand_step.startswith("/project/train.py:1: ")


def test_a_loader_built_in_a_library_is_refused_with_its_place() -> None:
    places = Places(loader=Place(path="/lib/timm/loader.py", line=7))
    outcome = rewritten("import timm\n", WORKERS, places=places)
    assert outcome.statuses == ["refused"]
    assert "outside the project" in outcome.reason
    assert outcome.hand_step == "/lib/timm/loader.py:7: DataLoader(..., num_workers=4)"


def test_a_loader_that_was_not_seen_is_refused() -> None:
    outcome = rewritten(source("import torch\n"), WORKERS)
    assert outcome.statuses == ["refused"]
    assert "not seen" in outcome.reason


DRAWING = """
loader = DataLoader(data, num_workers=2)
for x, y in {over}:
    {line}
    loss = model(x).mean()
    loss.backward()
"""


@pytest.mark.parametrize(
    ("over", "line", "again"),
    [
        ("loader", "print(len(loader), loader.dataset)", False),
        ("tqdm(loader, total=len(loader))", "pass", False),
        ("zip(loader, other)", "pass", False),
        ("zip(loader, loader)", "pass", True),
        ("enumerate(zip(loader, loader))", "pass", True),
        ("loader", "z = next(iter(loader))", True),
        ("enumerate(loader)", "evaluate(model, loader)", True),
    ],
)
def test_workers_that_live_on_serve_one_pass_at_a_time(over: str, line: str, again: bool) -> None:
    text = DRAWING.format(over=over, line=line)
    outcome = rewritten(text, LoaderArgument(name="persistent_workers", code="True"))
    assert outcome.statuses == (["refused"] if again else ["done"]), outcome.reason
    if again:
        assert "a second time meanwhile" in outcome.reason
        assert "with a DataLoader of its own" in outcome.hand_step
    assert rewritten(text, WORKERS).statuses == ["done"]


SHEET = """
class Sheet:
    def __init__(self, loader, every):
        self.loader, self.every = loader, every

    def write(self, step):
        batch = DRAW

def evaluate(model, batches):
    return [model(x) for x, y in batches]

loader = DataLoader(data, num_workers=2)
sheet = Sheet(GIVEN, 60)
evaluate(model, loader)
for x, y in loader:
    loss = model(x).mean()
    loss.backward()
    sheet.write(0)
    evaluate(model, SHOWN)
"""


@pytest.mark.parametrize(
    ("given", "draw", "shown", "again"),
    [
        ("loader", "next(iter(self.loader))", "others", True),
        ("loader", "[x for x, y in tqdm(self.loader)]", "others", True),
        ("loader", "len(self.loader)", "others", False),
        ("others", "next(iter(self.loader))", "others", False),
        ("others", "None", "loader", True),
        ("others", "None", "others", False),
    ],
)
def test_what_the_loop_calls_may_draw_from_its_loader(
    given: str, draw: str, shown: str, again: bool
) -> None:
    text = SHEET.replace("GIVEN", given).replace("DRAW", draw).replace("SHOWN", shown)
    outcome = rewritten(text, LoaderArgument(name="persistent_workers", code="True"))
    assert outcome.statuses == (["refused"] if again else ["done"]), outcome.reason


def test_a_dataclass_may_hold_the_loader() -> None:
    own = (
        "    def __init__(self, loader, every):\n        self.loader, self.every = loader, every\n"
    )
    text = SHEET.replace(own, "    loader: DataLoader\n    every: float\n").replace(
        "SHOWN", "others"
    )
    text = text.replace("GIVEN", "loader=loader, every=").replace("=, 60", "=60")
    text = text.replace("DRAW", "next(iter(self.loader))")
    assert "Sheet(loader=loader, every=60)" in text and "__init__" not in text
    outcome = rewritten(text, LoaderArgument(name="persistent_workers", code="True"))
    assert outcome.statuses == ["refused"], outcome.reason


LARGER = LoaderArgument(name="batch_size", code="64")


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ("data, 8, True", "data, 64, True"),
        ("data, shuffle=True", "data, shuffle=True, batch_size=64"),
        ("data, batch_size=args.batch_size", "data, batch_size=64"),
        ("data, **options", 'data, **{**options, "batch_size": 64}'),
    ],
)
def test_a_batch_size_is_written_however_it_is_given(given: str, code: str) -> None:
    done = rewritten(source(f"loader = DataLoader({given})"), LARGER)
    assert done.statuses == ["done"]
    assert done.text == source(f"loader = DataLoader({code})")


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ("data, [25, 10], batch_size=8", "data, [25, 10], batch_size=64"),
        ("data, [25, 10], **options", 'data, [25, 10], **{**options, "batch_size": 64}'),
        ("data, [25, 10]", "data, [25, 10], batch_size=64"),
        ("data, neighbours, **options", ""),
    ],
)
def test_what_another_librarys_loader_takes_by_position_is_its_own(given: str, code: str) -> None:
    text = f"loader = NeighborLoader({given})\n"
    places = Places(loader=Place(path=PATH, line=1))
    done = rewritten(text, LARGER, places=places)
    assert done.text == (f"loader = NeighborLoader({code})\n" if code else text)
    assert code or "by position" in done.reason


@pytest.mark.parametrize(
    ("test", "first", "status"),
    [
        ('split == "train"', "", "done"),
        ('split != "test"', "", "refused"),
        ('split == "train"', "split = split.lower()", "refused"),
    ],
)
def test_a_line_that_other_calls_do_not_come_to_builds_one_loader(
    test: str, first: str, status: str
) -> None:
    text = source(f"""
        def loader(split, size):
            {first or "pass"}
            if {test}:
                return DataLoader(data, batch_size=size, shuffle=True)
            return DataLoader(held_out, batch_size=size)
        train, held = loader("train", 8), loader("val", 8)
        """)
    assert rewritten(text, LARGER).statuses == [status]


def test_a_line_that_builds_other_loaders_too_keeps_its_batch_size() -> None:
    text = source("loader = DataLoader(data, 8)")
    done = rewritten(text, LoaderArgument(name="batch_size", code="64", shared=True))
    assert (done.statuses, done.text) == (["refused"], text)
    both = source("loader, other = (DataLoader(each, 8) for each in (data, held_out))")
    assert "other loaders" in rewritten(both, LARGER).reason


ANEW = """
def batches():
    loader = DataLoader(data, batch_size=4)
    while True:
        try:
            yield next(loader)
        except StopIteration:
            loader = DataLoader(
                data, batch_size=4
            )
"""


def test_a_loader_that_is_made_anew_by_another_line_is_given_the_same() -> None:
    done = rewritten(source(ANEW), WORKERS)
    assert done.text == source(ANEW).replace("batch_size=4", "batch_size=4, num_workers=4")
    assert rewritten(done.text, WORKERS).statuses == ["already"]
    assert rewritten(done.text, NO_WORKERS).text == done.text.replace("workers=4", "workers=0")


@pytest.mark.parametrize(
    "text",
    [
        """
        if small:
            loader = DataLoader(data)
        else:
            loader = DataLoader(data)
        """,
        """
        if small:
            loader = DataLoader(data)
        elif large:
            data = more()
            loader = DataLoader(data)
        """,
        """
        loader = DataLoader(data)
        data = more()
        loader = DataLoader(data)
        """,
        """
        def first():
            loader = DataLoader(data)
            return loader
        def second():
            loader = DataLoader(data)
            return loader
        """,
        """
        def either():
            if small:
                loader = DataLoader(data)
                return loader
            loader = DataLoader(data)
            return loader
        """,
        """
        loader = DataLoader(data)
        other = DataLoader(data)
        """,
    ],
)
def test_a_loader_of_another_run_or_of_other_data_is_not_made_anew(text: str) -> None:
    written = source(text)
    done = rewritten(written, WORKERS)
    assert done.text == written.replace("DataLoader(data)", "DataLoader(data, num_workers=4)", 1)


@pytest.mark.parametrize(("name", "code"), [("num_workers", "4"), ("persistent_workers", "True")])
@pytest.mark.parametrize(("others", "refused"), [(2, False), (30, True)])
def test_workers_are_not_given_to_many_other_loaders_as_well(
    name: str, code: str, others: int, refused: bool
) -> None:
    text = source("loader = DataLoader(data, 8, num_workers=2)")
    done = rewritten(text, LoaderArgument(name=name, code=code, others=others))
    assert done.statuses == ["refused" if refused else "done"]
    assert not refused or "has 30 beside the training" in done.reason


@pytest.mark.parametrize(
    "line",
    [
        "lr = 0.1 * max(1, loader.num_workers)",
        "if trainer.train_loader.num_workers: data.share()",
        "workers = dl.num_workers\ngroups = workers * [0]",
    ],
)
def test_a_program_that_computes_with_its_workers_keeps_them(line: str) -> None:
    done = rewritten(source(f"loader = DataLoader(data)\n{line}"), WORKERS)
    (outcome,) = done.outcomes
    assert outcome.forbidden
    assert "asks how many workers a loader has at train.py:" in outcome.reason


@pytest.mark.parametrize(
    "line",
    [
        "print(loader.num_workers)",
        "log.info('%d workers', loader.num_workers)",
        "other = DataLoader(more, num_workers=loader.num_workers)",
        "mine = number % torch.utils.data.get_worker_info().num_workers",
        "args.num_workers += 1",
        "live_on = cfg.loader.num_workers > 0",
        "other = DataLoader(more, persistent_workers=loader.num_workers > 0)",
        "facts = {'num_workers': loader.num_workers}",
        "assert loader.num_workers == 0",
        "loader.num_workers = 3",
    ],
)
def test_one_that_tells_them_or_builds_another_loader_with_as_many_does_not(line: str) -> None:
    done = rewritten(source(f"loader = DataLoader(data)\n{line}"), WORKERS)
    assert "computes with" not in done.outcomes[0].reason
