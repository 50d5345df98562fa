"""A member that cannot take part: named at the start, or it leaves with the reason and the rest goes on.
"""
import glob
import os
import resource
import shutil
import subprocess

import cluster
import training


class OneOfThree(training.TrainingTest):
    """What one machine lacks is told by it, and costs the job that member alone."""
    steps, every = 240, 20
    names = ["n1", "n2", "n3"]

    def begin(self, env=None, before=lambda: None):
        self.undisturbed()
        for name in self.names:
            self.start_node(name, self.nodes.get("n1"), env if name == "n2" else None)
        for name in self.names:
            cluster.wait_until(lambda name=name: self.knows(self.nodes[name], self.names),
                               "all know each other")
        self.pace(40)
        before()
        return self.train(self.nodes["n1"], 3)

    def expect_that_it_leaves(self, name, *words):
        """The job goes on without it, it says why, and the others finish."""
        rest = [node for node in self.nodes.values() if node.name != name]
        for node in rest:
            self.await_members(node, [one.name for one in rest])
        if words:
            line = self.await_line(self.nodes[name], lambda line: line["phase"] == "failed",
                                   "it has failed")
            self.assert_says(line["reason"], *words)
        self.pace(None)
        self.check_all(rest, 2 * cluster.TIMEOUT)

    def expect_the_others(self):
        rest = [self.nodes["n1"], self.nodes["n3"]]
        for node in rest:
            self.await_members(node, ["n1", "n3"])
        self.pace(None)
        self.check_all(rest, 2 * cluster.TIMEOUT)

    def test_of_other_arithmetic_is_refused_by_name(self):
        started = self.begin({"ONEDNN_MAX_CPU_ISA": "SSE41", "DNNL_MAX_CPU_ISA": "SSE41"})
        refused = {one["node"]: one["reason"] for one in started["refused"]}
        self.assertEqual(list(refused), ["n2"])
        self.assert_says(refused["n2"], "bits")
        self.expect_the_others()

    def test_whose_votes_find_no_space_leaves(self):
        self.begin({"GPUNODE_FAULT_DISK_FULL_AFTER": "0",
                    "GPUNODE_FAULT_DISK_FULL_IN": "votes"})
        self.expect_that_it_leaves("n2", "votes", "disk_full")

    def test_whose_checkpoints_find_no_space_leaves(self):
        self.begin({"GPUNODE_FAULT_DISK_FULL_AFTER": "100000",
                    "GPUNODE_FAULT_DISK_FULL_IN": "checkpoints"})
        self.expect_that_it_leaves("n2", "disk_full")

    def limit_memory(self, spare):
        """n2 may map so many bytes more than it has now."""
        pid = self.nodes["n2"].process.pid
        with open(f"/proc/{pid}/statm", encoding="ascii") as told:
            most = int(told.read().split()[0]) * resource.getpagesize() + spare
        resource.prlimit(pid, resource.RLIMIT_AS, (most, most))

    def test_whose_memory_does_not_hold_the_job_is_refused_by_name(self):
        self.steps, self.every, self.channels = 20, 10, 512  # some 150 MB in all
        self.pace_at = "slice"

        def before():
            self.limit_memory(48 << 20)
            self.pace(200)  # n3 may be later than n1: its way in takes a few steps
        started = self.begin(before=before)
        refused = {one["node"]: one["reason"] for one in started["refused"]}
        self.assertEqual(list(refused), ["n2"])
        self.assert_says(refused["n2"], "too large for this machine", "memory")
        self.expect_the_others()

    def test_whose_memory_is_exhausted_on_the_way_leaves_until_it_is_resumed(self):
        self.steps, self.channels = 120, 256  # a checkpoint takes some 10 MB
        self.begin({"GPUNODE_FAULT_NO_MEMORY_WHILE": self.path("no_memory")})
        for node in self.nodes.values():
            self.await_members(node, self.names)
        self.pace(200)  # it is not to end before n2 is back
        self.world.write("no_memory", "")
        line = self.await_line(self.nodes["n2"], lambda line: line["phase"] == "failed",
                               "it has failed")
        self.assert_says(line["reason"], "memory")
        self.begin_again(self.nodes["n2"])

    def begin_again(self, failed):
        """After a restart it is failed still, with reason and step, until a person resumes the job."""
        self.wait_until(lambda: glob.glob(failed.state + "/jobs/*/outcome"), "that is on its disk")
        failed.kill()
        os.remove(self.path("no_memory"))
        failed = self.start_node("n2")
        line = self.await_line(failed, lambda line: line["phase"] == "failed", "it is failed still")
        self.assertGreater(line["step"], 0)
        # The job has not failed: others go on.
        def goes_on():
            told = failed.ask("job", "show", "small", "--json").json.get("elsewhere")
            return told and told["phase"] == "running" and told["nodes"] == ["n1", "n3"]
        cluster.wait_until(goes_on, "it has heard of the others")
        waited = failed.ask("job", "wait", "small", "--timeout", "1s", "--json")
        self.assertEqual(waited.json["phase"], "failed", str(waited))
        self.assertNotEqual(waited.code, 1, str(waited))
        self.assert_fails(failed.ask("job", "stop", "small"), 1,
                          f"has failed here after step {line['step']}", "memory", "job resume small")
        resumed = failed.ask("job", "resume", "small", "--json")
        self.assertEqual((resumed.code, resumed.json["phase"]), (0, "preparing"), str(resumed))
        for node in self.nodes.values():
            self.await_members(node, self.names)
        self.pace(None)
        self.check_all(list(self.nodes.values()), 2 * cluster.TIMEOUT)


