"""Strangers at the three ports: floods from many addresses keep nobody out, and who may not come is hung
up on."""
import os
import random
import socket
import threading
import time

import cluster


def port_of(endpoint):
    return int(endpoint.rsplit(":", 1)[1])


class Flood:
    """Opens connections from all over 127/8 as fast as it can; a part says something."""

    def __init__(self, ports):
        self.ports, self.ended, self.opened = ports, threading.Event(), 0
        self.threads = [threading.Thread(target=self.run, args=(seed,)) for seed in range(2)]
        for thread in self.threads:
            thread.start()

    def run(self, seed):
        rng, held = random.Random(seed), []
        while not self.ended.is_set():
            one = socket.socket()
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                one.bind((f"127.{rng.randrange(1, 255)}.{rng.randrange(256)}.{rng.randrange(1, 255)}", 0))
                one.connect(("127.0.0.1", rng.choice(self.ports)))
                if rng.random() < 0.3:
                    one.send(rng.randbytes(rng.randrange(1, 200)))
                self.opened += 1
            except OSError:
                pass
            held.append(one)
            if len(held) > 400:
                held.pop(0).close()
            time.sleep(0.0005)
        for one in held:
            one.close()

    def end(self):
        self.ended.set()
        for thread in self.threads:
            thread.join()


class Edge(cluster.ProcessTest):
    def ports(self, node):
        own = next(one for one in node.ask("nodes", "--json").json["nodes"] if one["self"])
        control, join = port_of(own["endpoints"][0]), port_of(own["join_endpoints"][0])
        return control, join

    def bulk_port(self, node, known):
        """The one listening port of the process that is none of the others."""
        with open(f"/proc/{node.process.pid}/net/tcp", encoding="ascii") as stream:
            lines = stream.read().split("\n")[1:]
        listening = {int(line.split()[1].split(":")[1], 16): line.split()[9]
                     for line in lines if line and line.split()[3] == "0A"}
        own = self.inodes(node)
        found = [port for port, inode in listening.items() if inode in own and port not in known]
        self.assertEqual(len(found), 1, str(found))
        return found[0]

    def inodes(self, node):
        folder = f"/proc/{node.process.pid}/fd"
        links = []
        for name in os.listdir(folder):
            try:
                links.append(os.readlink(os.path.join(folder, name)))
            except FileNotFoundError:  # closed meanwhile
                pass
        return {link[len("socket:["):-1] for link in links if link.startswith("socket:[")}

    def test_floods_from_many_addresses_keep_nobody_out(self):
        first = self.world.start("first")
        control, join = self.ports(first)
        flood = Flood([control, join, self.bulk_port(first, (control, join))])
        self.addCleanup(flood.end)
        cluster.wait_until(lambda: flood.opened > 1000, "the tables are full")
        for name in ("second", "third"):
            self.world.join(name, first)
        done = first.ask("train", self.job_file(steps=20, every=10, nodes=3), "--follow",
                         timeout=2 * cluster.TIMEOUT)
        self.assertEqual(done.code, 0, str(done))
        before = flood.opened
        cluster.wait_until(lambda: flood.opened > before + 500, "it goes on")
        self.assertEqual(len(first.ask("nodes", "--json").json["nodes"]), 3)

    def kept(self, source, port, timeout):
        """Whether the node at that port keeps the connection of who comes from there. libzmq may
        greet before the node learns of it; what counts is that it is hung up on."""
        with socket.socket() as one:
            one.settimeout(timeout)
            one.bind((source, 0))
            try:
                one.connect(("127.0.0.1", port))
                while one.recv(64):
                    pass
                return False
            except socket.timeout:
                return True
            except OSError:
                return False

    def test_who_may_not_come_is_hung_up_on(self):
        first = self.world.start("first", "up", "--allow", "127.0.0.8/29", "--allow", "10.0.0.0/8")
        control, join = self.ports(first)
        bulk = self.bulk_port(first, (control, join))
        for port in (control, join, bulk):
            self.assertFalse(self.kept("127.0.0.2", port, cluster.TIMEOUT), port)
        for port in (control, join):
            self.assertTrue(self.kept("127.0.0.9", port, 2), port)
            self.assertTrue(self.kept("127.0.0.1", port, 2), f"{port}: the machine itself")
        second = self.world.join("second", first)
        cluster.wait_until(lambda: len(second.ask("nodes", "--json").json["nodes"]) == 2, "it is in")
        told = first.ask("config", "--json").json["settings"]
        self.assertIn({"key": "allow", "values": ["127.0.0.8/29", "10.0.0.0/8"]},
                      [{"key": one["key"], "values": one["values"]} for one in told])
        refused = self.world.run("up", "--allow", "10.0.0.0/40", "--listen", "127.0.0.1:0",
                                 "--state", self.world.state("wrong"))
        self.assert_fails(refused, 1, "10.0.0.0/40", "no range")


if __name__ == "__main__":
    cluster.main()
