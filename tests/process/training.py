"""A training job on several real nodes: what the tests of its faults share.

The nodes are gpunode-faulty with orders that a test writes into files; with a switch every link can
be cut. The weights that count are those of an undisturbed run on one node.
"""
import os
import re

import cluster
import link_faults

TEXT = "".join(f"{i}: the {i * i % 977} brown foxes jump over {i * 7919 % 10007} lazy dogs\n"
               for i in range(3000))
JOB = """
name = "small"
nodes = {nodes}
min_nodes = {least}

[data]
{data}

[model]
kind = "gpt"
layers = 1
heads = 2
channels = {channels}
context = 16

[train]
seed = 1
steps = {steps}
batch = 8
slices = 8
warmup_steps = 10

[checkpoint]
every = {every}
"""
VIEW = re.compile(r"^view (\d+) \((.*); (.*) decides a tie\) resumes after step (\d+)$")


class View:
    """A view as an event of `job log` tells it."""

    def __init__(self, at, found):
        self.at, self.id, self.base, self.tie = at, int(found[1]), int(found[4]), found[3]
        self.members = found[2].split(", ")


class Log:
    """`job log --json` of one node."""

    def __init__(self, told):
        self.told = told
        self.events = told.get("events", [])
        self.commits = told.get("commits", [])
        found = [(one["at"], VIEW.match(one["text"])) for one in self.events if "at" in one]
        self.views = [View(at, match) for at, match in found if match]

    def text(self):
        return "\n".join(f"{one.get('at', 0):.3f} {one['text']}" for one in self.events)

    def commit_after(self, at, view):
        """The first commit after that time in a view later than that one."""
        return next((one for one in self.commits if one["at"] > at and one["view"] > view), None)