class AFullDisk(training.TrainingTest):
    """The same with a real file system that has no space left."""
    steps, every = 240, 20

    def setUp(self):
        super().setUp()
        self.small = self.path("n2")
        os.makedirs(self.small, mode=0o700)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "gpunode-test",
                                  self.small], capture_output=True, check=False)
        if mounted.returncode != 0:
            self.skipTest("skipped: mounting a small file system is not allowed here")
        self.addCleanup(subprocess.run, ["umount", "-l", self.small], check=False)

    def fill(self):
        free = shutil.disk_usage(self.small).free
        return self.world.write("n2/filler", bytes(max(free - 8192, 0)))

    def test_at_the_end_of_a_job_on_one_node_keeps_the_result_until_there_is_space(self):
        self.undisturbed()
        node = self.start_node("n2")
        self.pace(40)
        self.train(node, 1)
        cluster.wait_until(lambda: node.ask("checkpoint", "ls", "--json").json["checkpoints"],
                           "it holds a checkpoint")
        filler = self.fill()
        self.pace(None)
        line = self.await_line(node, lambda line: line["step"] == self.steps and line.get("reason"),
                               "its result has no space")
        self.assertEqual(line["phase"], "saving")
        self.assert_says(line["reason"], "only in this node's memory", "disk_full")
        os.remove(filler)
        self.check_all([node])

    def test_costs_the_job_one_member(self):
        self.undisturbed()
        self.start_nodes(["n1", "n2", "n3"])
        self.pace(40)
        self.train(self.nodes["n1"], 3)
        for node in self.nodes.values():
            self.await_members(node, ["n1", "n2", "n3"])
        self.fill()
        for name in ("n1", "n3"):
            self.await_members(self.nodes[name], ["n1", "n3"])
        line = self.await_line(self.nodes["n2"], lambda line: line["phase"] == "failed",
                               "it has failed")
        self.assert_says(line["reason"], "disk_full")
        self.pace(None)
        self.check_all([self.nodes["n1"], self.nodes["n3"]], 2 * cluster.TIMEOUT)


if __name__ == "__main__":
    cluster.main()
