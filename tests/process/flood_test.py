"""A member with valid keys floods another one with each kind of message and call: the victim's memory and
threads stay within their bounds, what others ask of it goes on, and what it refused is counted."""
import json
import os
import re
import threading
import time

import cluster

BOUND_MB = 200  # that a flood of one member may cost, of whatever kind
SECONDS = 2
THREADS = 12  # that it may start
# Hundreds a second that cannot be read: who sends them is put off. Others are refused by their number. What is
# of no job and no offer here is done with at once, however much it is.
PUT_OFF = ("gossip", "directory")
RATED = ("admission", "question", "work")


class Watch:
    """The most memory and threads that a process has had since, looked at now and then."""

    def __init__(self, pid):
        self.pid, self.ended = pid, threading.Event()
        self.first = self.look()
        self.most = self.first
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def look(self):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as stream:
            text = stream.read()
        return tuple(int(re.search(rf"^{what}:\s+(\d+)", text, re.M).group(1))
                     for what in ("VmRSS", "Threads"))

    def run(self):
        while not self.ended.wait(0.02):
            self.most = tuple(map(max, self.most, self.look()))

    def end(self):
        self.ended.set()
        self.thread.join()
        return (self.most[0] - self.first[0]) / 1024, self.most[1] - self.first[1]


class Flood(cluster.ProcessTest):
    def setUp(self):
        super().setUp()
        self.first = self.world.start("first")
        self.second = self.world.join("second", self.first)
        self.rogue = self.joined_as("rogue")
        self.victim = next(one["id"] for one in self.first.ask("nodes", "--json").json["nodes"]
                           if one["name"] == "first")

    def joined_as(self, name):
        token = self.world.token(self.first, "--role", "compute,submit,call")
        return self.world.start(name, "join", self.first.join_address,
                                env={"GPUNODE_TOKEN": token})

    def manifest(self):
        """Of a job that the rogue may submit."""
        done = self.rogue.ask("train", self.job_file("own", steps=2, every=2), "--json")
        self.assertEqual(done.code, 0, str(done))
        for folder, _, files in os.walk(self.world.root):
            if "manifest" in files and os.path.basename(os.path.dirname(folder)) == "jobs":
                return os.path.join(folder, "manifest")
        raise AssertionError("no manifest")

    def flood(self, rogue, kind, *more):
        return self.world.hostile("--state", rogue.state, "--victim", self.victim, "--attack",
                                  kind, "--seconds", str(SECONDS), "--cpu", "1", *more)

    def refused(self, kind):
        text = self.first.ask("metrics").out
        found = re.search(rf'^gpunode_peer_refused_total{{load="{kind}"}} (\d+)', text, re.M)
        return int(found.group(1)) if found else 0

    def put_off(self):
        return "\n".join(line for line in self.first.said().splitlines()
                         if "its links are closed for" in line)

    def train(self, name):
        """A job of the honest nodes, from begin to end."""
        done = self.second.ask("train", self.job_file(name, steps=20, every=20, nodes=2, min_nodes=2),
                               "--follow", timeout=2 * cluster.TIMEOUT)
        self.assertEqual(done.code, 0, str(done))

    def test_no_kind_of_flood_fills_the_victims_memory_or_keeps_others_out(self):
        manifest = self.manifest()
        self.train("before")
        self.rogue.kill()
        # Whoever is put off for one kind sends little of the next.
        rogues = {kind: self.joined_as(f"rogue-{kind}") for kind in (*PUT_OFF, "admission")}
        for rogue in rogues.values():
            rogue.kill()
        for kind in ("gossip", "directory", "admission", "job", "job_bulk", "service", "question",
                     "work"):
            with self.subTest(kind=kind):
                watch = Watch(self.first.process.pid)
                flood = self.flood(rogues.get(kind, self.rogue), kind,
                                   *(["--manifest", manifest] if kind == "work" else []))
                began = time.monotonic()
                self.train(f"during-{kind}".replace("_", "-"))
                took = time.monotonic() - began
                out, err = flood.communicate(timeout=cluster.TIMEOUT)
                megabytes, threads = watch.end()
                self.assertEqual(flood.returncode, 0, err)
                told = json.loads(out)
                print(f"{kind}: {told}, at most {megabytes:.0f} MB and {threads} threads more, "
                      f"a job took {took:.1f} s")
                self.assertGreater(told[kind], 0)
                self.assertLess(megabytes, BOUND_MB)
                self.assertLess(threads, THREADS)
                if kind in PUT_OFF:
                    self.assertIn(f"rogue-{kind} (", self.put_off(), "its links are closed")
                if kind in RATED:
                    self.assertGreater(self.refused(kind), 0)
                if kind in ("question", "work"):
                    self.assertGreater(told["full"], 0, "the caller hears of it")

        def audited():
            shown = self.first.ask("audit", "show", "--kind", "member_refused")
            return "too much of the kind" in shown.out
        cluster.wait_until(audited, "the audit log tells of it", timeout=90, every=1)


if __name__ == "__main__":
    cluster.main()
