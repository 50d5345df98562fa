"""What the tests against other people's libraries share: their model with random weights, ours asked for
what it computes, and how near both must be.

Tolerances are relative to the largest value of the tensor: 1e-4 for scores and the loss, 1e-3 for
gradients, both in fp32.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy
import torch
from safetensors.torch import load_file

PROBE = sys.argv.pop(1)
SCORES, GRADIENTS = 1e-4, 1e-3


def relative(ours, theirs):
    return ((ours - theirs).abs().max() / theirs.abs().max().clamp(min=1e-30)).item()


def randomised(model):
    """The model with no value left that a mistake could hide behind: no zero bias, no unit norm."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.08 * torch.randn(parameter.shape, generator=generator)
    return model.eval()


class Peer(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(7)
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.folder = pathlib.Path(work.name)

    def run_probe(self, path, samples):
        (self.folder / "samples").write_bytes(samples)
        return subprocess.run([PROBE, path, self.folder / "samples", self.folder],
                              capture_output=True, text=True)

    def refusal(self, path):
        done = self.run_probe(path, b"")
        self.assertNotEqual(done.returncode, 0)
        return done.stderr

    def asked(self, path, samples):
        """Ours from this file or folder on the raw samples: scores, loss, {name: gradient}; what it
        exports lies in self.folder / "export"."""
        done = self.run_probe(path, samples)
        self.assertEqual(done.returncode, 0, done.stderr)
        scores = torch.from_numpy(numpy.fromfile(self.folder / "logits", dtype=numpy.float32))
        loss = float((self.folder / "loss").read_text())
        return scores, loss, load_file(self.folder / "gradient" / "model.safetensors")

    def expect_gradients(self, model, ours):
        theirs = dict(model.named_parameters())
        self.assertEqual(set(ours) - set(dict(model.named_buffers())), set(theirs))
        # A bias of keys moves all scores of a query alike: its gradient is but rounding, and is held
        # against the others.
        least = 1e-3 * max(parameter.grad.abs().max() for parameter in theirs.values())
        for name, parameter in theirs.items():
            with self.subTest(gradient=name):
                largest = max(parameter.grad.abs().max(), least)
                error = (ours[name] - parameter.grad).abs().max() / largest
                self.assertLess(error.item(), GRADIENTS)


def main(*libraries):
    told = (f"{library.__name__} {library.__version__}" for library in (torch, *libraries))
    print(", ".join(told), flush=True)
    torch.set_num_threads(1)
    unittest.main(verbosity=2)
