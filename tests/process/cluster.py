"""Real gpunode processes for the process tests: starts, asks, kills and cleans up.

Every test has its own folder of state directories, takes free ports on loopback, and waits by polling
with a deadline. Whatever a test started is killed when it ends, also when it fails.
usage of a test file: <file>.py GPUNODE GPUNODE_FAULTY [unittest arguments]
"""
import glob
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

TIMEOUT = float(os.environ.get("GPUNODE_TEST_TIMEOUT", "60"))
PROGRAMS = {}


class Result:
    """What a command printed and how it ended."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def json(self):
        return json.loads(self.out)

    def __str__(self):
        return f"exit code {self.code}\nout: {self.out}\nerr: {self.err}"


class Node:
    """A gpunode process that was started in the foreground."""

    def __init__(self, world, name, process, log):
        self.world, self.name, self.process, self.log = world, name, process, log
        self.info = None

    @property
    def state(self):
        return self.world.state(self.name)

    @property
    def join_address(self):
        return self.info["join_endpoints"][0].removeprefix("tcp://")

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as stream:
            return stream.read()

    def ask(self, *words, **options):
        return self.world.run(*words, "--state", self.state, **options)

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, timeout=TIMEOUT):
        return self.process.wait(timeout)

    def kill(self):
        self.process.kill()
        self.process.wait()


class World:
    """One test's folder and everything that it started."""

    def __init__(self):
        self.root = tempfile.mkdtemp(prefix="gpn-", dir="/tmp")  # short: sockets live below it
        self.processes = []
        self.detached = []
        self.switch = None  # of link_faults, where links go through one
        # What each node offers to jobs, by name: in the folder that it starts in, or the world's.
        self.offers = {"text": "data/text.txt", "rows": "data/rows.csv"}

    def state(self, name):
        return os.path.join(self.root, name)

    def path(self, name):
        return os.path.join(self.root, name)

    def write(self, name, text):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        mode = "wb" if isinstance(text, bytes) else "w"
        with open(path, mode) as stream:
            stream.write(text)
        return path

    def offered(self, path):
        """How a job file names that file: as a set where nodes offer it, else by its path, which is
        read at the submitter's node alone."""
        for name, place in self.offers.items():
            if path == self.path(place):
                return f'set = "{name}"'
        return f'path = "{path}"'

    def environment(self, extra=None):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("GPUNODE_")}
        clean["HOME"] = self.root
        if os.getuid() != 0:
            clean["GPUNODE_DUMPABLE"] = "1"  # tests look at a node through /proc
        clean.update(extra or {})
        return clean

    def run(self, *words, env=None, stdin=None, timeout=TIMEOUT, faulty=False):
        program = PROGRAMS["faulty" if faulty else "gpunode"]
        done = subprocess.run([program, *words], capture_output=True, env=self.environment(env),
                              input=stdin, timeout=timeout, text=True, errors="replace",
                              stdin=None if stdin is not None else subprocess.DEVNULL)
        return Result(done.returncode, done.stdout, done.stderr)

    def launch(self, name, *words, env=None, faulty=False, cwd=None, threads=1, within=()):
        """Starts a node and does not wait for it; the log holds standard error. `within`: a command
        that runs another one in its own process, in another namespace."""
        log = self.path(name + ".log")
        out = self.path(name + ".out")
        program = PROGRAMS["faulty" if faulty else "gpunode"]
        if "GPUNODE_FAULT_LOG" in (env or {}):
            words += ("--no-sandbox",)  # the faults' own log lies outside the state directory
        if words[0] in ("up", "join"):
            for offer, place in self.offers.items():
                words += ("--data", f"{offer}={os.path.join(cwd or self.root, place)}")
        with open(log, "ab") as errors, open(out, "wb") as output:
            process = subprocess.Popen(
                [*within, program, *words, "--state", self.state(name), "--name", name, "--threads",
                 str(threads), "--json"], stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
                env=self.environment(env), start_new_session=True, cwd=cwd)
        self.processes.append(process)
        if self.switch:
            self.switch.set_process(name, process.pid)
        return Node(self, name, process, log)

    def launch_command(self, node, *words, output=subprocess.DEVNULL):
        """A command to the node that takes its time, not waited for."""
        process = subprocess.Popen([PROGRAMS["gpunode"], *words, "--state", node.state],
                                   stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                   env=self.environment(), start_new_session=True, text=True)
        self.processes.append(process)
        return process

    def hostile(self, *words):
        """gpunode-hostile (tests/hostile), which this world ends with."""
        process = subprocess.Popen([PROGRAMS["hostile"], *words], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   start_new_session=True, text=True)
        self.processes.append(process)
        return process

    def audited(self, name, event):
        """The entries of that kind in a node's audit log, as they lie on its disk."""
        lines = []
        for path in glob.glob(os.path.join(self.state(name), "audit", "*.log")):
            with open(path, encoding="utf-8") as stream:
                lines += [json.loads(line) for line in stream]
        return [line for line in lines if line.get("event") == event]

    def start(self, name, *words, listen="127.0.0.1:0", **options):
        """Starts a node and waits until it is up."""
        node = self.launch(name, *(words or ("up",)), "--listen", listen, **options)

        def up():
            with open(self.path(name + ".out"), encoding="utf-8") as stream:
                line = stream.readline()
            if line.endswith("\n"):
                return json.loads(line)
            if node.process.poll() is not None:
                raise AssertionError(f"{name} ended with {node.process.returncode}: {node.said()}")
            return None

        node.info = wait_until(up, f"{name} is up")
        if not node.info.get("ok"):
            raise AssertionError(f"{name}: {node.info}")
        return node

    def token(self, node, *flags):
        """One that gives all roles, unless the flags name some."""
        roles = () if "--role" in flags else ("--role", "all")
        made = node.ask("token", "create", *roles, *flags)
        if made.code != 0:
            raise AssertionError(f"no token: {made}")
        return made.out.strip()

    def slow_steps(self, milliseconds):
        """Options of a node whose steps take that long, until full_speed(): an order or a fault
        meets a job that is at work, however busy the machine is."""
        return {"faulty": True, "env": {"GPUNODE_FAULT_PACE_MS": str(milliseconds),
                                        "GPUNODE_FAULT_PACE_WHILE": self.write("slow", "")}}

    def full_speed(self):
        os.remove(self.path("slow"))

    def join(self, name, through, flags=(), **options):
        token = self.token(through)
        environment = {**options.pop("env", {}), "GPUNODE_TOKEN": token}
        node = self.start(name, "join", through.join_address, *flags, env=environment, **options)

        def is_seen():
            told = through.ask("nodes", "--json")
            return told.code == 0 and any(one["id"] == node.info["id"] and one["health"] == "alive"
                                          for one in told.json["nodes"])
        wait_until(is_seen, f"{through.name} sees {name}")
        return node

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            process.wait()
        if self.switch:
            self.switch.close()
        for pid in self.detached:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        strays = self.strays()
        shutil.rmtree(self.root, ignore_errors=True)
        if strays:
            raise AssertionError("actors got messages that they do not know:\n" + "".join(strays))

    def strays(self):
        """What the logs say of messages that went to the wrong actor."""
        found = []
        for name in os.listdir(self.root):
            if name.endswith(".log"):
                with open(self.path(name), encoding="utf-8", errors="replace") as stream:
                    found += [f"{name}: {line}" for line in stream
                              if "got a message that it does not know" in line]
        return found


