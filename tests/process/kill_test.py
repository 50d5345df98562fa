"""Kills members of a training job with SIGKILL at named points and at random moments.

Every time the rest goes on without the dead member, and the exported weights are bit for bit those
of an undisturbed run on one node. Each kill is asserted to have hit: the point was reached, the
victim had computed for the job, and steps were committed after it.
usage: kill_test.py GPUNODE GPUNODE_FAULTY [one|all] [unittest arguments]
  one: each point once, over rotating members, and 3 random moments; all: each member at each point,
  and 20 random moments. GPUNODE_KILL_SEED names the random moments.
"""
import os
import random
import signal
import subprocess
import sys

import cluster

STEPS = 300
MEMBERS = ("a", "b", "c")
POINTS = {"forming": 0, "compute": 61, "reduce": 62, "held": 63, "commit": 64, "checkpoint": 100}
SEED = int(os.environ.get("GPUNODE_KILL_SEED", "1"))


class Kill(cluster.ProcessTest):
    digest = None  # of the undisturbed run

    def undisturbed(self):
        if Kill.digest is None:
            node = self.world.start("alone")
            done = node.ask("train", self.job(1), "--follow")
            self.assertEqual(done.code, 0, str(done))
            Kill.digest = self.export(node)
            node.kill()
        return Kill.digest

    def job(self, nodes):
        return self.job_file(steps=STEPS, every=50, nodes=nodes)

    def export(self, node):
        out = self.world.path(node.name + ".safetensors")

        def exported():
            done = node.ask("checkpoint", "export", "small", "--step", str(STEPS), "--out", out,
                            "--json")
            return done.json["sha256"] if done.code == 0 else None
        return cluster.wait_until(exported, f"{node.name} has the last checkpoint")

    def start_three(self, victim=None, fault=None):
        """Three nodes that know each other, the victim with a fault; None where it is random."""
        nodes = {}
        first = None
        for name in MEMBERS:
            options = {}
            if name == victim and fault:
                options = {"faulty": True, "env": {"GPUNODE_FAULT": f"kill@{fault}",
                                                   "GPUNODE_FAULT_LOG": self.world.path("hit")}}
            if first is None:
                first = nodes[name] = self.world.start(name, **options)
            else:
                nodes[name] = self.world.join(name, first, **options)

        def all_alive(node):
            seen = node.ask("nodes", "--json").json["nodes"]
            return len(seen) == 3 and all(one["health"] == "alive" for one in seen)
        for node in nodes.values():
            cluster.wait_until(lambda node=node: all_alive(node), "all three know each other")
        return nodes

    def train(self, nodes, submitter):
        started = nodes[submitter].ask("train", self.job(3), "--json")
        self.assertEqual(started.code, 0, str(started))
        self.assertEqual(len(started.json["candidates"]), 3)

    def check_the_rest(self, nodes, victim, computed):
        rest = [nodes[name] for name in MEMBERS if name != victim]
        for node in rest:
            self.wait_for_phase(node, "small")
        witnessed = 0  # a member that came late has not seen who computed before
        for node in rest:
            shown = node.ask("job", "show", "small", "--json").json
            self.assertEqual(shown["step"], STEPS)
            self.assertTrue(shown["proof"]["equal_to_fed"], shown)
            self.assertTrue(shown["proof"]["each_sample_once_an_epoch"], shown)
            self.assertNotIn(victim, shown["members"])
            witnessed += sum(one["slices"] for one in shown["computed"] if one["node"] == victim)
            self.assertEqual(self.export(node), self.undisturbed(), f"weights of {node.name}")
        if computed:
            self.assertGreater(witnessed, 0, f"{victim} computed for the job")

    def strike_at(self, point, victim):
        step = POINTS[point]
        nodes = self.start_three(victim, f"{point}:{step}+" if step else f"{point}:0")
        self.train(nodes, MEMBERS[(MEMBERS.index(victim) + 1) % 3])
        self.wait_for_strike(nodes, victim)
        with open(self.world.path("hit"), encoding="utf-8") as stream:
            _, verb, hit, at = stream.read().split()
        self.assertEqual((verb, hit), ("kill", point))
        self.assertLess(int(at), STEPS, "killed in mid-run")
        self.check_the_rest(nodes, victim, computed=point != "forming")

    def wait_for_strike(self, nodes, victim):
        """The victim kills itself; if it does not, what the others saw is told."""
        try:
            self.assertEqual(nodes[victim].wait(), -signal.SIGKILL)
        except subprocess.TimeoutExpired:
            told = [node.ask("job", "show", "small").out + node.said() for node in nodes.values()]
            self.fail(f"{victim} did not come to the point\n" + "\n".join(told))

    def strike_at_random(self, number):
        chance = random.Random(SEED * 1000 + number)
        victim = chance.choice(MEMBERS)
        wanted = chance.randrange(1, STEPS // 2)
        nodes = self.start_three()
        teller = nodes[MEMBERS[(MEMBERS.index(victim) + 1) % 3]]
        self.train(nodes, teller.name)

        def reached():
            jobs = teller.ask("jobs", "--json").json["jobs"]
            hit = jobs and jobs[0]["step"] >= wanted and victim in jobs[0]["members"]
            return jobs[0] if hit else None
        seen = cluster.wait_until(reached, f"{victim} is in the view at step {wanted}", every=0.01)
        nodes[victim].kill()
        self.assertLess(seen["step"], STEPS, "killed in mid-run")
        self.check_the_rest(nodes, victim, computed=True)


def add(name, body):
    setattr(Kill, "test_" + name, body)


def add_tests(everything):
    for index, point in enumerate(POINTS):
        victims = MEMBERS if everything else (MEMBERS[index % 3],)
        for victim in victims:
            add(f"at_{point}_of_{victim}",
                lambda self, point=point, victim=victim: self.strike_at(point, victim))
    for number in range(20 if everything else 3):
        add(f"at_random_moment_{number}_of_seed_{SEED}",
            lambda self, number=number: self.strike_at_random(number))


if __name__ == "__main__":
    add_tests(everything=sys.argv.pop(3) == "all" if len(sys.argv) > 3 else False)
    cluster.main()
