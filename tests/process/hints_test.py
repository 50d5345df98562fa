"""A member tells in its part of the directory what is not so of jobs of others: that one has begun, that
one runs, that a removal is void. Nobody acts on it who knows who takes part in them."""
import json
import os
import time

import cluster

LOOKS = 3.0  # seconds in which each node looks several times at what others tell


class Hints(cluster.ProcessTest):
    def setUp(self):
        super().setUp()
        self.nodes = [self.world.start("a")]
        self.nodes.append(self.world.join("b", self.nodes[0]))

    def rogue_says(self, *jobs):
        """A member with the roles that a token gives without a word; from now on."""
        first = self.nodes[0]
        rogue = self.world.start("rogue", "join", first.join_address,
                                 env={"GPUNODE_TOKEN": self.world.token(first)})
        cluster.wait_until(lambda: os.path.exists(os.path.join(rogue.state, "peers")) and
                           len(rogue.ask("nodes", "--json").json["nodes"]) > 2, "it knows them")
        rogue.kill()
        said = self.world.write("said.json", json.dumps(jobs))
        self.world.hostile("--state", rogue.state, "--attack", "tell", "--say", said,
                           "--seconds", "120")
        for node in self.nodes:
            cluster.wait_until(lambda node=node: "alive" in [
                one["health"] for one in node.ask("nodes", "--json").json["nodes"]
                if one["name"] == "mallory"], "the rogue is alive again")

    def test_a_job_that_waits_is_not_begun_by_word_of_one_that_does_not_hold_it(self):
        a, b = self.nodes
        queued = a.ask("train", self.job_file(steps=5, top='labels = ["size=big"]'), "--json")
        self.assertEqual(queued.code, 0, str(queued))
        job = queued.json["job"]
        for node in self.nodes:
            cluster.wait_until(lambda node=node: job in self.jobs_of(node), "it waits")
        line = self.jobs_of(a)[job]
        made_up = "%032x" % 7
        self.rogue_says({"job": made_up, "phase": "running", "name": "small", "view": 1, "step": 3,
                         "steps": 5, "waited_as": job, "rises": True,
                         "submitted": int(line["submitted"] * 1e6)})
        cluster.wait_until(lambda: made_up in self.jobs_of(a), "it is heard")
        until = time.monotonic() + LOOKS
        while time.monotonic() < until:
            for node in self.nodes:
                self.assertEqual(self.jobs_of(node).get(job, {}).get("phase"), "waiting", node.name)
        c = self.world.join("c", a, flags=("--label", "size=big"))
        cluster.wait_until(lambda: [one for one in self.jobs_of(c).values()
                                    if one["phase"] == "finished" and one["steps"] == 5],
                           "it starts once a node is fit")

    def test_a_stopped_job_is_removed_whoever_says_that_it_runs(self):
        a, b = self.nodes
        done = a.ask("train", self.job_file(steps=1_000_000, nodes=2, min_nodes=2), "--json")
        self.assertEqual(done.code, 0, str(done))
        job = done.json["job"]
        self.wait_for_phase(a, job, "running")
        self.assertEqual(a.ask("job", "stop", job).code, 0)
        for node in self.nodes:
            self.wait_for_phase(node, job, "stopped")
        made_up = "%032x" % 9
        self.rogue_says({"job": job, "phase": "running", "name": "small", "rises": True, "view": 99},
                        {"job": made_up, "phase": "running", "name": "small", "submitted": 2 ** 52})
        cluster.wait_until(lambda: made_up in self.jobs_of(a), "it is heard")
        self.assert_fails(a.ask("job", "rm", "small"), 1, "fits several", job[:8])
        self.assert_fails(a.ask("job", "rm", job), 1, "mallory", "has a part in it", "--force")
        removed = a.ask("job", "rm", job, "--force", "--json")
        self.assertEqual(removed.code, 0, str(removed))
        self.assertLessEqual({"a", "b"}, set(removed.json["removed_on"]))
        # It goes on to say so, which takes nothing back.
        until = time.monotonic() + LOOKS
        while time.monotonic() < until:
            for node in self.nodes:
                self.assertNotIn(job, self.jobs_of(node), node.name)
                self.assertEqual(sorted(os.listdir(os.path.join(node.state, "jobs", job))),
                                 ["removed", "votes"])
                self.assertEqual(node.ask("checkpoint", "ls", "--json").json["checkpoints"], [])

    def test_who_was_away_removes_a_job_whoever_says_that_it_runs(self):
        a, b = self.nodes
        done = a.ask("train", self.job_file(steps=20, nodes=2, min_nodes=2), "--follow", "--json")
        self.assertEqual(done.code, 0, str(done))
        job, = self.jobs_of(a)
        for node in self.nodes:
            self.wait_for_phase(node, job)
        b.kill()
        cluster.wait_until(lambda: [one for one in a.ask("nodes", "--json").json["nodes"]
                                    if one["name"] == "b" and one["health"] != "alive"], "seen dead")
        self.assertEqual(a.ask("job", "rm", job).code, 0)
        self.nodes = [a]
        self.rogue_says({"job": job, "phase": "running", "name": "small", "rises": True, "view": 99})
        b = self.world.start("b")
        cluster.wait_until(lambda: job not in self.jobs_of(b), "b has removed it too")
        self.assertNotIn(job, self.jobs_of(a))


if __name__ == "__main__":
    cluster.main()
