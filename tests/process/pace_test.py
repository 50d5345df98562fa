"""A member held to half speed by a cgroup's quota: slices follow speed, throughput stays near the sum of
speeds, and the result has the same bits. Needs a cpu controller that it may write to, and a quiet machine."""
import os
import unittest

import cluster

JOB = """
name = "{name}"
nodes = {nodes}
min_nodes = {nodes}
labels = {labels}

[data]
{data}

[model]
kind = "gpt"
layers = 2
heads = 4
channels = 128
context = 64

[train]
seed = 1
steps = {steps}
batch = 1024
slices = 32
warmup_steps = 5

[checkpoint]
every = 0
"""

STEPS = 16


class Quota:
    """A cgroup that gets half a core; version 2 or 1, whichever can be written."""

    PERIOD_US = 20000

    def __init__(self):
        name = f"gpunode-pace-{os.getpid()}"
        self.path = None
        for root, write in (("/sys/fs/cgroup", self.limit_2), ("/sys/fs/cgroup/cpu", self.limit_1)):
            path = os.path.join(root, name)
            try:
                os.mkdir(path)
            except OSError:
                continue
            try:
                write(path)
                self.path = path
                return
            except OSError:
                os.rmdir(path)

    def limit_2(self, path):
        with open(os.path.join(path, "cpu.max"), "r+", encoding="ascii") as stream:
            stream.write(f"{self.PERIOD_US // 2} {self.PERIOD_US}")

    def limit_1(self, path):
        for key, value in (("period", self.PERIOD_US), ("quota", self.PERIOD_US // 2)):
            with open(os.path.join(path, f"cpu.cfs_{key}_us"), "r+", encoding="ascii") as stream:
                stream.write(str(value))

    def hold(self, pid):
        with open(os.path.join(self.path, "cgroup.procs"), "w", encoding="ascii") as stream:
            stream.write(str(pid))

    def remove(self):
        if self.path:
            cluster.wait_until(lambda: self.try_remove(), "the cgroup is empty")

    def try_remove(self):
        try:
            os.rmdir(self.path)
            return True
        except OSError:
            return False


class Pace(cluster.ProcessTest):
    def setUp(self):
        super().setUp()
        self.quota = Quota()
        if not self.quota.path:
            raise unittest.SkipTest("skipped: no cpu controller of cgroups that may be written")
        self._cleanups.insert(0, (self.quota.remove, (), {}))  # after the processes are gone

    def trained(self, node, name, labels, nodes):
        """Trains a job to its end; slices a second over its second half, and its final report."""
        data = self.world.write("data/text.txt", cluster.TEXT * 4)
        path = self.world.write(f"{name}.toml", JOB.format(
            name=name, nodes=nodes, labels=labels, data=self.world.offered(data), steps=STEPS))
        started = node.ask("train", path, "--json")
        self.assertEqual(started.code, 0, str(started))
        self.wait_for_phase(node, name, timeout=4 * cluster.TIMEOUT)
        report = self.progress(node, name)
        commits = {c["step"]: c for c in node.ask("job", "log", name, "--json").json["commits"]}
        seconds = commits[STEPS]["at"] - commits[STEPS // 2]["at"]
        return 32 * (STEPS - STEPS // 2) / seconds, report

    def test_a_half_speed_member_adds_its_half(self):
        fast = self.world.start("fast", "up", "--label", "speed=full")
        slow = self.world.join("slow", fast)
        self.quota.hold(slow.process.pid)
        alone, truth = self.trained(fast, "alone", '["speed=full"]', 1)
        both, report = self.trained(fast, "both", "[]", 2)
        shares = {m["node"]: m["slices"] for m in report["times"]["members"]}
        share = both / (1.5 * alone)
        print(f"{alone:.1f} slices/s alone, {both:.1f} together: {share:.0%} of the sum of speeds; "
              f"slices {shares}")
        self.assertEqual(report["state_digest"], truth["state_digest"], "not the same bits")
        self.assertGreater(shares["fast"], shares["slow"])
        self.assertGreaterEqual(share, 0.9)


if __name__ == "__main__":
    cluster.main()
