"""Random sequences of an operator's commands at three nodes: none claims what has not happened, and
none takes longer than it may.

From a seed ten commands are drawn: jobs are started, stopped, resumed and removed, models served, and
nodes leave, restart, are killed, or stand still meanwhile. After each the exit code and the answer
are held against the disks and the other nodes (sequence_claims.py); at the end all nodes are started
again, and every job must be over with the weights of the same job alone, or stopped, or go on.
usage: sequence_test.py GPUNODE GPUNODE_FAULTY [all] [--seed S] [--count N] [--tell] [unittest arguments]
  --seed, --count: N seeds from S on (4 from 1; all: 200). --tell: print the commands as they go.
"""
import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time

import cluster
from sequence_claims import Claims, Job

COMMANDS = 10
NODES = ("a", "b", "c")
NAMES = ("red", "green", "blue")
MODELS = ("m", "n")
STEPS = (20, 100, 200)
ENDLESS = 1_000_000
PACE = 3  # milliseconds a slice: an order comes while there is something left to do
# How often each kind is drawn.
KINDS = {"train": 4, "train_endless": 5, "train_waiting": 2, "train_refused": 1, "train_bad": 1,
         "stop": 6, "resume": 5, "rm": 4, "checkpoint_rm": 2, "recover": 2, "serve": 3, "unserve": 1,
         "generate": 1, "wait": 2, "leave": 3, "restart": 2, "kill": 4, "start": 2, "freeze": 4}
MEANWHILE = ("train", "train_endless", "train_waiting", "stop", "stop", "resume", "resume", "rm", "leave",
             "kill", "restart", "serve", "recover", "wait")  # while a node stands still
# Seconds that a command may take (actors/job/timeouts.hpp), and what a busy machine adds.
LONGEST = {"job stop": 45, "job resume": 45, "job recover": 45, "job rm": 45, "train": 45, "leave": 60}
USUAL, MARGIN = 30, 5
ENDS_WITHIN = 45  # a node that is told to end, by SIGTERM
OPTIONS = argparse.Namespace(seed=1, count=4, tell=False)


