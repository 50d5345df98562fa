"""A model in three parts on three nodes: the text of one node that has all of it, memory for a third of it on
each, and a typed error that names the part that is missing, until it is there again.
usage: parts_test.py GPUNODE GPUNODE_FAULTY [unittest arguments]
"""
import json
import signal
import time

import cluster
from models import CONTEXT, write_model

PARTS = 3
LAYERS, CHANNELS = 16, 512  # some 200 MB of weights
WHOLE_KB = 4 * (LAYERS * 12 * CHANNELS * CHANNELS) // 1024
TOLD_WITHIN = 10  # seconds, of a part that is gone
DEADLINE = 30


class Parts(cluster.ProcessTest):
    def start(self, layers=2, channels=64):
        self.model = self.world.path("model.safetensors")
        write_model(self.model, layers=layers, channels=channels)
        self.nodes_of = [self.world.start("a")]
        for name in ("b", "c"):
            self.nodes_of.append(self.world.join(name, self.nodes_of[0]))
        for node in self.nodes_of:
            self.sees(node, "alive", "a", "b", "c")

    def serve(self, number, *words):
        return self.nodes_of[number - 1].ask("serve", self.model, "--name", "big", "--part",
                                             f"{number}/{PARTS}", *words, "--json")

    def serve_all(self, *words):
        for number in (2, 3, 1):
            told = self.serve(number, *words)
            self.assertEqual(told.code, 0, str(told))
        return told.json

    def say(self, node, name="big", prompt="Once upon a time", tokens=24, temperature="0"):
        return node.ask("generate", "--model", name, "--prompt", prompt, "--max-tokens", str(tokens),
                        "--temperature", temperature, "--seed", "7", "--json")

    def said(self, node, *words, **options):
        told = self.say(node, *words, **options)
        self.assertEqual(told.code, 0, str(told))
        return told.json["text"], told.json["digest"]

    @staticmethod
    def memory(node):
        with open(f"/proc/{node.info['pid']}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

    def test_the_text_is_that_of_one_node(self):
        self.start(layers=3)
        a, b, c = self.nodes_of
        for weights in ("fp32", "int8"):
            whole = a.ask("serve", self.model, "--name", "whole", "--weights", weights)
            self.assertEqual(whole.code, 0, str(whole))
            told = self.serve_all("--weights", weights)
            self.assertEqual(told["part"], "1/3")
            self.assertNotIn("missing_parts", told)
            for prompt in ("Once", "x" * (CONTEXT - 8)):  # the text is longer than the model reads
                for temperature in ("0", "1"):
                    options = {"prompt": prompt, "temperature": temperature, "tokens": 40}
                    for node in (a, b, c):
                        self.assertEqual(self.said(node, **options),
                                         self.said(a, "whole", **options))
            for node, name in ((a, "whole"), (a, "big"), (b, "big/2/3"), (c, "big/3/3")):
                self.assertEqual(node.ask("unserve", name).code, 0)

    def test_each_has_its_part_and_the_cluster_knows_it(self):
        self.start()
        self.serve_all()
        a, b, c = self.nodes_of
        listed = {one["model"]: (one["node"], one["part"])
                  for one in a.ask("models", "--json").json["models"]}
        self.assertEqual(listed, {"big": ("a", "1/3"), "big/2/3": ("b", "2/3"),
                                  "big/3/3": ("c", "3/3")})
        self.assert_says(a.ask("models").out, "big (part 1/3)", "big/2/3")
        # A part answers nobody but heads.
        self.assertNotEqual(self.say(a, "big/2/3").code, 0)
        # And is served again after a restart, so that the head's texts go on.
        before = self.said(a)
        b.signal(signal.SIGTERM)
        b.wait()
        self.nodes_of[1] = self.world.start("b")
        cluster.wait_until(lambda: self.say(c).code == 0, "part 2 is served again")
        self.assertEqual(self.said(a), before)

    def test_memory_is_that_of_the_part(self):
        self.start(layers=LAYERS, channels=CHANNELS)
        before = [self.memory(node) for node in self.nodes_of]
        self.serve_all()
        self.said(self.nodes_of[0], tokens=3)
        for node, was in zip(self.nodes_of, before):
            took = self.memory(node) - was
            self.assertGreater(took, WHOLE_KB / PARTS * 0.9, node.name)
            self.assertLess(took, WHOLE_KB / PARTS * 1.25, node.name)

    def test_what_is_missing_is_named_until_it_is_there(self):
        self.start()
        a, b, c = self.nodes_of
        told = self.serve(1)
        self.assertEqual(told.code, 0, str(told))
        self.assertEqual(told.json["missing_parts"], ["2/3", "3/3"])
        cluster.wait_until(lambda: c.ask("models", "--json").json["models"], "c knows of it")
        self.assert_fails(self.say(c), 1, "part 2/3 of model big is missing")
        self.assertEqual(self.serve(2).code, 0)
        cluster.wait_until(lambda: "part 3/3 of model big is missing" in str(self.say(c)), "only 3/3")
        self.assertEqual(self.serve(3).code, 0)
        cluster.wait_until(lambda: self.say(c).code == 0, "all parts are there")
        before = self.said(c)

        # One that is killed: a typed error in time, and all is well once it is served again.
        b.kill()
        begun = time.monotonic()
        told = self.say(c)
        self.assert_fails(told, 1, "part 2/3 of model big is missing")
        self.assertLess(time.monotonic() - begun, TOLD_WITHIN)
        self.nodes_of[1] = self.world.start("b")
        cluster.wait_until(lambda: self.say(c).code == 0, "part 2 is served again")
        self.assertEqual(self.said(c), before)

        # One that is withdrawn, and served by another node.
        self.assertEqual(c.ask("unserve", "big/3/3").code, 0)
        cluster.wait_until(lambda: "part 3/3" in str(self.say(a)), "3/3 is missing")
        moved = a.ask("serve", self.model, "--name", "big", "--part", "3/3")
        self.assertEqual(moved.code, 0, str(moved))
        cluster.wait_until(lambda: self.say(a).code == 0, "part 3 is on a")
        self.assertEqual(self.said(c), before)

    def test_texts_under_way_go_on_with_another_replica(self):
        self.start()
        a, b, c = self.nodes_of
        self.serve_all()
        spare = c.ask("serve", self.model, "--name", "big", "--part", "2/3")
        self.assertEqual(spare.code, 0, str(spare))
        expected = self.said(a, tokens=2000, temperature="1")
        path = self.world.path("told")
        with open(path, "wb") as output:
            command = self.world.launch_command(
                a, "generate", "--model", "big", "--prompt", "Once upon a time", "--max-tokens", "2000",
                "--temperature", "1", "--seed", "7", "--json", output=output)
        time.sleep(0.3)
        b.kill()
        self.assertEqual(command.wait(DEADLINE), 0)
        with open(path, encoding="utf-8") as told:
            self.assertEqual(json.load(told)["text"], expected[0])

    def test_a_head_without_its_parts_takes_no_calls_from_who_has_them(self):
        self.start()
        a, b, c = self.nodes_of
        whole = b.ask("serve", self.model, "--name", "big")
        self.assertEqual(whole.code, 0, str(whole))
        before = self.said(b)
        # Beside it, as a replica: it refuses, and the other one answers.
        self.assertEqual(self.serve(1).code, 0)
        cluster.wait_until(lambda: len(c.ask("models", "--json").json["models"]) == 2, "c knows both")
        for _ in range(5):
            self.assertEqual(self.said(c), before)
        # In place of what answers: not before its parts are there.
        other = self.world.path("other.safetensors")
        write_model(other, seed=2, layers=2, channels=64)
        told = b.ask("serve", other, "--name", "big", "--part", "1/3", "--replace")
        self.assert_fails(told, 1, "no node serves part 2/3")
        self.assertEqual(self.said(b), before)

    def test_what_is_wrong_is_said(self):
        self.start()
        a, b, _ = self.nodes_of
        self.assert_fails(a.ask("serve", self.model, "--part", "4/3"), 1, "no part of a model")
        self.assert_fails(a.ask("serve", self.model, "--part", "1/60"), 1, "can be divided into")
        self.assert_fails(a.ask("serve", "big", "--copy", "--part", "1/2"), 2, "neither")
        self.assertEqual(self.serve(2).code, 0)
        self.assert_fails(b.ask("serve", self.model, "--name", "big", "--part", "2/3"), 1, "already")
        self.assert_fails(self.serve(2, "--replace"), 1, "big/2/3")
        self.assert_fails(b.ask("unserve", "big"), 1, "has its part big/2/3")
        # Parts of another content are none of this model.
        other = self.world.path("other.safetensors")
        write_model(other, seed=2, layers=2, channels=64)
        self.assertEqual(self.serve(1).code, 0)
        c = self.nodes_of[2]
        told = c.ask("serve", other, "--name", "big", "--part", "3/3")
        self.assertEqual(told.code, 0, str(told))
        self.assert_fails(self.say(a), 1, "part 3/3 of model big is missing")


if __name__ == "__main__":
    cluster.main()
