"""`train --check`: what it says is what `train` does, in the same words; and nothing is started."""
import os

import cluster


class Check(cluster.ProcessTest):
    def two(self):
        a = self.world.start("a")
        b = self.world.join("b", a)
        cluster.wait_until(lambda: len(a.ask("nodes", "--json").json["nodes"]) == 2, "both")
        return a, b

    def mode(self, name):
        more = {"local": "inner_steps = 3\n", "topk": "density = 0.3\n"}
        return f'[exchange]\nmode = "{name}"\n' + more.get(name, "")

    def test_a_plan_is_what_then_happens_in_every_mode_of_the_exchange(self):
        a, b = self.two()
        for mode in ("exact", "ring", "hierarchical", "bf16", "int8", "topk", "local"):
            job = self.job_file(mode, steps=100000, every=20, nodes=2, extra=self.mode(mode))
            plan = a.ask("train", job, "--check", "--json")
            self.assertEqual(plan.code, 0, str(plan))
            plan = plan.json
            self.assertTrue(plan["starts"])
            self.assertEqual(a.ask("train", job).code, 0)

            # Members whose speed differs get other shares for a while, which are more partial sums.
            def as_told():
                shown = a.ask("job", "show", mode, "--json").json
                members = shown.get("times", {}).get("members", [])
                for key in ("sent_bytes", "received_bytes"):
                    told = sum(node[key] for node in plan["nodes"])
                    if not 0.8 * told < sum(one[key] for one in members) < 1.3 * told:
                        return None
                return shown if "checkpoint" in shown else None
            shown = cluster.wait_until(as_told, f"{mode} sends and receives as was told: {plan}")
            self.assertEqual(a.ask("job", "stop", mode).code, 0)
            self.assertEqual(sum(node["slices"] for node in plan["nodes"]), 4)
            self.assertEqual(plan["steps"], shown["steps"])
            self.assertGreater(plan["data_samples"], 0)
            found = [one for one in a.ask("checkpoint", "ls", "--json").json["checkpoints"]
                     if one["name"] == mode]
            for one in found:
                self.assertLess(abs(one["bytes"] - plan["checkpoint_bytes"]),
                                0.2 * plan["checkpoint_bytes"] + 4096, one)

    def test_it_starts_nothing_and_tells_people_who_takes_part(self):
        a, b = self.two()
        told = a.ask("train", self.job_file(nodes=1), "--check")
        self.assertEqual(told.code, 0, str(told))
        self.assert_says(told.out, "1 of 1 wanted", "nothing was started", "not needed", "tokens",
                         "parameters", "checkpoint", "samples")
        self.assertEqual(a.ask("jobs", "--json").json["jobs"], [])
        self.assertFalse(os.path.exists(os.path.join(a.state, "jobs")) and
                         os.listdir(os.path.join(a.state, "jobs")))
        self.assert_fails(a.ask("train", self.job_file(), "--check", "--follow"), 2, "--check")

    def test_what_would_be_refused_is_refused_in_the_words_of_train(self):
        a, b = self.two()
        self.assertEqual(a.ask("train", self.job_file("taken", steps=1000000, every=1000)).code, 0)
        jobs = [self.job_file("taken", steps=5), self.job_file("few", nodes=3, min_nodes=3),
                self.job_file("gone", data="/nowhere"),
                self.job_file("odd", extra="[model2]\nx = 1\n")]
        for job in jobs:
            check = a.ask("train", job, "--check", "--no-wait")
            train = a.ask("train", job, "--no-wait")
            self.assertEqual(check.code, 1, str(check))
            self.assertEqual(train.code, 1, str(train))
            self.assertEqual(check.err, train.err)
            as_json = a.ask("train", job, "--check", "--no-wait", "--json")
            self.assertEqual(as_json.code, 1)
            self.assertEqual(as_json.json["error"],
                             a.ask("train", job, "--no-wait", "--json").json["error"])
        few = a.ask("train", jobs[1], "--check", "--no-wait", "--json").json
        self.assertFalse(few["starts"] or few["waits"])
        self.assertEqual(few["nodes_taking_part"], 2)
        waits = a.ask("train", jobs[1], "--check")
        self.assertEqual(waits.code, 0, str(waits))
        self.assert_says(waits.out, "would wait: the job needs at least 3 nodes, 2 can take part")


if __name__ == "__main__":
    cluster.main()