class Sequence(Claims):
    digests = {}  # of the jobs run alone, by steps

    def run_sequence(self, seed):
        self.seed, self.story = seed, []
        self.chance = random.Random(seed)
        try:
            self.begin()
            for number in range(COMMANDS):
                kind = "train" if number == 0 else self.draw()
                self.carry_out(kind)
            self.tell("all nodes are started again")
            for name in NODES:
                self.start_again(name)
            self.settles()
        except (AssertionError, subprocess.TimeoutExpired) as error:
            raise AssertionError(f"{error}\n{self.told()}") from None

    # ---- the story

    def tell(self, text):
        self.story.append(f"{time.monotonic() - self.began:7.2f} {text}")
        if OPTIONS.tell:
            print(self.story[-1])

    def told(self):
        """The commands with their answers, and what repeats them."""
        said = []
        for node in self.up():
            try:
                said.append(f"jobs of {node.name}: {node.ask('jobs', timeout=5).out}")
            except subprocess.TimeoutExpired:
                said.append(f"{node.name} does not answer")
        kept = self.world.root
        if os.environ.get("GPUNODE_KEEP"):
            kept += ".kept"
            subprocess.run(["cp", "-r", self.world.root, kept], check=False)
        return "\n".join([f"seed {self.seed}:", *self.story, *said,
                          f"again: python3 {' '.join(sys.argv[:1])} {cluster.PROGRAMS['gpunode']} "
                          f"{cluster.PROGRAMS['faulty']} --seed {self.seed} --count 1 --tell"])

    # ---- nodes

    def begin(self):
        self.began = time.monotonic()
        for steps in STEPS:
            self.undisturbed(steps)
        self.began = time.monotonic()
        first = cluster.free_port_range(3 * len(NODES))
        self.ports = {name: f"127.0.0.1:{first + 3 * at}" for at, name in enumerate(NODES)}
        pace = self.world.write("pace", f"{PACE}\n")
        self.environment = {"GPUNODE_FAULT_PACE_MS": str(PACE), "GPUNODE_FAULT_PACE_AT": "slice",
                            "GPUNODE_FAULT_PACE_WHILE": pace}
        first = self.nodes["a"] = self.world.start("a", **self.options("a"))
        for name in NODES[1:]:
            self.nodes[name] = self.world.join(name, first, **self.options(name))
        self.everywhere(lambda node: len(self.up()) == sum(
            one["health"] == "alive" for one in node.ask("nodes", "--json").json["nodes"]),
            "all know each other")

    def options(self, name):
        return {"listen": self.ports[name], "env": self.environment, "faulty": True}

    def start_again(self, name):
        if name in self.frozen:
            self.nodes[name].signal(signal.SIGCONT)
            self.frozen.remove(name)
        if self.nodes[name].process.poll() is None:
            return
        before = self.nodes[name].said()
        node = self.nodes[name] = self.world.start(name, **self.options(name))
        for model, where in list(self.served):
            if where == name:
                self.is_served_again(node, model, before)

    def is_served_again(self, node, model, log_before):
        """Once it is loaded; or it is said that it is not, where a person has removed it."""
        job = next(job for job in self.jobs if job.id == self.served[model, node.name])
        is_lost = f"model {model} is not served any more"

        def settled():
            return (model, node.name) in self.models(node) or is_lost in node.said()[len(log_before):]
        cluster.wait_until(settled, f"{node.name} serves {model} again")
        if (model, node.name) not in self.models(node):
            self.assertTrue(job.removed or node.name in job.taken, f"{node.name} lost {model}")
            del self.served[model, node.name]
            self.assertEqual(node.ask("unserve", model).code, 0, "it is forgotten")

    def undisturbed(self, steps):
        """The digest of the weights of this job run alone."""
        if steps not in Sequence.digests:
            node = self.world.start("alone")
            done = node.ask("train", self.spec("alone", steps), "--follow")
            self.assertEqual(done.code, 0, str(done))
            Sequence.digests[steps] = self.export(node, steps, "alone")
            node.kill()
            subprocess.run(["rm", "-rf", node.state], check=True)
        return Sequence.digests[steps]

    # ---- what is drawn

    def draw(self):
        return self.chance.choices(list(KINDS), list(KINDS.values()))[0]

    def node(self):
        """Mostly one that is up; its name."""
        up = [name for name in NODES if self.is_up(name)]
        down = [name for name in NODES if self.nodes[name].process.poll() is not None]
        return self.chance.choice(down if down and self.chance.random() < 0.1 else up)

    def job(self):
        """Any that was ever started, mostly one that is not over; and a word for it."""
        there = [job for job in self.jobs if not job.removed]
        works = [job for job in there if not job.finished]
        job = self.chance.choice(works if works and self.chance.random() < 0.7 else
                                 there if there and self.chance.random() < 0.9 else self.jobs)
        named = [one for one in there if one.name == job.name]
        is_newest = bool(named) and named[-1] is job
        return job, job.name if is_newest and self.chance.random() < 0.5 else job.id

    # ---- commands

    def carry_out(self, kind):
        getattr(self, "do_" + kind)()
        self.look()

    def command(self, node, *words):
        """Asks, and checks what is true of every answer; the node may be down."""
        began = time.monotonic()
        name = " ".join(words[:2]) if words[0] in ("job", "checkpoint") else words[0]
        limit = LONGEST.get(name, USUAL) + MARGIN
        up = self.is_up(node)
        answer = self.nodes[node].ask(*words, "--json", timeout=2 * limit)
        took = time.monotonic() - began
        shown = [os.path.basename(word) if word.endswith(".toml") else word for word in words]
        self.tell(f"{node}: {' '.join(shown)} -> {answer.code} in {took:.2f} s: "
                  f"{answer.out.strip()[:600]}")
        self.assertLess(took, limit, f"{name} took {took:.1f} s")
        self.assertEqual(answer.json["ok"], answer.code in (0, 4, 5), str(answer))
        if answer.code not in (0, 4, 5):
            self.assertTrue(answer.json["error"]["detail"], str(answer))
        if not up and words[0] != "checkpoint":
            self.assertEqual(answer.code, 3, str(answer))
            self.assertIn("no node runs", answer.json["error"]["detail"])
        elif up:
            self.assertIn(answer.code, (0, 1, 4, 5), str(answer))
        self.took = took
        return answer

    def spec(self, name, steps, nodes=1, least=1):
        return self.job_file(name, steps=steps, nodes=nodes, min_nodes=least,
                             every=10 if steps < ENDLESS else 25)

    def ids(self):
        return {one for node in self.up() for one in self.lines(node)}

    def train(self, steps, nodes, least=1, *flags):
        node, name = self.node(), self.chance.choice(NAMES)
        before = self.ids()
        answer = self.command(node, "train", self.spec(name, steps, nodes, least), *flags)
        if answer.code == 0:
            job = Job(answer.json, name, steps, least)
            self.jobs.append(job)
            self.claims_train(self.nodes[node], answer.json, job)
            return answer
        self.assertLessEqual(self.known(self.ids()), self.known(before), "what is refused is not there")
        return answer

    def known(self, ids):
        """Without those that have left the queue meanwhile under a new id."""
        return ids if not any(job.waits for job in self.jobs) else set()

    def do_train(self):
        self.train(self.chance.choice(STEPS), self.chance.choice((1, 2, 3)))

    def do_train_endless(self):
        nodes = self.chance.choice((1, 2, 3))
        self.train(ENDLESS, nodes, self.chance.choice((1, nodes)))

    def do_train_waiting(self):
        """Four nodes never are there; two or three may be down for now."""
        least = self.chance.choice((4, 4, 3, 2))
        self.train(self.chance.choice(STEPS), least, least)

    def do_train_refused(self):
        self.assertNotEqual(self.train(20, 4, 4, "--no-wait").code, 0)

    def do_train_bad(self):
        node, before = self.node(), self.ids()
        bad = self.world.write("bad.toml", self.chance.choice(
            ('name = "x"\n', 'nmae = "x"\n', 'name = "x"\n[data]\npath = "/nowhere"\n', "[")))
        self.assertNotEqual(self.command(node, "train", bad).code, 0)
        self.assertLessEqual(self.known(self.ids()), self.known(before))

    def order(self, *words):
        """An order about a job; with an answer only if it was carried out."""
        if not self.jobs:
            return None, None, None
        node, (job, word) = self.node(), self.job()
        answer = self.command(node, "job", words[0], word, *words[1:])
        if job.removed and words[0] != "rm":
            self.assertNotEqual(answer.code, 0, f"{job} is removed")
        if answer.code != 0:
            detail = answer.json["error"]["detail"]
            if "the order stands" in detail or "order it again" in detail:
                job.stopped = None
            return node, job, None
        told = answer.json
        if told["job"] != job.id:  # by its name another one, or it has left the queue
            other = next((one for one in self.jobs if one.id == told["job"]), None)
            if other is None and job.waits:
                job.id, job.waits = told["job"], False
            else:
                self.assertIsNotNone(other, f"nobody has started {told['job']}")
                self.assertEqual(word, job.name, f"{job} was meant")
                job = other
        return node, job, told

    def do_stop(self):
        node, job, told = self.order("stop")
        if told:
            self.claims_stop(self.nodes[node], told, job)

    def do_resume(self):
        node, job, told = self.order("resume")
        if told:
            self.claims_goes_on(self.nodes[node], told, job)

    def do_recover(self):
        node, job, told = self.order("recover", "--force")
        if told:
            self.claims_goes_on(self.nodes[node], told, job)

    def do_rm(self):
        before = self.disks()
        node, job, told = self.order("rm", *self.chance.choice(((), (), ("--force",))))
        if told:
            self.claims_rm(self.nodes[node], told, job)
        elif job and not job.waits:
            self.assertLessEqual(before.get(job.id, set()), self.disks().get(job.id, set()),
                                 f"{job} is as it was")

    def disks(self):
        """Which nodes have the manifest of each job."""
        return {job.id: {name for name in NODES if self.has_manifest(name, job.id)}
                for job in self.jobs}

    def do_checkpoint_rm(self):
        if not self.jobs:
            return
        node, (job, _) = self.node(), self.job()
        before = self.steps_on(node, job.id)
        step = max(before) if before and self.chance.random() < 0.5 else None
        flags = ("--all",) if step is None else ("--step", str(step))
        answer = self.command(node, "checkpoint", "rm", job.id, *flags)
        if answer.code == 0:
            self.claims_checkpoint_rm(self.nodes[node], answer.json, job, step)
        elif job.finished or job.stopped is not None:
            self.assertLessEqual(before, self.steps_on(node, job.id), "they are as they were")

    def do_serve(self):
        if not self.jobs:
            return
        node, (job, _) = self.node(), self.job()
        model, before = self.chance.choice(MODELS), set(self.served)
        answer = self.command(node, "serve", job.id, "--name", model)
        if answer.code == 0:
            self.assertNotIn((model, node), before)
            self.claims_serve(self.nodes[node], answer.json, job, model)
        elif answer.code == 1 and "already" in answer.json["error"]["detail"]:
            self.assertIn((model, node), before)

    def do_unserve(self):
        node, model = self.node(), self.chance.choice(MODELS)
        answer = self.command(node, "unserve", model)
        if self.is_up(node):
            self.assertEqual(answer.code == 0, (model, node) in self.served, str(answer))
        if answer.code == 0:
            self.claims_unserve(self.nodes[node], model)

    def do_generate(self):
        node, model = self.node(), self.chance.choice(MODELS)
        answer = self.command(node, "generate", "--model", model, "--max-tokens", "2")
        at = {where for one, where in self.served if one == model}
        if self.is_up(node):
            self.assertTrue(answer.code != 0 or at, f"nobody serves {model}: {answer}")
            self.assertTrue(answer.code == 0 or node not in at, str(answer))

    def do_wait(self):
        if not self.jobs:
            return
        node, (job, _) = self.node(), self.job()
        if not self.is_up(node):
            return
        seconds = self.chance.choice((0.2, 1, 3))
        answer = self.command(node, "job", "wait", job.id, "--timeout", f"{int(1000 * seconds)}ms")
        self.assertLess(self.took, seconds + MARGIN)
        self.claims_wait(answer, job, seconds, self.took)

    # ---- what befalls nodes

    def victim(self):
        """One that is up, if another one is up too."""
        up = [name for name in NODES if self.is_up(name)]
        return self.chance.choice(up) if len(up) > 1 else None

    def do_leave(self):
        name = self.victim()
        if name is None:
            return self.do_start()
        answer = self.command(name, "leave", *self.chance.choice(((), ("--anyway",))))
        if answer.code == 0:
            self.claims_left(self.nodes[name])
        else:
            self.assertIsNone(self.nodes[name].process.poll())
            self.assertEqual(self.nodes[name].ask("nodes", "--json").code, 0)
        return self.back(name)

    def do_restart(self):
        name = self.node()
        if self.is_up(name):
            began = time.monotonic()
            self.nodes[name].signal(signal.SIGTERM)
            self.assertEqual(self.nodes[name].wait(2 * ENDS_WITHIN), 0, self.nodes[name].said()[-2000:])
            self.tell(f"{name} has ended, {time.monotonic() - began:.2f} s after SIGTERM")
            self.assertLess(time.monotonic() - began, ENDS_WITHIN)
        self.start_again(name)
        self.tell(f"{name} is started again")

    def do_kill(self):
        name = self.victim()
        if name is None:
            return self.do_start()
        self.nodes[name].kill()
        self.tell(f"{name} is killed")
        return self.back(name)

    def back(self, name):
        """At once, or with a later command."""
        if not self.is_up(name) and self.chance.random() < 0.5:
            self.start_again(name)
            self.tell(f"{name} is started again")

    def do_start(self):
        for name in NODES:
            if not self.is_up(name):
                self.start_again(name)
                self.tell(f"{name} is started again")

    def do_freeze(self):
        """Another command, while a node stands still."""
        name = self.victim()
        if name is None:
            return self.do_start()
        self.nodes[name].signal(signal.SIGSTOP)
        self.frozen.add(name)
        self.tell(f"{name} stands still")
        time.sleep(self.chance.choice((0, 0.5, 4)))
        self.carry_out(self.chance.choice(MEANWHILE))
        if name in self.frozen:
            self.start_again(name)
            self.tell(f"{name} goes on")


def add_test(seed):
    setattr(Sequence, f"test_seed_{seed}", lambda self: self.run_sequence(seed))


def main():
    words = argparse.ArgumentParser(add_help=False)
    words.add_argument("--seed", type=int)
    words.add_argument("--count", type=int)
    words.add_argument("--tell", action="store_true")
    asked, rest = words.parse_known_args(sys.argv[3:])
    if rest[:1] == ["all"]:
        OPTIONS.count = 200
        del rest[0]
    for key, value in vars(asked).items():
        if value is not None:
            setattr(OPTIONS, key, value)
    for seed in range(OPTIONS.seed, OPTIONS.seed + OPTIONS.count):
        add_test(seed)
    sys.argv[3:] = rest
    sys.stdout.reconfigure(line_buffering=True)
    cluster.main()


if __name__ == "__main__":
    main()
