"""Jobs and checkpoints that cannot be: each names its cause; and one small job from end to end."""
import glob
import json
import os
import re

import cluster


class BadJobs(cluster.ProcessTest):
    def setUp(self):
        super().setUp()
        self.node = self.world.start("a")

    def train(self, path):
        return self.node.ask("train", path, "--json")

    def change(self, old, new):
        path = self.job_file()
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
        self.assertIn(old, text)
        return self.world.write("small.toml", text.replace(old, new))

    def assert_no_job(self):
        self.assertEqual(self.node.ask("jobs", "--json").json["jobs"], [])

    def test_a_job_file_that_is_missing(self):
        self.assert_fails(self.train(self.world.path("no.toml")), 1, "no.toml", "no such file")
        self.assert_no_job()

    def test_a_job_file_that_is_not_toml(self):
        path = self.world.write("bad.toml", "name = \n= 3")
        self.assert_fails(self.train(path), 1, "not TOML", "line")
        self.assert_no_job()

    def test_an_unknown_key_or_section_names_the_nearest(self):
        self.assert_fails(self.train(self.change("steps = ", "stpes = ")), 1, "stpes", "'steps'",
                          "line")
        self.assert_fails(self.train(self.change("[train]", "[trian]")), 1, "trian", "'train'")
        self.assert_fails(self.train(self.change("min_nodes", "min_node")), 1, "'min_nodes'")
        self.assert_fails(self.train(self.change("channels", "chanels")), 1, "chanels", "channels")
        self.assert_no_job()

    def test_a_precision_that_the_node_lacks_says_what_to_use(self):
        in_tf32 = self.train(self.change("batch = 4", 'batch = 4\nprecision = "tf32"'))
        self.assert_fails(in_tf32, 1, "products in tf32", "fp32 or bf16")
        in_fp16 = self.train(self.change("batch = 4", 'batch = 4\nprecision = "fp16"'))
        self.assert_fails(in_fp16, 1, "fp16", "bf16", "line")
        self.assert_no_job()

    def test_a_value_out_of_bounds_names_its_key(self):
        self.assert_fails(self.train(self.change("batch = 4", "batch = 0")), 1, "batch")
        self.assert_fails(self.train(self.change("heads = 2", "heads = 3")), 1, "heads")
        self.assert_fails(self.train(self.change("layers = 1", 'layers = "one"')), 1, "layers")
        self.assert_no_job()

    def test_data_that_is_missing_names_node_and_path(self):
        missing = self.world.path("nowhere")
        path = self.job_file(data=missing)
        self.assert_fails(self.train(path), 1, missing, "a")
        self.assert_no_job()

    def test_data_that_cannot_be_read_or_is_too_little(self):
        odd = self.world.path("pipe")
        os.mkfifo(odd)
        self.assert_fails(self.train(self.job_file(data=odd)), 1, odd)
        little = self.world.write("little.txt", "x")
        self.assert_fails(self.train(self.job_file(data=little)), 1, "data")
        if os.geteuid() != 0:
            closed = self.world.write("closed.txt", cluster.TEXT)
            os.chmod(closed, 0)
            self.assert_fails(self.train(self.job_file(data=closed)), 1, closed, "permission")
        self.assert_no_job()

    def test_a_job_that_is_too_large_for_the_machine(self):
        path = self.change("channels = 16", "channels = 65536")
        with open(path, encoding="utf-8") as stream:
            text = stream.read().replace("layers = 1", "layers = 100")
        self.assert_fails(self.train(self.world.write("small.toml", text)), 1, "too large",
                          "smaller")
        self.assert_no_job()

    def test_a_label_that_no_node_carries(self):
        path = self.change("min_nodes = 1", 'min_nodes = 1\nlabels = ["kind=gpu"]')
        self.assert_fails(self.node.ask("train", path, "--no-wait"), 1, "label")
        self.assert_no_job()

    def test_an_unknown_job_model_and_checkpoint(self):
        self.assert_fails(self.node.ask("job", "show", "nojob"), 1, "nojob", "gpunode jobs")
        self.assert_fails(self.node.ask("serve", "nojob"), 1, "nojob", "gpunode jobs")
        self.assert_fails(self.node.ask("serve", "/nowhere/at/all"), 1, "/nowhere/at/all")
        self.assert_fails(self.node.ask("generate", "--model", "nomodel", "--timeout", "2s"), 1,
                          "nomodel")
        self.assert_fails(self.node.ask("checkpoint", "export", "nojob", "--out",
                                        self.world.path("x")), 1, "nojob", "checkpoint ls")


