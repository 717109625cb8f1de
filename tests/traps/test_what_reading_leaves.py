"""Workers beside what reading leaves to the program, or to the samples to come."""

import pytest

from tests.traps.conftest import Vet
from tests.traps.programs import PLAIN, stream, table


class TestWhatIsReadBack:
    """What making a batch sets in a worker is set in its copy: a loop that reads it reads what it
    was at first.
    """

    LOSS = "nn.functional.cross_entropy(model(x), y)"

    def mixing(self, loss: str, workers: int = 0) -> str:
        """A program whose collate_fn leaves behind what it has mixed by, and one of two batches
        alone.
        """
        mix = (
            "class Mix:\n    def __init__(self):\n        self.lam = 1.0\n\n"
            "    def __call__(self, batch):\n"
            "        x, y = torch.utils.data.default_collate(batch)\n"
            "        self.lam = 1.0\n"
            "        if np.random.rand() < 0.5:\n"
            "            self.lam = np.random.beta(1.0, 1.0)\n"
            "        return x * self.scale(), y\n\n"
            "    def scale(self):\n        return 1.0\n\n\nmix = Mix()\nloader ="
        )
        options = f"batch_size=16, collate_fn=mix, num_workers={workers}"
        text = table(PLAIN, options=options).replace("loader =", mix, 1)
        assert self.LOSS in text
        return text.replace(self.LOSS, loss)

    def test_by_the_loop_it_keeps_the_program_without_workers(self, workers: Vet) -> None:
        text = self.mixing(f"(mix.lam * {self.LOSS})")
        line = next(at for at, code in enumerate(text.splitlines(), 1) if "mix.lam" in code)
        vetted = workers(text, (0, 1, 2))
        assert vetted.values == (0,)
        assert f"the program reads `mix.lam` (train.py:{line}), which making a" in vetted.reason
        assert "in a worker it is set in a copy" in vetted.reason

    def test_by_the_loop_it_counts_too_where_it_is_another_only_later(self, workers: Vet) -> None:
        text = self.mixing(f"(mix.lam * {self.LOSS})").replace("rand() < 0.5", "rand() < 0.0")
        assert "the program reads `mix.lam`" in workers(text, (0, 2)).reason

    def test_by_nobody_it_may_be_set_in_copies(self, workers: Vet) -> None:
        vetted = workers(self.mixing(self.LOSS), (0, 2))
        assert vetted.values == (0, 2)

    def test_by_a_program_that_has_workers_it_is_as_it_was(self, workers: Vet) -> None:
        text = self.mixing(f"(mix.lam * {self.LOSS})", workers=1)
        assert workers(text, (1, 2)).values == (1, 2)

    def test_a_variable_counts_too(self, workers: Vet) -> None:
        mix = (
            "def mix(batch):\n    global lam\n    lam = np.random.rand()\n"
            "    return torch.utils.data.default_collate(batch)\n\n\nlam = 1.0\nloader ="
        )
        text = table(PLAIN, options="batch_size=16, collate_fn=mix").replace("loader =", mix, 1)
        assert workers(text, (0, 2)).values == (0, 2)
        text = text.replace(self.LOSS, f"(lam * {self.LOSS})")
        assert "`lam` (train.py:" in workers(text, (0, 2)).reason

    @pytest.mark.parametrize(
        ("loss", "kept"), [(f"(rounds.current * {LOSS})", (0,)), (LOSS, (0, 1, 2))]
    )
    @pytest.mark.parametrize("item", [PLAIN, "return X[index] + torch.rand(4), Y[index]"])
    def test_what_choosing_a_batch_sets_is_ahead_of_the_loop(
        self, workers: Vet, item: str, loss: str, kept: tuple[int, ...]
    ) -> None:
        rounds = (
            "class Rounds(torch.utils.data.Sampler):\n    current = 0\n\n"
            "    def __iter__(self):\n"
            "        for part in torch.randperm(640).split(16):\n"
            "            self.current = int(part[0])\n"
            "            yield part.tolist()\n\n"
            "    def __len__(self):\n        return 40\n\n\nrounds = Rounds()\nloader ="
        )
        text = table(item, options="batch_sampler=rounds").replace("loader =", rounds, 1)
        vetted = workers(text.replace(self.LOSS, loss), (0, 1, 2))
        assert vetted.values == kept, vetted.reason
        if kept == (0,):
            assert "reads `rounds.current` (train.py:" in vetted.reason
            assert "chosen ahead of the one that it trains on" in vetted.reason

    @pytest.mark.slow
    def test_in_a_stream_it_counts_too(self, workers: Vet) -> None:
        body = (
            "info = get_worker_info()\n"
            "first, step = (info.id, info.num_workers) if info else (0, 1)\n"
            "for self.at in range(first, 640, step):\n    yield X[self.at], Y[self.at]"
        )
        text = stream(body).replace("step()", "step()\n        print(dataset.at)")
        assert "`dataset.at`" in workers(text, (0, 2)).reason
        assert workers(stream(body), (0, 2)).values == (0, 2)

    def test_what_a_dataset_counts_for_itself_may_be_counted_in_copies(self, workers: Vet) -> None:
        text = table("self.step += 1\nself.random = index\n" + PLAIN, "self.step = 0")
        vetted = workers(text, (0, 2))  # optimizer.step() and np.random are others
        assert vetted.values == (0, 2)
        printed = text.replace("optimizer.step()", "optimizer.step()\n        print(dataset.step)")
        assert "`dataset.step`" in workers(printed, (0, 2)).reason

    def test_by_the_trainer_that_collates_it_keeps_the_program_without_workers(
        self, workers: Vet
    ) -> None:
        trainer = (
            "class Trainer:\n    lam = 1.0\n\n    def collate(self, batch):\n"
            "        self.lam = np.random.beta(1.0, 1.0)\n        self.made = batch\n"
            "        return torch.utils.data.default_collate(batch)\n\n"
            "    def share(self):\n        return {}\n\n\ntrainer = Trainer()\nloader ="
        )
        options = "batch_size=16, collate_fn=trainer.collate"
        text = table(PLAIN, options=options).replace(self.LOSS, f"(trainer.share() * {self.LOSS})")
        read = text.replace("loader =", trainer.format("self.lam"), 1)
        assert "`self.lam` (train.py:" in workers(read, (0, 2)).reason
        unread = text.replace("loader =", trainer.format("1.0"), 1)
        assert workers(unread, (0, 2)).values == (0, 2)

    def test_what_makes_batches_may_read_its_own(self, workers: Vet) -> None:
        item = "self.mix.apply(index)\nself.last = index\nreturn X[self.mix.at], Y[self.last]"
        mixer = (
            "class Mixer:\n    def apply(self, index):\n        self.at = index\n"
            "        return self.at\n\n\nclass Table"
        )
        text = table(item, "self.mix = Mixer()").replace("class Table", mixer, 1)
        text += "        print(optimizer.last if hasattr(optimizer, 'last') else '')\n"
        assert workers(text, (0, 2)).values == (0, 2)

    def test_what_a_sampler_sets_is_set_in_the_program_itself(self, workers: Vet) -> None:
        sampler = (
            "class Buckets:\n    def __len__(self):\n        return 40\n\n"
            "    def __iter__(self):\n"
            "        self.batches = torch.randperm(640).view(40, 16).tolist()\n"
            "        return iter(self.batches)\n\n\nbuckets = Buckets()\nloader ="
        )
        text = table(PLAIN, options="batch_sampler=buckets").replace("loader =", sampler, 1)
        text = text.replace("optimizer.step()", "optimizer.step()\n        len(buckets.batches)")
        assert workers(text, (0, 2)).values == (0, 2)


