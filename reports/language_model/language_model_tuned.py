"""Train a small GPT to continue Python source, on the standard library's own.

The text is read into memory once and batches are cut out of it, so there is no DataLoader.

    python examples/language_model.py --steps 1000
"""

import argparse
import sysconfig
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional


def in_float32(given):
    """`given` with float32 for the bfloat16 that autocast gives."""
    if isinstance(given, torch.Tensor):
        return given.float() if given.dtype == torch.bfloat16 else given
    if type(given) is dict:
        return {name: in_float32(part) for name, part in given.items()}
    if type(given) in (list, tuple):
        return type(given)(in_float32(part) for part in given)
    return given


CONTEXT = 128
WIDTH = 128
HEADS = 4
LAYERS = 4
VOCABULARY = 256  # bytes


def read_text():
    """The source of the standard library's top-level modules, as one row of bytes."""
    modules = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    text = b"\n\n".join(module.read_bytes() for module in modules)
    return torch.frombuffer(bytearray(text), dtype=torch.uint8)


def get_batch(text, batch_size, device):
    starts = torch.randint(len(text) - CONTEXT - 1, (batch_size,))
    rows = torch.stack([text[start : start + CONTEXT + 1] for start in starts.tolist()]).long()
    return rows[:, :-1].to(device), rows[:, 1:].to(device)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.attention = nn.Linear(WIDTH, 3 * WIDTH)
        self.projection = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x):
        batch, length, _ = x.shape
        heads = self.attention(self.norm1(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projection(y.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(places)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    text = read_text()
    model = GPT().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate, foreach=True)

    started = time.perf_counter()
    for step in range(1, args.steps + 1):
        tokens, targets = get_batch(text, args.batch_size, device)
        with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
            logits = in_float32(model(tokens))
            loss = functional.cross_entropy(logits.view(-1, VOCABULARY), targets.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0 or step == args.steps:
            seconds = time.perf_counter() - started
            print(
                f"step {step}: loss {loss.item():.3f}, "
                f"{step * args.batch_size / seconds:.0f} samples/s"
            )


if __name__ == "__main__":
    main()
