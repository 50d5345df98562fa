"""Five nodes train an exact job and answer calls, while a member that has no part in it does what it can
to harm them: forged, replayed, oversized and malformed messages of every kind, floods on all ports from
many addresses, answers that it does not read, identities without end. Measured against the same nodes
beside a process that takes as much of the processor, speaks to itself as much, and harms nobody.
usage: hostile_test.py GPUNODE GPUNODE_FAULTY [all] [--seconds N] [--attack NAME,...]
                       [--each] [unittest arguments]
  all: five minutes instead of some seconds, and the bars on speed and calls are asked for. --each: every
  attack by itself, told and not judged.
"""
import argparse
import json
import os
import sys

import cluster

OPTIONS = argparse.Namespace(seconds=8.0, attack="all", each=False, judge=False)
SHARE = "0.25"  # of one core, for who attacks or burns
NODES = 5
CORPUS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "fuzz", "corpus")
TEXT = "".join(f"{i}: the {i * i % 977} brown foxes jump over {i * 7919 % 10007} lazy dogs\n"
               for i in range(3000))


def resident(node):
    """Bytes of memory that the node's process has."""
    with open(f"/proc/{node.process.pid}/statm", encoding="ascii") as stream:
        return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def processor(node):
    """Seconds of the processor that the node's process has used."""
    with open(f"/proc/{node.process.pid}/stat", encoding="ascii") as stream:
        fields = stream.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Hostile(cluster.ProcessTest):
    def setUp(self):
        super().setUp()
        self.nodes = [self.world.start("n1")]
        for number in range(2, NODES + 1):
            self.nodes.append(self.world.join(f"n{number}", self.nodes[0]))
        first = self.nodes[0]
        cluster.wait_until(
            lambda: len(first.ask("nodes", "--json").json["nodes"]) == NODES, "all are there")
        started = first.ask("train", self.train_file(), "--json")
        self.assertEqual(started.code, 0, str(started))
        self.job = started.json["job"]
        cluster.wait_until(lambda: self.line(first)["step"] > 20, "it trains")
        cluster.wait_until(lambda: len(self.line(first)["members"]) == NODES, "all take part")

    def train_file(self, nodes=NODES):
        data = self.world.write("data/text.txt", TEXT)
        return self.job_file(steps=10_000_000, every=1000 if OPTIONS.judge else 100, nodes=nodes,
                             data=data, extra="keep = 20\n")

    def line(self, node):
        return next(one for one in node.ask("jobs", "--json").json["jobs"]
                    if one["name"] == "small")

    def keys_of(self, name, *roles):
        """The state directory of a member whose node has ended."""
        environment = {"GPUNODE_TOKEN": self.world.token(self.nodes[0], "--role", *roles)}
        node = self.world.start(name, "join", self.nodes[0].join_address, env=environment)
        cluster.wait_until(
            lambda: len(node.ask("nodes", "--json").json["nodes"]) > NODES, "it knows them")
        known = node.ask("nodes", "--json").json["nodes"]
        cluster.wait_until(lambda: os.path.exists(os.path.join(node.state, "peers")), "on disk")
        self.assertGreaterEqual(len(known), NODES)
        node.kill()
        return node.state

    def hostile(self, state, attack, seconds):
        return self.world.hostile("--state", state, "--attack", attack, "--seconds", str(seconds),
                                  "--cpu", SHARE, "--corpus", CORPUS, "--token-file",
                                  self.world.path("tokens"), "--job", self.job)

    def window(self, attack, seconds):
        """What the five do meanwhile."""
        before = self.line(self.nodes[0])["step"]
        used = sum(processor(node) for node in self.nodes)
        probe = self.hostile(self.probe, "probe", seconds)
        other = self.hostile(self.mallory, attack, seconds)
        told = {}
        for name, process in (("calls", probe), ("attack", other)):
            out, err = process.communicate(timeout=seconds + cluster.TIMEOUT)
            self.assertEqual(process.returncode, 0, f"{attack}: {err}")
            told[name] = json.loads(out)
        told["speed"] = (self.line(self.nodes[0])["step"] - before) / (seconds + 2)
        told["used"] = (sum(processor(node) for node in self.nodes) - used) / (seconds + 2)
        told["resident"] = [resident(node) for node in self.nodes]
        for node in self.nodes:
            self.assertIsNone(node.process.poll(), f"{node.name} ended: {node.said()[-3000:]}")
        return told

    def times_put_off(self):
        return sum(node.said().count("its links are closed for") for node in self.nodes)

    @staticmethod
    def burden(quiet, hostile):
        """Of the processor that the nodes use: what for a step, and how much in all."""
        each = [1e3 * told["used"] / told["speed"] for told in (quiet, hostile)]
        return (f"{each[0]:.2f} and {each[1]:.2f} ms of processor a step, {quiet['used']:.2f} and "
                f"{hostile['used']:.2f} cores")

    def compare(self, name, quiet, hostile):
        more = max(b - a for a, b in zip(quiet["resident"], hostile["resident"])) / 1e6
        speed = hostile["speed"] / quiet["speed"]
        calls = hostile["calls"]["p99_ms"] / quiet["calls"]["p99_ms"]
        print(f"{name}: speed {speed:.2f} of {quiet['speed']:.1f} steps/s, p99 of calls "
              f"{hostile['calls']['p99_ms']:.1f} ms, {calls:.2f} of quiet, lost "
              f"{hostile['calls']['lost']} of {hostile['calls']['calls']}, memory {more:+.0f} MB; "
              f"{self.burden(quiet, hostile)}, put off {self.times_put_off()} times; {hostile['attack']}",
              flush=True)
        return speed, calls, more

    @staticmethod
    def tell(name, told):
        print(f"{name}: {told['speed']:.1f} steps/s, calls {told['calls']}", flush=True)

    def test_who_has_no_part_in_a_job_harms_it_little(self):
        tokens = [self.world.token(self.nodes[0], "--role", "compute", "--uses", "1000")
                  for _ in range(5 if OPTIONS.judge else 1)]
        self.world.write("tokens", "\n".join(tokens) + "\n")
        self.probe = self.keys_of("probe", "compute,call,observe")
        self.mallory = self.keys_of("mallory", "compute,call")
        print()
        if OPTIONS.judge:  # told, not judged: no process that speaks to any is as cheap for the others
            self.tell("arithmetic", self.window("spin", OPTIONS.seconds / 5))
        quiet = self.window("burn", OPTIONS.seconds)
        self.tell("quiet", quiet)
        if OPTIONS.each:
            for attack in ("garbage", "forged", "replay", "calls", "frames", "flood", "churn", "slow"):
                self.compare(attack, quiet, self.window(attack, OPTIONS.seconds))
            return
        hostile = self.window(OPTIONS.attack, OPTIONS.seconds)
        for done in ("garbage", "forged", "frames", "flood"):
            if OPTIONS.attack == "all":
                self.assertGreater(hostile["attack"][done], 10, f"{done} was not tried")
        speed, calls, more = self.compare("all", quiet, hostile)
        self.assertEqual(len(self.line(self.nodes[0])["members"]), NODES, "nobody was put out")
        self.assertLess(more, 200, "MB")
        # In some seconds, beside other tests, little can be told of time.
        self.assertGreater(speed, 0.8 if OPTIONS.judge else 0.1)
        if OPTIONS.judge:
            self.assertLess(calls, 3)
        else:  # of 800 calls one stall of the machine is the 99th percentile
            self.assertLess(hostile["calls"]["p99_ms"], 10 * quiet["calls"]["p99_ms"] + 2000)
        self.check_weights()

    def test_who_sends_what_cannot_be_read_is_put_off(self):
        if OPTIONS.judge or OPTIONS.each:
            self.skipTest("seen in the short run")
        self.world.write("tokens", "\n")
        self.probe = self.keys_of("probe", "compute,call,observe")
        self.mallory = self.keys_of("mallory", "compute,call")
        told = self.window("garbage", 5)
        self.assertGreater(self.times_put_off(), 0, told)
        self.assertEqual(told["calls"]["lost"], 0, "who is honest is heard")
        self.assertEqual(len(self.line(self.nodes[0])["members"]), NODES, "nobody was put out")
        audited = self.nodes[0].ask("audit", "show").out + self.nodes[1].ask("audit", "show").out
        self.assertIn("mallory", self.nodes[0].said() + audited)

    def saved(self, node):
        return [one["step"] for one in node.ask("checkpoint", "ls", "--json").json["checkpoints"]]

    def check_weights(self):
        """The last checkpoint's weights are those of an undisturbed run on one node."""
        step = max(self.saved(self.nodes[0]))
        weights = {self.export(node, step) for node in self.nodes[:2]}
        for node in self.nodes:
            node.kill()
        alone = self.world.start("alone")
        self.assertEqual(alone.ask("train", self.train_file(nodes=1)).code, 0)
        cluster.wait_until(lambda: step in self.saved(alone), f"step {step} alone", 600)
        weights.add(self.export(alone, step))
        self.assertEqual(len(weights), 1, f"after step {step}")


if __name__ == "__main__":
    if len(sys.argv) > 3 and sys.argv[3] == "all":
        del sys.argv[3]
        OPTIONS.seconds, OPTIONS.judge = 300.0, True
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--attack")
    parser.add_argument("--each", action="store_true")
    named, rest = parser.parse_known_args(sys.argv[3:])
    for key, value in vars(named).items():
        if value:
            setattr(OPTIONS, key, value)
    sys.argv[3:] = rest
    cluster.main()
