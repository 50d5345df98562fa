"""Mode nccl: without GPUs it is exact mode and says why; with a library in NCCL's place that hangs,
fails, dies or lies, the job goes on and its members stay alike."""
import os
import signal

import cluster

LIBRARY = os.environ.get("FAKE_NCCL_LIBRARY", "")
FAULTS = ("HANG", "FAIL", "WRONG")


def rank_process(node):
    """The process in which this node's NCCL lives, or None."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stream:
                name, rest = stream.read().rsplit(")", 1)
        except (FileNotFoundError, ProcessLookupError):
            continue
        state, parent = rest.split()[:2]
        if int(parent) == node.process.pid and name.endswith("gpunode-nccl") and state != "Z":
            return int(pid)
    return None


class Nccl(cluster.ProcessTest):
    def shown(self, node, job="small"):
        return node.ask("job", "show", job, "--json").json

    def events(self, node, job="small"):
        return "\n".join(event["text"] for event in self.shown(node, job)["events"])

    def start(self, with_library):
        """Three nodes that see each other, of which some have a library."""
        self.slow = self.world.write("slow", "")
        nodes = []
        for name in "abc":
            env = {"CUDA_VISIBLE_DEVICES": "-1", "GPUNODE_FAULT_PACE_MS": "20",
                   "GPUNODE_FAULT_PACE_WHILE": self.slow}
            if name in with_library:
                self.assertTrue(LIBRARY, "FAKE_NCCL_LIBRARY names no library")
                env["GPUNODE_FAULT_GPU_LIBRARIES"] = LIBRARY
                env |= {"FAKE_NCCL_" + fault: self.fault_file(name, fault) for fault in FAULTS}
            options = {"faulty": True, "env": env}
            nodes.append(self.world.join(name, nodes[0], **options) if nodes else
                         self.world.start(name, **options))
        for node in nodes:
            cluster.wait_until(lambda node=node: self.sees_all(node), "all are seen")
        return nodes

    def fault_file(self, node, fault):
        return self.world.path(f"{fault}-{node}")

    def sees_all(self, node):
        seen = node.ask("nodes", "--json").json["nodes"]
        return len(seen) == 3 and all(one["health"] == "alive" for one in seen)

    def train(self, node, mode="nccl", name="small", steps=200):
        path = self.job_file(name=name, steps=steps, every=100, nodes=3,
                             extra=f'\n[exchange]\nmode = "{mode}"\n')
        started = node.ask("train", path, "--json")
        self.assertEqual(started.code, 0, str(started))

    def train_by_nccl(self, nodes, steps=200):
        """A job that is at it, by way of the library; it takes its time until finish()."""
        self.train(nodes[0], steps=steps)
        for node in nodes:
            cluster.wait_until(lambda node=node: self.shown(node).get("nccl", {}).get("steps", 0) > 2,
                               "NCCL sums steps")
        self.assertLess(self.shown(nodes[0])["step"], steps, "the job was over before the fault")

    def finish(self, nodes, steps=200):
        """The reports at the end, once every member holds the same."""
        os.remove(self.slow)
        for node in nodes:
            self.wait_for_phase(node, "small")
        reports = [self.shown(node) for node in nodes]
        for report in reports:
            self.assertEqual(report["step"], steps)
            self.assertEqual(len(report["members"]), len(nodes))
            self.assertEqual(report["state_digest"], reports[0]["state_digest"])
            self.assertTrue(report["proof"]["equal_to_fed"], report["proof"])
        return reports

    def test_without_gpus_it_is_exact_mode_and_says_why(self):
        nodes = self.start(with_library="")
        self.train(nodes[0], steps=60)
        self.train(nodes[0], mode="exact", name="plain", steps=60)
        for node in nodes:
            cluster.wait_until(lambda node=node: "nccl is not used: node" in self.events(node),
                               "every member says so")
        self.finish(nodes, steps=60)
        for node in nodes:
            self.wait_for_phase(node, "plain")
        for node in nodes:
            report = self.shown(node)
            self.assertEqual(report["exchange_mode"], "nccl")
            self.assertEqual(report["nccl"]["used"], False)
            self.assertEqual(report["nccl"]["steps"], 0)
            self.assert_says(report["exchange_way"], "nccl is not used: node ", "no GPU", "links")
            self.assert_says(self.events(node), "nccl is not used: node ", "no GPU")
            self.assertEqual(report["state_digest"], self.shown(node, "plain")["state_digest"])
            self.assertIsNone(rank_process(node))
        self.assert_says(nodes[0].ask("job", "show", "small").out, "exchange_way", "not used")

    def test_the_library_sums_and_all_hold_the_same(self):
        nodes = self.start(with_library="abc")
        self.train_by_nccl(nodes)
        self.assertEqual(len({rank_process(node) for node in nodes} - {None}), 3)
        for report, node in zip(self.finish(nodes), nodes):
            self.assertTrue(report["nccl"]["used"], report["nccl"])
            self.assert_says(self.events(node), "nccl is used")
        for node in nodes:
            cluster.wait_until(lambda node=node: rank_process(node) is None,
                               "a finished job keeps no GPU")

    def test_one_node_without_a_gpu_is_named_and_all_take_the_links(self):
        nodes = self.start(with_library="ab")
        self.train(nodes[0])
        for node in nodes:
            cluster.wait_until(lambda node=node: "nccl is not used: node c: no GPU" in
                               self.events(node), "the one without a GPU is named")
        for report in self.finish(nodes):
            self.assertEqual(report["nccl"]["node"], "c")
            self.assertEqual(report["nccl"]["steps"], 0)

    def test_a_killed_process_ends_the_view_and_the_job_goes_on(self):
        nodes = self.start(with_library="abc")
        self.train_by_nccl(nodes)
        os.kill(rank_process(nodes[1]), signal.SIGKILL)
        for node in nodes:
            cluster.wait_until(lambda node=node: self.shown(node)["nccl"].get("node") == "b",
                               "the node whose process died is named")
        reports = self.finish(nodes)
        self.assert_says(reports[0]["exchange_way"], "node b", "process died", "signal 9")

    def run_through(self, fault, name, *words):
        nodes = self.start(with_library="abc")
        self.train_by_nccl(nodes)
        view = self.shown(nodes[0])["view"]
        self.world.write(f"{fault}-{name}", "")
        for node in nodes:
            cluster.wait_until(lambda node=node: self.shown(node)["nccl"]["used"] is False and
                               self.shown(node)["view"] > view, "the links are taken again")
        said = "\n".join(self.events(node) for node in nodes)
        self.assert_says(said, *words)
        self.finish(nodes)

    def test_a_sum_that_hangs_is_killed_and_done_again_over_the_links(self):
        self.run_through("HANG", "b", "nccl", "the sum hung")

    def test_a_sum_that_fails_is_done_again_over_the_links(self):
        self.run_through("FAIL", "a", "ncclAllReduce failed", "unhandled system error")

    def test_a_wrong_sum_on_one_member_is_caught_and_done_again(self):
        self.run_through("WRONG", "c", "the GPUs gave the members different sums")

    def test_a_killed_node_takes_its_process_along(self):
        nodes = self.start(with_library="abc")
        self.train_by_nccl(nodes)
        pid = rank_process(nodes[2])
        nodes[2].kill()
        cluster.wait_until(lambda: cluster.gone(pid), "the process dies with its node")
        reports = self.finish(nodes[:2])
        self.assertGreater(reports[0]["nccl"]["steps"], 0)

    def test_it_is_not_started_by_hand(self):
        self.assert_fails(self.world.run("nccl-rank"), 2, "not started by hand")


if __name__ == "__main__":
    cluster.main()
