"""Workers of datasets that reading, choosing or training changes."""

import pytest

from tests.traps.conftest import Vet
from tests.traps.programs import PLAIN, stream, table


def weighted(sampler: str) -> str:
    """A program whose loop writes to the weights of this `sampler`."""
    text = table(PLAIN, options="batch_size=16, sampler=sampler")
    text = text.replace("loader = DataLoader", f"{sampler}\nloader = DataLoader")
    changes = "optimizer.step()\n        sampler.weights[:16] += x.mean() ** 2"
    return text.replace("optimizer.step()", changes)


class TestDatasetsThatChange:
    """A worker reads a copy: of what training changes it sees nothing, and what reading changes it
    changes for itself.
    """

    def test_one_that_training_writes_to_is_refused(self, workers: Vet) -> None:
        text = table(
            "return X[index] * (1 + self.hardness[index]), Y[index]",
            "self.hardness = torch.zeros(640)",
        ).replace("optimizer.step()", "optimizer.step()\n        dataset.hardness += x.mean()")
        vetted = workers(text, (0, 1, 2))
        assert vetted.values == (0,)
        assert "training changes `dataset.hardness`" in vetted.reason

    def test_one_whose_order_training_decides_is_refused(self, workers: Vet) -> None:
        chosen = (
            "class Hardest:\n    def __init__(self):\n        self.weights = torch.ones(640)\n\n"
            "    def __iter__(self):\n"
            "        return (int(torch.multinomial(self.weights, 1)) for _ in range(640))\n\n"
            "    def __len__(self):\n        return 640\n\n\nsampler = Hardest()"
        )
        vetted = workers(weighted(chosen), (0, 2))
        assert vetted.values == (0,)
        assert "training changes `sampler.sampler.weights`" in vetted.reason
        assert "copies" not in vetted.reason

    def test_one_whose_order_is_drawn_as_the_epoch_begins_may_have_workers(
        self, workers: Vet
    ) -> None:
        chosen = (
            "from torch.utils.data import WeightedRandomSampler\n"
            "sampler = WeightedRandomSampler(torch.ones(640), 640)"
        )
        assert workers(weighted(chosen), (0, 2)).values == (0, 2)

    def test_what_no_sample_is_made_from_may_be_written_to(self, workers: Vet) -> None:
        text = table(PLAIN, "self.weights = torch.ones(640)").replace(
            "optimizer.step()", "optimizer.step()\n        dataset.weights += x.mean()"
        )
        vetted = workers(text, (0, 2))
        assert vetted.values == (0, 2)

    def test_what_is_set_between_epochs_reaches_the_workers(self, workers: Vet) -> None:
        text = table("return X[index] * self.scale, Y[index]", "self.scale = 1.0").replace(
            "    for x, y in loader:", "    dataset.scale *= 0.9\n    for x, y in loader:"
        )
        vetted = workers(text, (0, 2))
        assert vetted.values == (0, 2)

    def test_a_stream_from_what_training_fills_is_refused_even_one_worker(
        self, workers: Vet
    ) -> None:
        text = (
            stream("while True:\n    yield random.choice(buffer)")
            .replace("class Stream", "buffer = list(zip(X[:32], Y[:32]))\n\nclass Stream")
            .replace("optimizer.step()", "optimizer.step()\n        buffer.append((X[0], Y[0]))")
        )
        vetted = workers(text, (0, 1))
        assert vetted.values == (0,)
        assert "training changes `buffer`" in vetted.reason

    def test_one_that_counts_what_it_has_given_is_refused(self, workers: Vet) -> None:
        item = "self.given += 1\nreturn X[index] * min(1.0, self.given / 5000), Y[index]"
        vetted = workers(table(item, "self.given = 0"), (0, 2))
        assert vetted.values == (0,)
        assert "reading counts `dataset.given`" in vetted.reason

    def test_one_whose_random_numbers_grow_with_what_it_has_given_is_refused(
        self, workers: Vet
    ) -> None:
        item = (
            "self.given += 1\nstrength = min(1.0, self.given / 5000)\n"
            "return X[index] + strength * np.random.randn(), Y[index], strength"
        )
        text = table(item, "self.given = 0").replace("for x, y in", "for x, y, _ in")
        vetted = workers(text, (0, 2))
        assert vetted.values == (0,)
        assert "reading counts `dataset.given`" in vetted.reason

    def test_one_whose_sampler_chooses_all_at_once_may_have_workers(self, workers: Vet) -> None:
        sampler = (
            "class Batches:\n    def __len__(self):\n        return 40\n\n"
            "    def __iter__(self):\n"
            "        order = sorted(range(640), key=lambda _: random.random())\n"
            "        return iter([order[first::40] for first in range(40)])\n\n\nloader ="
        )
        text = table(PLAIN, options="batch_sampler=Batches()").replace("loader =", sampler, 1)
        vetted = workers(text, (0, 2))
        assert vetted.values == (0, 2)
        assert vetted.doubt is None

    def test_one_with_random_numbers_of_its_own_is_refused(self, workers: Vet) -> None:
        item = "return X[index] + self.random.normal(size=4).astype('float32'), Y[index]"
        vetted = workers(table(item, "self.random = np.random.default_rng(0)"), (0, 2))
        assert vetted.values == (0,)
        assert "`dataset.random`" in vetted.reason

    @pytest.mark.parametrize(
        ("prepare", "item"),
        [
            ("self.noise = 0.3", "self.noise *= 0.999"),
            ("self.noise = 0.0", "self.noise = 0.99 * self.noise + 0.01 * float(X[index].mean())"),
            ("global NOISE\nNOISE = 0.3", "global NOISE\nNOISE *= 0.999"),
            ("self.last = X[0]", "last, self.last = self.last, X[index]"),
            ("self.pool = []", "self.pool = [*self.pool[-9:], X[index]]"),
        ],
    )
    def test_random_ones_that_depend_on_those_read_before_are_refused(
        self, workers: Vet, prepare: str, item: str
    ) -> None:
        noise = next((each for each in ("NOISE", "self.noise") if each in item), "0.1")
        others = "last" if "last" in item else "self.pool[0]" if "pool" in item else "X[0]"
        given = f"return X[index] + {others} + {noise} * torch.randn(4), Y[index]"
        vetted = workers(table(f"{item}\n{given}", prepare), (0, 2))
        assert vetted.values == (0,)
        assert "reading changes" in vetted.reason

    def test_random_ones_that_are_counted_or_kept_may_have_workers(self, workers: Vet) -> None:
        item = (
            "self.read += 1\nif index not in self.known:\n    self.known[index] = X[index] * 2\n"
            "return self.known[index] + torch.randn(4), Y[index]"
        )
        vetted = workers(table(item, "self.read, self.known = 0, {}"), (0, 2))
        assert vetted.values == (0, 2)

    def test_noise_by_the_number_of_threads_is_refused(self, workers: Vet) -> None:
        item = "return X[index] + torch.randn(4) / torch.get_num_threads(), Y[index]"
        vetted = workers(table(item), (0, 2))
        assert vetted.values == (0,)
        assert "`torch.get_num_threads()` (train.py:" in vetted.reason

    def test_one_seeded_by_each_worker_may_have_workers(self, workers: Vet) -> None:
        item = (
            "if self.random is None or self.here != os.getpid():\n"
            "    info = torch.utils.data.get_worker_info()\n"
            "    self.here = os.getpid()\n"
            "    self.random = np.random.default_rng(0 if info is None else info.seed)\n"
            "return X[index] + self.random.normal(size=4).astype('float32'), Y[index]"
        )
        text = "import os\n" + table(item, "self.random = self.here = None")
        assert workers(text, (0, 2)).values == (0, 2)

    def test_one_that_seeds_its_random_numbers_in_each_worker_may_have_workers(
        self, workers: Vet
    ) -> None:
        item = (
            "if self.seed != torch.initial_seed():\n"
            "    self.seed = torch.initial_seed()\n"
            "    self.random = np.random.default_rng(self.seed)\n"
            "return X[index] + self.random.normal(size=4).astype('float32'), Y[index]"
        )
        prepare = "self.seed, self.random = 0, np.random.default_rng(0)"
        vetted = workers(table(item, prepare), (0, 2))
        assert vetted.values == (0, 2)

    def test_one_that_remembers_what_it_has_read_may_have_workers(self, workers: Vet) -> None:
        item = (
            "if index not in self.known:\n    self.known[index] = X[index] * 2\n"
            "return self.known[index], Y[index]"
        )
        vetted = workers(table(item, "self.known = {}"), (0, 2))
        assert vetted.values == (0, 2)
        assert vetted.doubt is None