def shared_data(name, variable):
    """Data too large to lie in the project: where the variable says, or in shared/data beside the
    checkout, or beside a folder above it for a worktree. None where it is absent."""
    named = os.environ.get(variable)
    if named:
        return os.path.abspath(named)
    folder = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    for _ in range(3):
        folder = os.path.dirname(folder)
        path = os.path.join(folder, "shared", "data", name)
        if os.path.exists(path):
            return path
    return None


def wait_until(condition, what, timeout=TIMEOUT, every=0.05):
    """Polls until the condition gives something true, and returns that."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not in {timeout:.0f} s: {what}")
        time.sleep(every)


def gone(pid):
    """Whether a process has ended, waited for or not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stream:
            return stream.read().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


GIVEN = set()  # ports that nobody may have taken yet


def free_port_range(count=3):
    """The first of some neighbouring ports that were free a moment ago, and were not given before.

    They lie below those that outgoing connections take, so that a node that was killed finds its
    ports free when it starts again.
    """
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as told:
        lowest_taken = int(told.read().split()[0])
    for _ in range(100):
        first = random.randrange(10000, max(lowest_taken, 20000) - count)
        wanted = set(range(first, first + count))
        if wanted & GIVEN:
            continue
        taken = []
        try:
            for port in wanted:
                door = socket.socket()
                taken.append(door)
                door.bind(("127.0.0.1", port))
            GIVEN.update(wanted)
            return first
        except OSError:
            continue
        finally:
            for door in taken:
                door.close()
    raise AssertionError("no free ports")


