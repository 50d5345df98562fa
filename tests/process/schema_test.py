"""What every command answers with --json is what `gpunode help --json` says of it: no field that is not
described, none of those that are always there absent, each of its type.

On two nodes, with a job at work, stopped, finished, refused; streams line by line.
"""
import json
import os
import re
import signal
import subprocess

import cluster
from models import write_model

TYPES = {
    "text": lambda value: isinstance(value, str),
    "texts": lambda value: isinstance(value, list) and all(isinstance(one, str) for one in value),
    "whole": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: value is None or
    isinstance(value, (int, float)) and not isinstance(value, bool),
    "truth": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "list": lambda value: isinstance(value, list) and all(isinstance(one, dict) for one in value),
    "texts by name": lambda value: isinstance(value, dict) and
    all(isinstance(one, str) for one in value.values()),
    "free": lambda value: True,
}
ERROR = {"code", "detail"}


def faults_of(value, fields, at=""):
    """What is wrong with an object, by the fields whose paths begin with `at`."""
    own = {path[len(at):]: field for path, field in fields.items() if path.startswith(at)}
    faults = [f"{at}{name} is absent" for name, field in own.items()
              if not re.search(r"[.\[]", name) and not field["when"] and name not in value]
    for name, held in value.items():
        path = at + name
        if name not in own:
            faults.append(f"{path} is not described")
        elif not TYPES[own[name]["type"]](held):
            faults.append(f"{path} is no {own[name]['type']}: {held!r}")
        elif own[name]["type"] == "object":
            faults += faults_of(held, fields, path + ".")
        elif own[name]["type"] == "list":
            for one in held:
                faults += faults_of(one, fields, path + "[].")
    return faults