class TrainingTest(cluster.ProcessTest):
    steps, every, channels = 200, 50, 32
    pace_at = "commit"  # there the node hears nothing meanwhile; at "slice" it does
    flags = ["--device-timeout", "1h"]  # of each node; what hangs here is to be found otherwise
    switched = False  # whether every link goes through a switch
    digests = {}  # of the undisturbed runs, by steps and channels

    def setUp(self):
        super().setUp()
        self.nodes, self.ports = {}, {}
        if self.switched:
            self.switch = self.world.switch = link_faults.Switch()

    # ---- nodes

    def path(self, name):
        return self.world.path(name)

    def environment(self, name):
        return {"GPUNODE_FAULT_PACE_MS": "60", "GPUNODE_FAULT_PACE_WHILE": self.path("slow"),
                "GPUNODE_FAULT_PACE_AT": self.pace_at,
                "GPUNODE_FAULT_ORDERS": self.path("order-" + name),
                "GPUNODE_FAULT_LOG": self.path("hits")}

    def start_node(self, name, through=None, env=None):
        """A node that founds, joins, or goes on with its state directory, at its old ports."""
        if name not in self.ports:
            own = cluster.free_port_range()
            self.ports[name] = self.switch.add_node(name) if self.switched else (own, own)
        own, shown = self.ports[name]
        words = ["up", "--advertise", f"127.0.0.1:{shown}", *self.flags]
        environment = {**self.environment(name), **(env or {})}
        if through:
            words[0:1] = ["join", through.join_address]
            environment["GPUNODE_TOKEN"] = self.world.token(through)
        node = self.world.start(name, *words, listen=f"127.0.0.1:{own}", env=environment,
                                faulty=True)
        self.nodes[name] = node
        return node

    def start_nodes(self, names):
        for name in names:
            self.start_node(name, self.nodes.get(names[0]))
        for name in names:
            cluster.wait_until(lambda name=name: self.knows(self.nodes[name], names),
                               "all know each other")

    def knows(self, node, names):
        seen = node.ask("nodes", "--json").json["nodes"]
        alive = [one["name"] for one in seen if one["health"] == "alive"]
        return sorted(alive) == sorted(names)

    def order(self, name, verb, point):
        """The node strikes itself the next time that it comes to the point."""
        self.write_whole("order-" + name, f"{verb}@{point}\n")

    def pace(self, milliseconds):
        """So much longer takes each commit, or slice: see pace_at; None: no longer."""
        if milliseconds is None:
            os.remove(self.path("slow"))
        else:
            self.write_whole("slow", f"{milliseconds}\n")

    def write_whole(self, name, text):
        self.world.write(name + ".new", text)
        os.rename(self.path(name + ".new"), self.path(name))

    # ---- the job

    def job(self, nodes, least=1):
        data = self.path("data/text.txt")
        if not os.path.exists(data):
            self.world.write("data/text.txt", TEXT)
        return self.world.write("small.toml", JOB.format(
            nodes=nodes, least=least, data=self.world.offered(data), steps=self.steps, every=self.every,
            channels=self.channels))

    def undisturbed(self):
        """The digest of the weights of a run on one node that nothing happens to."""
        known = TrainingTest.digests
        if (self.steps, self.channels) not in known:
            node = self.world.start("alone")
            followed = node.ask("train", self.job(1), "--follow", timeout=4 * cluster.TIMEOUT)
            self.assertEqual(followed.code, 0, str(followed))
            known[self.steps, self.channels] = self.export(node, self.steps)
            node.kill()
        return known[self.steps, self.channels]

    def train(self, node, nodes, least=1):
        started = node.ask("train", self.job(nodes, least), "--json")
        self.assertEqual(started.code, 0, str(started))
        return started.json

    def line(self, node):
        shown = node.ask("jobs", "--json")
        lines = shown.json["jobs"] if shown.code == 0 else []
        return next((line for line in lines if line.get("name") == "small"), None)

    def log(self, node):
        told = node.ask("job", "log", "small", "--json")
        return Log(told.json if told.code == 0 else {})

    def await_line(self, node, wanted, what, timeout=cluster.TIMEOUT):
        """Polls `jobs` of a node until the job's line is as wanted; tells what all saw if not."""
        def is_so():
            line = self.line(node)
            return line if line and wanted(line) else None
        return self.wait_until(is_so, f"{node.name}: {what}", timeout)

    def wait_until(self, found, what, *options, **named):
        """cluster.wait_until that tells what all nodes saw if it waits in vain."""
        try:
            return cluster.wait_until(found, what, *options, **named)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.told()}") from None

    def await_members(self, node, names, timeout=cluster.TIMEOUT):
        return self.await_line(node, lambda line: sorted(line.get("members", [])) == sorted(names),
                               f"the members are {sorted(names)}", timeout)

    def told(self):
        """What every node that answers says of the job, for a failure's text."""
        parts = []
        for name, node in self.nodes.items():
            if node.process.poll() is not None:
                parts.append(f"== {name} ended with {node.process.returncode}")
                continue
            try:
                shown = node.ask("job", "log", "small", timeout=5)
                known = node.ask("nodes", timeout=5)
                parts.append(f"== {name}: {self.line(node)}\n{shown.out[-3000:]}{shown.err}"
                             f"{known.out}")
            except Exception as error:  # one that is stopped does not answer
                parts.append(f"== {name}: {error}")
        return "\n".join(parts)

    def check_all(self, nodes, timeout=cluster.TIMEOUT):
        """All have finished with the weights of the undisturbed run, and prove their data."""
        for node in nodes:
            self.assertIsNone(node.process.poll(), f"{node.name} runs\n{node.said()[-3000:]}")
            self.await_line(node, lambda line: line["phase"] == "finished", "finished", timeout)
        for node in nodes:
            shown = node.ask("job", "show", "small", "--json").json
            self.assertEqual(shown["step"], self.steps)
            self.assertTrue(shown["proof"]["equal_to_data"], shown)
            self.assertTrue(shown["proof"]["each_sample_once_an_epoch"], shown)
            self.assertEqual(self.export(node, self.steps), self.undisturbed(),
                             f"weights of {node.name}")
        self.check_one_history(nodes)

    def check_one_history(self, nodes):
        """No two nodes have committed a step with different states."""
        seen = {}
        for node in nodes:
            for commit in self.log(node).commits:
                digest = commit.get("state_digest")
                first = seen.setdefault(commit["step"], (digest, node.name)) if digest else None
                if first:
                    self.assertEqual(digest, first[0],
                                     f"step {commit['step']} of {node.name} and {first[1]}")
        return seen