class Unfit(cluster.ProcessTest):
    def pair(self, **second_options):
        first = self.world.start("first", cwd=self.world.root)
        second = self.world.join("second", first, **second_options)
        cluster.wait_until(lambda: len(first.ask("nodes", "--json").json["nodes"]) == 2,
                           "both are known")
        return first, second

    def refusals(self, started):
        self.assertEqual(started.code, 0, str(started))
        return {one["node"]: one["reason"] for one in started.json["refused"]}

    def test_a_node_without_the_data_is_refused_by_name_and_the_job_runs_elsewhere(self):
        # The same name means another file at each node.
        self.world.write("data/text.txt", cluster.TEXT)
        os.mkdir(self.world.path("elsewhere"))
        first, _ = self.pair(cwd=self.world.path("elsewhere"))
        path = self.job_file(nodes=2)
        refused = self.refusals(first.ask("train", path, "--json"))
        self.assertEqual(list(refused), ["second"])
        self.assert_says(refused["second"], "data set 'text'")
        self.wait_for_phase(first, "small")

    def test_a_node_with_other_data_is_refused_by_name(self):
        self.world.write("data/text.txt", cluster.TEXT)
        self.world.write("elsewhere/data/text.txt", cluster.TEXT + "more\n")
        first, _ = self.pair(cwd=self.world.path("elsewhere"))
        path = self.job_file(nodes=2)
        refused = self.refusals(first.ask("train", path, "--json"))
        self.assertEqual(list(refused), ["second"])
        self.assert_says(refused["second"], "data")
        self.wait_for_phase(first, "small")

    def test_a_job_that_wants_more_nodes_than_are_fit_is_refused_naming_each(self):
        os.mkdir(self.world.path("elsewhere"))
        self.world.write("data/text.txt", cluster.TEXT)
        first, _ = self.pair(cwd=self.world.path("elsewhere"))
        path = self.job_file(nodes=2)
        with open(path, encoding="utf-8") as stream:
            text = stream.read().replace("min_nodes = 1", "min_nodes = 2")
        refused = first.ask("train", self.world.write("two.toml", text), "--no-wait")
        self.assert_fails(refused, 1, "second", "data set 'text'")


class OneJob(cluster.ProcessTest):
    def test_from_training_to_text_with_a_checkpoint_that_is_damaged_afterwards(self):
        node = self.world.start("a")
        followed = node.ask("train", self.job_file(steps=30), "--follow")
        self.assertEqual(followed.code, 0, str(followed))
        self.assertIn("finished", followed.out)
        shown = node.ask("job", "show", "small", "--json").json
        self.assertTrue(shown["proof"]["equal_to_data"], shown)
        self.assertTrue(shown["proof"]["each_sample_once_an_epoch"], shown)
        self.assertEqual(shown["step"], 30)
        self.assertEqual(sum(one["slices"] for one in shown["computed"]), 30 * 4)
        self.assertEqual(node.ask("job", "show", "small").code, 0)

        out = self.world.path("weights.safetensors")
        exported = node.ask("checkpoint", "export", "small", "--out", out, "--json").json
        self.assertEqual(exported["bytes"], os.path.getsize(out))
        self.assertEqual(node.ask("serve", "small").code, 0)
        told = node.ask("generate", "--model", "small", "--prompt", "line", "--max-tokens", "8",
                        "--json")
        self.assertEqual(told.code, 0, str(told))
        self.assertEqual(told.json["tokens"], 8)
        same = node.ask("generate", "--model", "small", "--prompt", "line", "--max-tokens", "8",
                        "--json")
        self.assertEqual(same.json["text"], told.json["text"])

        self.damage(node)

    def damage(self, node):
        self.assertEqual(node.ask("checkpoint", "verify").code, 0)
        listed = node.ask("checkpoint", "ls", "--json").json["checkpoints"]
        self.assertEqual([one["step"] for one in listed], [10, 20, 30])
        newest = max(listed, key=lambda one: one["step"])
        shard = sorted(glob.glob(os.path.join(newest["path"], "*.safetensors")))[0]
        with open(shard, "r+b") as stream:
            stream.seek(-5, os.SEEK_END)
            byte = stream.read(1)
            stream.seek(-5, os.SEEK_END)
            stream.write(bytes([byte[0] ^ 1]))
        verified = node.ask("checkpoint", "verify", "small")
        self.assert_fails(verified, 1, os.path.basename(shard))
        self.assertRegex(verified.err + verified.out, r"bytes? \d+")
        as_json = node.ask("checkpoint", "verify", "--json")
        self.assertEqual(as_json.code, 1)
        self.assertFalse(as_json.json["ok"])
        states = {one["step"]: one["whole"] for one in as_json.json["checkpoints"]}
        self.assertFalse(states[newest["step"]])
        self.assertTrue(any(states.values()), "older checkpoints are whole")
        step = [step for step, whole in states.items() if whole][0]
        target = self.world.path("older.safetensors")
        self.assertEqual(node.ask("checkpoint", "export", "small", "--step", str(step), "--out",
                                  target).code, 0)
        if re.search("weight", os.path.basename(shard)):
            bad = self.world.path("bad.safetensors")
            self.assert_fails(node.ask("checkpoint", "export", "small", "--out", bad), 1,
                              os.path.basename(shard))
            self.assertFalse(os.path.exists(bad))


