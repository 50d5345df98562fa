"""Models that answer with smaller weights: quantised once or as they are loaded, the same text from both,
and all memory given back, whether loading went well or not.
usage: weights_format_test.py GPUNODE GPUNODE_FAULTY [unittest arguments]
"""
import os
import signal

import cluster
from models import write_model

FORMATS = ("fp32", "bf16", "int8", "int4")
LOADS = 100  # good ones, and as many that fail
GROWTH_KB = 8 * 1024  # less than one model takes, of a node that has loaded hundreds


class WeightFormats(cluster.ProcessTest):
    def setUp(self):
        super().setUp()
        self.model = self.world.path("model.safetensors")
        write_model(self.model)
        self.node = self.world.start("a")

    def said(self, name):
        told = self.node.ask("generate", "--model", name, "--prompt", "Once", "--max-tokens", "24",
                             "--temperature", "0", "--json")
        self.assertEqual(told.code, 0, str(told))
        return told.json["text"], told.json["digest"]

    def quantised(self, weights):
        out = self.world.path(weights)
        told = self.world.run("quantize", self.model, "--out", out, "--weights", weights, "--json")
        self.assertEqual(told.code, 0, str(told))
        return out, told.json

    def memory(self):
        with open(f"/proc/{self.node.info['pid']}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

    def test_a_folder_answers_as_the_model_that_it_was_made_of(self):
        sizes = {}
        for weights in FORMATS:
            folder, told = self.quantised(weights)
            sizes[weights] = told["bytes"]
            for name, path, words in (("folder-" + weights, folder, ()),
                                      ("loaded-" + weights, self.model, ("--weights", weights))):
                done = self.node.ask("serve", path, "--name", name, *words, "--json")
                self.assertEqual(done.code, 0, str(done))
                self.assertEqual(done.json["weights"], weights)
                self.assertEqual(done.json["digest"], told["digest"])
            self.assertEqual(self.said("folder-" + weights), self.said("loaded-" + weights))
        self.assertLess(sizes["int4"] * 1.7, sizes["int8"])
        self.assertLess(sizes["int8"] * 1.7, sizes["bf16"])
        listed = {one["model"]: one["weights"] for one in self.node.ask("models", "--json").json["models"]}
        self.assertEqual(listed["folder-int4"], "int4")
        self.assertEqual(len({self.said("folder-" + weights)[1] for weights in FORMATS}), 4)

    def test_it_is_served_so_again_after_a_restart(self):
        done = self.node.ask("serve", self.model, "--name", "m", "--weights", "int8")
        self.assertEqual(done.code, 0, str(done))
        before = self.said("m")
        self.node.signal(signal.SIGTERM)
        self.node.wait()
        self.node = self.world.start("a")
        cluster.wait_until(lambda: self.node.ask("models", "--json").json["models"], "served again")
        self.assertEqual(self.said("m"), before)

    def test_what_is_wrong_is_said(self):
        self.assert_fails(self.node.ask("serve", self.model, "--weights", "int3"), 2, "int8", "int3")
        folder, _ = self.quantised("int4")
        again = self.world.run("quantize", self.model, "--out", folder)
        self.assert_fails(again, 1, "there already")
        other = self.node.ask("serve", folder, "--name", "m", "--weights", "int8")
        self.assert_fails(other, 1, "holds the model in int4")
        with open(os.path.join(folder, "packed.safetensors"), "r+b") as file:
            file.seek(-1, os.SEEK_END)
            last = file.read(1)
            file.seek(-1, os.SEEK_END)
            file.write(bytes([last[0] ^ 1]))
        self.assert_fails(self.node.ask("serve", folder, "--name", "m"), 1, "digest")

    def test_memory_is_given_back(self):
        good, _ = self.quantised("int8")
        bad, _ = self.quantised("bf16")
        with open(os.path.join(bad, "packed.safetensors"), "r+b") as file:
            file.seek(-100, os.SEEK_END)
            file.write(b"damaged")

        def load(count):
            for at in range(count):
                path = good if at % 2 else self.model
                self.assertEqual(self.node.ask("serve", path, "--name", "m").code, 0)
                self.assertEqual(self.node.ask("unserve", "m").code, 0)
                self.assertEqual(self.node.ask("serve", bad, "--name", "m").code, 1)

        load(24)  # each of the heap's arenas keeps a little
        before = self.memory()
        load(LOADS)
        self.assertLess(self.memory(), before + GROWTH_KB)


if __name__ == "__main__":
    cluster.main()
