"""Many faults in one training job: real processes are killed, stopped, cut off, leave and join.

Every victim comes back with its state directory, at most a minority of the current view is down at
once, and the final weights are bit for bit those of an undisturbed run on one node. Each fault is
asserted to have struck, and the time until the job goes on is told at the end.
usage: chaos_test.py GPUNODE GPUNODE_FAULTY [all] [--faults N] [--seed S] [--nodes N] [--require]
                     [--tell] [unittest arguments]
  all: 50 faults among 5 nodes. --require: also fail where a kill held the job up for more than 1 s
  and a step; without it that is only told, as a machine that does other work cannot promise it.
  --tell: print what each node saw of a change that took longer.
"""
import argparse
import collections
import os
import random
import signal
import statistics
import subprocess
import sys
import time

import cluster
import link_faults
import training

POINTS = ("compute", "reduce", "held", "commit", "checkpoint")
# How often each kind is drawn, of 24.
KINDS = {"kill": 5, "kill at a point": 5, "stop": 2, "stop at a point": 1, "cut": 2, "one-way cut": 2,
         "refusal": 2, "reset": 1, "leave": 2, "join": 2}
STEPS_A_FAULT = 100
QUICK, SLOW = 20, 250  # milliseconds added to each step: while times are taken, and while waiting
OPTIONS = argparse.Namespace(faults=6, seed=1, nodes=4, require=False, tell=False)
BAR = 1.0  # seconds from a kill to the next commit, beside a step


def deck(chance, count):
    """Kinds of faults in random order, each at least once where there is room."""
    cards = []
    while len(cards) < count:
        more = [kind for kind, times in KINDS.items() for _ in range(times)]
        chance.shuffle(more)
        first = list(KINDS) if not cards else []
        chance.shuffle(first)
        for kind in first:
            more.remove(kind)
        cards += first + more
    return cards[:count]


