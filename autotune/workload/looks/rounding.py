"""What a short number format does where no error says so: the angles of sines are rounded by whole
radians, a prediction to steps as wide as its targets differ, a whole number to another, which
numbers are the largest is left to chance, numbers near 1 become 1, a matrix loses what a
decomposition needs, a small change of the input is lost, or what its numbers differ by, and so are
small steps of what is carried on from step to step.

What is computed of numbers in a short format, and of none that are learnt, is followed on, since
`rounded * float32` is float32 again: it comes to an index, say, with what it has lost.
"""

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from autotune.workload.found import (
    Rounded,
    RoundedAngle,
    RoundedChoice,
    RoundedNumber,
    RoundedTarget,
)
from autotune.workload.loading.batches import tensors
from autotune.workload.looks.chances import Chances
from autotune.workload.looks.decompositions import Decompositions
from autotune.workload.looks.inputs import Inputs
from autotune.workload.looks.perturbations import Carrying, Perturbations
from autotune.workload.looks.watch import SHORT, EachOperation, operations
from autotune.workload.places import is_within, users_place

_WAVES, _COPY = operations("sin", "cos", "sin_", "cos_"), torch.ops.aten._to_copy
# What losses compare with: torch computes an L1 loss, and `(y - target) ** 2`, by a subtraction.
_COMPARISONS = operations("mse_loss", "smooth_l1_loss", "huber_loss", "sub")
_WHOLE = (torch.int64, torch.int32)
_RECURRENT = os.path.join("torch", "nn", "modules", "rnn.py")
# Targets tell how they differ from so many on, less one for each column's mean.
_ENOUGH = 8
_CHOICES, _ORDERS = operations("topk", "argmin", "argmax"), operations("sort", "min", "max")
_LIMITS = operations("gt", "ge", "lt", "le")
_ENOUGH_WITHIN = 64  # numbers on the rarer side of a limit, to tell how close to it they lie
_FIRST = 3  # of what is sorted
_LEARNT = 0.0  # what a model learns goes another way by its nature


