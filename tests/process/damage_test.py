"""Checkpoints are damaged while their nodes are down: they are named and kept, and the job goes on
from the newest one that is intact anywhere. Behind what was reported durable it goes only if a
person says so.
"""
import glob
import os
import signal
import time

import cluster
import training


def flip_a_bit(path):
    with open(path, "r+b") as stream:
        stream.seek(-5, os.SEEK_END)
        byte = stream.read(1)[0]
        stream.seek(-5, os.SEEK_END)
        stream.write(bytes([byte ^ 1]))


class Damage(training.TrainingTest):
    steps, every = 400, 20
    names = ["n1", "n2", "n3"]

    def held(self, node):
        """Folders of a node's checkpoints, by step."""
        listed = node.ask("checkpoint", "ls", "--json")
        found = listed.json["checkpoints"] if listed.code == 0 else []
        return {one["step"]: one["path"] for one in found}

    def begin(self):
        """Every node has three checkpoints, and is killed; what each holds."""
        self.undisturbed()
        self.start_nodes(self.names)
        self.pace(50)
        self.train(self.nodes["n1"], len(self.names))
        for node in self.nodes.values():
            cluster.wait_until(lambda node=node: len(self.held(node)) >= 3,
                               f"{node.name} holds three checkpoints")
        for node in self.nodes.values():
            node.signal(signal.SIGKILL)
        for node in self.nodes.values():
            self.assertEqual(node.wait(), -signal.SIGKILL)
        self.killed = time.time()
        return {name: self.held(self.nodes[name]) for name in self.names}

    def damage(self, name, path):
        """Another file each time: a flipped bit in a shard, or a manifest that ends early."""
        if name == "n2":
            manifest = os.path.join(path, "manifest")
            os.truncate(manifest, os.path.getsize(manifest) - 7)
        else:
            flip_a_bit(sorted(glob.glob(os.path.join(path, "*.safetensors")))[0])

    def restart(self):
        for name in self.names:
            self.start_node(name)
        for node in self.nodes.values():
            self.await_line(node, lambda line: line["phase"] == "running", "it runs")

    def check_named(self, node, steps):
        """`job show`, `job log`, the node's log and its metric name what is damaged."""
        shown = node.ask("job", "show", "small", "--json").json["damaged_checkpoints"]
        self.assertEqual(sorted(one["step"] for one in shown), sorted(steps))
        for one in shown:
            self.assertIn(os.sep + "damaged" + os.sep, one["path"])
            self.assertTrue(os.path.isdir(one["path"]), one)
            self.assertTrue(one["reason"], one)
        text = node.ask("job", "show", "small").out
        log = self.log(node).text()
        for step in steps:
            self.assertIn(f"checkpoint of step {step}: ", text)
            self.assertIn(f"the checkpoint of step {step} on this node is damaged", log)
            self.assertIn(f"the checkpoint of step {step} on this node is damaged", node.said())
        if steps:
            self.assertRegex(node.ask("metrics").out,
                             f'gpunode_checkpoints_damaged_total{{job="small",job_id="[0-9a-f]+"}} '
                             f"{len(steps)}\n")

    def end(self):
        self.pace(None)
        self.check_all(list(self.nodes.values()), 2 * cluster.TIMEOUT)

    def base(self):
        """Where the job went on after the restart."""
        return {view.base for view in self.log(self.nodes["n1"]).views
                if len(view.members) > 1 and view.at > self.killed}

    def test_all_of_one_node_are_damaged_and_another_one_gives_its_copy(self):
        held = self.begin()
        for path in held["n1"].values():
            self.damage("n1", path)
        self.restart()
        newest = max(max(held["n2"]), max(held["n3"]))
        self.assertEqual(min(self.base()), newest)
        self.check_named(self.nodes["n1"], held["n1"])
        self.assertIn("no intact checkpoint of the job is left", self.nodes["n1"].said())
        for name in ("n2", "n3"):
            self.check_named(self.nodes[name], [])
        self.end()
        self.check_named(self.nodes["n1"], held["n1"])

    def test_the_newest_is_damaged_on_every_node_and_an_older_one_is_taken(self):
        held = self.begin()
        older = min(sorted(steps)[-2] for steps in held.values())
        bad = {name: [step for step in held[name] if step > older] for name in self.names}
        for name, steps in bad.items():
            self.assertTrue(steps)
            for step in steps:
                self.damage(name, held[name][step])
        self.restart()
        self.assertEqual(min(self.base()), older)
        for name, steps in bad.items():
            self.check_named(self.nodes[name], steps)
            self.assertIn("the newest checkpoint here is of step", self.log(self.nodes[name])
                          .text())
        self.end()
        for name, steps in bad.items():
            self.check_named(self.nodes[name], steps)

    # ---- what only a person can decide

    def await_reason(self, nodes, *words):
        """The job stands still on all, and who asks the others for their votes says why."""
        def told():
            lines = [self.line(node) or {} for node in nodes]
            reasons = [line.get("reason", "") for line in lines if line.get("phase") == "paused"]
            return len(reasons) == len(nodes) and any(all(word in reason for word in words)
                                                      for reason in reasons)
        self.wait_until(told, f"the job waits, with the words {words}")
        for node in nodes:
            shown = node.ask("job", "show", "small", "--json").json
            self.assertEqual(shown["as_of"]["text"], "before this node was started again",
                             "it has computed nothing")

    def resume_from(self, node, step):
        """As it says; the order is in the node's audit log."""
        done = node.ask("job", "resume", "small", "--from", str(step), "--json")
        self.assertEqual(done.code, 0, f"{done}\n{self.told()}")
        self.assertEqual(done.json["base_step"], step)
        found = self.world.audited(node.name, "job_resumed_from")
        self.assertEqual([(line["name"], line["from"], line["why"]) for line in found],
                         [("small", str(step), "a person")])

    def test_all_are_damaged_everywhere_and_nothing_is_done_again_until_a_person_says_so(self):
        held = self.begin()
        for name, steps in held.items():
            for path in steps.values():
                self.damage(name, path)
        for name in self.names:
            self.start_node(name)
        self.await_reason(list(self.nodes.values()), "every copy of the durable checkpoint of step",
                          "is lost", "`gpunode job resume small --from 0` starts anew")
        for name, node in self.nodes.items():
            self.check_named(node, held[name])
        self.resume_from(self.nodes["n2"], 0)
        for name, node in self.nodes.items():
            self.await_line(node, lambda line: line["phase"] == "running", "it runs")
            self.assertIn("the job begins anew from step 0, although this node has had",
                          self.log(node).text())
        self.end()
        for name, node in self.nodes.items():
            self.check_named(node, held[name])

    def test_who_has_the_only_intact_one_is_away_and_a_person_gives_it_up(self):
        held = self.begin()
        older = min(set(held["n2"]) & set(held["n3"]))
        self.assertLess(older, max(held["n1"]))
        id_of_n1 = self.nodes["n1"].info["id"][:8]
        for name in ("n2", "n3"):
            for step, path in held[name].items():
                if step > older:
                    self.damage(name, path)
        rest = [self.start_node(name) for name in ("n2", "n3")]
        self.await_reason(rest, "waiting for node")
        for node in rest:
            self.wait_until(lambda node=node: node.ask("job", "show", "small", "--json")
                            .json["waiting_for"] in (["n1"], [id_of_n1]),
                            f"{node.name} names whom it waits for")
        self.resume_from(rest[0], older)
        for node in rest:
            self.await_line(node, lambda line: line["step"] > older, "it goes on")
        self.start_node("n1")
        for node in self.nodes.values():
            self.await_members(node, self.names)
        self.end()


if __name__ == "__main__":
    cluster.main()
