"""A name means one job, the same to every command on every node; what is removed is gone."""
import glob
import os
import re
import shutil

import cluster


class Names(cluster.ProcessTest):
    def train(self, node, steps, name="dup", follow=True, **changes):
        done = node.ask("train", self.job_file(name, steps=steps, **changes), "--json")
        self.assertEqual(done.code, 0, str(done))
        if follow:
            self.assertEqual(node.ask("job", "wait", done.json["job"]).code, 0)
        return done.json["job"]

    def two_nodes_two_jobs(self):
        """An older job of the name that only a computed, and a newer one that only b has."""
        self.ports = {name: f"127.0.0.1:{cluster.free_port_range()}" for name in "ab"}
        a = self.world.start("a", "up", "--label", "place=a", listen=self.ports["a"])
        b = self.world.join("b", a, flags=("--label", "place=b"), listen=self.ports["b"])
        old = self.train(a, 20, top='labels = ["place=a"]')
        # b hears of the end a moment later than a, and a name is free once nobody works under it.
        cluster.wait_until(lambda: b.ask("job", "wait", old).code == 0, "b has heard of the end")
        new = self.train(b, 10, top='labels = ["place=b"]')
        return a, b, old, new

    def test_of_two_jobs_means_the_newer_one_to_every_command_on_every_node_after_restarts_too(self):
        a, b, old, new = self.two_nodes_two_jobs()

        def checked():
            for node in (a, b):
                shown = cluster.wait_until(
                    lambda: (lambda jobs: jobs if {old, new} <= set(jobs) else None)(
                        self.jobs_of(node)), "both are known")
                self.assertEqual(shown[new]["shown_as"], "dup")
                self.assertEqual(shown[old]["shown_as"], "dup~" + old[:8])
                self.assertLess(list(shown).index(new), list(shown).index(old), "newest first")
                self.assertEqual(node.ask("job", "show", "dup", "--json").json["job"], new)
                apart = old[:len(os.path.commonprefix([old, new])) + 1]
                for word in ("dup~" + old[:8], old, old[:8], apart, "dup~" + apart):
                    self.assertEqual(node.ask("job", "show", word, "--json").json["job"], old)
            out = self.world.path("weights")
            exported = b.ask("checkpoint", "export", "dup", "--out", out, "--json").json
            self.assertEqual((exported["job"], exported["step"], exported["name"]), (new, 10, "dup"))
            # The newest is meant, not the one that happens to be here.
            self.assert_fails(a.ask("checkpoint", "export", "dup", "--out", out), 1,
                              "no durable checkpoint", new[:8])
            self.assert_fails(a.ask("serve", "dup"), 1, "no durable checkpoint", new[:8])
            served = b.ask("serve", "dup", "--name", "m", "--json")
            self.assertEqual((served.json["job"], served.json["step"]), (new, 10), str(served))
            line = cluster.wait_until(lambda: a.ask("models", "--json").json["models"], "told")[0]
            self.assertEqual((line["job"], line["step"], line["node"]), (new, 10, "b"))
            self.assertEqual(b.ask("unserve", "m").code, 0)

        checked()
        for node in (a, b):
            node.signal(15)
            node.wait()
        a, b = (self.world.start(name, listen=port) for name, port in self.ports.items())
        checked()

    def test_what_removes_refuses_a_name_that_fits_several_jobs(self):
        node = self.world.start("a")
        first, second = self.train(node, 10), self.train(node, 20)
        for order in (("job", "rm", "dup"), ("checkpoint", "rm", "dup", "--all")):
            self.assert_fails(node.ask(*order), 1, "fits several", first[:8], second[:8])
        self.assertEqual(len(self.jobs_of(node)), 2)
        self.assertEqual(node.ask("checkpoint", "rm", first, "--all").code, 0)
        left = {one["job"] for one in node.ask("checkpoint", "ls", "--json").json["checkpoints"]}
        self.assertEqual(left, {second})
        removed = node.ask("job", "rm", "dup~" + first[:8], "--json")
        self.assertEqual(removed.json["removed_on"], ["a"], str(removed))
        self.assertEqual(set(self.jobs_of(node)), {second})

    def test_a_stopped_job_does_not_keep_its_name_from_another_one(self):
        node = self.world.start("a")
        stopped = self.train(node, 1_000_000, follow=False)
        self.wait_for_phase(node, stopped, "running")
        again = node.ask("train", self.job_file("dup", steps=5))
        self.assert_fails(again, 1, "is running", stopped[:8])
        self.assertEqual(node.ask("job", "stop", "dup").code, 0)
        other = self.train(node, 5)
        self.assertEqual(node.ask("job", "show", "dup", "--json").json["job"], other)
        self.assertEqual(node.ask("job", "resume", "dup~" + stopped[:8]).code, 0)
        self.wait_for_phase(node, stopped, "running")

    def test_metrics_tell_jobs_of_one_name_apart(self):
        node = self.world.start("a")
        ids = {self.train(node, 10), self.train(node, 20)}
        told = [line for line in node.ask("metrics").out.splitlines()
                if line.startswith("gpunode_job_committed_step")]
        self.assertEqual({one for one in ids for line in told if one in line}, ids, told)


