"""What an observed run was made of: plain data that crosses processes, and what knobs read."""

from dataclasses import dataclass, field

from autotune.nvml import Gpu
from autotune.source.edits import Place, Places
from autotune.source.standing import OptionValue, Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderKey:
    """Which DataLoader of a program: the line that builds it, and its place among those built
    there.

    `ordinal` is None where all loaders built by that line are meant (made anew every epoch).
    """

    path: str
    line: int
    ordinal: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenLoader:
    """The training DataLoader, as the program built it: one that a framework has made from it has
    the same batches. `length` is in batches, None where it has none.

    `ordinal` counts the loaders built at the same place, from 0.
    """

    dataset: str
    batch_size: int | None
    num_workers: int
    prefetch_factor: int | None
    persistent_workers: bool
    pin_memory: bool
    shuffle: bool
    drop_last: bool
    iterable: bool
    custom_batches: bool  # a batch_sampler of the user's, or no automatic batching
    length: int | None
    dataset_length: int | None
    ordinal: int = 0
    shared_place: bool = False  # other loaders, not for training, were built by the same line
    ahead: int = 0  # batches drawn before the step on the one before
    beside: int = 0  # other loaders that a step draws from as well
    nested: bool = False  # begun again while it was gone through, which then went on
    threaded: bool = False  # a thread of the program's own draws its batches
    changing: bool = False  # numbers or texts in its dataset changed from one epoch to the next
    epochs: int = 0  # of it that were begun, as far as that was looked at
    reseeded: bool = False  # its workers are seeded alike in every epoch, by its worker_init_fn
    reads_at_once: bool = False  # its dataset gives batches, or more, in one call


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenModel:
    """An outermost module that was called in training. Sizes in bytes and elements.

    `checkpointed` counts the blocks that are computed again in the backward pass, from the first
    one on or, negative, up to the last; all of them where it is others, or not only these.
    """

    name: str
    parameters: int
    parameter_bytes: int
    buffer_bytes: int
    dtype: str
    device: str
    convolutions: int  # Conv2d modules: what channels_last acts on
    batch_norms: int
    dropouts: int
    channels_last: bool | None  # None where its weights are the same in both orders
    compiled: str  # "off", or the mode it was compiled with
    checkpointed: int
    blocks: tuple[str, ...] = ()  # names of the repeated blocks that could be checkpointed
    of_torch: bool = False  # its forward is torch's, as nn.Sequential's: compile() passes it over
    scripted: bool = False  # TorchScript runs it (`torch.jit.script`): compile() passes it over
    pretrained: bool = False  # a class of transformers: it saves itself, in the usual order
    gradient_hooks: bool = False  # the program's own, which are given gradients in backward
    five_dimensional: bool = False  # some of its tensors: torch refuses to move them channels last
    weights_elsewhere: bool = False  # those of convolutions have memory that others have too
    moving_blocks: bool = False  # `blocks` keep what each of their forward passes moves on
    frozen_bytes: int = 0  # of its parameters, those without gradients
    frozen_table_bytes: int = 0  # of those, embeddings: a step reads some of their rows
    sparse_gradients: bool = False  # of an embedding: a step touches the rows of its batch
    other_convolutions: int = 0  # in one or three dimensions, or transposed
    flat_norms: int = 0  # BatchNorm1d modules, which cannot train on one sample of one number each

    @property
    def convolves(self) -> bool:
        """Whether it has convolutions of any kind, all of which are cuDNN's on a GPU."""
        return self.convolutions + self.other_convolutions > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenOptimizer:
    """An optimizer that stepped. `fused` and `foreach` are None where left to torch; `eps` is the
    smallest of its groups, None where it has none.
    """

    name: str
    fused: bool | None
    foreach: bool | None
    takes_fused: bool
    takes_foreach: bool
    parameters: int
    closure: bool  # step() was called with a closure, as LBFGS is
    state_bytes: int
    trained_bytes: int = 0  # of its parameters, those with gradients
    updated: int = 0  # of its parameters, those that it has a gradient for, or keeps something of
    complex_weights: bool = False  # some of its weights, with gradients by now or without
    sparse_weights: bool = False  # some of its weights are tables whose gradients are sparse
    idle: bool = False  # none of its weights has had a gradient
    without_state: int = 0  # of its weights that are trained, those that it keeps nothing of
    strides_differ: bool = False  # some gradients lie in memory otherwise than their parameters
    eps: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenTracker:
    """An experiment tracker that was kept from its server, and the calls that would have told it
    something (0 where they are not counted).
    """

    name: str
    calls_per_step: float


