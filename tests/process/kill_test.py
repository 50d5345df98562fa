"""Kills members of a training job with SIGKILL at named points and at random moments.

Every time the rest goes on, a victim that is started again comes back as a learner by itself, and
the exported weights are bit for bit those of an undisturbed run on one node. Each kill is asserted
to have hit: the point was reached, the victim was in the current view, and steps were committed
after it. Victims rotate over the tie member (who submitted the job), the lowest rank and the third.
usage: kill_test.py GPUNODE GPUNODE_FAULTY [one|all] [unittest arguments]
  one: each point once and 3 random moments; all: each member at each point, and 20 random moments.
  GPUNODE_KILL_SEED names the random moments, GPUNODE_KILL_ALL=1 means all.
"""
import os
import random
import re
import signal
import subprocess
import sys
import time

import cluster
import training

STEPS = 160
NAMES = ("a", "b", "c")
ROLES = ("tie", "lowest", "other")
POINTS = {"forming": 0, "compute": 31, "reduce": 32, "held": 33, "commit": 34, "checkpoint": 40}
SEED = int(os.environ.get("GPUNODE_KILL_SEED", "1"))
TEXT = "".join(f"{i}: the {i * i % 977} brown foxes jump over {i * 7919 % 10007} lazy dogs\n"
               for i in range(6000))
JOB = """
name = "small"
nodes = {nodes}
min_nodes = 1

[data]
{data}

[model]
kind = "gpt"
layers = 2
heads = 2
channels = 32
context = 32

[train]
seed = 1
steps = {steps}
batch = 12
slices = 6
warmup_steps = 10

[checkpoint]
every = 40
"""


class View:
    """A view as an event of `job show` tells it."""

    def __init__(self, found):
        self.id, self.base, self.tie = int(found[1]), int(found[4]), found[3]
        self.members = found[2].split(", ")


