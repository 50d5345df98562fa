"""Nodes that come into a running job and nodes that leave it politely, while the rest goes on.

A learner behind a slow link fetches the state while the members commit; a leaver is left out without
anybody waiting for a failure detector. The exported weights are bit for bit those of an undisturbed
run on one node.
"""
import json
import os
import signal
import time

import cluster
import slow_link
import training

JOB = """
name = "small"
nodes = {nodes}
min_nodes = 1

[data]
{data}

[model]
kind = "gpt"
layers = {layers}
heads = 2
channels = {channels}
context = 16

[train]
seed = 1
steps = {steps}
batch = 8
slices = 8
warmup_steps = 10

[checkpoint]
every = 10000
"""
NAMES = ("a", "b", "c")


class Enter(cluster.ProcessTest):
    layers, channels = 1, 32
    place, pause = "slice", 500  # milliseconds longer, there, while the file is there

    def path(self, name):
        return self.world.path(name)

    def job(self, nodes, steps):
        data = self.world.write("data/text.txt", training.TEXT)
        return self.world.write("small.toml", JOB.format(
            nodes=nodes, data=self.world.offered(data), steps=steps, layers=self.layers, channels=self.channels))

    def pace(self):
        return {"GPUNODE_FAULT_PACE_MS": str(self.pause), "GPUNODE_FAULT_PACE_AT": self.place,
                "GPUNODE_FAULT_PACE_WHILE": self.path("slow")}

    def start_members(self, names=NAMES):
        self.world.write("slow", "")
        self.nodes = {}
        for name in names:
            first = self.nodes.get(names[0])
            options = {"faulty": True, "env": self.pace()}
            self.nodes[name] = (self.world.join(name, first, **options) if first else
                                self.world.start(name, **options))
        for node in self.nodes.values():
            cluster.wait_until(lambda node=node: len(self.alive(node)) == len(names), "all are up")

    def alive(self, node):
        seen = node.ask("nodes", "--json").json["nodes"]
        return [one["name"] for one in seen if one["health"] == "alive"]

    def line(self, node):
        shown = node.ask("jobs", "--json")
        lines = shown.json["jobs"] if shown.code == 0 else []
        return next((one for one in lines if one.get("name") == "small"), {})

    def await_members(self, node, names):
        return cluster.wait_until(
            lambda: sorted(self.line(node).get("members", [])) == sorted(names),
            f"the members are {names}")

    def train(self, node, nodes, steps):
        started = node.ask("train", self.job(nodes, steps), "--json")
        self.assertEqual(started.code, 0, str(started))

    def export(self, node, steps):
        out = self.path(node.name + ".safetensors")

        def exported():
            done = node.ask("checkpoint", "export", "small", "--step", str(steps), "--out", out,
                            "--json")
            return done.json["sha256"] if done.code == 0 else None
        return cluster.wait_until(exported, f"{node.name} has the last checkpoint", 120)

    def undisturbed(self, steps):
        node = self.world.start("alone")
        self.assertEqual(node.ask("train", self.job(1, steps), "--follow").code, 0)
        digest = self.export(node, steps)
        node.kill()
        return digest

    def commits(self, node):
        """{step: (time, view)} of the newest steps."""
        told = node.ask("job", "log", "small", "--json").json
        return {one["step"]: (one["at"], one["view"]) for one in told["commits"]}

    def views(self, node):
        return {view for _, view in self.commits(node).values()}

    def texts(self, node):
        return [one["text"] for one in node.ask("job", "log", "small", "--json").json["events"]]

    def entered(self, node, name):
        """When the first view with that member was installed at the node."""
        for one in node.ask("job", "log", "small", "--json").json["events"]:
            view = training.VIEW.match(one["text"])
            if view and name in view[2].split(";")[0].split(", "):
                return one["at"]
        self.fail(f"no view names {name}")

    def trace(self, node):
        out = self.path("trace.json")
        self.assertEqual(node.ask("job", "trace", "small", "--steps", "100", "--out", out).code, 0)
        with open(out, encoding="utf-8") as stream:
            return json.load(stream)

    def assert_no_wait(self, trace, long):
        """No member stood still for as long as the learner took, in nothing that waits for others."""
        names = {one["pid"]: one["args"]["name"] for one in trace["traceEvents"]
                 if one["name"] == "process_name"}
        spans = [one for one in trace["traceEvents"] if one["ph"] == "X"]
        fetched = [one for one in spans if one["name"] == "sync" and names[one["pid"]] == "d"]
        self.assertGreater(sum(one["dur"] for one in fetched), 0.1 * long * 1e6, fetched)
        waits = [one for one in spans if names[one["pid"]] != "d"
                 and one["name"] in ("gather", "confirm", "stall", "view change")
                 and one["args"].get("view") != 1]  # forming
        self.assertGreater(len(waits), 10)
        longest = max(waits, key=lambda one: one["dur"])
        self.assertLess(longest["dur"], 5_000_000, longest)

    def longest_pause(self, times):
        times = sorted(times)
        return max((b - a for a, b in zip(times, times[1:])), default=0)


