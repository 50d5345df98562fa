"""A device that never answers is lost: the node says so, leaves its jobs, and its process starts anew
in its own place, or goes on without it. There is no GPU here; a CPU whose work stands still at a fault
point is lost in the same way.
usage: device_test.py GPUNODE GPUNODE_FAULTY [unittest arguments]
"""
import cluster
import training

LOST = "the device cpu is lost: it has not got on with the work of"


class Lost(training.TrainingTest):
    steps, every = 300, 20
    pace_at = "slice"
    names = ["n1", "n2"]
    flags = ["--device-timeout", "3s"]

    def test_costs_the_member_until_its_process_has_started_anew(self):
        self.undisturbed()
        self.start_nodes(self.names)
        self.pace(100)
        self.train(self.nodes["n1"], 2)
        for node in self.nodes.values():
            self.await_members(node, self.names)
        lost, other = self.nodes["n2"], self.nodes["n1"]
        self.await_line(other, lambda line: line["step"] > 5, "it runs")
        used = lost.ask("devices", "--json").json["devices"]
        job = self.line(lost)["job"]
        self.assertEqual([(one["device"], one["state"]) for one in used], [("cpu", "ready")])
        self.assertEqual(used[0]["used_by"], [job])
        self.order("n2", "hang", "slice")
        self.wait_until(lambda: LOST in lost.said(), "it says that it is lost")
        self.await_members(other, ["n1"])
        self.wait_until(lambda: "starting anew" in lost.said(), "it starts anew")
        self.assertIsNone(lost.process.poll(), "the process is the same one")
        self.order("n2", "go", "slice")  # for whoever came to it meanwhile
        for node in self.nodes.values():
            self.await_members(node, self.names)
        self.pace(None)
        self.check_all(list(self.nodes.values()), 2 * cluster.TIMEOUT)
        self.assertEqual(lost.ask("devices", "--json").json["devices"][0]["state"], "ready")


class Stays(training.TrainingTest):
    steps, every = 300, 20
    pace_at = "slice"
    flags = ["--device-timeout", "3s", "--on-device-loss", "stay"]

    def test_goes_on_without_it_and_says_why_nothing_is_computed(self):
        self.start_nodes(["n1"])
        node = self.nodes["n1"]
        self.pace(30)
        self.train(node, 1)
        self.await_line(node, lambda line: line["step"] > 5, "it runs")
        self.order("n1", "hang", "slice")
        line = self.await_line(node, lambda line: line["phase"] == "failed", "it has failed")
        self.assertIn(LOST, line["reason"])
        self.assertIsNone(node.process.poll())
        shown = node.ask("devices", "--json").json["devices"][0]
        self.assertEqual((shown["device"], shown["state"]), ("cpu", "lost"))
        self.assertIn("has not got on", shown["reason"])
        self.assertIn("cpu is lost", node.ask("devices").out)
        again = node.ask("train", self.job(1))
        self.assertNotEqual(again.code, 0)
        self.assert_says(again.err, "cpu is lost")
        for order in ("drain", "resume"):
            refused = node.ask("device", order, "cpu")
            self.assertEqual(refused.code, 1)
            self.assert_says(refused.err, "lost")

    def test_refuses_flags_that_cannot_be(self):
        for words, said in ((("--device-timeout", "5ms"), "at least 1s"),
                            (("--on-device-loss", "pray"), "restart or stay"),
                            (("--device", "tpu"), "auto, cpu, cuda")):
            refused = self.world.run("up", "--state", self.world.state("no"), *words)
            self.assertIn(refused.code, (1, 2), str(refused))
            self.assert_says(refused.err, said)

    def test_refuses_to_drain_the_last_one_and_one_that_is_not_there(self):
        node = self.start_node("n1")
        refused = node.ask("device", "drain", "cpu")
        self.assertEqual(refused.code, 1)
        self.assert_says(refused.err, "cpu is the last device", "gpunode leave")
        refused = node.ask("device", "drain", "cuda:7")
        self.assertEqual(refused.code, 1)
        self.assert_says(refused.err, "no device 'cuda:7', but cpu")
        self.assertEqual(node.ask("device", "resume", "cpu").code, 0)


if __name__ == "__main__":
    cluster.main()
