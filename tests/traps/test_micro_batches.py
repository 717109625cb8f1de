"""A batch is divided where the parts add up to the same step, whatever the code looks like."""

import pytest

from tests.traps.conftest import Vet
from tests.traps.programs import step

LINEAR = "nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))"
DROPPING = "nn.Sequential(nn.Linear(6, 16), nn.Dropout(0.5), nn.Linear(16, 3))"
NORMED = "nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Linear(16, 3))"


class TestTheSameStep:
    @pytest.mark.parametrize(
        ("loss", "model"),
        [
            ("F.cross_entropy(model(x), y)", LINEAR),
            ("F.cross_entropy(model(x), y, reduction='sum') / len(x)", LINEAR),
            ("F.cross_entropy(model(x), y)", DROPPING),
            ("F.cross_entropy(F.dropout(model(x), 0.3), y)", LINEAR),
        ],
        ids=["mean", "sum over the batch's size", "dropout", "dropout as a function"],
    )
    def test_is_had_with_a_mean_over_the_batch(self, parts: Vet, loss: str, model: str) -> None:
        vetted = parts(step(loss, model), (1, 2, 4))
        assert vetted.values == (1, 2, 4), vetted.reason


class TestAnotherStep:
    def test_is_found_where_the_loss_is_a_sum(self, parts: Vet) -> None:
        vetted = parts(step("F.cross_entropy(model(x), y, reduction='sum')", LINEAR), (1, 2))
        assert vetted.values == (1,)
        assert "the loss adds up over its batch" in vetted.reason

    def test_is_found_where_the_loss_is_divided_by_a_count_over_the_batch(self, parts: Vet) -> None:
        loss = "(F.cross_entropy(model(x), y, reduction='none') * (y > 0)).sum() / (y > 0).sum()"
        vetted = parts(step(loss, LINEAR), (1, 2))
        assert vetted.values == (1,)
        assert "depends on the batch as a whole" in vetted.reason

    def test_is_found_where_a_layer_looks_across_the_batch(self, parts: Vet) -> None:
        vetted = parts(step("F.cross_entropy(model(x), y)", NORMED), (1, 2))
        assert vetted.values == (1,)
        assert "depends on the batch as a whole" in vetted.reason

    def test_is_found_where_samples_are_compared_with_each_other(self, parts: Vet) -> None:
        loss = "F.cross_entropy(model(x) @ model(x).T, torch.arange(len(x)))"
        vetted = parts(step(loss, LINEAR), (1, 4))
        assert vetted.values == (1,)
        assert "another step" in vetted.reason

    def test_is_found_where_labels_lie_outside_the_loader(self, parts: Vet) -> None:
        loss = "F.cross_entropy(model(x), Y[: len(x)])"
        vetted = parts(step(loss, LINEAR), (1, 2))
        assert vetted.values == (1,)

    def test_is_found_where_parts_cannot_be_trained(self, parts: Vet) -> None:
        vetted = parts(step("F.cross_entropy(model(x)[[7]], y[[7]])", LINEAR), (1, 4))
        assert vetted.values == (1,)
        assert "could not be trained in parts" in vetted.reason
