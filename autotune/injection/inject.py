"""Setting up the process that this is, before its program trains: the whole of what differs from a
run without autotune.
"""

import os
import sys
from multiprocessing.process import BaseProcess
from typing import Any

from torch.utils.data._utils.worker import _worker_loop

from autotune.injection.order import Order, given_order
from autotune.knobs import setup_for, unobserved
from autotune.workload.live import DISCOVERY_STEPS, Live
from autotune.workload.observe import observe
from autotune.workload.program.framework import OURS
from autotune.workload.seams import backward, copies, loader, model, optimizer
from autotune.workload.seams.construction import is_meant
from autotune.workload.steps.beat import Steps
from autotune.workload.steps.clock import Untimed

# Steps after which the settings must be in effect; the seams note what they see in the first ones.
LOOK_AFTER = DISCOVERY_STEPS + 2
# Hooks that pass all on where nothing trains. In a loader's worker they stay: subclasses of Tensor
# know by the very function which methods keep their class (torchvision's masks and boxes).
_COPIES = frozenset({"to", "cuda"})


def inject() -> None:
    """Do what this process was told in its environment; the program runs on whatever happens."""
    try:
        order = given_order()
        if order is not None:
            _follow_forks(order, set_up(order))
    except Exception as error:  # noqa: BLE001 - a run is the user's: it is never ended by us
        _warn(f"the settings could not be put in: {error}")


def set_up(order: Order) -> Live:
    """Put the settings of `order` into this process.

    Raises:
        UsageError: there is no such setting.
    """
    setup = setup_for(order.settings)
    for switch in setup.process:
        switch()
    live = Live(setup=setup, training_loader=order.loader, passed_loops=order.passed_loops)
    live.clock = Untimed()
    live.pace = Steps(after=LOOK_AFTER, then=lambda first: _look(live, order, first=first))
    copying = setup.non_blocking or setup.prefetch_to_device
    for seam in (loader, model, backward, optimizer, *([copies] if copying else [])):
        seam.install(live)
    return live


def _look(live: Live, order: Order, *, first: bool) -> None:
    """Say which settings did not take effect at `first`, and let go of all that was needed to see
    it.
    """
    if first and os.environ.get("RANK", "0") == "0":
        for missing in unobserved(order.settings, observe(live)):
            _warn(f"not in effect: {missing}{_elsewhere(live)}")
    live.batch = None
    live.fed.let_go()
    live.batches.clear()
    setup = live.setup
    if not (setup.precision or setup.prefetch_to_device or setup.micro_batches > 1):
        _shed(live)


def _elsewhere(live: Live) -> str:
    """That no DataLoader is built where it was when the settings were found; "" where one is."""
    meant = live.training_loader
    if meant is None or any(is_meant(live, built) for built in live.loaders):
        return ""
    return f"; no DataLoader is built at {meant.path}:{meant.line}, where the search found it"


def _shed(live: Live) -> None:
    """Take out the hooks that steps go through, but for those that the settings need.

    What someone else has put over one of them stays.
    """
    kept = {"__init__"}  # loaders and optimizers that are still to be built
    if live.setup.set_to_none is not None:
        kept.add("zero_grad")
    if live.setup.non_blocking:
        kept |= _COPIES
    live.patches.forget(lambda owner, name: name not in kept and not _is_ours(owner, name))
    live.optimizers = [known for known in live.optimizers if _is_ours(known(), "step")]
    live.unpatch(staying=kept)
    # From here on steps are not counted: the next model, of the next fold, does not follow soon.
    live.discovering = False
    live.models.forget()


def _is_ours(owner: object, name: str) -> bool:
    """Whether what `owner` itself has as `name` is a hook that nobody has put another one over."""
    hook = vars(owner).get(name) if owner is not None else None
    code = getattr(getattr(hook, "func", hook), "__code__", None)
    return code is not None and code.co_filename.startswith(OURS)


def _follow_forks(order: Order, live: Live) -> None:
    """Set up forked children that train as well; loader workers are as torch has them."""
    begin = BaseProcess._bootstrap  # type: ignore[attr-defined]
    parent = os.getpid()

    def _bootstrap(self: Any, *args: Any, **kwargs: Any) -> Any:
        if os.getpid() != parent:
            if self._target is _worker_loop:
                live.unpatch(staying=_COPIES)
            else:
                live.unpatch()
                set_up(order)
        return begin(self, *args, **kwargs)

    BaseProcess._bootstrap = _bootstrap  # type: ignore[attr-defined]


def _warn(message: str) -> None:
    sys.stderr.write(f"autotune: {message}\n")
    sys.stderr.flush()
