"""A machine's address appears or changes while its node runs: others are told, and reach it there. The
machines are network namespaces with a cable between them; skipped where none can be made.
usage: address_test.py GPUNODE GPUNODE_FAULTY [unittest arguments]
"""
import os
import shutil
import subprocess
import unittest

import cluster


class Machine:
    """A network namespace, held open by a process; the first holds a user namespace too unless the
    test runs as root."""

    def __init__(self, test, beside=None):
        self.enter = ["nsenter", "-t"]
        user = [] if os.geteuid() == 0 else ["-U", "--preserve-credentials"]
        if beside:
            words = [*beside.within(), "unshare", "-n"] if user else ["unshare", "-n"]
        else:
            words = ["unshare", "-n" if not user else "-rn"]
        self.user = user
        self.holder = subprocess.Popen([*words, "sh", "-c", "ip link set lo up && echo up && "
                                        "exec sleep 600"], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        test.addCleanup(self.end)
        self.is_made = self.holder.stdout.readline() == "up\n"

    def end(self):
        self.holder.kill()
        self.holder.wait()
        self.holder.stdout.close()

    def within(self):
        return ["nsenter", "-t", str(self.holder.pid), *self.user, "-n", "--"]

    def ip(self, words):
        subprocess.run([*self.within(), "ip", *words.split()], check=True)


class Addresses(cluster.ProcessTest):
    def setUp(self):
        super().setUp()
        if not all(shutil.which(one) for one in ("ip", "unshare", "nsenter")):
            self.skipTest("no iproute2 or util-linux here")
        self.a = Machine(self)
        self.b = Machine(self, self.a) if self.a.is_made else self.a
        if not self.b.is_made:
            self.skipTest("no network namespaces can be made here")

    def lay_cable(self):
        self.a.ip(f"link add eth0 type veth peer name eth0 netns {self.b.holder.pid}")
        for machine, address in ((self.a, "10.77.0.1"), (self.b, "10.77.0.2")):
            machine.ip(f"addr add {address}/24 dev eth0")
            machine.ip("link set eth0 up")

    def told(self, node, name):
        """What a node tells of the node of that name."""
        for line in node.ask("nodes", "--json").json["nodes"]:
            if line["name"] == name:
                return line
        return None

    def await_address(self, node, name, address):
        def is_there():
            line = self.told(node, name)
            fits = line and line["health"] == "alive" and all(
                one.startswith(f"tcp://{address}:")
                for one in line["endpoints"] + line["join_endpoints"])
            return line if fits else None
        return cluster.wait_until(is_there, f"{node.name} sees {name} at {address}")

    def has_stored(self, node, address):
        with open(os.path.join(node.state, "peers"), "rb") as stream:
            return address.encode() in stream.read()

    def join_at(self, through, address, *flags, **options):
        token = self.world.token(through)
        port = self.told(through, through.name)["join_endpoints"][0].rsplit(":", 1)[1]
        return self.world.start("b", "join", f"{address}:{port}", *flags,
                                env={"GPUNODE_TOKEN": token}, within=self.b.within(), **options)

    def test_a_node_that_starts_before_its_network_is_reached_once_that_is_there(self):
        first = self.world.start("a", listen="0.0.0.0:0", within=self.a.within())
        self.assertTrue(first.info["endpoints"][0].startswith("tcp://127.0.0.1:"), first.info)
        self.assert_says(first.said(), "no address but loopback", "--advertise")
        self.lay_cable()
        self.await_address(first, "a", "10.77.0.1")
        self.assert_says(first.said(), "is now reached at tcp://10.77.0.1:",
                         "it was at tcp://127.0.0.1:")
        self.assertEqual(first.said().count("is now reached at"), 1)
        # Who only dials reaches a node at the address that its record tells, or not at all.
        second = self.join_at(first, "10.77.0.1", listen="none")
        self.await_address(second, "a", "10.77.0.1")
        cluster.wait_until(lambda: self.told(first, "b"), "a sees b")

    def test_an_address_that_is_replaced_is_told_to_those_who_are_there(self):
        self.lay_cable()
        first = self.world.start("a", listen="0.0.0.0:0", within=self.a.within())
        self.assertNotIn("no address but loopback", first.said())
        second = self.join_at(first, "10.77.0.1", listen="0.0.0.0:0")
        self.await_address(second, "a", "10.77.0.1")
        self.a.ip("addr add 10.77.0.9/24 dev eth0")
        self.a.ip("addr del 10.77.0.1/24 dev eth0")
        self.a.ip("addr replace 10.77.0.9/24 dev eth0")  # went with the first of its net
        self.await_address(first, "a", "10.77.0.9")
        self.await_address(second, "a", "10.77.0.9")
        self.await_address(first, "b", "10.77.0.2")
        # And after a restart, from the list of known peers.
        cluster.wait_until(lambda: self.has_stored(second, "10.77.0.9"), "b has stored it")
        second.kill()
        second = self.world.start("b", listen="0.0.0.0:0", within=self.b.within())
        self.await_address(second, "a", "10.77.0.9")

    def test_an_address_that_was_given_is_told_whatever_the_machine_has(self):
        first = self.world.start("a", "up", "--advertise", "10.77.0.5", listen="0.0.0.0:0",
                                 within=self.a.within())
        beside = self.world.start("c", listen="0.0.0.0:0", within=self.a.within())
        self.lay_cable()
        self.await_address(beside, "c", "10.77.0.1")
        self.assertTrue(self.told(first, "a")["endpoints"][0].startswith("tcp://10.77.0.5:"))
        self.assertNotIn("is now reached at", first.said())


if __name__ == "__main__":
    cluster.main()