# Copies to the device of fewer bytes are none of a batch (Nsight Systems' rule for synchronous
# copies).
NOTABLE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One observed run; every field is what was seen, never what was asked for.

    `optimizer` is the one that led (the first that stepped), `beside` are those that stepped beside
    it. `backwards_per_step` counts backward passes between two steps of the leading one, and
    `passes` has the first steps from which on there were as many, each with that number. `scaler`
    says that a GradScaler was at work, `autocast` is the dtype name that forward ran under (""
    without autocast).
    """

    loader: SeenLoader | None
    models: tuple[SeenModel, ...]
    optimizer: SeenOptimizer | None
    optimizers: int
    backwards_per_step: float
    samples_per_step: float
    passes: tuple[tuple[int, int], ...] = ()
    evaluated_share: float = 0.0  # of the steps before which the program evaluated its model
    device: str = "cpu"  # that trains: "cpu" or "cuda"
    device_uuid: str = ""  # of a GPU
    gpus: int = 1  # that hold weights, or that a model splits its batches among
    gpu: Gpu | None = None  # as CUDA describes it, which says nothing of its driver
    batch: tuple[str, ...] = ()  # each tensor's dtype and shape, "float32[32, 3, 64, 64]"
    batch_bytes: int = 0
    shapes: int = 1  # the most distinct shapes that an outermost module was called with
    calls: int = 1  # and with distinct numbers beside them: each is another program to a compiler
    time_first: tuple[str, ...] = ()  # classes of models whose input has time before its samples
    models_made_anew: bool = False  # for each few steps: none is there for good
    keeps_outputs: bool = False  # of its modules, beyond the next step
    autocast: str = ""
    scaler: bool = False
    micro_batches: int = 1
    other_loaders: int = 0  # that were built, and no step has drawn from
    loaders_at: tuple[Place, ...] = ()  # where loaders were built, whatever for
    passed_loops: int = 0  # training loops of the program before this one
    taking_turns: bool = False  # one of those has come again
    rehearsed: float | None = None  # how far whole and divided batches' gradients lay apart
    non_blocking: bool = False
    own_buffers: bool = False  # page-locked memory of its own is copied again
    prefetch_to_device: bool = False  # batches were copied on a stream, or by a thread, apart
    copies_to_device: int = 0
    set_to_none: bool = True
    threads: int = 1
    interop_threads: int = 1
    blas_threads: int = 0  # of NumPy's OpenBLAS; 0 where there is none
    matmul_precision: str = "highest"
    cudnn_benchmark: bool = False
    cudnn_tf32: bool = True
    deterministic: bool = False
    expandable_segments: bool = False  # torch's GPU allocator grows its blocks in place
    keeps_freed_memory: bool = False  # and gives none of it back to the system
    flushes_denormals: bool = False  # the processor takes numbers that are too small for zero
    trackers: tuple[SeenTracker, ...] = ()
    compiling_seconds: float = 0.0  # that torch.compile was at work so far
    process_beside: Place | None = None  # where one was started in a step that did not wait for it
    beside: tuple[SeenOptimizer, ...] = ()
    modules: tuple[str, ...] = ()  # files of the program's own that it has imported so far
    options: tuple[tuple[str, OptionValue], ...] = ()  # that it was run with, but for texts
    standing: tuple[Standing, ...] = ()
    places: Places = field(default_factory=Places)

    @property
    def is_compiled(self) -> bool:
        """Whether any of its models is: looks at single operations do not find all of them then."""
        return any(model.compiled != "off" for model in self.models)

    @property
    def makes_own_gradients(self) -> bool:
        """Whether its optimizer steps, and no backward pass comes before (`torch.func`)."""
        return self.optimizer is not None and not self.backwards_per_step

    @property
    def loaders_beside(self) -> int:
        """How many loaders for something else there are, where the training's line builds such."""
        return self.other_loaders if self.loader and self.loader.shared_place else 0

    def training_loader(self) -> LoaderKey | None:
        """The key by which another run of the same program finds its training loader."""
        place = self.places.loader
        if self.loader is None or place is None:
            return None
        ordinal = self.loader.ordinal if self.loader.shared_place else None
        return LoaderKey(path=place.path, line=place.line, ordinal=ordinal)
