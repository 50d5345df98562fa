"""Versions of a served model: replaced while calls go on, copied from other nodes, followed, pinned, rolled
back; and what is asked of one that goes is answered.
usage: versions_test.py GPUNODE GPUNODE_FAULTY [unittest arguments]
"""
import os
import re
import signal
import threading

import cluster
from models import write_model


class Versions(cluster.ProcessTest):
    def setUp(self):
        super().setUp()
        self.paths = []
        for seed in (1, 2, 3):
            self.paths.append(self.world.path(f"model{seed}.safetensors"))
            write_model(self.paths[-1], seed, layers=2, channels=128)
        self.a = self.world.start("a")

    def served(self, node, *words):
        told = node.ask("serve", *words, "--json")
        self.assertEqual(told.code, 0, str(told))
        return told.json["version"], told.json["digest"]

    def said(self, node, model="m", tokens=8):
        return node.ask("generate", "--model", model, "--prompt", "Once", "--max-tokens", str(tokens),
                        "--temperature", "0", "--json")

    def versions(self, node):
        """By node, what it serves."""
        told = node.ask("models", "--json").json["models"]
        return {one["node"]: (one.get("version"), one.get("digest")) for one in told if one["model"] == "m"}

    def wait_for(self, node, expected):
        cluster.wait_until(lambda: self.versions(node) == expected, f"{expected} are served")

    def test_a_new_version_comes_while_calls_go_on_and_goes_to_the_copies(self):
        b, c, d = (self.world.join(name, self.a) for name in "bcd")
        first = self.served(self.a, self.paths[0], "--name", "m")
        self.assertEqual(first[0], 1)
        self.wait_for(b, {"a": first})
        self.assertEqual(self.served(b, "m", "--copy"), first)
        self.wait_for(c, {"a": first, "b": first})
        self.assertEqual(self.served(c, "m", "--copy"), first)
        texts = {first: self.said(self.a).json["text"]}
        answers, over = [], threading.Event()

        def ask():
            while not over.is_set():
                answers.append(self.said(d))

        asker = threading.Thread(target=ask)
        asker.start()
        try:
            second = self.served(self.a, self.paths[1], "--name", "m", "--replace")
            self.assertEqual(second[0], 2)
            self.wait_for(d, {"a": second, "b": second, "c": second})
            texts[second] = self.said(self.a).json["text"]
            third = self.served(self.a, "m", "--rollback")
            self.assertEqual(third, (3, first[1]))
            self.wait_for(d, {"a": third, "b": third, "c": third})
            texts[third] = texts[first]
        finally:
            over.set()
            asker.join()
        self.assertNotEqual(texts[first], texts[second])
        for answer in answers:
            self.assertEqual(answer.code, 0, str(answer))
            told = answer.json
            self.assertEqual(told["text"], texts[told["version"], told["digest"]])
        self.assertGreater(len(answers), 5)
        # One version alone.
        self.assertEqual(self.said(d, "m@3").json["digest"], first[1])
        self.assert_fails(self.said(d, "m@2"), 1, "m@2")

    def test_a_copy_may_stay_with_one_version(self):
        b = self.world.join("b", self.a)
        first = self.served(self.a, self.paths[0], "--name", "m")
        self.wait_for(b, {"a": first})
        self.assert_fails(b.ask("serve", "m", "--copy", "--version", "7"), 1, "version 7", "there is 1")
        self.assertEqual(self.served(b, "m", "--copy", "--version", "1"), first)
        second = self.served(self.a, self.paths[1], "--name", "m", "--replace")
        self.wait_for(b, {"a": second, "b": first})
        self.assertEqual(self.said(b, "m@1").json["digest"], first[1])
        self.assertEqual(self.said(b, "m@2").json["digest"], second[1])

    def test_a_copy_is_served_again_after_a_restart_with_nobody_to_take_it_from(self):
        b = self.world.join("b", self.a)
        first = self.served(self.a, self.paths[0], "--name", "m")
        self.wait_for(b, {"a": first})
        self.assertEqual(self.served(b, "m", "--copy"), first)
        text = self.said(b).json["text"]
        for node in (b, self.a):
            node.signal(signal.SIGTERM)
            node.wait()
        b = self.world.start("b")
        self.wait_for(b, {"b": first})
        self.assertEqual(self.said(b).json["text"], text)

    def test_a_copy_that_the_disk_has_spoilt_is_taken_anew(self):
        b = self.world.join("b", self.a)
        first = self.served(self.a, self.paths[0], "--name", "m")
        self.wait_for(b, {"a": first})
        self.assertEqual(self.served(b, "m", "--copy"), first)
        b.signal(signal.SIGTERM)
        b.wait()
        path = os.path.join(b.state, "models", first[1], "packed.safetensors")
        with open(path, "r+b") as file:
            file.seek(-9, os.SEEK_END)
            file.write(b"x")
        b = self.world.start("b")
        self.wait_for(b, {"a": first, "b": first})

    def ask_four(self, node):
        """Long texts, of a model that takes its time."""
        told = []
        texts = [threading.Thread(target=lambda: told.append(self.said(node, tokens=56))) for _ in range(4)]
        for text in texts:
            text.start()

        def have_begun():
            over = len(told)  # before the figures, so that none is counted twice
            found = re.search(r'gpunode_texts_under_way\{model="m"\} (\d+)\n', self.a.ask("metrics").out)
            return over + (int(found[1]) if found else 0) >= 4
        cluster.wait_until(have_begun, "texts are under way")
        return told, texts

    def serve_slow_one(self):
        path = self.world.path("slow.safetensors")
        write_model(path, 4, layers=8, channels=512)
        return self.served(self.a, path, "--name", "m")

    def assert_all_told(self, told, texts):
        for text in texts:
            text.join()
        self.assertEqual([one.code for one in told], [0] * 4, [str(one) for one in told])
        self.assertEqual([one.json["tokens"] for one in told], [56] * 4)

    def test_what_is_asked_is_answered_before_a_model_goes(self):
        self.serve_slow_one()
        told, texts = self.ask_four(self.a)
        gone = self.a.ask("unserve", "m")
        self.assertEqual(gone.code, 0, str(gone))
        self.assert_all_told(told, texts)
        self.assert_fails(self.said(self.a), 1, "no node serves a model named 'm'")

    def test_what_is_asked_is_answered_before_a_node_leaves(self):
        b = self.world.join("b", self.a)
        self.wait_for(b, {"a": self.serve_slow_one()})
        told, texts = self.ask_four(b)
        left = self.a.ask("leave")
        self.assertEqual(left.code, 0, str(left))
        self.assert_all_told(told, texts)
        self.a.wait()
        # And it is served again by the node that comes back.
        self.a = self.world.start("a")
        cluster.wait_until(lambda: self.versions(self.a), "it is served again")

    def asleep(self, node):
        return {one["node"]: one.get("asleep", False) for one in node.ask("models", "--json").json["models"]}

    def loaded(self, node):
        """How often the model was loaded there."""
        return node.said().count("model m is ready")

    def test_one_that_nobody_asks_sleeps_until_somebody_does(self):
        b, c = (self.world.join(name, self.a) for name in "bc")
        first = self.served(self.a, self.paths[0], "--name", "m", "--idle", "5s")
        self.wait_for(b, {"a": first})
        self.assertEqual(self.served(b, "m", "--copy", "--idle", "5s"), first)
        text = self.said(c).json["text"]
        cluster.wait_until(lambda: self.asleep(c) == {"a": True, "b": True}, "both sleep")
        was = [self.loaded(self.a), self.loaded(b)]
        # It is woken by who is asked, and the other goes on sleeping.
        told = self.said(c)
        self.assertEqual((told.code, told.json.get("text")), (0, text), str(told))
        self.assertEqual(sorted([self.loaded(self.a) - was[0], self.loaded(b) - was[1]]), [0, 1])
        # Also after a restart, and by its version; many at once load it once.
        cluster.wait_until(lambda: self.asleep(c) == {"a": True, "b": True}, "both sleep again")
        before = self.loaded(self.a) + self.loaded(b)
        answers = []
        askers = [threading.Thread(target=lambda: answers.append(self.said(c, "m@1"))) for _ in range(6)]
        for asker in askers:
            asker.start()
        for asker in askers:
            asker.join()
        self.assertEqual([one.json.get("text") for one in answers], [text] * 6)
        self.assertLessEqual(self.loaded(self.a) + self.loaded(b), before + 2)
        # A new version reaches one that sleeps.
        second = self.served(self.a, self.paths[1], "--name", "m", "--replace")
        self.wait_for(c, {"a": second, "b": second})
        cluster.wait_until(lambda: self.asleep(c).get("b"), "the copy sleeps again")
        self.assertEqual(b.ask("unserve", "m").code, 0)
        self.wait_for(c, {"a": second})

    def test_what_is_wrong_is_said(self):
        self.assert_fails(self.a.ask("serve", "m", "--copy"), 1, "no live node serves a model named 'm'")
        self.assert_fails(self.a.ask("serve", "m", "--rollback"), 1, "serves no model named 'm'")
        self.assert_fails(self.a.ask("serve", "m", "--copy", "--rollback"), 2, "--rollback")
        self.assert_fails(self.a.ask("serve", self.paths[0], "--version", "1"), 2, "--copy")
        first = self.served(self.a, self.paths[0], "--name", "m")
        self.assert_fails(self.a.ask("serve", "m", "--rollback"), 1, "nothing to go back to")
        self.assert_fails(self.a.ask("serve", self.paths[1], "--name", "m"), 1, "--replace")
        self.assert_fails(self.a.ask("serve", self.paths[1], "--name", "m@1"), 1, "'@'")
        # One that is not good does not take the other's place.
        with open(self.paths[1], "r+b") as file:
            file.truncate(5000)
        self.assert_fails(self.a.ask("serve", self.paths[1], "--name", "m", "--replace"), 1, "model2")
        self.assertEqual(self.said(self.a).json["digest"], first[1])
        # Nor one that was changed where it lies.
        second = self.served(self.a, self.paths[2], "--name", "m", "--replace")
        write_model(self.paths[0], 9, layers=2, channels=128)
        self.assert_fails(self.a.ask("serve", "m", "--rollback"), 1, "another content")
        self.assertEqual(self.said(self.a).json["version"], second[0])


if __name__ == "__main__":
    cluster.main()