class Removal(cluster.ProcessTest):
    def test_a_job_that_is_removed_is_gone_from_disks_and_stays_so(self):
        a = self.world.start("a")
        b = self.world.join("b", a)
        done = a.ask("train", self.job_file(steps=20, nodes=2, min_nodes=2), "--follow", "--json")
        self.assertEqual(done.code, 0, str(done))
        job = a.ask("jobs", "--json").json["jobs"][0]["job"]
        for node in (a, b):
            self.wait_for_phase(node, job)
            cluster.wait_until(lambda: node.ask("checkpoint", "ls", "--json").json["checkpoints"],
                               "it is there")
        b.kill()
        cluster.wait_until(lambda: [one for one in a.ask("nodes", "--json").json["nodes"]
                                    if one["name"] == "b" and one["health"] != "alive"], "seen dead")
        removed = a.ask("job", "rm", "small", "--json")
        self.assertEqual(removed.code, 0, str(removed))
        self.assertEqual(removed.json["removed_on"], ["a"])
        self.assertEqual([one["node"] for one in removed.json["missing"]], ["b"])
        self.assertEqual(a.ask("jobs", "--json").json["jobs"], [])
        self.assertEqual(a.ask("checkpoint", "ls", "--json").json["checkpoints"], [])
        self.assert_fails(a.ask("job", "show", "small"), 1, "no job 'small'")
        b = self.world.start("b")

        def gone():
            return not (b.ask("jobs", "--json").json["jobs"] or
                        b.ask("checkpoint", "ls", "--json").json["checkpoints"])
        cluster.wait_until(gone, "b has removed it too")
        for node in (a, b):
            cluster.wait_until(lambda node=node: sorted(os.listdir(os.path.join(
                node.state, "jobs", job))) == ["removed", "votes"], "nothing else is left")
        a.kill()
        a = self.world.start("a")
        self.assertEqual(a.ask("jobs", "--json").json["jobs"], [])

    def test_a_job_that_has_just_finished_is_removed_from_all_disks(self):
        """Also where its result, or a copy of a checkpoint, is on its way."""
        a = self.world.start("a")
        nodes = [a, self.world.join("b", a), self.world.join("c", a)]
        for _ in range(5):
            done = nodes[1].ask("train", self.job_file(steps=200, every=10), "--json")
            self.assertEqual(done.code, 0, str(done))
            job = done.json["job"]
            self.assertEqual(nodes[1].ask("job", "wait", job).code, 0)
            removed = nodes[1].ask("job", "rm", job, "--json")
            self.assertEqual((removed.code, removed.json["missing"]), (0, []), str(removed))
            for node in nodes:  # what others tell of it goes a moment later than it
                cluster.wait_until(lambda node=node: not node.ask("jobs", "--json").json["jobs"],
                                   "nobody tells of it any more", 10)
                self.assertEqual(node.ask("checkpoint", "ls", "--json").json["checkpoints"], [])

    def test_a_job_that_too_few_nodes_can_store_does_not_start_after_all(self):
        a = self.world.start("a")
        full = {"GPUNODE_FAULT_DISK_FULL_AFTER": "0", "GPUNODE_FAULT_DISK_FULL_IN": "/jobs/"}
        for name in ("b", "c"):
            self.world.join(name, a, env=full, faulty=True)
        for least, says in ((3, "too few candidates could store"), (4, "hold it in the queue")):
            refused = a.ask("train", self.job_file(nodes=least, min_nodes=least))
            self.assert_fails(refused, 1, says, "b: ", "c: ")
            cluster.wait_until(lambda: not a.ask("jobs", "--json").json["jobs"] and all(
                os.listdir(os.path.join(a.state, "jobs", job)) == ["removed"]
                for job in os.listdir(os.path.join(a.state, "jobs"))), "it is gone")

    def test_a_job_that_others_train_is_not_removed_by_one_that_is_cut_off(self):
        """Not without force; and by force for as long as the others are away alone."""
        ports = {name: f"127.0.0.1:{cluster.free_port_range()}" for name in "abc"}
        a = self.world.start("a", listen=ports["a"])
        b = self.world.join("b", a, listen=ports["b"])
        c = self.world.join("c", a, listen=ports["c"])
        done = a.ask("train", self.job_file(steps=1_000_000, every=500, nodes=2), "--json")
        self.assertEqual(done.code, 0, str(done))
        cluster.wait_until(lambda: [one for one in c.ask("jobs", "--json").json["jobs"]
                                    if one["step"] > 0], "c has heard of steps")
        members = cluster.wait_until(lambda: (lambda found: found if len(found) == 2 else None)(
            [node for node in (a, b, c) if self.progress(node, "small")["phase"] == "running"]),
            "two train it")
        outside = next(node for node in (a, b, c) if node not in members)
        for node in members:
            node.signal(19)
        cluster.wait_until(lambda: all(
            one["health"] == "dead" for one in outside.ask("nodes", "--json").json["nodes"]
            if one["name"] != outside.name), "it is alone")
        self.assert_fails(outside.ask("job", "rm", "small"), 1, "by the last word of", "--force")
        self.assertEqual(outside.ask("job", "rm", "small", "--force").code, 0)
        self.assertEqual(outside.ask("jobs", "--json").json["jobs"], [])
        for node in members:
            node.signal(18)
        for node in (a, b, c):
            cluster.wait_until(lambda node=node: [one for one in
                                                  node.ask("jobs", "--json").json["jobs"]
                                                  if one["phase"] not in ("removed",)],
                               f"{node.name} lists it again")
        before = self.progress(members[0], "small")["step"]
        cluster.wait_until(lambda: self.progress(members[0], "small")["step"] > before,
                           "it goes on")
        self.assertEqual(members[0].ask("job", "stop", "small").code, 0)
        for node in members:
            cluster.wait_until(lambda node=node: node.ask("checkpoint", "ls", "--json").json["checkpoints"],
                               f"{node.name} has a checkpoint")
            self.assertEqual(len(node.ask("jobs", "--json").json["jobs"]), 1)

    def test_who_stood_still_while_its_job_was_removed_removes_it_when_it_goes_on(self):
        """It says for a moment that it trains the job, which keeps nobody's word of the removal back."""
        a = self.world.start("a")
        nodes = {"a": a, "b": self.world.join("b", a), "c": self.world.join("c", a)}
        self.assertEqual(a.ask("train", self.job_file(steps=6000, every=1500, nodes=2)).code, 0)
        members = cluster.wait_until(lambda: (lambda line: line["members"] if line["step"] > 0 and
                                              len(line["members"]) == 2 else None)(
            self.progress(a, "small")), "two train it")
        tie = re.search(r"; (\w+) decides a tie", a.ask("job", "show", "small").out)[1]
        still = nodes[next(name for name in members if name != tie)]
        other = next(node for name, node in nodes.items() if name not in members)
        still.signal(19)
        self.wait_for_phase(nodes[tie], "small")
        self.wait_for_phase(other, "small")  # it has heard of it
        removed = other.ask("job", "rm", "small", "--json")
        self.assertEqual(removed.code, 0, str(removed))
        self.assertEqual([one["node"] for one in removed.json["missing"]], [still.name])
        still.signal(18)
        for node in nodes.values():
            cluster.wait_until(lambda node=node: not (
                node.ask("jobs", "--json").json["jobs"] or
                node.ask("checkpoint", "ls", "--json").json["checkpoints"]), "it is gone")

    def test_whose_nodes_are_all_away_a_job_is_removed_when_they_are_back(self):
        ports = {name: f"127.0.0.1:{cluster.free_port_range()}" for name in "abd"}
        a = self.world.start("a", listen=ports["a"])
        b = self.world.join("b", a, listen=ports["b"])
        done = a.ask("train", self.job_file(steps=20, nodes=2), "--follow", "--json")
        self.assertEqual(done.code, 0, str(done))
        job = a.ask("jobs", "--json").json["jobs"][0]["job"]
        for node in (a, b):
            self.wait_for_phase(node, job)
        d = self.world.join("d", a, listen=ports["d"])  # which has not trained it
        cluster.wait_until(lambda: len(d.ask("jobs", "--json").json["jobs"]) == 1, "it has heard")
        for node in (a, b):
            node.kill()
        cluster.wait_until(lambda: all(
            one["health"] == "dead" for one in d.ask("nodes", "--json").json["nodes"]
            if one["name"] != "d"), "it is alone")
        # Where it was let in as a witness just now, it knows too little to say that all is over.
        removed = d.ask("job", "rm", job, "--force", "--json")
        self.assertEqual(removed.code, 0, str(removed))
        self.assertEqual(len(removed.json["missing"]), 2, str(removed))
        for name in "ab":
            node = self.world.start(name, listen=ports[name])
            cluster.wait_until(lambda node=node: not (
                node.ask("jobs", "--json").json["jobs"] or
                node.ask("checkpoint", "ls", "--json").json["checkpoints"]), "it is gone")

    def test_a_job_at_work_is_not_removed(self):
        a = self.world.start("a")
        b = self.world.join("b", a)
        self.assertEqual(b.ask("train", self.job_file(steps=1_000_000)).code, 0)
        job = self.wait_for_phase(b, "small", "running")["job"]
        cluster.wait_until(lambda: a.ask("jobs", "--json").json["jobs"], "told")
        for node in (a, b):
            self.assert_fails(node.ask("job", "rm", "small"), 1, "is not over", "job stop small")
            self.assert_fails(b.ask("checkpoint", "rm", job, "--all"), 1)
        self.assertEqual(b.ask("job", "stop", "small").code, 0)
        removed = cluster.wait_until(lambda: (lambda done: done if done.code == 0 else None)(
            a.ask("job", "rm", "small", "--json")), "removed once a has heard of the stop")
        self.assertIn("b", removed.json["removed_on"])
        self.assertEqual(b.ask("jobs", "--json").json["jobs"], [])

    def test_a_finished_job_whose_result_is_removed_says_so(self):
        node = self.world.start("a")
        self.assertEqual(node.ask("train", self.job_file(steps=20), "--follow").code, 0)
        self.assert_fails(node.ask("checkpoint", "rm", "small"), 2, "--step", "--all")
        one = node.ask("checkpoint", "rm", "small", "--step", "10", "--json")
        self.assertEqual(one.json["removed_steps"], [10], str(one))
        self.assert_fails(node.ask("checkpoint", "rm", "small", "--step", "10"), 1, "no durable")
        self.assertEqual(node.ask("checkpoint", "rm", "small", "--all").code, 0)
        for _ in range(2):
            shown = self.progress(node, "small")
            self.assert_says(shown["reason"], "its result is not on this node's disk")
            self.assertNotIn("checkpoint", shown)
            node.kill()
            node = self.world.start("a")

    def test_a_damaged_result_is_not_replaced_by_an_older_checkpoint_unasked(self):
        node = self.world.start("a")
        self.assertEqual(node.ask("train", self.job_file(steps=20), "--follow").code, 0)
        newest, = (one for one in node.ask("checkpoint", "ls", "--json").json["checkpoints"]
                   if one["step"] == 20)
        shard = sorted(glob.glob(os.path.join(newest["path"], "*.safetensors")))[0]
        with open(shard, "r+b") as stream:
            stream.seek(-1, os.SEEK_END)
            last = stream.read(1)[0]
            stream.seek(-1, os.SEEK_END)
            stream.write(bytes([last ^ 1]))
        refused = node.ask("serve", "small")
        self.assert_fails(refused, 1, "step 20", "is damaged", "it is kept in", "checkpoint ls")
        served = node.ask("serve", "small", "--json")
        self.assertEqual((served.json["step"], served.json["steps"]), (10, 20), str(served))
        self.assert_says(node.ask("serve", "small", "--name", "again").out, "after step 10 of 20")
        out = self.world.path("weights")
        exported = node.ask("checkpoint", "export", "small", "--out", out)
        self.assertEqual(exported.code, 0, str(exported))
        self.assert_says(exported.err, "its checkpoint of step 20 is damaged, and kept in")

    def test_who_was_away_is_told_that_the_result_was_removed_meanwhile(self):
        ports = {name: f"127.0.0.1:{cluster.free_port_range()}" for name in "abc"}
        a = self.world.start("a", listen=ports["a"])
        b = self.world.join("b", a, listen=ports["b"])
        c = self.world.join("c", a, listen=ports["c"])
        done = a.ask("train", self.job_file(steps=3000, every=500, nodes=3, min_nodes=1), "--json")
        self.assertEqual(done.code, 0, str(done))
        cluster.wait_until(lambda: self.progress(c, "small")["step"] > 0, "c makes steps")
        c.kill()
        for node in (a, b):
            self.wait_for_phase(node, "small")
        for node in (a, b):
            removed = node.ask("checkpoint", "rm", "small", "--all")
            self.assertEqual(removed.code, 0, str(removed))
        c = self.world.start("c", listen=ports["c"])
        line = cluster.wait_until(lambda: (lambda line: line if "removed on" in line.get("reason", "")
                                           else None)(self.progress(c, "small")), "c is told")
        self.assertEqual(line["phase"], "paused")
        self.assert_says(line["reason"], "is finished", "on a, b", "`gpunode job rm small`")
        self.assertEqual(c.ask("job", "rm", "small", "--json").json["missing"], [])
        self.assertEqual(c.ask("jobs", "--json").json["jobs"], [])

    def test_a_node_that_has_removed_thousands_of_jobs_still_tells_of_its_new_ones(self):
        ports = {name: f"127.0.0.1:{cluster.free_port_range()}" for name in "ab"}
        a = self.world.start("a", listen=ports["a"])
        done = a.ask("train", self.job_file(steps=5), "--follow", "--json")
        self.assertEqual(done.code, 0, str(done))
        self.assertEqual(a.ask("job", "rm", "small").code, 0)
        a.signal(15)
        a.wait()
        jobs = os.path.join(a.state, "jobs")
        removed, = os.listdir(jobs)
        for number in range(2000):
            shutil.copytree(os.path.join(jobs, removed), os.path.join(jobs, f"{number:032x}"))
        a = self.world.start("a", listen=ports["a"])
        b = self.world.join("b", a, listen=ports["b"])
        for number in range(3):
            done = a.ask("train", self.job_file(f"new{number}", steps=5), "--follow", "--json")
            self.assertEqual(done.code, 0, str(done))
        cluster.wait_until(lambda: len(b.ask("jobs", "--json").json["jobs"]) == 3,
                           "b hears of all three")
        self.assertNotIn("directory: job/", a.said())

    def test_checkpoints_are_removed_without_a_node(self):
        node = self.world.start("a")
        self.assertEqual(node.ask("train", self.job_file(steps=20), "--follow").code, 0)
        node.kill()
        removed = node.ask("checkpoint", "rm", "small", "--all")
        self.assertEqual(removed.code, 0, str(removed))
        self.assertEqual(node.ask("checkpoint", "ls", "--json").json["checkpoints"], [])


if __name__ == "__main__":
    cluster.main()