class Chaos(training.TrainingTest):
    switched = True
    every = 25

    def test_the_job_goes_on_whatever_happens_to_its_members(self):
        self.steps = STEPS_A_FAULT * OPTIONS.faults + 100
        self.chance = random.Random(OPTIONS.seed)
        self.took = collections.defaultdict(list)  # kind -> seconds until the next commit
        self.strangers = 0
        names = [f"n{i}" for i in range(1, OPTIONS.nodes + 1)]
        print(f"seed {OPTIONS.seed}, {OPTIONS.faults} faults, {OPTIONS.nodes} nodes, "
              f"{self.steps} steps")
        self.undisturbed()
        self.start_nodes(names)
        link_faults.wait_for_links(self.switch, names)
        self.pace(SLOW)
        self.train(self.nodes[names[0]], OPTIONS.nodes + 1)
        self.all_in()
        for number, kind in enumerate(deck(self.chance, OPTIONS.faults), 1):
            self.strike(number, kind)
            self.all_in()
        self.pace(None)
        self.check_all(list(self.nodes.values()), 4 * cluster.TIMEOUT)
        self.tell_times()

    # ---- one fault after the other

    def all_in(self):
        for node in list(self.nodes.values()):
            self.await_members(node, list(self.nodes))
            self.await_line(node, lambda line: line["phase"] == "running", "it runs")

    def strike(self, number, kind):
        line = self.line(next(iter(self.nodes.values())))
        self.assertLess(line["step"], self.steps - 100, "the job is long enough for all faults")
        members = sorted(self.nodes)
        victims = self.chance.sample(members, 1 + self.may_be_two(kind))
        self.pace(QUICK)
        strike = getattr(self, "strike_" + kind.split(" at ")[0].replace(" ", "_").replace("-", "_"))
        began = time.monotonic()
        story = strike(kind, victims)
        print(f"{number:3} {kind}: {story}; all in after {time.monotonic() - began:.1f} s, "
              f"step {line['step']}", flush=True)
        self.pace(SLOW)

    def may_be_two(self, kind):
        """Two at once, where two are a minority of the view."""
        several = kind in ("kill", "stop") and len(self.nodes) >= 5
        return 1 if several and self.chance.random() < 0.4 else 0

    def witness(self, victims):
        return next(node for name, node in sorted(self.nodes.items()) if name not in victims)

    def goes_on(self, kind, at, view, witness, without=()):
        """Waits for the first commit after that time in a later view without those nodes."""
        def found():
            log = self.log(witness)
            # A view that was under way when the fault struck may still have them.
            first = next((one for one in log.views
                          if one.id > view and not set(without) & set(one.members)), None)
            commit = first and log.commit_after(at, first.id - 1)
            return (log, commit) if commit else None
        log, commit = self.wait_until(found, "the job goes on", every=0.2)
        self.pace(SLOW)  # the rest takes seconds, and the job is to last
        seconds = commit["at"] - at
        steps = [b["at"] - a["at"] for a, b in zip(log.commits, log.commits[1:])
                 if a["view"] == b["view"]][-50:]
        self.took[kind].append((seconds, statistics.median(steps) if steps else 0.0))
        if seconds > BAR and OPTIONS.tell:
            self.tell_between(at, commit["at"], without)
        return f"next commit {seconds:.3f} s later in view {commit['view']}"

    def tell_between(self, began, ended, without):
        """What each node saw of a change that took long, as one list."""
        lines = [(one["at"], name, one["text"]) for name, node in self.nodes.items()
                 if name not in without for one in self.log(node).events
                 if began - 0.1 < one["at"] < ended + 0.1]
        for at, name, text in sorted(lines):
            print(f"      {at - began:7.3f} {name}: {text}")

    def view_of(self, node):
        return self.line(node)["view"]

    def strike_kill(self, kind, victims):
        witness, point = self.witness(victims), None
        view = self.view_of(witness)
        time.sleep(self.chance.uniform(0, 0.2))  # the random moment itself
        if " at " in kind:
            point = self.chance.choice(POINTS)
            at = self.struck_itself(victims[0], "kill", point)
        else:
            at = time.time()
            for name in victims:
                self.nodes[name].signal(signal.SIGKILL)
        for name in victims:
            self.assertEqual(self.nodes[name].wait(), -signal.SIGKILL)
        # Sometimes the victim is back before the others have missed it.
        late = self.chance.random() < 0.7
        story = ""
        if late:
            story = self.goes_on(kind, at, view, witness, victims)
        for name in victims:
            self.start_node(name)
        if not late:
            story = self.goes_on("kill, back at once", at, view, witness)
        return f"{' and '.join(victims)}{' at ' + point if point else ''}, {story}"

    def struck_itself(self, name, verb, point):
        """Orders the strike and waits for it; returns when it struck."""
        hits = self.path("hits")
        if os.path.exists(hits):
            os.remove(hits)
        self.order(name, verb, point)
        self.wait_until(lambda: os.path.exists(hits) and os.path.getsize(hits) > 0,
                        f"{name} comes to {point}", every=0.01)
        with open(hits, encoding="utf-8") as stream:
            self.assertEqual(stream.read().split()[:3],
                             [str(self.nodes[name].process.pid), verb, point])
        return os.stat(hits).st_mtime

    def strike_stop(self, kind, victims):
        witness, point = self.witness(victims), None
        view = self.view_of(witness)
        if " at " in kind:
            point = self.chance.choice(POINTS[:4])
            at = self.struck_itself(victims[0], "stop", point)
        else:
            at = time.time()
            for name in victims:
                self.nodes[name].signal(signal.SIGSTOP)
        goes_on_again = time.monotonic() + 5
        story = self.goes_on(kind, at, view, witness, victims)
        self.assertLess(time.monotonic(), goes_on_again + cluster.TIMEOUT)
        time.sleep(max(0, goes_on_again - time.monotonic()))
        for name in victims:
            self.nodes[name].signal(signal.SIGCONT)
        return f"{' and '.join(victims)}{' at ' + point if point else ''}, {story}"

    def other(self, name):
        return self.chance.choice([one for one in sorted(self.nodes) if one != name])

    def cut_link(self, kind, victims, cut):
        one = victims[0]
        other = self.other(one)
        witness = self.witness([one, other])
        view = self.view_of(witness)
        link_faults.wait_for_links(self.switch, [one, other])
        at = time.time()
        cut(one, other)
        story = self.goes_on(kind, at, view, witness)
        time.sleep(self.chance.uniform(0, 2))
        self.switch.heal()
        return f"{one} and {other}, {story}"

    def strike_cut(self, kind, victims):
        return self.cut_link(kind, victims, self.switch.cut)

    def strike_one_way_cut(self, kind, victims):
        return self.cut_link(kind, victims, self.switch.stop)

    def strike_refusal(self, kind, victims):
        return self.cut_link(kind, victims, self.switch.refuse)

    def strike_reset(self, kind, victims):
        """Connections that break are no reason to drop anybody."""
        one = victims[0]
        other = self.other(one)
        witness = self.nodes[one]
        link_faults.wait_for_links(self.switch, [one, other])
        before = self.switch.counts["reset connections"]
        at = time.time()
        self.switch.reset(one, other)
        cluster.wait_until(lambda: self.switch.counts["reset connections"] > before, "it struck")
        cluster.wait_until(lambda: self.log(witness).commit_after(at, 0), "the job goes on")
        return f"{one} and {other}"

    def strike_leave(self, kind, victims):
        name = victims[0]
        witness = self.witness(victims)
        view, at = self.view_of(witness), time.time()
        self.nodes[name].signal(signal.SIGTERM)
        self.assertEqual(self.nodes[name].wait(), 0, self.nodes[name].said()[-2000:])
        ended = time.time() - at
        story = self.goes_on(kind, at, view, witness, victims)
        self.start_node(name)
        return f"{name}, its process ended after {ended:.1f} s, {story}"

    def strike_join(self, kind, victims):
        """A new node computes for a while, and leaves for good."""
        self.strangers += 1
        name = f"x{self.strangers}"
        witness = self.nodes[victims[0]]
        view, at = self.view_of(witness), time.time()
        self.start_node(name, witness)
        self.await_members(witness, list(self.nodes))
        story = self.goes_on(kind, at, view, witness)
        stranger = self.nodes[name]
        self.await_line(stranger, lambda line: line["phase"] == "running", "it computes")
        self.assertEqual(stranger.ask("leave").code, 0)
        self.assertEqual(stranger.wait(), 0)
        del self.nodes[name]
        return f"{name} came and left, {story}"

    # ---- figures

    def tell_times(self):
        print("seconds from the fault to the next commit in a new view:")
        for kind, taken in sorted(self.took.items()):
            seconds = sorted(one for one, _ in taken)
            print(f"  {kind}: {len(seconds)} times, median {statistics.median(seconds):.3f}, "
                  f"most {seconds[-1]:.3f}")
        kills = self.took["kill"] + self.took["kill at a point"]
        late = [(seconds, step) for seconds, step in kills if seconds > BAR + step]
        print(f"kills: {len(kills)}, of them {len(late)} held the job up for more than "
              f"{BAR} s and a step" + (f": {late}" if late else ""))
        if OPTIONS.require:
            self.assertEqual(late, [])


def main():
    words = argparse.ArgumentParser(add_help=False)
    words.add_argument("--faults", type=int)
    words.add_argument("--seed", type=int)
    words.add_argument("--nodes", type=int)
    words.add_argument("--require", action="store_true")
    words.add_argument("--tell", action="store_true")
    asked, rest = words.parse_known_args(sys.argv[3:])
    if rest[:1] == ["all"]:
        OPTIONS.faults, OPTIONS.nodes = 50, 5
        del rest[0]
    for key, value in vars(asked).items():
        if value is not None:
            setattr(OPTIONS, key, value)
    sys.argv[3:] = rest
    sys.stdout.reconfigure(line_buffering=True)
    cluster.main()


if __name__ == "__main__":
    main()
