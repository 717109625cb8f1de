"""What workers deliver of an iterable dataset, which they have to share out themselves."""

from autotune.measurement.processes.process import ProcessRun
from autotune.measurement.untimed.delivered import Comparison, compare_shared_out, same_from_each
from autotune.workload.conversation import Draw
from autotune.workload.samples.delivery import Delivery
from autotune.workload.seen import SeenLoader

_FOR_EVER = "; one that draws at random for ever need not, and is not told apart"


def compare_streams(
    run: ProcessRun,
    own: Delivery,
    again: Delivery,
    given: Delivery,
    loader: SeenLoader,
    workers: int,
    patience_seconds: float,
) -> Comparison:
    """Compare what the `workers` of `run` have `given` with what the program has as it is, by its
    `own` batches, and those of the same run `again`, with other random numbers. The workers are
    drawn from once more: a batch from each of them may take `patience_seconds`.
    """
    if workers > 1:
        # However slow the stream is: one batch from each is the least that tells.
        drawn = run.draw(Draw(batches=2 * workers, seconds=patience_seconds, still=True))
        if len(drawn.batches) < workers and not drawn.ended:
            return Comparison(
                difference="whether the workers share the samples out could not be seen within "
                f"{patience_seconds:.0f} s"
            )
        if same_from_each(drawn, workers):
            ends = own.ended or again.ended
            return Comparison(
                difference=f"every sample comes {workers} times, since the dataset does not "
                "share its samples out among the workers (torch.utils.data.get_worker_info "
                f"tells it which one it is in){'' if ends else _FOR_EVER}"
            )
    return compare_shared_out(
        own,
        again,
        given,
        workers=max(1, workers),
        dropped=(loader.batch_size or 1) if loader.drop_last else 0,
    )
