"""A loop with meters and a display, as torch/examples' imagenet has them: they only say things."""

import pytest

from autotune.source.edits import Accumulate
from tests.source.programs import rewritten, source

TWO = Accumulate(steps=2)
IMAGENET = source(
    """
    import time
    import torch
    from torch.utils.data import DataLoader
    from tqdm import tqdm

    def main(args):
        model = Net().to(device)
        optimizer = torch.optim.SGD(model.parameters(), args.lr)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)
        loader = DataLoader(train_dataset, batch_size=args.batch_size, shuffle=True)
        for epoch in range(args.epochs):
            train(loader, model, optimizer, epoch, args)
            scheduler.step()

    def train(loader, model, optimizer, epoch, args):
        batch_time, losses = AverageMeter("Time"), AverageMeter("Loss")
        top1 = AverageMeter("Acc@1")
        progress = ProgressMeter(len(loader), [losses, top1], prefix="Epoch: [{}]".format(epoch))
        model.train()
        for i, (images, target) in enumerate(loader):
            output = model(images)
            loss = torch.nn.functional.cross_entropy(output, target)
            top1.update(accuracy(output, target), images.size(0))
            losses.update(loss.item(), images.size(0))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            top1.update(time.time())
            if i % args.print_freq == 0:
                progress.display(i + 1)
                print(optimizer.param_groups[0]["lr"])

    class AverageMeter:
        def __init__(self, name):
            self.val = self.avg = self.sum = self.count = 0

        def update(self, val, n=1):
            self.val = val
            self.sum += val * n
            self.count += n
            self.avg = self.sum / self.count

    class ProgressMeter:
        def __init__(self, num_batches, meters, prefix=""):
            self.batch_format = self._get_batch_format(num_batches)
            self.meters, self.prefix = meters, prefix

        def display(self, batch):
            entries = [self.prefix + self.batch_format.format(batch)]
            entries += [str(meter) for meter in self.meters]
            print(" ".join(entries))

        def _get_batch_format(self, num_batches):
            digits = len(str(num_batches // 1))
            form = "{:" + str(digits) + "d}"
            return "[" + form + "/" + form.format(num_batches) + "]"

    def accuracy(output, target):
        correct = output.argmax(1).eq(target)
        return correct.float().mul_(100).mean().item()

    class ModelEMA:
        def __init__(self, model):
            self.module, self.updates = model, 0

        def update(self, model):
            self.updates += 1
            decay = self.decay(self.updates)
            for name, value in self.module.state_dict().items():
                value *= decay
    """
)
OTHERS = {
    "a meter of batches": ("self.count += n", "self.count += 1"),
    "a meter that makes meters": ("self.val = val", 'self.val, self.inner = val, AverageMeter("")'),
    "a bar": ('top1 = AverageMeter("Acc@1")', "top1 = tqdm(loader)"),
    "a bar that is entered": ('top1 = AverageMeter("Acc@1")', "with tqdm() as top1: pass"),
    "a display by its name": ("ProgressMeter(len(loader), [", "ProgressMeter(meters=["),
    "a length by its name": (
        "ProgressMeter(len(loader), [losses, top1]",
        "ProgressMeter(meters=[losses], num_batches=len(loader)",
    ),
}
REFUSED = {
    "a display that evaluates": ('print(" ".join(entries))', "print(validate())", "depends on"),
    "a display that keeps something": ('print(" ".join', 'self.last = print(" ".join', "depends"),
    "a display that answers": ('print(" ".join(entries))', "return print(batch) or batch", ""),
    "a length that is kept": ("digits = ", "self.batches = num_batches\n        digits = ", "reck"),
    "a length that is reckoned with": ("digits = ", "end(num_batches)\n        digits = ", "reck"),
    "an average of the weights": ('top1 = AverageMeter("Acc@1")', "top1 = ModelEMA(model)", "self"),
    "what is entered": (
        'top1 = AverageMeter("Acc@1")',
        "with AverageMeter() as top1: pass",
        "self.updates",
    ),
    "what may be an average": (
        'top1 = AverageMeter("Acc@1")',
        "top1 = make()",
        "the loop keeps a count in self.updates, and the program may go by it",
    ),
    "a rate": ('print(optimizer.param_groups[0]["lr"])', "optimizer.param_groups[0].clear()", ""),
}


def test_meters_and_a_display_are_no_reason() -> None:
    assert rewritten(IMAGENET, TWO).statuses == ["done"], rewritten(IMAGENET, TWO).reason


@pytest.mark.parametrize(("old", "new"), OTHERS.values(), ids=OTHERS)
def test_nor_are_others_of_their_kind(old: str, new: str) -> None:
    assert old in IMAGENET
    outcome = rewritten(IMAGENET.replace(old, new), TWO)
    assert outcome.statuses == ["done"], outcome.reason


@pytest.mark.parametrize(("old", "new", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_does_more_is(old: str, new: str, reason: str) -> None:
    assert old in IMAGENET
    outcome = rewritten(IMAGENET.replace(old, new), TWO)
    assert outcome.statuses == ["refused"], outcome.text
    assert reason in outcome.reason
