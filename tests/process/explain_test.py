"""Where the time of a job goes: the trace over all its members, who is slowest and why."""
import json
import os
import signal

import cluster

JOB = """
name = "{name}"
nodes = 3
min_nodes = 3

[data]
{data}

[model]
kind = "gpt"
layers = 1
heads = 2
channels = 64
context = 32

[train]
seed = 1
steps = 100000
batch = 12
slices = {slices}
warmup_steps = 5

[checkpoint]
every = 0
"""


class Explained(cluster.ProcessTest):
    def start(self, slices, **third):
        data = self.world.write("data/text.txt", cluster.TEXT)
        self.a = self.world.start("a")
        self.b = self.world.join("b", self.a)
        self.c = self.world.join("c", self.a, **third)
        path = self.world.write("slow.toml",
                                JOB.format(name="slow", data=self.world.offered(data), slices=slices))
        self.assertEqual(self.a.ask("train", path).code, 0)
        cluster.wait_until(lambda: self.progress(self.b, "slow").get("step", 0) >= 40, "40 steps")

    def slowest(self, node):
        """The member that the newest report names, once it names one."""
        def named():
            return self.progress(node, "slow").get("times", {}).get("slowest")
        return cluster.wait_until(named, "somebody is named as slowest")

    def test_a_trace_has_the_steps_of_all_members_in_a_sane_order(self):
        self.start(slices=6)
        out = self.world.path("trace.json")
        key = os.path.join(self.b.state, "identity.key")
        self.assert_fails(self.b.ask("job", "trace", "slow", "--out", key), 1, "state directory")
        done = self.b.ask("job", "trace", "slow", "--steps", "5", "--out", out, "--json")
        self.assertEqual(done.code, 0, str(done))
        with open(out, encoding="utf-8") as stream:
            trace = json.load(stream)
        self.assertEqual(done.json["path"], os.path.abspath(out))
        clocks = trace["metadata"]["clocks"]
        self.assertEqual({clock["member"] for clock in clocks}, {"a", "b", "c"})  # by rank
        for clock in clocks:
            self.assertNotIn("error", clock)
            # One machine, one clock: what alignment makes of it must be within what it admits.
            self.assertLessEqual(abs(clock["offset_us"]), clock["uncertainty_us"] + 1)
        spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
        off = 2 * max(clock["uncertainty_us"] for clock in clocks) + 50
        steps = sorted({span["args"]["step"] for span in spans if span["name"] == "confirm"})
        self.assertGreaterEqual(len(steps), 4)
        whole = 0
        for step in steps:
            of_step = [span for span in spans if span["args"]["step"] == step]

            def times(kind, edge):
                return {span["pid"]: span["ts"] + (span["dur"] if edge == "end" else 0)
                        for span in of_step if span["name"] == kind}
            computed, held = times("compute", "end"), times("gather", "end")
            committed = times("confirm", "end")
            if not (len(computed) == len(held) == len(committed) == 3):
                continue  # the newest step may not be through everywhere
            whole += 1
            # Nobody holds a step before all have computed, nor commits before all hold.
            self.assertGreaterEqual(min(held.values()) + off, max(computed.values()))
            self.assertGreaterEqual(min(committed.values()) + off, max(held.values()))
            self.assertTrue(times("send", "end"))
        self.assertGreaterEqual(whole, 3)
        self.assertEqual(min(span["ts"] for span in spans), 0)

    def test_the_member_that_computes_longest_is_named(self):
        # Three slices: every member has one, and none can be moved.
        self.start(slices=3, faulty=True, env={"GPUNODE_FAULT_PACE_MS": "60",
                                               "GPUNODE_FAULT_PACE_AT": "slice",
                                               "GPUNODE_FAULT_PACE_WHILE": "/"})
        slowest = self.slowest(self.a)
        self.assertEqual((slowest["node"], slowest["cause"]), ("c", "compute"))
        self.assertGreater(slowest["lost_seconds"], 0.03)
        shown = self.b.ask("job", "show", "slow")
        self.assert_says(shown.out, "slowest: c, by its compute")
        for member in self.progress(self.b, "slow")["times"]["members"]:
            if member["node"] != "c":
                self.assertGreater(member["wait_seconds"], 0.03)

    def test_the_member_whose_bytes_come_late_is_named_for_its_link(self):
        self.start(slices=3, faulty=True, env={"GPUNODE_FAULT_PACE_MS": "60",
                                               "GPUNODE_FAULT_PACE_AT": "reduce",
                                               "GPUNODE_FAULT_PACE_WHILE": "/"})
        def told():
            times = self.progress(self.b, "slow").get("times", {})
            return times if "slowest" in times or times.get("nobody", {}).get("busy") else None
        times = cluster.wait_until(told, "somebody is named, or that processors are busy")
        if "slowest" not in times:
            self.skipTest("the processors of this machine are busy: no link is blamed")
        slowest = times["slowest"]
        self.assertEqual((slowest["node"], slowest["cause"]), ("c", "link"))

    def test_a_member_that_stands_still_is_named_with_what_is_missing_and_since_when(self):
        self.start(slices=6)
        members = self.progress(self.a, "slow")["times"]["members"]
        short = next(member["id"] for member in members if member["node"] == "c")[:8]
        self.c.signal(signal.SIGSTOP)
        try:
            def stalled():
                stall = self.progress(self.a, "slow").get("stall")
                return stall if stall and stall["node"] == "c" else None
            stall = cluster.wait_until(stalled, "the stall is told")
            self.assertGreater(stall["seconds"], 0)
            self.assertIn(stall["waiting_for"], ("partial sums", "results", "confirmation"))
        finally:
            self.c.signal(signal.SIGCONT)

        def told():
            events = self.a.ask("job", "log", "slow", "--json").json["events"]
            return any(f"waits for node {name}" in event["text"] for event in events
                       for name in (short, "c"))
        cluster.wait_until(told, "the log names who was waited for")


if __name__ == "__main__":
    cluster.main()