class TwoNodes(cluster.ProcessTest):
    def test_train_together_and_generate_through_the_one_that_does_not_serve(self):
        first = self.world.start("first")
        second = self.world.join("second", first)
        cluster.wait_until(lambda: len(first.ask("nodes", "--json").json["nodes"]) == 2,
                           "both are known")
        started = first.ask("train", self.job_file(steps=40, nodes=2, min_nodes=2),
                            "--json")
        self.assertEqual(started.code, 0, str(started))
        self.assertEqual(len(started.json["candidates"]), 2)
        self.wait_for_phase(first, "small")
        self.wait_for_phase(second, "small")
        shown = first.ask("job", "show", "small", "--json").json
        self.assertEqual({one["node"] for one in shown["computed"] if one["slices"]},
                         {"first", "second"})
        self.assertTrue(shown["proof"]["equal_to_data"], shown)
        self.assertEqual(self.export(first, 40), self.export(second, 40))

        self.assertEqual(first.ask("serve", "small").code, 0)
        cluster.wait_until(lambda: second.ask("models", "--json").json["models"], "it is known")
        told = second.ask("generate", "--model", "small", "--max-tokens", "5", "--json")
        self.assertEqual(told.code, 0, str(told))
        self.assertEqual(told.json["step"], 40)
        first.kill()
        lost = second.ask("generate", "--model", "small", "--timeout", "3s")
        self.assert_fails(lost, 1, "small")


class ALateNode(cluster.ProcessTest):
    def slower(self, steps, nodes):
        """A job that takes some seconds, so that there is a mid-run to join."""
        path = self.job_file(steps=steps, every=500, nodes=nodes)
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
        for small, large in (("layers = 1", "layers = 2"), ("channels = 16", "channels = 64"),
                             ("context = 16", "context = 64"), ("batch = 4", "batch = 8")):
            text = text.replace(small, large)
        return self.world.write("slower.toml", text)

    def test_that_joins_in_mid_run_computes_and_the_weights_are_those_of_one_node(self):
        steps = 3000
        alone = self.world.start("alone")
        self.assertEqual(alone.ask("train", self.slower(steps, 1), "--follow",
                                   timeout=4 * cluster.TIMEOUT).code, 0)
        first = self.world.start("first")
        started = first.ask("train", self.slower(steps, 2))
        self.assertEqual(started.code, 0, str(started))
        late = self.world.join("late", first)
        for node in (first, late):
            self.wait_for_phase(node, "small", timeout=4 * cluster.TIMEOUT)
        shown = first.ask("job", "show", "small", "--json").json
        slices = {one["node"]: one["slices"] for one in shown["computed"]}
        self.assertGreater(slices.get("late", 0), 0, slices)
        self.assertEqual(sum(slices.values()), 4 * steps)
        self.assertTrue(shown["proof"]["equal_to_data"], shown)
        sums = {self.export(node, steps) for node in (alone, first, late)}
        self.assertEqual(len(sums), 1, sums)


