"""Models for nodes to serve, with weights drawn at random."""
import json
import random
import struct

CONTEXT = 64


def parameters(layers, channels):
    """Names and shapes, as they stand in a file of ours."""
    c = channels
    yield "token_table", [256, c]
    yield "position_table", [CONTEXT, c]
    for layer in range(layers):
        at = f"blocks.{layer}."
        for norm in ("norm1", "norm2"):
            yield at + norm + ".weight", [c]
            yield at + norm + ".bias", [c]
        for name, rows, columns in (("attention", 3 * c, c), ("projection", c, c),
                                    ("expand", 4 * c, c), ("reduce", c, 4 * c)):
            yield at + name + ".weight", [rows, columns]
            yield at + name + ".bias", [rows]
    yield "norm.weight", [c]
    yield "norm.bias", [c]


def write_model(path, seed=1, layers=4, channels=256):
    """A GPT over bytes with weights drawn at random, as safetensors."""
    draw = random.Random(seed)
    numbers = struct.pack("<65536f", *(draw.gauss(0, 0.1) for _ in range(65536)))
    header, at = {"__metadata__": {"format": "gpunode", "model": "gpt", "model.layers": str(layers),
                                   "model.heads": "4", "model.channels": str(channels),
                                   "model.context": str(CONTEXT), "model.vocabulary": "256",
                                   "model.expansion": "4"}}, 0
    data = []
    for name, shape in parameters(layers, channels):
        count = 4 * shape[0] * (shape[1] if len(shape) == 2 else 1)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + count]}
        offset = 4 * draw.randrange(65536)
        data.append((numbers[offset:] + numbers * (count // len(numbers) + 1))[:count])
        at += count
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + b"".join(data))