JOB = """
name = "{name}"
nodes = {nodes}
min_nodes = {min_nodes}
{top}
[data]
{data}

[model]
kind = "gpt"
layers = 1
heads = 2
channels = 16
context = 16

[train]
seed = 1
steps = {steps}
batch = 4
slices = 4
warmup_steps = 5

[checkpoint]
every = {every}
"""

TEXT = "".join(f"line {i}: the quick brown fox jumps over the lazy dog {i * i}\n"
               for i in range(400))


class ProcessTest(unittest.TestCase):
    """A test with a world of its own."""

    def setUp(self):
        self.world = World()
        self.addCleanup(self.world.close)

    def job_file(self, name="small", steps=20, every=10, nodes=1, extra="", **changes):
        data = changes.get("data") or self.world.write("data/text.txt", TEXT)
        return self.world.write(f"{name}.toml", JOB.format(
            name=name, steps=steps, every=every, nodes=nodes,
            data=self.world.offered(data),
            min_nodes=changes.get("min_nodes", 1), top=changes.get("top", "")) + extra)

    def assert_fails(self, result, code, *words):
        """The exit code, and a text that names cause and remedy."""
        self.assertEqual(result.code, code, str(result))
        text = result.err + result.out
        for word in words:
            self.assertIn(word.lower(), text.lower(), str(result))

    def assert_says(self, text, *words):
        for word in words:
            self.assertIn(word.lower(), text.lower())

    def export(self, node, step, job="small"):
        """The hash of the weights after that step, as soon as the node has its checkpoint."""
        out = self.world.path(node.name + ".safetensors")

        def exported():
            done = node.ask("checkpoint", "export", job, "--step", str(step), "--out", out,
                            "--json")
            return done.json["sha256"] if done.code == 0 else None
        return wait_until(exported, f"{node.name} has the last checkpoint")

    def nodes(self, node):
        """Whom it lists, by name."""
        return {one["name"]: one for one in node.ask("nodes", "--json").json["nodes"]}

    def sees(self, node, health, *names):
        wait_until(lambda: all(self.nodes(node).get(name, {}).get("health") == health
                               for name in names), f"{node.name} sees {names} {health}")

    def jobs_of(self, node):
        """What it lists, by id."""
        return {line["job"]: line for line in node.ask("jobs", "--json").json["jobs"]}

    def progress(self, node, job):
        return node.ask("job", "show", job, "--json").json

    def wait_for_phase(self, node, job, phase="finished", timeout=TIMEOUT):
        def reached():
            shown = node.ask("jobs", "--json")
            if shown.code != 0:
                return None
            for line in shown.json["jobs"]:
                if job in (line.get("name"), line.get("job")):
                    if line["phase"] == phase:
                        return line
                    if line["phase"] == "failed":
                        raise AssertionError(f"job {job} failed: {line}")
            return None
        return wait_until(reached, f"job {job} is {phase}", timeout)


def main():
    PROGRAMS["gpunode"], PROGRAMS["faulty"] = sys.argv[1], sys.argv[2]
    PROGRAMS.setdefault("hostile", os.path.join(os.path.dirname(sys.argv[2]), "..", "hostile",
                                                "gpunode-hostile"))
    unittest.main(module="__main__", argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
