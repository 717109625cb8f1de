"""Deliveries are compared in order or as a whole, by what is not random in them."""

from dataclasses import replace

from autotune.measurement.untimed.delivered import (
    compare_in_order,
    compare_shared_out,
    same_from_each,
)
from autotune.workload.samples.delivery import Delivery, Digests


def batch(*samples: int, noise: int = 0) -> Digests:
    """A batch of two leaves: what the samples are, and something that may be random."""
    return samples, tuple(noise + sample for sample in samples)


def delivery(*batches: Digests, ended: bool = True) -> Delivery:
    return Delivery(batches=batches, ended=ended)


OWN = delivery(batch(1, 2), batch(3, 4))


class TestInOrder:
    def test_the_same_batches_are_the_same(self) -> None:
        found = compare_in_order(OWN, OWN, OWN)
        assert not found.difference
        assert found.compared

    def test_other_samples_are_counted(self) -> None:
        found = compare_in_order(OWN, OWN, delivery(batch(1, 2), batch(3, 5)))
        assert found.difference == "1 of the first 4 samples (rows of a batch) are others"

    def test_another_order_is_a_difference(self) -> None:
        assert compare_in_order(OWN, OWN, delivery(batch(3, 4), batch(1, 2))).difference

    def test_what_is_random_is_left_out(self) -> None:
        again = delivery(batch(1, 2, noise=7), batch(3, 4, noise=7))
        other = delivery(batch(1, 2, noise=9), batch(3, 4, noise=9))
        found = compare_in_order(OWN, again, other)
        assert not found.difference
        assert found.compared

    def test_where_everything_is_random_nothing_was_compared(self) -> None:
        found = compare_in_order(OWN, delivery(batch(5, 6)), delivery(batch(7, 8), batch(9, 10)))
        assert not found.difference
        assert not found.compared

    def test_what_came_out_equal_was_compared_even_if_it_changes_from_epoch_to_epoch(self) -> None:
        assert compare_in_order(OWN, delivery(batch(5, 6)), OWN).compared

    def test_only_what_both_gave_is_compared_before_the_epoch_is_over(self) -> None:
        assert not compare_in_order(OWN, OWN, delivery(batch(1, 2), ended=False)).difference

    def test_a_shorter_epoch_is_a_difference(self) -> None:
        found = compare_in_order(OWN, OWN, delivery(batch(1, 2)))
        assert "1 batches instead of 2" in found.difference

    def test_batches_of_another_size_are_a_difference(self) -> None:
        found = compare_in_order(OWN, OWN, delivery(batch(1, 2, 3, 4), batch(5, 6, 7, 8)))
        assert "another size" in found.difference


class TestSharedOut:
    def test_a_few_more_batches_are_said_and_refused_where_a_schedule_counts_them(self) -> None:
        own = delivery(*(batch(each, each + 1) for each in range(0, 40, 2)))
        other = delivery(*own.batches[:-1], ((38,), (38,)), ((39,), (39,)))
        longer = "an epoch has 21 batches instead of 20, as where each worker ends with an"
        found = compare_shared_out(own, own, other, workers=2, dropped=0)
        assert not found.difference
        assert found.longer == f"{longer} incomplete one"
        counted = replace(own, lasts=60)
        assert self.difference(other, counted) == (
            f"{longer} incomplete one; the program's OneCycleLR ends in an error after 60 steps"
        )
        assert not self.difference(own, counted)
        assert "may have more batches" in self.difference(replace(own, ended=False), counted)

    def difference(self, other: Delivery, own: Delivery = OWN, dropped: int = 0) -> str:
        return compare_shared_out(own, own, other, workers=2, dropped=dropped).difference

    def test_the_order_does_not_matter(self) -> None:
        assert not self.difference(delivery(batch(1, 3), batch(2, 4)))

    def test_samples_that_come_again_make_an_epoch_longer(self) -> None:
        twice = delivery(batch(1, 2), batch(1, 2), batch(3, 4), batch(3, 4))
        assert self.difference(twice) == "an epoch has 8 samples instead of 4"

    def test_samples_that_are_lost_make_it_shorter(self) -> None:
        assert "2 samples instead of 4" in self.difference(delivery(batch(1, 3)))

    def test_an_epoch_of_the_right_length_may_still_miss_some(self) -> None:
        assert "1 of the 4 samples did not come" in self.difference(
            delivery(batch(1, 2), batch(3, 3))
        )

    def test_each_worker_may_drop_its_own_rest(self) -> None:
        assert not self.difference(delivery(batch(1, 3)), dropped=1)

    def test_many_incomplete_batches_are_another_batch_size(self) -> None:
        assert "incomplete" in self.difference(delivery(batch(1), batch(2), batch(3), batch(4)))

    def test_repetitions_show_before_the_epoch_is_over(self) -> None:
        endless = delivery(batch(1, 2), batch(3, 4), ended=False)
        repeated = delivery(batch(1, 2), batch(1, 2), ended=False)
        assert "had come before" in self.difference(repeated, endless)

    def test_what_repeats_itself_anyway_tells_nothing(self) -> None:
        dull = delivery(batch(1, 1), batch(1, 1), ended=False)
        found = compare_shared_out(dull, dull, dull, workers=2, dropped=0)
        assert not found.difference
        assert not found.compared


def test_workers_that_all_give_the_same_do_not_ask_which_one_they_are() -> None:
    assert same_from_each(delivery(batch(1), batch(1), batch(2), batch(2)), 2)
    assert not same_from_each(delivery(batch(1), batch(2), batch(3), batch(4)), 2)
    assert not same_from_each(delivery(batch(1)), 2)


def test_a_shuffled_stream_that_each_worker_reads_whole_repeats_its_samples() -> None:
    own, again = delivery(batch(1, 2), ended=False), delivery(batch(5, 9), ended=False)
    twice = delivery(batch(3, 4), batch(4, 3), ended=False)
    found = compare_shared_out(own, again, twice, workers=2, dropped=0)
    assert found.difference == "2 of its first 4 samples had come before"
    once = delivery(batch(3, 4), batch(6, 7), ended=False)
    assert not compare_shared_out(own, again, once, workers=2, dropped=0).difference