class TestCounts:
    """Numbers that reading counts on in the dataset."""

    COUNTED = "self.read += 1\nreturn X[index] * (1 if self.read < {0} else 0), Y[index]"

    def test_what_is_read_later_may_depend_on_how_much_was_read(self, workers: Vet) -> None:
        text = table(self.COUNTED.format(100_000), "self.read = 0")
        vetted = workers(text, (0, 2))
        assert (
            vetted.values == (0,) and ".read`, and what is read may depend on it" in vetted.depends
        )
        assert vetted.reason.startswith("with 2 workers, reading c")

    def test_so_it_may_where_workers_read_already(self, workers: Vet) -> None:
        options = "batch_size=16, shuffle=True, num_workers=2"
        text = table(self.COUNTED.format(100_000), "self.read = 0", options=options)
        vetted = workers(text, (0, 2, 4))
        assert (
            vetted.values == (2,) and ".read`, and what is read may depend on it" in vetted.depends
        )

    @pytest.mark.parametrize(
        ("late", "prepare", "said"),
        [
            ("x = self.spare[next(self.turn)]", "self.turn = itertools.cycle(range(3))", "take"),
            ("x = x + self.ids[index]", "self.ids = Numbers(itertools.count().__next__)", "new"),
            ("x = x + self.ids[index]", "self.ids = Numbers(lambda: len(self.ids))", "new"),
            ("x = x + self.words.number(index)", "self.words = Words()", "new"),
            ("x = x + self.words[index]", "self.words = Words()", "new"),
            ("x = x + self.ids.setdefault(index, len(self.ids))", "self.ids = {}", "new"),
            ("self.bad += 1\n    x = X[self.bad % 3]", "self.bad = 0", "counts"),
        ],
    )
    def test_what_only_late_samples_go_on_with(
        self, workers: Vet, late: str, prepare: str, said: str
    ) -> None:
        item = f"x = X[index]\nif index > 638:\n    {late}\nreturn x, Y[index]"
        text = table(item, f"self.spare = X[:3]\n{prepare}", options="batch_size=4")
        numbers = """\
import itertools
from collections import defaultdict as Numbers

class Words(dict):
    def number(self, word):
        return self.setdefault(word, len(self))

    def __missing__(self, word):
        self[word] = len(self)
        return self[word]

class Table"""
        vetted = workers(text.replace("class Table", numbers), (0, 2))
        words = {"take": "samples take the next of `dataset.turn`", "counts": "changes `self.bad`"}
        assert vetted.values == (0,)
        assert words.get(said, "is given the next number") in vetted.reason
        assert vetted.reason.endswith(": each worker goes on by itself")

    def test_without_workers_one_process_goes_on(self, workers: Vet) -> None:
        item = "self.n += 1\nreturn X[self.n % 600], Y[index]"
        options = "batch_size=4, num_workers=2"
        vetted = workers(table(item, "self.n = 0", options=options), (0, 2))
        assert vetted.values == (2,)
        assert vetted.reason.startswith("with no workers, ")
        assert vetted.reason.endswith(": it goes on in one process")

    @pytest.mark.parametrize(
        ("item", "prepare"),
        [
            ("names = {}\nnames[index] = len(names)\nreturn X[index], Y[index]", "pass"),
            (
                f"if len(self.kept) < 900:\n    self.kept[index] = Y[index]\n{PLAIN}",
                "self.kept = {}",
            ),
            (
                "self.bad += index > 638\nif self.bad % 9 == 8:\n    print(f'{self.bad} bad')\n"
                + PLAIN,
                "self.bad = 0",
            ),
            ("return X[index], Y[index] + len(self.lists[index])", "self.lists = Lists(list)"),
            ("rows = iter(X[index:])\nreturn next(rows), Y[index]", "pass"),
        ],
    )
    def test_what_is_kept_of_each_by_itself_is_none(
        self, workers: Vet, item: str, prepare: str
    ) -> None:
        lists = "from collections import defaultdict as Lists\n\n\nclass Table"
        vetted = workers(table(item, prepare).replace("class Table", lists), (0, 2))
        assert (vetted.values, vetted.depends) == ((0, 2), ""), vetted.reason

    @pytest.mark.parametrize(
        "item",
        [
            "self.read += 1\nreturn X[index], Y[index]",  # a figure for someone
            "self.read = index\nreturn X[self.read], Y[self.read]",
            "return X[index + self.read - self.read], Y[index]",
        ],
    )
    def test_others_are_no_matter(self, workers: Vet, item: str) -> None:
        vetted = workers(table(item, "self.read = 0"), (0, 2))
        assert (vetted.values, vetted.depends) == ((0, 2), "")

    def test_a_model_that_is_asked_for_its_width_is_none_of_the_data(self, workers: Vet) -> None:
        collate = "batch_size=16, collate_fn=lambda rows: padded(rows, model.in_features)"
        padded = (
            "def padded(rows, width):\n    x, y = torch.utils.data.default_collate(rows)\n"
            "    return x[:, :width], y\n\n\nclass Table"
        )
        text = table(PLAIN, options=collate).replace("class Table", padded, 1)
        assert workers(text, (0, 2)).values == (0, 2)
        weighed = text.replace("model.in_features", "int(model.weight.shape[1])")
        assert workers(weighed, (0, 2)).values == (0,)


@pytest.mark.parametrize(
    ("item", "steady"),
    [
        ("return X[index], Y[index]", True),
        ("self.kept = getattr(self, 'kept', X); return self.kept[index], Y[index]", True),
        ("self.seen = getattr(self, 'seen', 0) + 1; return X[index] + self.seen, Y[index]", False),
    ],
    ids=["plain", "opened by the first", "counting"],
)
def test_what_the_first_sample_alone_opens_stays_as_it_is(
    workers: Vet, item: str, steady: bool
) -> None:
    assert workers(table(item, options="batch_size=16"), (0, 2)).steady is steady
