"""A model on five nodes is asked all the time, while replicas are killed, withdrawn, leave, come back, and
new versions take the place of old ones: each request gets one answer or one typed error within its time, and
no answer is of another version than it says.
usage: replicas_test.py GPUNODE GPUNODE_FAULTY [all] [--seed N] [unittest arguments]

  all: a million requests; else some seconds of them.
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
from models import write_model

NODES = "abcde"
CALLERS, TIMEOUT_MS = 24, 5000
VERSIONS = 6
# What may be said of a request whose replica has gone, or where none is left for a moment.
FAIR = {"unavailable", "not_found", "peer_lost", "timeout", "cancelled", "resource_exhausted"}
OPTIONS = argparse.Namespace(requests=0, seconds=20.0, seed=None)


class Replicas(cluster.ProcessTest):
    def setUp(self):
        super().setUp()
        self.seed = random.randrange(1 << 32) if OPTIONS.seed is None else OPTIONS.seed
        self.draw = random.Random(self.seed)
        self.paths = [self.world.path(f"model{i}.safetensors") for i in range(VERSIONS)]
        for seed, path in enumerate(self.paths):
            write_model(path, seed, layers=1, channels=64)
        first = cluster.free_port_range(3 * len(NODES))
        self.ports = {name: first + 3 * at for at, name in enumerate(NODES)}
        self.nodes = {"a": self.world.start("a", listen=self.listen("a"))}
        self.token = self.world.token(self.nodes["a"], "--uses", "1000", "--ttl", "3600s")
        for name in NODES[1:]:
            self.enter(name)

    def listen(self, name):
        return f"127.0.0.1:{self.ports[name]}"

    def enter(self, name):
        """As a new member, or again as the one that its state directory says."""
        anchor = "a" if name != "a" else "b"
        self.nodes[name] = self.world.start(
            name, "join", f"127.0.0.1:{self.ports[anchor] + 2}", listen=self.listen(name),
            env={"GPUNODE_TOKEN": self.token})

    def serve(self, name, *words):
        told = self.nodes[name].ask("serve", *words, "--json")
        self.assertEqual(told.code, 0, f"seed {self.seed}: {told}")
        return told.json

    def texts(self):
        """By digest, what a model says when it is alone."""
        said = {}
        for path in self.paths:
            digest = self.serve("a", path, "--name", "alone")["digest"]
            told = self.nodes["a"].ask("generate", "--model", "alone", "--prompt", "Once", "--max-tokens",
                                       "4", "--temperature", "0", "--json")
            self.assertEqual(told.code, 0, str(told))
            said[digest] = told.json["text"]
            self.assertEqual(self.nodes["a"].ask("unserve", "alone").code, 0)
        return said

    def ask_all_the_time(self):
        program = os.path.join(os.path.dirname(sys.argv[2]), "gpunode-asker")
        process = subprocess.Popen(
            [program, self.world.state("asker"), self.nodes["a"].join_address, "m",
             str(OPTIONS.requests or 10**9), str(CALLERS), str(TIMEOUT_MS)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
            env=self.world.environment({"GPUNODE_TOKEN": self.world.token(self.nodes["a"])}))
        self.world.processes.append(process)
        return process

    # What happens to the replicas. Node a has the model's files, and stays.

    def kill(self):
        name = self.draw.choice(NODES[1:])
        self.nodes[name].kill()
        self.nodes[name].wait()
        time.sleep(self.draw.random())
        self.enter(name)

    def withdraw(self):
        name = self.draw.choice(NODES[1:])
        if self.nodes[name].ask("unserve", "m").code == 0:
            time.sleep(self.draw.random() / 2)
            self.serve(name, "m", "--copy")

    def leave(self):
        name = self.draw.choice(NODES[1:])
        told = self.nodes[name].ask("leave")
        self.assertEqual(told.code, 0, str(told))
        self.nodes[name].wait()
        self.enter(name)

    def replace(self):
        self.served = self.draw.choice([one for one in self.paths if one != self.served])
        self.serve("a", self.served, "--name", "m", "--replace")

    def roll_back(self):
        self.nodes["a"].ask("serve", "m", "--rollback")

    def hang(self):
        """Longer than a look, shorter than what a node is given up after."""
        node = self.nodes[self.draw.choice(NODES[1:])]
        node.signal(signal.SIGSTOP)
        time.sleep(0.2 + self.draw.random())
        node.signal(signal.SIGCONT)

    def test_every_request_is_answered_by_the_version_that_the_answer_names(self):
        said = self.texts()
        self.assertEqual(len(said), VERSIONS)
        self.served = self.paths[0]
        self.serve("a", self.served, "--name", "m")
        for name in NODES[1:]:
            self.serve(name, "m", "--copy")
        asker = self.ask_all_the_time()
        happened = []
        begin = time.monotonic()
        try:
            while asker.poll() is None and (OPTIONS.requests or time.monotonic() - begin < OPTIONS.seconds):
                what = self.draw.choice([self.kill, self.withdraw, self.leave, self.replace, self.replace,
                                         self.roll_back, self.hang])
                happened.append(what.__name__)
                what()
                time.sleep(self.draw.random() / 2)
        finally:
            self.world.write("asker/stop", "")
            out, err = asker.communicate(timeout=60)
        self.assertEqual(asker.returncode, 0, err[-2000:])
        told = json.loads(out)
        what = f"seed {self.seed}: {happened}: {out[:3000]}"
        self.assertEqual(told["asked"], told["answered"], what)
        late = 2 if OPTIONS.requests else 15  # beyond its timeout, where others use the machine too
        self.assertLess(told["longest"], TIMEOUT_MS / 1000 + late, what)
        self.assertLessEqual(set(told["errors"]), FAIR, what)
        good, versions = 0, {}
        for answer, count in told["answers"].items():
            version, digest, text, tokens = json.loads(answer)
            # A command's JSON has no halves of characters.
            self.assertEqual(bytes.fromhex(text).decode("utf-8", "replace"), said[digest], what)
            self.assertEqual(tokens, 4, what)
            self.assertEqual(versions.setdefault(version, digest), digest, what)
            good += count
        failed = sum(told["errors"].values())
        self.assertEqual(good + failed, told["asked"], what)
        self.assertGreater(good, 100, what)
        self.assertLess(failed, told["asked"] / 20, what)
        print(f"seed {self.seed}: {told['asked']} requests in {time.monotonic() - begin:.0f} s, {failed} failed "
              f"{told['errors']}, {len(versions)} versions, the longest {told['longest']:.2f} s; "
              f"{ {one: happened.count(one) for one in sorted(set(happened))} }")


if __name__ == "__main__":
    if "all" in sys.argv:
        sys.argv.remove("all")
        OPTIONS.requests = 1_000_000
    if "--seed" in sys.argv:
        at = sys.argv.index("--seed")
        OPTIONS.seed = int(sys.argv[at + 1])
        del sys.argv[at:at + 2]
    cluster.main()
