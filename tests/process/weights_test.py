"""Weights that come from elsewhere and go elsewhere: a job over token ids, a second one that starts
from what the first has learned, and folders of Hugging Face's transformers in between.

That transformers itself reads and writes such folders is tested where it is: tests/peers.
"""
import array
import json
import os
import struct

import cluster

JOB = """
name = "{name}"

[data]
{data}
format = "tokens"
token_bytes = {width}

[model]
kind = "gpt"
{settings}

[train]
steps = {steps}
batch = 8
warmup_steps = 1
learning_rate = {rate}
min_learning_rate = {rate}
weight_decay = 0.0
"""
SETTINGS = "layers = 1\nheads = 2\nchannels = 16\ncontext = 8\nvocabulary = 700"


def tensors_of(path):
    """{name: bytes} of a safetensors file."""
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(size)), file.read()
    header.pop("__metadata__", None)
    return {name: data[slice(*one["data_offsets"])] for name, one in header.items()}


class Weights(cluster.ProcessTest):
    def setUp(self):
        super().setUp()
        self.node = self.world.start("alone")
        ids = array.array("H", (i * i % 331 + 300 for i in range(4000)))
        self.data = self.world.path("ids")
        with open(self.data, "wb") as file:
            ids.tofile(file)

    def job(self, name, settings=SETTINGS, width=2, steps=20, rate=0.01):
        return self.world.write(f"{name}.toml", JOB.format(
            name=name, data=self.world.offered(self.data), width=width, settings=settings, steps=steps, rate=rate))

    def train(self, *words, **named):
        done = self.node.ask("train", self.job(*words, **named), "--follow", timeout=60)
        self.assertEqual(done.code, 0, str(done))

    def run_well(self, *words):
        done = self.world.run(*words)
        self.assertEqual(done.code, 0, str(done))
        return done

    def test_a_job_goes_on_from_the_weights_of_another(self):
        self.train("first")
        learned = self.export(self.node, 20, "first")
        shown = self.node.ask("job", "show", "first", "--json").json
        self.assertTrue(shown["proof"]["equal_to_data"], shown)
        file, folder, again = (self.world.path(one) for one in ("weights", "folder", "again"))
        self.run_well("checkpoint", "export", "first", "--state", self.node.state, "--out", file)
        self.run_well("model", "export", file, "--out", folder)
        told = self.run_well("model", "import", folder, "--out", again)
        self.assertIn(f'start = "{again}"', told.out)
        self.assertEqual(tensors_of(again), tensors_of(file))
        # At a rate of 0 the weights stay what they were at the start.
        self.train("second", f'start = "{again}"', steps=1, rate=0)
        self.assertEqual(self.export(self.node, 1, "second"), learned)
        self.train("third", f'start = "{folder}"', steps=1, rate=0)
        self.assertEqual(self.export(self.node, 1, "third"), learned)

    def refusal(self, *words, **named):
        told = self.node.ask("train", self.job("bad", *words, **named))
        self.assertNotEqual(told.code, 0, str(told))
        return told.out + told.err

    def test_what_does_not_fit_is_told(self):
        self.assertIn("holds token 300 at position 0, but the model's vocabulary is 290",
                      self.refusal(SETTINGS.replace("700", "290")))
        self.assertIn("data.token_bytes must be 2 or 4", self.refusal(width=3))
        self.assertIn("holds token ", self.refusal(width=4))
        self.assertIn("[model] start", self.refusal('start = "/no/such/file"'))
        os.mkdir(self.world.path("folder"))
        self.world.write("folder/config.json", '{"model_type": "mamba"}')
        done = self.world.run("model", "import", self.world.path("folder"), "--out",
                              self.world.path("x"))
        self.assert_fails(done, 1, "model_type 'mamba' is not known here")


if __name__ == "__main__":
    cluster.main()