class Learners(Enter):
    layers, channels = 2, 128  # a state of 5 MB, results of 1.7 MB

    def test_members_go_on_while_a_fourth_fetches_the_state_over_a_slow_link(self):
        steps = 60
        expected = self.undisturbed(steps)
        self.start_members()
        self.train(self.nodes["a"], 4, steps)
        self.await_members(self.nodes["a"], NAMES)
        cluster.wait_until(lambda: self.line(self.nodes["a"]).get("step", 0) > 2,
                           "results of the first steps are not kept any more")
        door = slow_link.SlowDoor(rate=2_000_000)
        self.addCleanup(door.close)
        token = {"GPUNODE_TOKEN": self.world.token(self.nodes["a"])}
        arrived = time.time()
        fourth = self.world.start("d", "join", self.nodes["a"].join_address, "--advertise",
                                  f"127.0.0.1:{door.shown}", faulty=True,
                                  env={**self.pace(), **token}, listen=f"127.0.0.1:{door.own}")
        self.await_members(self.nodes["a"], (*NAMES, "d"))
        entered = self.entered(self.nodes["a"], "d")
        trace = self.trace(self.nodes["a"])
        cluster.wait_until(lambda: "is up to date at step" in "\n".join(self.texts(fourth)),
                           "the fourth has all results")
        shown = fourth.ask("job", "show", "small", "--json").json
        passed = door.passed
        os.remove(self.path("slow"))
        door.rate = 1_000_000_000
        # The state came through the slow way, and so did results of steps made meanwhile.
        self.assertGreater(passed, 5_000_000)
        self.assertGreater(shown["sync_received_bytes"], 5_000_000)
        self.assertGreater(shown["sync_followed_steps"], 1)
        self.assertGreater(shown["sync_seconds"], 2.5)
        # The members never waited for it: not while it learned, and not for the view that named it.
        self.assertGreater(entered - arrived, 0.8 * shown["sync_seconds"])
        during = [at for at, _ in self.commits(self.nodes["a"]).values() if arrived < at < entered + 1]
        self.assertGreater(len(during), shown["sync_seconds"] / 2 - 1, (shown, during))
        self.assertLess(self.longest_pause(during), 5, (shown["sync_seconds"], during))
        self.assert_no_wait(trace, shown["sync_seconds"])
        for node in (*self.nodes.values(), fourth):
            self.wait_for_phase(node, "small", timeout=120)
        self.assertEqual(self.export(fourth, steps), expected)
        self.assertGreater(sum(one["slices"] for one in
                               fourth.ask("job", "show", "small", "--json").json["computed"]
                               if one["node"] == "d"), 0)


class Leavers(Enter):
    place, pause = "compute", 50

    def test_who_leaves_is_left_out_without_a_pause_and_the_result_is_the_same(self):
        steps = 160
        expected = self.undisturbed(steps)
        self.start_members()
        self.train(self.nodes["a"], 3, steps)
        self.await_members(self.nodes["a"], NAMES)
        whole = self.progress(self.nodes["a"], "small")["view"]  # two may have begun without the third
        left = []
        for name, ask in (("c", lambda node: node.signal(signal.SIGTERM)),
                          ("b", lambda node: node.ask("leave"))):
            rest = [one for one in NAMES if one != name and one not in left]
            cluster.wait_until(lambda: self.progress(self.nodes["a"], "small")["view"] in
                               self.views(self.nodes["a"]),
                               "each view commits a step before it is changed")
            ask(self.nodes[name])
            self.await_members(self.nodes["a"], rest)
            self.assertEqual(self.nodes[name].wait(), 0, self.nodes[name].said())
            left.append(name)
        os.remove(self.path("slow"))
        self.wait_for_phase(self.nodes["a"], "small")
        views = {view for view in self.views(self.nodes["a"]) if view >= whole}
        self.assertGreaterEqual(len(views), 3, self.texts(self.nodes["a"]))
        # Suspicion alone takes longer than this; a busy machine may stand still once, and not at both.
        commits = [commit for _, commit in sorted(self.commits(self.nodes["a"]).items())]
        changes = [after[0] - before[0] for before, after in zip(commits, commits[1:])
                   if before[1] != after[1] and before[1] >= whole]
        self.assertLess(min(changes), 1.0, self.texts(self.nodes["a"]))
        self.assertEqual(self.export(self.nodes["a"], steps), expected)

    def test_the_last_holder_says_so_and_leaves_a_durable_state(self):
        steps = 100
        expected = self.undisturbed(steps)
        self.start_members(("a",))
        node = self.nodes["a"]
        self.train(node, 1, steps)
        cluster.wait_until(lambda: self.line(node).get("step", 0) > 10, "it runs")
        self.assert_fails(node.ask("leave"), 1, "last", "small", "gpunode join", "--anyway")
        node.signal(signal.SIGTERM)
        self.assertEqual(node.wait(), 0, node.said())
        self.assert_says(node.said(), "last that holds", "durable")
        os.remove(self.path("slow"))
        again = self.world.start("a")
        self.wait_for_phase(again, "small")
        restored = [training.VIEW.match(text) for text in self.texts(again)]
        self.assertGreater(max(int(one[4]) for one in restored if one), 10, self.texts(again))
        self.assertEqual(self.export(again, steps), expected)


if __name__ == "__main__":
    cluster.main()
