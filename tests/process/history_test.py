"""What is told of a job stays true and the same: over restarts of its nodes, and whichever of them is
asked. Who computed what, the times of events, step and loss."""
import time

import cluster
import training

SLICES = 8


class HistoryTest(training.TrainingTest):
    steps, every, channels = 100000, 20, 16

    def setUp(self):
        super().setUp()
        self.pace(20)

    def show(self, node):
        shown = node.ask("job", "show", "small", "--json")
        self.assertEqual(shown.code, 0, str(shown))
        return shown.json

    def computed(self, report):
        """Slices by the id of who computed them; they are all that there were."""
        self.assertEqual(report["witnessed_from_step"], 1, report)
        slices = {one["id"]: one["slices"] for one in report["computed"]}
        self.assertEqual(sum(slices.values()), SLICES * report["data_fingerprint"]["steps"], report)
        return slices

    def await_step(self, node, step):
        return self.await_line(node, lambda line: line["step"] >= step and line["phase"] == "running",
                               f"step {step}")

    def stop(self, node):
        stopped = node.ask("job", "stop", "small", "--json")
        self.assertEqual(stopped.code, 0, str(stopped))
        return stopped.json["step"]

    def await_stopped(self, names, step):
        for name in names:
            self.await_line(self.nodes[name],
                            lambda line: (line["phase"], line["step"]) == ("stopped", step),
                            f"stopped after {step}")

    def restart(self, names):
        for name in names:
            self.nodes[name].kill()
        for name in names:
            self.start_node(name)

    def events(self, node):
        return [(one["at"], one["text"]) for one in self.log(node).events]

    def check_alike(self, names):
        """All nodes tell the same of a job that stands still."""
        for name in names:  # who came in late has to ask for the beginning
            cluster.wait_until(lambda name=name: self.show(self.nodes[name])["witnessed_from_step"] == 1,
                               f"{name} knows all of it")
        reports = {name: self.show(self.nodes[name]) for name in names}
        first = reports[names[0]]
        for name, report in reports.items():
            self.assertEqual(self.computed(report), self.computed(first), name)
            for key in ("step", "loss", "state_digest", "data_fingerprint"):
                self.assertEqual(report[key], first[key], f"{key} at {name}")
        return first

    def test_who_was_away_tells_what_happened_meanwhile(self):
        names = ["a", "b", "c"]
        self.start_nodes(names)
        self.train(self.nodes["a"], 3)
        self.await_step(self.nodes["c"], 32)
        before = self.events(self.nodes["c"])
        time.sleep(6)  # by then they are on the disk
        self.nodes["c"].kill()
        self.await_members(self.nodes["a"], ["a", "b"])
        meanwhile = self.log(self.nodes["a"]).views[-1]
        self.await_step(self.nodes["a"], self.line(self.nodes["a"])["step"] + 32)
        self.start_node("c")
        self.await_members(self.nodes["a"], names)
        self.wait_until(lambda: self.show(self.nodes["c"])["witnessed_from_step"] == 1,
                        "c knows what was before")
        step = self.stop(self.nodes["a"])
        self.await_stopped(names, step)
        self.check_alike(names)
        told = self.log(self.nodes["c"])
        self.assertEqual([(one["at"], one["text"]) for one in told.events][:len(before)], before)
        noted = [one for one in told.events if one.get("noted_by")]
        self.assertTrue(noted, told.text())
        self.assertTrue(any("taken up again" in one["text"] for one in told.events), told.text())
        commits = {one["step"] for one in told.commits}
        self.assertEqual(commits, set(range(1, step + 1)))
        source = {name: set(self.events(self.nodes[name])) for name in ("a", "b")}
        for one in noted:
            self.assertIn((one["at"], one["text"]), source[one["noted_by"]])
        self.assertTrue(any(one["at"] == meanwhile.at for one in noted) or
                        noted[0]["noted_by"] == "b", told.text())

    def test_all_restarted_show_the_stopped_job_as_it_was(self):
        names = ["a", "b", "c"]
        self.start_nodes(names)
        self.train(self.nodes["a"], 3)
        self.await_step(self.nodes["a"], 48)
        step = self.stop(self.nodes["b"])
        self.await_stopped(names, step)
        before = self.check_alike(names)
        events = {name: self.events(self.nodes[name]) for name in names}
        time.sleep(6)
        self.restart(names)
        self.await_stopped(names, step)
        after = self.check_alike(names)
        for key in ("computed", "step", "loss", "state_digest"):
            self.assertEqual(after[key], before[key])
        for name in names:
            self.assertEqual(self.events(self.nodes[name])[:len(events[name])], events[name])
            line = self.line(self.nodes[name])
            self.assertEqual(line["loss"], before["loss"])
            self.assertEqual(line["as_of"]["text"], "before this node was started again")
            self.assertAlmostEqual(line["as_of"]["seconds_ago"], time.time() - line["as_of"]["at"],
                                   delta=10)
            self.assert_says(self.nodes[name].ask("jobs").out, "ago, before this node was started")

    def test_steps_that_are_undone_count_no_longer(self):
        names = ["a", "b", "c"]
        self.start_nodes(names)
        self.train(self.nodes["a"], 3)
        self.await_step(self.nodes["a"], 64)
        before = len(self.log(self.nodes["a"]).views)  # more than one if a member was late
        self.restart(names)
        resumed = self.wait_until(lambda: len(self.log(self.nodes["a"]).views) > before and
                                  self.log(self.nodes["a"]).views[-1], "it goes on")
        self.assertEqual(resumed.base % self.every, 0, "from a checkpoint")
        self.await_step(self.nodes["a"], resumed.base + 16)
        step = self.stop(self.nodes["a"])
        self.await_stopped(names, step)
        self.check_alike(names)

    def test_the_end_is_dated_and_its_log_outlives_the_node(self):
        self.steps = 40
        self.start_nodes(["a"])
        self.train(self.nodes["a"], 1)
        self.await_line(self.nodes["a"], lambda line: line["phase"] == "finished", "finished")
        before, log = self.show(self.nodes["a"]), self.log(self.nodes["a"])
        self.assertAlmostEqual(before["finished_at"], time.time(), delta=30)
        self.assert_says(self.nodes["a"].ask("jobs").out, "finished ", " ago")
        time.sleep(6)
        self.restart(["a"])
        after = self.show(self.nodes["a"])
        self.assertEqual(after["finished_at"], before["finished_at"])
        self.assertGreater(after["finished_seconds_ago"], 1.4)
        self.assertEqual(self.log(self.nodes["a"]).commits, log.commits)
        self.assertEqual(self.events(self.nodes["a"])[:len(log.events)],
                         [(one["at"], one["text"]) for one in log.events])


if __name__ == "__main__":
    cluster.main()
