"""The members' devices form a group, and the sums of their steps go through it and not over the links.
There is no GPU here: the CPU is the device, and libraries of the tests stand in NCCL's place and the
driver's; the processes that carry, their orders and their deaths are real.
usage: group_test.py GPUNODE GPUNODE_FAULTY [unittest arguments]
"""
import os
import signal

import cluster
import training

STANDS = "members are a group: their sums go from device to device"


def carriers_of(node):
    """The processes that carry for it."""
    found = []
    for one in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{one}/stat") as file:
                head, rest = file.read().rsplit(")", 1)
        except OSError:
            continue
        if "gpunode-carrier" in head and int(rest.split()[1]) == node.process.pid:
            found.append(int(one))
    return found


class Grouped(training.TrainingTest):
    steps, every = 400, 100
    pace_at = "commit"
    names = ["n1", "n2", "n3"]

    def environment(self, name):
        fakes = os.environ["GPUNODE_FAKE_DEVICES"]
        return {**super().environment(name), "GPUNODE_FAULT_GROUPS": "1",
                "GPUNODE_NCCL_FOLDER": fakes, "LD_LIBRARY_PATH": fakes,
                "GPUNODE_CARRIER": os.environ["GPUNODE_CARRIER"]}

    def begin(self):
        self.undisturbed()
        self.start_nodes(self.names)
        self.pace(20)
        self.train(self.nodes["n1"], 3)
        self.await_group(self.names)

    def await_group(self, names, times=1):
        for name in names:
            self.await_members(self.nodes[name], names)
            self.wait_until(lambda name=name: self.log(self.nodes[name]).text().count(STANDS) >= times,
                            f"{name} is in a group")

    def went_on(self, node, by=10):
        at = self.line(node)["step"]
        self.await_line(node, lambda line: line["step"] >= at + by or line["phase"] == "finished",
                        f"it goes on after step {at}")


    def sent(self):
        """Bytes that each member sent a step over its links, of the last steps."""
        shown = self.nodes["n1"].ask("job", "show", "small", "--json").json
        members = shown.get("times", {}).get("members", [])
        return [one["sent_bytes"] for one in members] or [1]

    def test_carries_the_sums_and_nothing_else_changes(self):
        self.begin()
        self.wait_until(lambda: max(self.sent()) == 0, "no sums go over the links any more")
        for node in self.nodes.values():
            self.assertEqual(len(carriers_of(node)), 1)
        self.pace(None)
        self.check_all(list(self.nodes.values()), 2 * cluster.TIMEOUT)
        for node in self.nodes.values():
            cluster.wait_until(lambda node=node: not carriers_of(node), "no carrier is left")

    def test_a_carrier_that_is_killed_costs_no_view(self):
        self.begin()
        self.went_on(self.nodes["n1"])
        views = len(self.log(self.nodes["n1"]).views)
        for pid in carriers_of(self.nodes["n2"]):
            os.kill(pid, signal.SIGKILL)
        for node in self.nodes.values():
            self.wait_until(lambda node=node: "over the links" in self.log(node).text(),
                            f"{node.name} knows that the group is broken")
        self.went_on(self.nodes["n3"])
        self.assertEqual(len(self.log(self.nodes["n1"]).views), views)
        self.pace(None)
        self.check_all(list(self.nodes.values()), 2 * cluster.TIMEOUT)

    def test_a_member_that_dies_leaves_the_others_to_form_another(self):
        self.begin()
        self.went_on(self.nodes["n1"])
        self.nodes["n3"].kill()
        left = ["n1", "n2"]
        self.await_group(left, times=2)
        self.went_on(self.nodes["n1"])
        self.pace(None)
        self.check_all([self.nodes[name] for name in left], 2 * cluster.TIMEOUT)


if __name__ == "__main__":
    cluster.main()
