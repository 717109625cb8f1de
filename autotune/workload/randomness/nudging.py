"""Weights moved a little, to see how far two runs of one training part by rounding alone."""

import torch
from torch import nn
from torch.utils.weak import WeakIdKeyDictionary


def nudge(module: nn.Module, share: float, nudged: WeakIdKeyDictionary) -> None:
    """Move each weight of `module` by about `share` of itself that is not among those `nudged`: a
    part that is called after the whole has weights of a graph that is still to be gone through. No
    random number of the program's is used up.

    `share` is meant for float32: finer weights move by as many units in the last place, coarser
    ones by about one, the least that they can.
    """
    last_of_float32 = torch.finfo(torch.float32).eps
    for parameter in module.parameters():
        if parameter.is_floating_point() and parameter not in nudged:
            nudged[parameter] = True
            last = torch.finfo(parameter.dtype).eps
            of_format = max(last, share * min(1.0, last / last_of_float32))
            chance = torch.Generator(parameter.device).manual_seed(0)
            with torch.no_grad():
                noise = torch.empty_like(parameter).normal_(generator=chance)
                parameter.add_(parameter * noise, alpha=of_format)
