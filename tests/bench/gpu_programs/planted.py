"""A training loop with one fault planted in it, or none."""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

FAULTS = ("healthy", "pageable", "slow_loader", "item_free", "item_costly", "tiny_kernels")

CORNERS = ((0, 0), (0, -1), (-1, 0))


class Rows(Dataset):
    def __init__(self, count, width, seconds):
        self.rows = torch.randn(512, width)
        self.count, self.seconds = count, seconds

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if self.seconds:
            time.sleep(self.seconds)
        row = self.rows[index % len(self.rows)]
        return row, row


class Whole(Dataset):
    """Batches that are ready: loading them takes no time, copying them does."""

    def __init__(self, batch, width):
        self.batches = [torch.randn(batch, width) for _ in range(4)]

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        rows = self.batches[index % len(self.batches)]
        return rows, rows


class Layers(nn.Module):
    """`looking`: reads numbers back from the device behind every layer: so many that waiting for
    them costs about what launching the layers' own small kernels does.
    """

    def __init__(self, width, depth, looking):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.looking, self.largest = looking, 0.0

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
            if self.looking:
                seen = x.detach()
                corners = (seen[row, column].item() for row, column in CORNERS)
                self.largest = max(self.largest, *corners)
        return x


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("fault", choices=FAULTS)
    parser.add_argument("--scale", type=int, default=8, help="1 is small enough for any processor")
    parser.add_argument("--steps", type=int, default=1_000_000)
    args = parser.parse_args()
    fault, device = args.fault, "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    small = fault in ("tiny_kernels", "item_costly", "pageable", "slow_loader")
    width, batch, depth = 64 if small else 512 * args.scale, 64 * args.scale, 2 * args.scale
    if fault in ("tiny_kernels", "item_costly"):
        batch, depth = 16, 10 * args.scale
    if fault == "pageable":
        loader = DataLoader(Whole(4096 * args.scale, 64 * args.scale), batch_size=None)
        width = 64 * args.scale
        depth = 1
    else:
        slow = 0.0002 if fault == "slow_loader" else 0.0
        workers = 0 if slow or small else 4
        loader = DataLoader(
            Rows(batch * 1000, width, slow),
            batch_size=batch,
            num_workers=workers,
            persistent_workers=workers > 0,
            pin_memory=device == "cuda",
        )
    model = Layers(width, depth, looking=fault == "item_costly").to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    total, step, waits = 0.0, 0, fault == "pageable"
    while step < args.steps:
        for rows, wanted in loader:
            rows = rows.to(device, non_blocking=not waits)
            wanted = wanted.to(device, non_blocking=not waits)
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(rows), wanted)
            loss.backward()
            optimizer.step()
            if fault == "item_free":
                total += loss.item()
            step += 1
            if step % 20 == 0:
                print(f"step {step}: loss {loss.item():.4f}", flush=True)
            if step >= args.steps:
                break


if __name__ == "__main__":
    main()
