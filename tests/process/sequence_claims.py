"""What an operator's commands claim, held against the disks of the nodes and what other nodes say.

A claim of a command is checked at once and strictly; what other nodes are to hear of it may take a
while to spread. Jobs here carry only what commands have claimed of them, or a node has shown.
"""
import json
import os
import re
import time

import cluster

SPREAD = 25  # seconds in which news reach every node that is up
CHECKPOINT = re.compile(r"^\d+-[0-9a-f]+-(\d+)$")  # turn, branch, step
IDLE = ("outsider", "witness", "unreachable", "failed")  # a node says so of a job that others have


class Job:
    """What is known of a job, from claims alone."""

    def __init__(self, told, name, steps, needs):
        self.id, self.name, self.steps, self.needs = told["job"], name, steps, needs
        self.waits = told.get("phase") == "waiting"
        self.waited_as = self.id if self.waits else None
        self.stopped = None     # the step, as long as nothing was ordered that may move it
        self.removed = False
        self.finished = False
        self.taken = set()      # nodes whose checkpoints a person has removed

    def __str__(self):
        return f"{self.name} {self.id[:8]}"


class Claims(cluster.ProcessTest):
    """The checks; the nodes and jobs are the sequence's (sequence_test.py)."""

    def setUp(self):
        super().setUp()
        self.nodes, self.frozen, self.jobs, self.served = {}, set(), [], {}

    # ---- what there is

    def is_up(self, name):
        return self.nodes[name].process.poll() is None and name not in self.frozen

    def up(self):
        return [node for name, node in self.nodes.items() if self.is_up(name)]

    def folder(self, name, job, what="jobs"):
        return os.path.join(self.world.state(name), what, job)

    def has_manifest(self, name, job):
        return os.path.exists(os.path.join(self.folder(name, job), "manifest"))

    def steps_on(self, name, job):
        """The steps of which this node's disk has a durable checkpoint."""
        folder = self.folder(name, job, "checkpoints")
        found = [CHECKPOINT.match(one) for one in os.listdir(folder)] if os.path.isdir(folder) else []
        return {int(one[1]) for one in found if one}

    def lines(self, node):
        """`jobs` of a node by id; it must answer, as it is up."""
        shown = node.ask("jobs", "--json")
        self.assertEqual(shown.code, 0, f"jobs at {node.name}: {shown}")
        return {line["job"]: line for line in shown.json["jobs"]}

    def models(self, node):
        return [(one["model"], one["node"]) for one in node.ask("models", "--json").json["models"]]

    def everywhere(self, is_so, what, timeout=SPREAD):
        """Waits until it is so at every node that is up; tells which one disagrees if not."""
        last = {}

        def all_say_so():
            last.clear()
            for node in self.up():
                said = is_so(node)
                if said is not True:
                    last[node.name] = said
            return not last
        try:
            cluster.wait_until(all_say_so, what, timeout, every=0.1)
        except AssertionError as error:
            raise AssertionError(f"{error}: {last}") from None

    # ---- what a command claims

    def claims_train(self, node, told, job):
        holders = told["held_by"] if job.waits else told["started_on"]
        record = "waiting" if job.waits else "manifest"
        on_disk = [name for name in self.nodes if self.has_manifest(name, job.id) and
                   os.path.exists(os.path.join(self.folder(name, job.id), record))]
        if not job.waits or job.needs > len(self.nodes):  # else it may have started by now
            self.assertLessEqual(set(holders), set(on_disk), "who has it according to `train`")
        self.assertIn(job.id, self.lines(node), "`jobs` of the node that was asked")
        self.everywhere(lambda one: self.knows(one, job), f"all know of {job}")

    def knows(self, node, job):
        known = set(self.lines(node))
        if job.id in known:
            return True
        if job.waits:
            shown = node.ask("job", "show", job.id, "--json")
            return shown.code == 0 or str(shown)
        return sorted(known)

    def claims_stop(self, node, told, job):
        self.assertEqual(told["phase"], "stopped")
        step, members = told["step"], told["members"]
        if step and node.name in members:
            self.assertEqual(told["checkpoint_step"], step)
            self.assertIn(step, self.steps_on(node.name, job.id), f"the disk of {node.name}")
        if step:  # who only votes has none of its own
            cluster.wait_until(lambda: any(step in self.steps_on(name, job.id) for name in members),
                               f"a member of {members} has a checkpoint of step {step}", SPREAD)
        job.stopped = step

        def stopped(one):
            line = self.lines(one).get(job.id, {"phase": "unknown"})
            if one.name in members and line["phase"] not in IDLE:
                return (line["phase"], line.get("step")) == ("stopped", step) or line
            return line["phase"] != "running" or line
        self.everywhere(stopped, f"{job} is stopped after step {step}")

    def claims_goes_on(self, node, told, job):
        """After resume or recover: steps are made, or it is said what is waited for."""
        job.stopped = told["step"] if told["phase"] == "stopped" else None
        if told["phase"] == "stopped":
            return
        base, last = told["base_step"] if "base_step" in told else told["step"], {}

        def goes_on():
            for one in self.up():
                line = last[one.name] = self.lines(one).get(job.id)
                if line and (line["step"] > base or line["phase"] == "finished"):
                    return True
                if line and line["phase"] == "paused" and line.get("reason"):
                    return True
            return False
        try:
            cluster.wait_until(goes_on, f"{job} goes on after step {base}", SPREAD, every=0.1)
        except AssertionError as error:
            raise AssertionError(f"{error}: {last}") from None

    def claims_rm(self, node, told, job):
        away = [one["node"] for one in told["missing"]]
        for name in set(self.nodes) - set(told["removed_on"] + away):
            self.assertEqual(self.remains(name, job), [], f"{name}, which is not told of, has none")
        job.removed = True
        for name in told["removed_on"]:
            self.assertEqual(self.remains(name, job), [], f"the disk of {name}")
            if self.is_up(name):
                self.assertNotIn(job.id, self.lines(self.nodes[name]), f"jobs of {name}")
        self.everywhere(lambda one: self.is_gone(one, job), f"{job} is gone")

    def remains(self, name, job):
        """What is left of a removed job on a disk beside that it was removed, and its votes."""
        left = []
        for one in {job.id, job.waited_as or job.id}:
            folder = self.folder(name, one)
            if os.path.isdir(folder):
                left += [entry for entry in os.listdir(folder) if entry not in ("removed", "votes")]
            left += sorted(self.steps_on(name, one))
        return left

    def is_gone(self, node, job):
        line = self.lines(node).get(job.id)
        left = self.remains(node.name, job)
        return not line and not left or (line, left)

    def claims_checkpoint_rm(self, node, told, job, step):
        left = self.steps_on(node.name, job.id)
        self.assertTrue(told["removed_steps"])
        self.assertFalse(left & set(told["removed_steps"]), "they are gone from the disk")
        if step is None:
            self.assertFalse(left, "none is left on the disk")
        job.taken.add(node.name)

    def claims_serve(self, node, told, job, model):
        self.assertEqual(told["job"], job.id)
        line = next((one for one in node.ask("models", "--json").json["models"]
                     if (one["model"], one["node"]) == (model, node.name)), None)
        self.assertIsNotNone(line, "`models` of the node that was asked lists it")
        self.assertEqual((line["job"], line["step"]), (job.id, told["step"]))
        if job.stopped is not None or job.finished:
            self.assertIn(told["step"], self.steps_on(node.name, job.id))
        self.served[model, node.name] = job.id

        def generates(one):
            made = one.ask("generate", "--model", model, "--max-tokens", "2", "--json")
            return made.code == 0 and made.json["tokens"] == 2 or str(made)
        self.everywhere(generates, f"all can generate with {model}")

    def claims_unserve(self, node, model):
        self.assertNotIn((model, node.name), self.models(node))
        del self.served[model, node.name]
        self.everywhere(lambda one: (model, node.name) not in self.models(one),
                        f"{model} is not told of any more")

    def claims_left(self, node):
        cluster.wait_until(lambda: cluster.gone(node.process.pid), f"{node.name} has ended")
        node.wait()

        def has_left(one):
            line = next(line for line in one.ask("nodes", "--json").json["nodes"]
                        if line["name"] == node.name)
            return line["health"] == "left" or line
        self.everywhere(has_left, f"{node.name} has left")

    def claims_wait(self, answer, job, seconds, took):
        """The exit code of `job wait` tells how the job ended."""
        phases = {0: "finished", 4: "stopped"}
        self.assertIn(answer.code, (0, 1, 4, 5), str(answer))
        self.assertIn(answer.json.get("phase", ""), {answer.code: phases.get(answer.code)}.values()
                      if answer.code in phases else (answer.json.get("phase", ""),))
        if answer.code == 5:
            self.assertGreaterEqual(took, seconds - 0.1)
            self.assertFalse(job.finished or job.removed, str(answer))
        if answer.code == 4:
            self.assertFalse(job.finished, str(answer))
        if answer.code == 0:
            job.finished = True

    # ---- what holds after every command

    def look(self):
        """No node says what cannot be of a job that is stopped, finished or removed."""
        for node in self.up():
            lines = self.lines(node)
            self.take_over(node, lines)
            for job in self.jobs:
                line = lines.get(job.id)
                if job.removed or not line:
                    continue
                if job.stopped is not None:
                    self.assertLessEqual(line["step"], job.stopped, f"{node.name}: stopped: {line}")
                    self.assertNotEqual(line["phase"], "finished", f"{node.name}: stopped: {line}")
                if line["phase"] == "finished" and line["step"] == job.steps:
                    job.finished = True
                self.assertLessEqual(line["step"], job.steps, f"{node.name}: {line}")

    def take_over(self, node, lines):
        """A job that has left the queue has another id; the one that it had still means it."""
        for job in self.jobs:
            if job.waits and not job.removed and job.id not in lines:
                shown = node.ask("job", "show", job.id, "--json")
                if shown.code == 0 and shown.json["job"] != job.id:
                    job.id, job.waits = shown.json["job"], False

    # ---- what holds once all is settled

    def settles(self):
        """All nodes are up: each job is over, stopped, at work, or says for what it waits."""
        names = sorted(self.nodes)

        def all_alive(node):
            seen = node.ask("nodes", "--json").json["nodes"]
            alive = sorted(one["name"] for one in seen if one["health"] == "alive")
            return alive == names or alive
        self.everywhere(all_alive, "all see each other", cluster.TIMEOUT)
        for job in self.jobs:
            self.settled(job)
        self.check_names()

    def settled(self, job):
        if job.removed:
            return self.everywhere(lambda one: self.is_gone(one, job), f"{job} is gone")
        seen = {}

        def is_settled():
            for node in self.up():
                lines = self.lines(node)
                self.take_over(node, lines)
                seen[node.name] = lines.get(job.id, {"phase": "unknown", "step": 0})
            return self.agree(job, seen)
        try:
            how = cluster.wait_until(is_settled, f"{job} settles", cluster.TIMEOUT, every=0.2)
        except AssertionError as error:
            raise AssertionError(f"{error}: {seen}") from None
        if how == "finished":
            self.check_result(job)
        elif how == "stopped":
            steps = {line["step"] for line in seen.values() if line["phase"] == "stopped"}
            time.sleep(0.3)
            for node in self.up():
                self.assertLessEqual(self.lines(node)[job.id]["step"], max(steps), f"{job} is stopped")
        return None

    def agree(self, job, seen):
        """How the job stands, if all nodes say the same of it; else nothing."""
        phases = {line["phase"] for line in seen.values()}
        steps = {line["step"] for line in seen.values() if line["phase"] not in IDLE}
        if "unknown" in phases or "failed" in phases:
            return None
        if "finished" in phases:
            self.assertIsNone(job.stopped, f"{job} was stopped: {seen}")
            # Who was away waits for a result that a person has removed where it was, and says so.
            waits = [line for line in seen.values() if line["phase"] == "paused"]
            if job.taken and waits and phases <= {"finished", "paused", *IDLE}:
                told = all("its result was removed on" in line.get("reason", "") for line in waits)
                return "its result is removed" if told else None
            return "finished" if phases == {"finished"} and steps == {job.steps} else None
        if job.stopped is not None or "stopped" in phases:
            return "stopped" if phases <= {"stopped", *IDLE} and len(steps) <= 1 else None
        if "waiting" in phases:  # it can start as soon as enough nodes are there
            reasons = all(line.get("reason") for line in seen.values())
            return "waiting" if reasons and job.needs > len(self.nodes) else None
        if "running" in phases:
            before = max(steps)
            cluster.wait_until(lambda: any(line["step"] > before or line["phase"] == "finished" for line
                                           in (self.lines(node)[job.id] for node in self.up())),
                               f"{job} makes steps")
            over = any(self.lines(node)[job.id]["phase"] == "finished" for node in self.up())
            return None if over else "running"
        paused = [line for line in seen.values() if line["phase"] == "paused"]
        told = paused and all(one.get("reason") for one in paused)
        return "paused" if job.needs > 1 and told else None

    def check_result(self, job):
        """On the disks of its members is the result of the same job run alone."""
        members = {name for node in self.up()
                   for name in node.ask("job", "show", job.id, "--json").json.get("members", [])}
        holders = members - job.taken
        for name in holders:
            cluster.wait_until(lambda name=name: job.steps in self.steps_on(name, job.id),
                               f"the result of {job} is on the disk of {name}")
            node = self.nodes[name]
            whole = node.ask("checkpoint", "verify", job.id, "--json")
            self.assertEqual(whole.code, 0, str(whole))
            self.assertEqual(self.export(node, job.steps, job.id), self.undisturbed(job.steps),
                             f"the weights of {job} at {name}")

    def check_names(self):
        """A name means the same job at each node, and each job is shown alike."""
        shown = {}

        def one_meaning():
            shown.clear()
            for node in self.up():
                shown[node.name] = {line["job"]: line["shown_as"]
                                    for line in self.lines(node).values()}
            return len({json.dumps(one, sort_keys=True) for one in shown.values()}) == 1
        try:
            cluster.wait_until(one_meaning, "all nodes list the same jobs", SPREAD)
        except AssertionError as error:
            raise AssertionError(f"{error}: {shown}") from None
        for one, name in next(iter(shown.values())).items():
            for node in self.up():
                told = node.ask("job", "show", name, "--json")
                self.assertEqual((told.code, told.json.get("job")), (0, one),
                                 f"{name} at {node.name}: {told}")
