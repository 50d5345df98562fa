"""A model that is served with a smaller one that guesses its tokens: the same texts, also after a restart,
told of by `models` and the metrics, and gone with the model.
usage: draft_test.py GPUNODE GPUNODE_FAULTY [unittest arguments]
"""
import os
import signal

import cluster
from models import write_model

TEXTS = [(0, 0), (1, 0.8), (2, 1.2)]  # seed, temperature


class Draft(cluster.ProcessTest):
    def setUp(self):
        super().setUp()
        self.model = self.world.path("model.safetensors")
        self.small = self.world.path("small.safetensors")
        write_model(self.model)
        write_model(self.small, seed=2, layers=1, channels=64)
        self.node = self.world.start("a")

    def serve(self, *words):
        done = self.node.ask("serve", self.model, *words, "--json")
        self.assertEqual(done.code, 0, str(done))
        return done.json

    def said(self, name):
        texts = []
        for seed, temperature in TEXTS:
            told = self.node.ask("generate", "--model", name, "--prompt", "Once", "--max-tokens", "90", "--seed",
                                 str(seed), "--temperature", str(temperature), "--json")
            self.assertEqual(told.code, 0, str(told))
            texts.append((told.json["text"], told.json["tokens"], told.json["finish"]))
        return texts

    def counted(self, name, model):
        told = self.node.ask("metrics")
        lines = [line for line in told.out.splitlines() if line.startswith(f'{name}{{model="{model}"')]
        return float(lines[0].split()[-1]) if lines else None

    def test_the_texts_are_the_same_and_what_was_guessed_is_told(self):
        self.assertNotIn("draft", self.serve("--name", "plain"))
        right = self.said("plain")
        for name, path in (("with-small", self.small), ("with-itself", self.model)):
            told = self.serve("--name", name, "--draft", path)
            self.assertEqual(self.said(name), right)
            listed = {one["model"]: one for one in self.node.ask("models", "--json").json["models"]}
            self.assertEqual(listed[name]["draft"], told["draft"])
            self.assertNotIn("draft", listed["plain"])
            self.assertGreater(self.counted("gpunode_draft_tokens_total", name), 0)
        self.assertEqual(told["draft"], told["digest"])
        guessed = self.counted("gpunode_draft_tokens_total", "with-itself")
        self.assertEqual(self.counted("gpunode_draft_accepted_tokens_total", "with-itself"), guessed)
        self.assertEqual(self.counted("gpunode_draft_tokens_total", "plain"), 0)

    def test_it_is_served_so_after_a_restart_and_gone_with_the_model(self):
        draft = self.serve("--name", "m", "--draft", self.small)["draft"]
        before = self.said("m")
        self.node.signal(signal.SIGTERM)
        self.node.wait()
        self.node = self.world.start("a")
        cluster.wait_until(lambda: self.node.ask("models", "--json").json["models"], "served again")
        self.assertEqual(self.node.ask("models", "--json").json["models"][0]["draft"], draft)
        self.assertEqual(self.said("m"), before)
        # What decides nothing holds nothing up.
        self.node.signal(signal.SIGTERM)
        self.node.wait()
        os.rename(self.small, self.small + ".away")
        self.node = self.world.start("a")
        cluster.wait_until(lambda: self.node.ask("models", "--json").json["models"], "served once more")
        self.assertNotIn("draft", self.node.ask("models", "--json").json["models"][0])
        self.assertEqual(self.said("m"), before)
        os.rename(self.small + ".away", self.small)
        self.node.signal(signal.SIGTERM)
        self.node.wait()
        self.node = self.world.start("a")
        cluster.wait_until(lambda: self.node.ask("models", "--json").json["models"], "served with it again")
        self.assertEqual(self.node.ask("models", "--json").json["models"][0]["draft"], draft)
        self.assertEqual(self.node.ask("unserve", "m").code, 0)
        users = [user for device in self.node.ask("devices", "--json").json["devices"]
                 for user in device.get("users", [])]
        self.assertEqual(users, [])

    def listed(self, node=None):
        return {one["node"]: one for one in (node or self.node).ask("models", "--json").json["models"]}

    def test_it_goes_with_the_version_that_it_was_named_for(self):
        draft = self.serve("--name", "m", "--draft", self.small)["draft"]
        newer = self.world.path("newer.safetensors")
        write_model(newer, seed=5)
        replaced = self.node.ask("serve", newer, "--name", "m", "--replace", "--json")
        self.assertEqual(replaced.code, 0, str(replaced))
        self.assertNotIn("draft", replaced.json)
        cluster.wait_until(lambda: "draft" not in self.listed()["a"], "the new one has none")
        both = self.node.ask("serve", "m", "--rollback", "--draft", self.small)
        self.assert_fails(both, 2, "--rollback", "leave --draft out")
        self.assert_fails(self.node.ask("serve", "m", "--rollback", "--deterministic"), 2,
                          "leave --deterministic out")
        back = self.node.ask("serve", "m", "--rollback", "--json")
        self.assertEqual(back.code, 0, str(back))
        self.assertEqual(back.json["draft"], draft)
        cluster.wait_until(lambda: self.listed()["a"].get("draft") == draft, "it is told")

    def test_it_sleeps_and_wakes_with_its_model(self):
        draft = self.serve("--name", "m", "--draft", self.small, "--idle", "1s",
                           "--deterministic")["draft"]

        def users():
            return [user for device in self.node.ask("devices", "--json").json["devices"]
                    for user in device.get("users", [])]
        cluster.wait_until(lambda: self.listed()["a"].get("asleep") and not users(), "both sleep")
        self.assertEqual(self.listed()["a"]["draft"], draft)
        self.assertTrue(self.listed()["a"]["deterministic"])
        self.said("m")
        self.assertEqual(self.listed()["a"]["draft"], draft)
        self.assertTrue(self.listed()["a"]["deterministic"])
        self.assertGreater(self.counted("gpunode_draft_tokens_total", "m"), 0)

    def test_a_copy_has_the_one_that_is_named_for_it(self):
        self.serve("--name", "m", "--draft", self.small)
        right = self.said("m")
        b = self.world.join("b", self.node)
        cluster.wait_until(lambda: "a" in self.listed(b), "b knows of m")
        copied = b.ask("serve", "m", "--copy")
        self.assertEqual(copied.code, 0, str(copied))
        self.assertIn("which a copy does not take", copied.out)
        self.assertNotIn("draft", self.listed(b)["b"])
        copied = b.ask("serve", "m", "--copy", "--replace", "--draft", self.small, "--json")
        self.assertEqual(copied.code, 0, str(copied))
        self.assertEqual(copied.json["draft"], self.listed(b)["a"]["draft"])
        self.assertNotIn("draft_left_out", copied.json)
        self.assertEqual(self.node.ask("unserve", "m").code, 0)
        cluster.wait_until(lambda: list(self.listed()) == ["b"], "b alone serves it")
        self.assertEqual(self.said("m"), right)

    def test_what_is_wrong_is_said(self):
        gone = self.node.ask("serve", self.model, "--name", "m", "--draft", self.world.path("nothing"))
        self.assert_fails(gone, 1, "--draft", "nothing is at")
        with open(self.world.path("text"), "w") as file:
            file.write("no model")
        bad = self.node.ask("serve", self.model, "--name", "m", "--draft", self.world.path("text"))
        self.assert_fails(bad, 1, "draft")
        self.assertEqual(self.node.ask("models", "--json").json["models"], [])


if __name__ == "__main__":
    cluster.main()