class Schema(cluster.ProcessTest):
    def setUp(self):
        super().setUp()
        self.table = {}
        for command in self.world.run("help", "--json").json["commands"]:
            for answer in command["answers"]:
                fields = {field["path"]: field for field in answer["fields"]}
                self.table[command["name"], answer["with"]] = fields
        self.seen = set()

    def check_line(self, line, command, form="", record=False):
        """One answer; of a failure the error alone is sure to be there. Gives it back."""
        answer = json.loads(line)
        fields, rest = self.table[command, form], dict(answer)
        if record and "ok" not in answer:
            self.assertEqual(faults_of(answer, fields), [], line)
        else:
            self.assertIn(rest.pop("ok"), (True, False))
            faults = []
            if not answer["ok"]:
                self.assertEqual(set(rest.pop("error")), ERROR, line)
                fields = {path: {**field, "when": field["when"] or "it went well"}
                          if "." not in path else field for path, field in fields.items()}
            faults += faults_of(rest, fields)
            self.assertEqual(faults, [], f"{command} {form}: {line}")
        self.seen.add((command, form))
        return answer

    def ask(self, node, command, *words, form="", code=0, **options):
        """Runs a command with --json; its answer is one line, and as described."""
        state = ["--state", node.state] if node else []
        done = self.world.run(*command.split(), *words, "--json", *state, **options)
        self.assertEqual(done.code, code, str(done))
        self.assertEqual(done.out.count("\n"), 1, str(done))
        return self.check_line(done.out, command, form)

    def up(self, name, *words, **options):
        node = self.world.start(name, *words, **options)
        with open(self.world.path(name + ".out"), encoding="utf-8") as stream:
            self.check_line(stream.readline(), words[0] if words else "up")
        return node

    def test_the_comparison_finds_what_is_absent_not_described_or_of_another_type(self):
        def field(kind, when=""):
            return {"type": kind, "when": when}
        fields = {"a": field("whole"), "b": field("list"), "b[].c": field("text", "known"),
                  "d": field("object", "known"), "d.e": field("truth")}
        self.assertEqual(faults_of({"a": 1, "b": [{}, {"c": "x"}], "d": {"e": True}}, fields), [])
        for answer, fault in (({"b": []}, "a is absent"), ({"a": True, "b": []}, "a is no whole"),
                              ({"a": 1, "b": [{"f": 1}]}, "b[].f is not described"),
                              ({"a": 1, "b": [], "d": {}}, "d.e is absent"),
                              ({"a": 1, "b": [{"c": None}]}, "b[].c is no text")):
            self.assertIn(fault, "\n".join(faults_of(answer, fields)))

    def test_every_answer_is_as_it_is_described(self):
        a = self.up("a")
        token = self.ask(a, "token create", "--role", "all")["token"]
        b = self.up("b", "join", a.join_address, env={"GPUNODE_TOKEN": token})
        cluster.wait_until(lambda: len(a.ask("nodes", "--json").json["nodes"]) == 2, "both")
        self.check_nodes(a)
        self.check_a_job_at_work(a, b)
        self.check_a_job_that_is_over(a, b)
        self.check_models(a, b)
        self.check_what_needs_no_node(a)
        self.check_failures(a, b)
        self.check_after_a_restart(a)
        self.check_removal(a, b)
        self.ask(a, "keys rotate")
        self.ask(a, "cluster refound", "--recovery-key", a.info["recovery_key"], "--check")
        self.ask(b, "leave", "--anyway")
        self.ask(a, "node revoke", "b", "--reason", "sold")
        self.check_audit(a)
        self.assertEqual(set(self.table) - self.seen, set(), "forms that were not looked at")

    def check_audit(self, a):
        self.ask(a, "audit verify")
        lines = a.ask("audit", "show", "--json").out.splitlines()
        self.assertTrue(lines)
        for line in lines:
            self.check_line(line, "audit show", record=True)

    def check_nodes(self, a):
        cluster.wait_until(lambda: all("health_report" in one for one in
                                       self.ask(a, "nodes")["nodes"]), "both have told of health")
        self.ask(a, "status")
        self.ask(a, "token create", "--out", self.world.path("token"), "--label", "spare")
        self.ask(a, "token ls")
        self.ask(a, "http-key create", "alice", "--expires", "1h")
        self.ask(a, "http-key ls")
        self.ask(a, "http-key revoke", "alice")
        self.ask(a, "token revoke", "spare")
        self.ask(a, "devices")
        self.ask(a, "device drain", "cpu", code=1)
        self.ask(a, "device resume", "cpu")
        self.ask(a, "metrics")
        self.ask(a, "config")
        self.ask(a, "jobs")
        self.ask(a, "models")
        for line in a.ask("logs", "--json").out.splitlines():
            self.check_line(line, "logs", record=True)

    def check_a_job_at_work(self, a, b):
        plan = self.job_file("long", steps=10, nodes=2)
        self.ask(a, "train", plan, "--check", form="--check")
        many = self.job_file("many", nodes=3, min_nodes=3)
        self.ask(a, "train", many, "--check", "--no-wait", form="--check", code=1)
        self.ask(a, "train", many, "--check", form="--check")
        self.ask(a, "train", many)
        for node in (a, b):
            self.ask(node, "jobs")
            self.ask(node, "job show", "many")
        self.ask(b, "job rm", "many")
        self.ask(a, "train", self.job_file("long", steps=1000000, every=200, nodes=2))
        follow = subprocess.Popen(
            [cluster.PROGRAMS["gpunode"], "job", "follow", "long", "--json", "--state", a.state],
            stdout=subprocess.PIPE, text=True, env=self.world.environment())
        self.addCleanup(follow.wait)
        self.addCleanup(follow.kill)
        self.check_line(follow.stdout.readline(), "job follow")
        cluster.wait_until(lambda: self.ask(b, "job show", "long")["step"] > 250, "it runs")
        for node in (a, b):
            self.ask(node, "jobs")
            self.ask(node, "job show", "long")
            self.ask(node, "job log", "long")
        self.ask(a, "job trace", "long")
        self.ask(a, "job trace", "long", "--out", self.world.path("trace"), form="--out")
        self.ask(a, "job wait", "long", "--timeout", "1ms", code=5)
        self.ask(a, "job recover", "long", "--force", code=1)
        self.ask(a, "job stop", "long")
        self.ask(a, "job wait", "long", code=4)
        self.ask(b, "job show", "long")
        self.ask(a, "job resume", "long")
        self.ask(a, "job stop", "long")
        follow.send_signal(signal.SIGINT)
        for line in follow.communicate(timeout=cluster.TIMEOUT)[0].splitlines():
            self.check_line(line, "job follow")

    def check_a_job_that_is_over(self, a, b):
        done = a.ask("train", self.job_file("small", steps=40, every=10, nodes=2), "--follow",
                     "--json", timeout=2 * cluster.TIMEOUT)
        self.assertEqual(done.code, 0, str(done))
        first, *rest = done.out.splitlines()
        self.check_line(first, "train")
        self.assertTrue(rest)
        for line in rest:
            self.check_line(line, "train", "--follow")
        self.assertEqual(json.loads(rest[-1])["phase"], "finished")
        for node in (a, b):
            self.ask(node, "job wait", "small")
            self.ask(node, "job show", "small")
            self.ask(node, "job log", "small")

    def check_models(self, a, b):
        self.ask(a, "serve", "small", "--name", "m")
        self.ask(a, "models")
        cluster.wait_until(lambda: b.ask("models", "--json").json["models"], "b knows")
        self.ask(b, "generate", "--model", "m", "--max-tokens", "3")
        self.ask(b, "bench infer", "--model", "m", "--seconds", "0.5", "--max-tokens", "3",
                 "--prompt-tokens", "4")
        self.ask(a, "devices")
        self.ask(a, "unserve", "m")
        draft = self.world.path("draft.safetensors")
        write_model(draft, layers=1, channels=16)
        self.ask(a, "serve", draft, "--name", "m", "--draft", draft)
        self.ask(a, "models")
        self.ask(a, "unserve", "m")
        out = self.world.path("weights")
        self.ask(a, "checkpoint ls")
        self.ask(a, "checkpoint verify", "small")
        path = self.ask(a, "checkpoint export", "small", "--out", out)["path"]
        self.assertEqual(path, out)
        self.ask(a, "serve", path, "--name", "half", "--part", "1/2")
        self.ask(a, "models")
        self.ask(a, "unserve", "half")
        folder = self.world.path("other")
        self.ask(None, "model export", out, "--out", folder)
        self.ask(None, "model import", folder, "--out", self.world.path("again"))
        self.ask(None, "quantize", out, "--out", self.world.path("smaller"), "--weights", "int8")

    def check_removal(self, a, b):
        # Under load some are left out.
        steps = [one["step"] for one in b.ask("checkpoint", "ls", "--json").json["checkpoints"]
                 if one["name"] == "small"]
        self.ask(b, "checkpoint rm", "small", "--step", str(min(steps)))
        self.wait_for_phase(a, "long", "stopped")  # it was started again just now
        self.ask(a, "job rm", "long")
        self.ask(a, "job rm", "long", code=1)

    def check_what_needs_no_node(self, a):
        for command in ("help", "version"):
            self.ask(None, command)
        self.ask(None, "help", "job", form="job")
        self.ask(None, "bench compute", "--model", "small-gpt", "--seconds", "0", "--ops",
                 "linear,slice")
        done = self.world.run("doctor", "--json", "--listen", "127.0.0.1:0")
        self.check_line(done.out, "doctor")
        self.ask(a, "config", "--forget")

    def check_failures(self, a, b):
        for command, *words in (("job show", "none"), ("job log", "none"), ("job follow", "none"),
                                ("job wait", "none"), ("job trace", "none"), ("job stop", "none"),
                                ("job rm", "none"), ("checkpoint rm", "none", "--all"),
                                ("serve", "none"), ("unserve", "none"), ("device drain", "cuda:9"),
                                ("train", self.job_file("bad", data="/nowhere")),
                                ("train", self.world.path("absent")), ("leave",),
                                ("generate", "--model", "none"), ("bench infer", "--model", "none"),
                                ("checkpoint verify", "none"),
                                ("checkpoint export", "none", "--out", "/tmp/x")):
            if command != "leave":  # a may leave: b holds the jobs, too
                self.ask(a, command, *words, code=1)
        self.ask(a, "token create", "--uses", "0", code=2)
        self.ask(a, "job recover", "long", code=2)
        none = cluster.Node(self.world, "none", None, None)
        for command in ("nodes", "jobs", "leave", "devices", "models", "metrics"):
            self.ask(none, command, code=3)
        self.ask(none, "bench infer", "--model", "m", code=3)
        self.ask(none, "logs", code=1)
        newest = max(self.ask(b, "checkpoint ls")["checkpoints"],
                     key=lambda one: (one["name"] == "small", one["step"]))
        for name in os.listdir(newest["path"]):
            if name.startswith("weight"):
                with open(os.path.join(newest["path"], name), "r+b") as stream:
                    stream.seek(os.path.getsize(stream.name) // 2)
                    stream.write(b"damage")
        self.ask(b, "checkpoint verify", "small", code=1)

    def check_after_a_restart(self, a):
        a.kill()
        self.up("a")
        cluster.wait_until(lambda: self.ask(a, "jobs")["jobs"], "its jobs are there")
        self.ask(a, "job show", "small")
        self.ask(a, "job log", "small")
        self.ask(a, "job wait", "small")


if __name__ == "__main__":
    cluster.main()