class Again(cluster.ProcessTest):
    def test_a_job_file_trained_a_second_time_is_a_job_of_its_own_with_the_same_weights(self):
        node = self.world.start("a")
        path = self.job_file(steps=5)
        ids = [node.ask("train", path, "--json").json["job"]]
        self.wait_for_phase(node, ids[0])
        ids.append(node.ask("train", path, "--json").json["job"])
        self.wait_for_phase(node, ids[1])
        self.assertNotEqual(*ids)
        self.assertEqual(*(self.export(node, 5, one) for one in ids))

    def test_a_name_that_ended_jobs_had_means_the_newest(self):
        node = self.world.start("a")
        for steps in range(1, 7):
            done = node.ask("train", self.job_file(steps=steps, every=1000), "--follow")
            self.assertEqual(done.code, 0, str(done))
        done = node.ask("train", self.job_file(steps=1_000_000, every=100_000), "--json")
        self.assertEqual(done.code, 0, str(done))
        self.assertEqual(self.progress(node, "small")["job"], done.json["job"])
        stopped = node.ask("job", "stop", "small", "--json")
        self.assertEqual(stopped.code, 0, str(stopped))
        self.assertEqual(self.progress(node, "small")["phase"], "stopped")

    def test_a_job_that_failed_says_why_and_is_taken_up_when_it_is_resumed(self):
        node = self.world.start("a")
        path = self.job_file(steps=1_000_000, every=50)
        self.assertEqual(node.ask("train", path).code, 0)
        cluster.wait_until(lambda: node.ask("checkpoint", "ls", "--json").json["checkpoints"],
                           "a checkpoint is there")
        node.kill()
        data = self.world.path("data")
        os.rename(data, data + ".away")
        node = self.world.start("a")
        line = cluster.wait_until(lambda: [one for one in node.ask("jobs", "--json").json["jobs"]
                                           if one["phase"] == "failed"], "it has failed")[0]
        self.assertEqual((line["name"], line["steps"]), ("small", 1_000_000))
        self.assert_says(line["reason"], "data")
        self.assertEqual(node.ask("job", "show", "small").code, 0)
        os.rename(data + ".away", data)
        again = node.ask("job", "resume", "small")
        self.assertEqual(again.code, 0, str(again))
        self.wait_for_phase(node, "small", "running")
        shown = self.progress(node, "small")
        cluster.wait_until(lambda: self.progress(node, "small")["step"] > shown["step"] + 50,
                           "it goes on")
        self.assertEqual(self.progress(node, "small")["phase"], "running")
        self.assertIn("taken up again", json.dumps(self.progress(node, "small")["events"]))


    def test_whose_votes_are_torn_says_so_and_goes_on_from_a_copy(self):
        node = self.world.start("a")
        self.assertEqual(node.ask("train", self.job_file(steps=100000, every=1000)).code, 0)
        self.wait_for_phase(node, "small", "running")
        node.kill()
        votes = glob.glob(os.path.join(node.state, "jobs", "*", "votes"))[0]
        with open(votes, "rb") as stream:
            whole = stream.read()
        with open(votes, "wb") as stream:
            stream.write(whole[:len(whole) // 2])
        node = self.world.start("a")
        line = cluster.wait_until(lambda: [one for one in node.ask("jobs", "--json").json["jobs"]
                                           if one["phase"] == "failed"], "it has failed")[0]
        self.assert_says(line["reason"], "votes", "torn", "restore it from a copy")
        node.kill()
        with open(votes, "wb") as stream:
            stream.write(whole)
        node = self.world.start("a")
        self.wait_for_phase(node, "small", "running")


class FullDisk(cluster.ProcessTest):
    def unsaved(self, node, job):
        shown = self.progress(node, job)
        return shown if "only in this node's memory" in shown.get("reason", "") else None

    def test_while_a_checkpoint_is_written_the_previous_stays_and_the_job_goes_on(self):
        # The first checkpoint fits, the next ones do not.
        probe = self.world.start("probe")
        self.assertEqual(probe.ask("train", self.job_file(steps=10), "--follow").code, 0)
        size = probe.ask("checkpoint", "ls", "--json").json["checkpoints"][0]["bytes"]
        node = self.world.start("a", faulty=True, env={
            "GPUNODE_FAULT_DISK_FULL_AFTER": str(int(size * 1.8)),
            "GPUNODE_FAULT_DISK_FULL_IN": "/checkpoints/"})
        job = node.ask("train", self.job_file(steps=30), "--json").json["job"]
        shown = cluster.wait_until(lambda: self.unsaved(node, job), "the result has no space")
        self.assertEqual(shown["step"], 30)
        kept = node.ask("checkpoint", "ls", "--json").json["checkpoints"]
        self.assertEqual([one["step"] for one in kept], [10])
        self.assertEqual(node.ask("checkpoint", "verify").code, 0)
        self.assert_says(node.said(), "warning", "planned fault", "space")


if __name__ == "__main__":
    cluster.main()
