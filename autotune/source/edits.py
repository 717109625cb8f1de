"""What a knob asks of the user's source: edits, each said without knowing the source."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderArgument:
    """The training `DataLoader` is built with `name=code`; `shared` says that the line which builds
    it was seen to build others too, which must not have it, and `had_workers` that the program has
    workers as it is: what its loop changes in its own process they do not see either. `others` is
    how many other loaders there are, where that line builds such.
    """

    name: str
    code: str
    shared: bool = False
    had_workers: bool = False
    others: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerArgument:
    """The optimizer is built with `name=code`."""

    name: str
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStatement:
    """One statement that runs once, after the program's imports (`torch.set_num_threads(1)`), with
    the imports that it needs besides torch's; `threads` says that it sets how many compute,
    `flushes` that denormal numbers become zero, `keeps_memory` that what is freed stays with it.
    """

    code: str
    imports: tuple[str, ...] = ()
    threads: bool = False
    flushes: bool = False
    keeps_memory: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStatement:
    """Statements on the model, before its optimizer is built; `{model}` stands for the model, and
    `function` is one that they call, for the top of their file.

    Where they are for the module that is called in training and for no other that holds it, `of` is
    the name of its class; it is `shared` where the loop calls other modules too that have the same
    optimizer, so that what this is given is a whole that holds them.

    It `hinders` functions, by their full names, and methods that a model is handed to (exports),
    before which `undone` takes it back. It is `replayed` where each call of the model overwrites
    what the last one gave, `reordered` where what it gives may lie in another order in memory,
    `compiled` where its own Python runs no more.
    """

    code: str
    function: str = ""
    imports: tuple[str, ...] = ()
    of: str = ""
    shared: bool = False
    hinders: tuple[str, ...] = ()
    undone: str = ""
    replayed: bool = False
    reordered: bool = False
    compiled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Autocast:
    """Forward and loss run inside `with torch.autocast(device_type=..., dtype=...)`; on a CPU,
    where autocast leaves sums in bf16, what models give is float32 again, and so is bf16 that the
    program keeps.

    `device_type` is "cpu" or "cuda", `dtype` a torch dtype's name ("bfloat16", "float16"); `scaled`
    adds a `torch.amp.GradScaler` round backward and optimizer step, as float16 needs.
    """

    device_type: str
    dtype: str
    scaled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Accumulate:
    """Each batch of the user's is trained as `steps` micro-batches with one optimizer step.

    The loader's batch size is divided by `steps`, each micro-batch's loss counts by its share of
    the batch's samples, and the optimizer steps and clears its gradients after every `steps`
    micro-batches and at the end of an epoch's incomplete group. `shared` says that the line which
    builds the loader was seen to build others too, `drop_last` whether the loader was seen to drop
    its last batch (None where it was not seen).
    """

    steps: int
    shared: bool = False
    drop_last: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NonBlockingCopies:
    """Copies of the batch to the device say `non_blocking=True`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefetchToDevice:
    """The loop gets its batches on the device, the next one copied meanwhile on its own stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroGradToNone:
    """`zero_grad` frees the gradients, torch's default, instead of filling them with zeros."""


Edit = (
    LoaderArgument
    | OptimizerArgument
    | ProcessStatement
    | ModelStatement
    | Autocast
    | Accumulate
    | NonBlockingCopies
    | PrefetchToDevice
    | ZeroGradToNone
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One line of a file, as seen at run time: an absolute path and a line counted from 1; with a
    `column`, in bytes from 0, where the call that was seen begins on it.
    """

    path: str
    line: int
    column: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPlace(Place):
    """A line where a model is called, as `callee` ("self.model"); `tensors` says that what it gave
    has some in float32, by themselves or in a dict, list or tuple, ordered or named too, `single`
    that it is a tensor by itself, and `images` that some have four dimensions or more, whose order
    in memory may be another one.
    """

    callee: str
    tensors: bool
    single: bool = False
    images: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where the training program does what the edits change; None where it was not seen to.

    A call that spans several lines is placed on any one of them.
    """

    loader: Place | None = None  # DataLoader(...), or a class of its kind
    loader_class: Place | None = None  # super().__init__(...) of such a class of the program's own
    loader_caller: Place | None = None  # create_loader(...), where a library builds the loader
    optimizer: Place | None = None  # SGD(...), AdamW(...)
    optimizer_caller: Place | None = None  # create_optimizer(...), where a library builds it
    more_optimizers: tuple[Place, ...] = ()  # others of its class that step too, as a GAN has them
    forward: Place | None = None  # model(x), in the training loop
    outputs: tuple[OutputPlace, ...] = ()  # that, and all other calls of models in a step
    frozen: Place | None = None  # teacher(x) before it, without gradients
    backward: Place | None = None  # loss.backward()
    backwards: tuple[Place, ...] = ()  # that, and all others of a step
    step: Place | None = None  # optimizer.step()
    zero_grad: Place | None = None  # optimizer.zero_grad() or model.zero_grad()
    copies: tuple[Place, ...] = ()  # x.to(device), x.cuda() that copied to the device
    batch_copies: tuple[Place, ...] = ()  # those that copied a batch, and no few numbers
    anomaly: Place | None = None  # detect_anomaly(), set_detect_anomaly(True)


@dataclass(frozen=True, slots=True, kw_only=True)
class EditOutcome:
    """What became of one edit.

    `status` is "done", where `reason` says what of the program's own has no effect any more,
    "already" (the source says so already), or "refused" with a `reason`; a refused edit that a
    person could make has `hand_step`: file, line and the exact code. `line` is the same of one that
    is made, where that changes one line or puts statements before it. `forbidden` is a refusal that
    holds for the setting itself, at run time too.
    """

    knob: str
    edit: Edit
    status: str
    reason: str = ""
    hand_step: str = ""
    line: str = ""
    forbidden: bool = False
