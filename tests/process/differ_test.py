"""Nodes that would not compute the same job: named at start, with what differs and what to do.

The job goes on with those that agree if they are enough, and else is refused before a step.
"""
import os
import re

import cluster
import training

PLACE = "data set 'text'"  # another file at each node


class Differ(training.TrainingTest):
    steps, every = 60, 20
    # What is wrong with each node, and the words that must be told of it.
    wrong = {
        "version": ({"GPUNODE_FAULT_VERSION": "0.0.9"},
                    r"runs gpunode 0\.0\.9, the others \d+\.\d+\.\d+: install the same version"),
        "model": ({"GPUNODE_FAULT_MODEL_LAYERS": "2"},
                  r"model 'own' is another one \(([0-9a-f]{8}), that of the others "
                  r"([0-9a-f]{8})\): start it with the program and model code"),
        "text": ({}, re.escape(PLACE) + r" differs .*\(sha256 ([0-9a-f]{8}), (\d+) bytes; "
                 r"the others sha256 ([0-9a-f]{8}), \2 bytes\): copy it"),
        "isa": ({"ONEDNN_MAX_CPU_ISA": "SSE41", "DNNL_MAX_CPU_ISA": "SSE41"},
                r"other bits \(.+: ([0-9a-f]{8}); the others .+: ([0-9a-f]{8})\): "
                r"members need the same instruction set"),
    }

    def folder(self, name):
        """A node's own data, which is that of all but for one byte of one node."""
        text = bytearray(training.TEXT.encode())
        if name == "text":
            text[1000] ^= 1
        self.world.write(f"{name}-data/data/text.txt", bytes(text))
        return self.path(f"{name}-data")

    def begin(self, name, through=None):
        words, env = ["up"], {**self.environment(name), **self.wrong.get(name, ({},))[0]}
        if through:
            words = ["join", through.join_address]
            env["GPUNODE_TOKEN"] = self.world.token(through)
        self.nodes[name] = self.world.start(name, *words, env=env, faulty=True,
                                            cwd=self.folder(name))
        return self.nodes[name]

    def begin_all(self, names):
        for name in names:
            self.begin(name, self.nodes.get(names[0]))
        for name in names:
            cluster.wait_until(lambda name=name: self.knows(self.nodes[name], names),
                               "all know each other")

    def job(self, nodes, least=1):
        """The job of `undisturbed` but for what its model is called."""
        with open(super().job(nodes, least), encoding="utf-8") as stream:
            text = stream.read()
        self.assertIn('kind = "gpt"', text)
        text = text.replace('kind = "gpt"', 'kind = "own"')
        return self.world.write("own.toml", text)

    def assert_named(self, reasons, names):
        self.assertEqual(sorted(reasons), sorted(names))
        for name in names:
            found = re.search(self.wrong[name][1], reasons[name])
            self.assertTrue(found, f"{name}: {reasons[name]}")
            digests = [one for one in found.groups() if len(one) == 8]
            self.assertEqual(len(set(digests)), len(digests), reasons[name])

    def shown(self, node):
        told = node.ask("job", "show", "small", "--json")
        self.assertEqual(told.code, 0, str(told))
        return told.json

    def refused(self, told):
        return {one["node"]: one["reason"] for one in told["refused"]}

    def await_refused(self, node, what):
        """Until `node` tells of all four; the job itself may not be known there yet."""
        def told_of_all():
            told = node.ask("job", "show", "small", "--json")
            return told.code == 0 and len(told.json["refused"]) == 4
        cluster.wait_until(told_of_all, what)

    def undisturbed(self):
        """Of gpt, which `own` is on all nodes but one, and on the same data."""
        self.world.write("data/text.txt", training.TEXT)
        node = self.world.start("alone")
        path = training.TrainingTest.job(self, 1)
        followed = node.ask("train", path, "--follow", timeout=4 * cluster.TIMEOUT)
        self.assertEqual(followed.code, 0, str(followed))
        digest = self.export(node, self.steps)
        node.kill()
        return digest

    def test_are_named_at_start_and_in_job_show_and_the_rest_goes_on(self):
        expected = self.undisturbed()
        wrong = sorted(self.wrong)
        self.begin_all(["a", "b", *wrong])
        started = self.train(self.nodes["a"], 6)
        self.assertEqual(sorted(started["candidates"]), ["a", "b"])
        self.assert_named(self.refused(started), wrong)
        for name in ("a", "b"):
            self.await_refused(self.nodes[name], "a member tells of all four")
            self.assert_named(self.refused(self.shown(self.nodes[name])), wrong)
        # So does a node that computes nothing; as a witness it hears of it a moment later.
        self.await_refused(self.nodes["version"], "it is told where no member is asked")
        text = self.nodes["b"].ask("job", "show", "small")
        for name in wrong:
            self.assertIn(f"not on {name}", text.out)
        for name in ("a", "b"):
            self.await_line(self.nodes[name], lambda line: line["phase"] == "finished", "finished")
            self.assertEqual(self.export(self.nodes[name], self.steps), expected)
        told = self.shown(self.nodes["a"])
        self.assertLessEqual({one["node"] for one in told["computed"]}, {"a", "b"})
        self.assert_named(self.refused(told), wrong)

    def test_of_which_one_is_given_other_data_between_two_starts_computes_no_more(self):
        self.steps = 300
        expected = self.undisturbed()
        self.begin_all(["a", "b"])
        self.pace(100)
        self.train(self.nodes["a"], 2)
        for node in self.nodes.values():
            self.await_members(node, ["a", "b"])
        good = training.TEXT.encode()
        self.nodes["b"].kill()
        self.world.write("b-data/data/text.txt", good[:1000] + b"?" + good[1001:])
        self.restart("b")
        line = self.await_line(self.nodes["b"], lambda line: line["phase"] == "failed",
                               "it has failed")
        self.assertRegex(line["reason"], self.wrong["text"][1])
        self.world.write("b-data/data/text.txt", good)
        resumed = self.nodes["b"].ask("job", "resume", "small", "--json")
        self.assertEqual(resumed.code, 0, str(resumed))
        for node in self.nodes.values():
            self.await_members(node, ["a", "b"])
        self.pace(None)
        for node in self.nodes.values():
            self.await_line(node, lambda line: line["phase"] == "finished", "finished")
            self.assertEqual(self.export(node, self.steps), expected)
            self.assertTrue(self.shown(node)["proof"]["equal_to_data"])

    def restart(self, name):
        self.nodes[name] = self.world.start(name, env=self.environment(name), faulty=True,
                                            cwd=self.path(f"{name}-data"))

    def test_leave_too_few_and_the_job_is_refused_before_a_step_naming_each(self):
        wrong = sorted(self.wrong)
        self.begin_all(["a", *wrong])
        refused = self.nodes["a"].ask("train", self.job(5, 2), "--no-wait")
        self.assertEqual(refused.code, 1, str(refused))
        self.assertIn("at least 2 nodes, 1 can take part", refused.err)
        reasons = dict(re.findall(r"; (\w+): (.+?)(?=; \w+: it|$)", refused.err.strip()))
        self.assert_named(reasons, wrong)
        self.assertEqual(self.nodes["a"].ask("jobs", "--json").json["jobs"], [])
        self.assertFalse(os.path.exists(os.path.join(self.nodes["a"].state, "checkpoints", "small")))

    def test_come_late_and_are_named_in_job_show_of_every_member(self):
        self.steps = 100000  # it is not to end
        self.begin_all(["a", "b"])
        self.pace(20)
        self.train(self.nodes["a"], 6)
        wrong = sorted(self.wrong)
        for name in wrong:
            self.begin(name, self.nodes["a"])
        for name in ("a", "b"):
            self.await_refused(self.nodes[name], "all four are named")
            # Of the two one may have been too slow on a busy machine, and comes back.
            cluster.wait_until(
                lambda name=name: sorted(self.shown(self.nodes[name])["members"]) == ["a", "b"],
                "the two are its members")
            told = self.shown(self.nodes[name])
            self.assert_named(self.refused(told), wrong)
            events = "\n".join(one["text"] for one in told["events"])
            for one in wrong:
                self.assertEqual(events.count(f"node {one} takes no part"), 1, events)


if __name__ == "__main__":
    cluster.main()