class Kill(cluster.ProcessTest):
    digest = None  # of the undisturbed run

    def setUp(self):
        super().setUp()
        self.nodes, self.listen = {}, {}

    # ---- the cluster and its job

    def undisturbed(self):
        if Kill.digest is None:
            node = self.world.start("alone")
            self.assertEqual(node.ask("train", self.job(1), "--follow").code, 0)
            Kill.digest = self.export(node, STEPS)
            node.kill()
        return Kill.digest

    def job(self, nodes):
        data = self.world.write("data/text.txt", TEXT)
        return self.world.write("small.toml", JOB.format(nodes=nodes, data=self.world.offered(data), steps=STEPS))

    def start_three(self, fault=None, fixed=False):
        """Three nodes that know each other; each strikes itself once its file says so."""
        for name in NAMES:
            self.listen[name] = f"127.0.0.1:{cluster.free_port_range()}" if fixed else "127.0.0.1:0"
            env = self.pace()
            if fault:
                env.update({"GPUNODE_FAULT": f"kill@{fault}", "GPUNODE_FAULT_LOG": self.path("hit"),
                            "GPUNODE_FAULT_WHEN": self.path("strike-" + name)})
            options = {"faulty": True, "env": env, "listen": self.listen[name]}
            first = self.nodes.get(NAMES[0])
            self.nodes[name] = (self.world.join(name, first, **options) if first else
                                self.world.start(name, **options))
        for node in self.nodes.values():
            cluster.wait_until(lambda node=node: self.knows_all(node), "all know each other")

    def submitter(self):
        return self.nodes[NAMES[2]]

    def victim(self, role):
        """Who has the role in the view of three that there is once all are members."""
        self.await_members(self.submitter(), NAMES)
        view = self.views(self.submitter())[-1]
        self.assertEqual(sorted(view.members), list(NAMES))
        others = [name for name in view.members if name not in (view.tie, view.members[0])]
        return self.nodes[{"tie": view.tie, "lowest": view.members[0], "other": others[0]}[role]]

    def candidate(self, role):
        """Who will have the role if all three promise at once: ranks go by id at first."""
        rest = sorted(self.rest(self.submitter()), key=lambda node: node.info["id"])
        return {"tie": self.submitter(), "lowest": rest[0], "other": rest[1]}[role]

    def rest(self, victim):
        return [node for node in self.nodes.values() if node is not victim]

    def path(self, name):
        return self.world.path(name)

    def pace(self):
        """Steps are slow while the file is there: time for a node to come back."""
        return {"GPUNODE_FAULT_PACE_MS": "60", "GPUNODE_FAULT_PACE_WHILE": self.path("slow")}

    def knows_all(self, node):
        seen = node.ask("nodes", "--json").json["nodes"]
        return len(seen) == 3 and all(one["health"] == "alive" for one in seen)

    def train(self):
        started = self.submitter().ask("train", self.job(3), "--json")
        self.assertEqual(started.code, 0, str(started))
        self.assertEqual(sorted(started.json["candidates"]), list(NAMES))

    def line(self, node):
        shown = node.ask("jobs", "--json")
        lines = shown.json["jobs"] if shown.code == 0 else []
        return lines[0] if lines else None

    def start_again(self, node):
        """The same state directory, no fault; no command tells it to take the job up again."""
        node = self.world.start(node.name, faulty=True, env=self.pace(),
                                listen=self.listen[node.name])
        self.nodes[node.name] = node
        return node

    def await_members(self, node, names):
        def are():
            line = self.line(node)
            return line and sorted(line.get("members", [])) == sorted(names) and line
        return cluster.wait_until(are, f"the members are {names}")

    # ---- what must hold afterwards

    def check_all(self, nodes):
        """The living have finished, with the bits of an undisturbed run, and prove their data."""
        for node in nodes:
            self.assertIsNone(node.process.poll(), node.name)
            self.wait_for_phase(node, "small")
        for node in nodes:
            shown = node.ask("job", "show", "small", "--json").json
            self.assertEqual(shown["step"], STEPS)
            self.assertTrue(shown["proof"]["equal_to_data"], shown)
            self.assertTrue(shown["proof"]["each_sample_once_an_epoch"], shown)
            self.assertEqual(self.export(node, STEPS), self.undisturbed(), f"weights of {node.name}")
            self.assertEqual(node.ask("checkpoint", "verify").code, 0)

    def views(self, node):
        events = node.ask("job", "show", "small", "--json").json["events"]
        found = [training.VIEW.match(one["text"]) for one in events]
        return [View(one) for one in found if one]

    def check_hit(self, witness, victim, step):
        """The view that the kill ended had the victim, and steps were committed after it."""
        views = self.views(witness)
        after = [view for view in views if view.base + 1 >= step]
        self.assertTrue(after, f"no view resumed after the kill at step {step}")
        before = [view for view in views if view.id < after[0].id]
        self.assertTrue(before, "the kill came after the first view")
        self.assertIn(victim, before[-1].members, "the victim was in the current view")
        self.assertLess(after[0].base, STEPS, "steps were committed after the kill")
        self.assertLess(step, STEPS)
        return before[-1]

    # ---- the cases

    def strike_at(self, point, role, back):
        forming = point == "forming"
        self.start_three(f"{point}:0" if forming else f"{point}:{POINTS[point]}+")
        self.world.write("slow", "")
        if forming:  # of the view before the first, the tie is who submits
            victim = self.candidate(role)
            self.world.write("strike-" + victim.name, "")
        self.train()
        if not forming:
            victim = self.victim(role)
            self.world.write("strike-" + victim.name, "")
        rest = self.rest(victim)
        if not back:
            os.remove(self.path("slow"))
        self.wait_for_strike(victim)
        with open(self.path("hit"), encoding="utf-8") as stream:
            pid, verb, hit, step = stream.read().split()
        self.assertEqual((pid, verb, hit), (str(victim.process.pid), "kill", point))
        step = int(step)
        living = rest + ([self.come_back(victim, rest)] if back else [])
        self.check_all(living)
        if not forming:
            before = self.check_hit(rest[0], victim.name, step)
            if role == "tie":
                self.assertEqual(before.tie, victim.name)
            elif role == "lowest":
                self.assertEqual(before.members[0], victim.name)
        elif not back:
            self.assertNotIn(victim.name, self.views(rest[0])[0].members)

    def wait_for_strike(self, victim):
        """The victim kills itself; if it does not, what all saw is told."""
        try:
            self.assertEqual(victim.wait(), -signal.SIGKILL)
        except subprocess.TimeoutExpired:
            told = [node.ask("job", "show", "small").out + node.said()
                    for node in self.nodes.values()]
            self.fail(f"{victim.name} did not come to the point\n" + "\n".join(told))

    def come_back(self, victim, rest):
        again = self.start_again(victim)
        self.await_members(rest[0], NAMES)
        cluster.wait_until(lambda: (self.line(again) or {}).get("phase") == "running",
                           "the victim computes again")
        os.remove(self.path("slow"))
        return again

    def strike_at_random(self, number):
        chance = random.Random(SEED * 1000 + number)
        role = ROLES[number % 3]
        wanted, delay = chance.randrange(0, STEPS // 3), chance.uniform(0, 0.05)
        print(f"seed {SEED}, moment {number}: step {wanted} and {1000 * delay:.1f} ms, the {role}")
        self.start_three()
        back = number % 2 == 0
        self.world.write("slow", "")
        self.train()
        victim = self.victim(role)
        rest = self.rest(victim)

        def reached():
            line = self.line(rest[0])
            return line if line and line["members"] and line["step"] >= wanted else None
        seen = cluster.wait_until(reached, f"step {wanted}", every=0.005)
        self.assertIn(victim.name, seen["members"], "the victim was in the view")
        time.sleep(delay)  # the random moment itself
        victim.kill()
        if not back:  # not before, or a busy machine may be through with all steps by now
            os.remove(self.path("slow"))
        living = rest + ([self.come_back(victim, rest)] if back else [])
        self.check_all(living)
        self.check_hit(rest[0], victim.name, max(seen["step"], 1))

    def test_the_tie_member_of_two_is_killed_and_the_other_waits_for_it(self):
        self.start_three()
        self.world.write("slow", "")
        self.train()
        tie = self.victim("tie")
        waits, first = self.rest(tie)
        first.kill()
        self.await_members(waits, [tie.name, waits.name])
        self.assertEqual(self.views(waits)[-1].tie, tie.name)
        tie.kill()
        cluster.wait_until(lambda: self.line(waits)["phase"] == "paused", "one of two pauses")
        step = self.line(waits)["step"]
        view = self.views(waits)[-1].id
        tie = self.start_again(tie)

        def is_back():
            last = self.views(waits)[-1]
            return last.id > view and tie.name in last.members
        cluster.wait_until(is_back, "the killed one is a member again")
        os.remove(self.path("slow"))
        self.check_all([waits, tie])
        self.assertLess(step, STEPS)
        self.assertIn(tie.name, self.views(waits)[-1].members)

    def test_who_is_away_when_the_job_ends_gets_the_result_when_it_comes_back(self):
        self.start_three()
        self.world.write("slow", "")
        self.train()
        victim = self.victim("tie")
        rest = self.rest(victim)
        cluster.wait_until(lambda: self.line(rest[0])["step"] > 10, "step 11")
        victim.kill()
        os.remove(self.path("slow"))
        self.check_all(rest)
        self.check_all([self.start_again(victim)])
        told = [one["text"] for one in
                self.nodes[victim.name].ask("job", "log", "small", "--json").json["events"]]
        self.assertTrue(any("its result is here" in line for line in told), told)

    def test_all_members_are_killed_at_once_and_go_on_from_a_checkpoint(self):
        self.start_three(fixed=True)  # who all start anew find each other at the old addresses
        self.train()
        witness = self.submitter()
        cluster.wait_until(lambda: (self.line(witness) or {"step": 0})["step"] > 40, "step 41",
                           every=0.01)
        for node in self.nodes.values():
            node.signal(signal.SIGKILL)
        for node in list(self.nodes.values()):
            node.wait()
            self.start_again(node)
        self.check_all(self.nodes.values())
        self.assertLess(self.views(self.nodes[witness.name])[-1].base, STEPS)


def add(name, body):
    setattr(Kill, "test_" + name, body)


def add_tests(everything):
    for index, point in enumerate(POINTS):
        for place, role in enumerate(ROLES if everything else (ROLES[index % 3],)):
            back = (index + place) % 2 == 0
            add(f"at_{point}_of_the_{role}" + ("_who_comes_back" if back else ""),
                lambda self, point=point, role=role, back=back: self.strike_at(point, role, back))
    for number in range(20 if everything else 3):
        add(f"at_random_moment_{number}_of_seed_{SEED}",
            lambda self, number=number: self.strike_at_random(number))


if __name__ == "__main__":
    asked = sys.argv.pop(3) if len(sys.argv) > 3 and sys.argv[3] in ("one", "all") else "one"
    add_tests(everything=asked == "all" or os.environ.get("GPUNODE_KILL_ALL") == "1")
    sys.stdout.reconfigure(line_buffering=True)
    cluster.main()