class Rounding(EachOperation):
    """Looks, at each operation as it is after autocast, for the largest angle in a short format
    that a sine or a cosine is given, for the coarsest prediction in one that is compared with
    targets, and for the largest number in one that is made a whole one; a `Watch`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._chosen: Any = WeakTensorKeyDictionary()  # indices, what was chosen by them
        self._chooses: RoundedChoice | None = None
        self._angle: RoundedAngle | None = None
        self._choice: RoundedChoice | None = None
        self._target: RoundedTarget | None = None
        self._number: RoundedNumber | None = None
        self._chances, self._decompositions = Chances(), Decompositions()
        self._perturbations, self._carrying = Perturbations(), Carrying()
        self._inputs = Inputs()
        self._short = False
        # Of which format what was computed has lost by, its eps, or `_LEARNT`.
        self._lost: Any = WeakTensorKeyDictionary()
        self._loses: float | None = None  # what the operation that is carried out gives

    def step(self) -> None:
        self._carrying.step()
        self._inputs.step()
        self._perturbations.step()

    def found(self) -> Rounded:
        return Rounded(
            angle=self._angle,
            target=self._target,
            number=self._number,
            choice=self._choice,
            chance=self._chances.found,
            matrix=self._decompositions.found,
            changes=self._perturbations.found,
            carried=self._carrying.found,
            given=self._inputs.found,
            short=self._short,
        )

    def note(self, operation: Any, given: Sequence[Any], named: Mapping[str, Any]) -> None:
        kind = operation.overloadpacket
        self._short = self._short or any(each.dtype in SHORT for each in tensors(given))
        if kind in _WAVES and given[0].dtype in SHORT and given[0].numel():
            self._note_angle(given[0].detach())
        elif kind in _COMPARISONS and all(map(torch.is_tensor, given[:2])):
            self._note_target(*given[:2])
        elif kind is _COPY and named.get("dtype") in _WHOLE and (eps := self._eps(given[0])):
            self._note_number(given[0].detach(), eps)
        self._chances.note(kind, given)
        self._decompositions.note(kind, given)
        self._perturbations.note(kind, given, named)
        self._carrying.note(kind, given)
        self._loses = self._lost_of(given)
        if self._loses is None:
            self._inputs.note(kind, given, named)
        self._note_choices(operation, given, named)

    def note_result(self, result: Any) -> None:
        self._chances.note_result(result)
        self._decompositions.note_result(result)
        self._perturbations.note_result(result)
        self._carrying.note_result(result)
        if self._chooses is not None:
            self._chosen[result[1]] = self._chooses
        for each in tensors(result) if self._loses is not None else ():
            if each.is_floating_point():
                self._lost[each] = self._loses

    def _lost_of(self, given: Sequence[Any]) -> float | None:
        """The widest eps of those among `given` that are in a short format, or computed of such;
        `_LEARNT` where one of them is learnt, or computed of what is.
        """
        numbers = [each for each in tensors(given) if each.is_floating_point()]
        if any(each.requires_grad or self._lost.get(each) == _LEARNT for each in numbers):
            return _LEARNT
        return max(filter(None, map(self._eps, numbers)), default=None)

    def _eps(self, numbers: torch.Tensor) -> float | None:
        lost: float | None = self._lost.get(numbers)
        return torch.finfo(numbers.dtype).eps if numbers.dtype in SHORT else lost

    def _note_angle(self, angles: torch.Tensor) -> None:
        radians = float(angles.abs().max())
        if self._angle is None or radians > self._angle.radians:
            step = torch.finfo(angles.dtype).eps * 2.0 ** math.floor(math.log2(radians or 1.0))
            self._angle = RoundedAngle(place=users_place(), radians=radians, step_radians=step)

    def _note_number(self, numbers: torch.Tensor, eps: float) -> None:
        size = float(numbers.abs().max()) if numbers.numel() else 0.0
        if size and math.isfinite(size) and (self._number is None or size > self._number.size):
            step = eps * 2.0 ** math.floor(math.log2(size))
            self._number = RoundedNumber(place=users_place(), size=size, step=step)

    def _note_choices(self, operation: Any, given: Sequence[Any], named: Mapping[str, Any]) -> None:
        """Where some are chosen of what has lost: at once, or by indices that are used later, in
        whatever way (a gradient of what was chosen is one).
        """
        self._chooses = None
        for each in tensors(given):
            self._keep_choice(self._chosen.get(each))
        kind, eps = operation.overloadpacket, self._loses
        if not eps:
            return
        if kind in _CHOICES:
            self._keep_choice(_choice(operation, eps, given, named))
        elif kind in _ORDERS:
            self._chooses = _choice(operation, eps, given, named)
        elif kind in _LIMITS and isinstance(given[1], int | float):
            self._keep_choice(_limited(given[0].detach().float(), float(given[1]), eps))

    def _keep_choice(self, choice: RoundedChoice | None) -> None:
        if choice and (self._choice is None or choice.untold > self._choice.untold):
            self._choice = choice

    def _note_target(self, one: torch.Tensor, other: torch.Tensor) -> None:
        """Where one of them is a prediction in a short format, and the other is what it should be:
        as many numbers, which nothing is learnt from.
        """
        if one.requires_grad == other.requires_grad or one.shape != other.shape or not one.ndim:
            return
        if is_within(_RECURRENT):  # a cell's own arithmetic, with the state that it was given
            return
        predicted, target = (one, other) if one.requires_grad else (other, one)
        eps = _eps(predicted.detach())
        target = target.detach().float()
        freedom = target.numel() - target[0].numel() if len(target) else 0
        if eps is None or freedom < _ENOUGH:
            return
        size = float(target.square().mean().sqrt())
        spread = float((target - target.mean(0)).square().sum().div(freedom).sqrt())
        if not (math.isfinite(size) and spread):
            return
        step = eps * 2.0 ** math.floor(math.log2(size))
        if self._target is None or step / spread > self._target.step / self._target.spread:
            place = users_place()
            self._target = RoundedTarget(place=place, size=size, spread=spread, step=step)


def _choice(
    operation: Any, eps: float, given: Sequence[Any], named: Mapping[str, Any]
) -> RoundedChoice | None:
    """Where one of the numbers `given` along a dimension, or so many of them, are chosen."""
    told, numbers, aten = _told(operation, given, named), given[0], torch.ops.aten
    dim, kind = told.get("dim"), operation.overloadpacket
    count = told.get("k", _FIRST if kind is aten.sort else 1)
    if dim is None or not numbers.numel() or not numbers.ndim or count >= numbers.shape[dim]:
        return None
    largest = told.get("largest", told.get("descending", kind in (aten.argmax, aten.max)))
    rows = numbers.detach().float().movedim(dim, -1)
    best = (rows if largest else -rows).topk(count + 1, dim=-1).values
    step = eps * _middle(rows.abs()).squeeze(-1)
    close = best[..., :-1] - best[..., -1:] < step[..., None]
    return RoundedChoice(place=users_place(), untold=float(close.float().mean()))


def _limited(numbers: torch.Tensor, limit: float, eps: float) -> RoundedChoice | None:
    """Where `numbers` are held to a `limit`: those that are just that are so by more than chance,
    as zeros of a mask are.
    """
    above = numbers > limit
    rarer = above if 2 * int(above.sum()) < numbers.numel() else ~above
    if not numbers.ndim or int(rarer.sum()) < _ENOUGH_WITHIN:
        return None
    sizes = numbers.abs()
    padding = sizes == sizes.amax(-1, keepdim=True)
    padding &= ~padding.all(-1, keepdim=True)
    known = sizes.masked_fill(padding, math.nan)
    step = eps * _middle(known)
    close = ((numbers - limit).abs() < step) & (numbers != limit)
    untold = float(close[rarer].float().mean())
    return RoundedChoice(place=users_place(), untold=untold, limit=limit)


def _middle(numbers: torch.Tensor) -> torch.Tensor:
    """The median along the last dimension of those that are numbers, kept as one; torch's own, on a
    GPU, fails in a program that wants nothing but deterministic operations.
    """
    several = numbers.isnan().logical_not().sum(-1, keepdim=True)
    return numbers.sort(-1).values.gather(-1, (several - 1).clamp(min=0) // 2)


def _told(operation: Any, given: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """What `operation` is given, by name, its own where it is not told."""
    told = {each.name: each.default_value for each in operation._schema.arguments}
    return told | dict(zip(told, given, strict=False)) | dict(named)


def _eps(tensor: torch.Tensor) -> float | None:
    """How far a number's next one is, as a share of a power of two, in the short format that these
    numbers are in, or were before they became float32; None where they are finer.
    """
    if tensor.dtype in SHORT:
        return torch.finfo(tensor.dtype).eps
    if tensor.dtype != torch.float32 or not tensor.any():
        return None
    fits = (each for each in SHORT if torch.equal(tensor.to(each).float(), tensor))
    return next((torch.finfo(each).eps for each in fits), None)
