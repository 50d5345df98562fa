"""A GPU that is hot, or has errors, is drained while a job runs on it: what the driver says reaches a
node's devices through NVML. There is no GPU here: a library with NVML's names reads its figures from a
file, and the devices are CPUs that sit on the PCI bus where it says that there are GPUs, in another
order, as CUDA's may be.
usage: health_test.py GPUNODE GPUNODE_FAULTY [unittest arguments]
"""
import os

import cluster
import training

GPU_OF = {"cuda:0": 1, "cuda:1": 0}  # as NVML counts them
PLACES = "cuda:0@0000:c1:00.0,cuda:1@0000:01:00.0"


class Drained(training.TrainingTest):
    steps, every = 400, 100
    pace_at = "slice"

    def environment(self, name):
        library = os.path.join(os.path.dirname(cluster.PROGRAMS["faulty"]), "..", "fake_nvml")
        return {**super().environment(name), "LD_LIBRARY_PATH": os.path.abspath(library),
                "FAKE_NVML_READINGS": self.path("readings"), "GPUNODE_FAULT_DEVICES": PLACES}

    def read(self, *lines):
        """From now on the driver says this, of devices as the node calls them."""
        told = (line.split(" ", 1) for line in lines)
        self.write_whole("readings", "".join(f"{GPU_OF[device]} {rest}\n"
                                             for device, rest in told))

    def begin(self):
        """A job that runs on both devices of a node, until it is let go."""
        self.undisturbed()
        self.read()
        node = self.start_node("n1")
        self.pace(300)
        self.train(node, 1)
        self.await_line(node, lambda line: line["step"] > 2, "it runs")
        job = self.line(node)["job"]
        for device in GPU_OF:
            self.assertEqual(self.shown(node, device)["used_by"], [job])
            self.assertEqual(self.shown(node, device)["state"], "ready")
        return node

    def shown(self, node, device):
        told = node.ask("devices", "--json").json["devices"]
        return next(one for one in told if one["device"] == device)

    def await_state(self, node, device, state):
        def is_so():
            one = self.shown(node, device)
            return one if one["state"] == state else None
        return self.wait_until(is_so, f"{device} is {state}")

    def await_let_go(self, node, device):
        self.wait_until(lambda: not self.shown(node, device)["used_by"], f"{device} is free")

    def await_steps(self, node):
        """The job gets on."""
        at = self.line(node)["step"]
        self.await_line(node, lambda line: line["step"] > at + 2, "it gets on")

    def test_of_a_device_that_is_hot_until_it_is_cool_and_of_one_with_bad_memory_after_it(self):
        node = self.begin()
        self.read("cuda:0 celsius 97")
        hot = self.await_state(node, "cuda:0", "drained")
        self.assertIn("97 C is above 92 C", hot["reason"])
        self.assertIn("97 C is above 92 C", node.ask("devices").out)
        self.wait_until(lambda: "gpu1 is drained: 97 C" in node.ask("nodes").out,
                        "all nodes are told")
        self.await_let_go(node, "cuda:0")
        self.await_steps(node)
        # The last device that takes work is not drained, but tells that it should be.
        self.read("cuda:0 celsius 97", "cuda:1 errors 3")
        bad = self.wait_until(lambda: self.shown(node, "cuda:1").get("warning"), "it warns")
        self.assert_says(bad, "the last device", "3 errors that could not be corrected")
        self.await_steps(node)
        self.read("cuda:1 errors 3")
        self.await_state(node, "cuda:0", "ready")  # which lets the other one go
        gone = self.await_state(node, "cuda:1", "drained")
        self.assertIn("3 errors that could not be corrected", gone["reason"])
        self.pace(None)
        self.check_all([node], 2 * cluster.TIMEOUT)
        # A job that begins now has the one that came back.
        later = self.job_file("later", steps=5000, data=self.path("data/text.txt"))
        again = node.ask("train", later, "--json")
        self.assertEqual(again.code, 0, str(again))
        self.wait_until(lambda: self.shown(node, "cuda:0")["used_by"], "it works again")
        self.assertEqual(self.shown(node, "cuda:1")["used_by"], [])

    def test_of_a_device_whose_xid_condemns_it_and_not_for_a_programs_error(self):
        node = self.begin()
        # Where the driver reports in this order, the first has been heard when the second acts.
        self.read("cuda:0 xid 31", "cuda:1 xid 79")
        fallen = self.await_state(node, "cuda:1", "drained")
        self.assert_says(fallen["reason"], "xid 79", "fallen off the bus", "restart the machine")
        self.assertEqual(self.shown(node, "cuda:0")["state"], "ready")
        self.assert_says(node.said(), "gpu1: xid 31", "not of the device")
        self.await_let_go(node, "cuda:1")
        self.await_steps(node)
        self.pace(None)
        self.check_all([node], 2 * cluster.TIMEOUT)


if __name__ == "__main__":
    cluster.main()
