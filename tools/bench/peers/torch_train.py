#!/usr/bin/env python3
"""The bench's GPTs in PyTorch: same shapes, batch and optimizer; prints tokens a second.

Run with OPENBLAS_CORETYPE=SKYLAKEX and Debian's OpenMP build of OpenBLAS (libopenblas0-openmp): that
is the fastest this PyTorch gets, as one thread pool then serves both libraries.
"""
import argparse
import contextlib
import time

import torch
from torch import nn
from torch.nn import functional

SHAPES = {"small": (4, 4, 128, 64, 12, 256), "gpt2-124m": (12, 12, 768, 64, 4, 50257)}
LAYERS, HEADS, CHANNELS, CONTEXT, BATCH, VOCABULARY = SHAPES["small"]


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.joined = nn.Linear(CHANNELS, 3 * CHANNELS)
        self.project = nn.Linear(CHANNELS, CHANNELS)
        future = torch.ones(CONTEXT, CONTEXT).triu(1).bool()
        self.register_buffer("future", future, persistent=False)

    def forward(self, stream):
        batch = stream.shape[0]
        parts = self.joined(stream).view(batch, CONTEXT, 3, HEADS, CHANNELS // HEADS)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(2, 3) * (CHANNELS // HEADS) ** -0.5
        chances = scores.masked_fill(self.future, float("-inf")).softmax(dim=3)
        return self.project((chances @ value).transpose(1, 2).reshape(batch, CONTEXT, CHANNELS))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(CHANNELS), nn.LayerNorm(CHANNELS)
        self.attention = Attention()
        self.expand = nn.Linear(CHANNELS, 4 * CHANNELS)
        self.reduce = nn.Linear(4 * CHANNELS, CHANNELS)

    def forward(self, stream):
        stream = stream + self.attention(self.norm1(stream))
        return stream + self.reduce(functional.gelu(self.expand(self.norm2(stream))))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, CHANNELS)
        self.positions = nn.Parameter(torch.randn(CONTEXT, CHANNELS) * 0.02)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(CHANNELS)
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, tokens):
        stream = self.blocks(self.tokens(tokens) + self.positions)
        return functional.linear(self.norm(stream), self.tokens.weight)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=SHAPES, default="small")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=4.0)
    options = parser.parse_args()
    global LAYERS, HEADS, CHANNELS, CONTEXT, BATCH, VOCABULARY
    LAYERS, HEADS, CHANNELS, CONTEXT, BATCH, VOCABULARY = SHAPES[options.model]
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    model = Gpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1)
    text = torch.randint(0, VOCABULARY, (1 << 18,))
    forward = torch.compile(model) if options.compile else model

    def step():
        starts = torch.randint(0, len(text) - CONTEXT - 1, (BATCH,))
        windows = torch.stack([text[start : start + CONTEXT + 1] for start in starts])
        narrow = (torch.autocast("cpu", dtype=torch.bfloat16) if options.precision == "bf16"
                  else contextlib.nullcontext())
        with narrow:
            logits = forward(windows[:, :-1])
            loss = functional.cross_entropy(logits.view(-1, VOCABULARY), windows[:, 1:].reshape(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    for _ in range(20 if options.model == "small" else 2):
        step()
    start, cpu_start, steps = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - start < options.seconds:
        step()
        steps += 1
    tokens = steps * BATCH * CONTEXT
    rate, cpu_rate = tokens / (time.perf_counter() - start), tokens / (time.process_time() - cpu_start)
    print(f"tokens_per_second {rate:.1f} per_cpu_second {cpu_rate:.1f}")


if __name__ == "__main__":
    main()
