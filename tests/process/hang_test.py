"""Work that never comes back while its node goes on answering: a gradient, the data, a disk.

A fault point holds what comes there in one member, so that nothing but the job's own watch finds it out.
Nothing here is measured in time: what is waited for may take as long as any step of a test may.
usage: hang_test.py GPUNODE GPUNODE_FAULTY [all] [unittest arguments]
  all: also what is told only after a minute because it was never done before
"""
import os
import signal
import sys

import cluster
import training

NO_ANSWER = "its compute, or the data for it, has not answered for"


class Hanging(training.TrainingTest):
    steps, every = 500, 20
    pace_at = "slice"
    names = ["n1", "n2", "n3"]

    def begin(self, pace, before=lambda: None):
        self.undisturbed()
        self.start_nodes(self.names)
        self.pace(pace)
        before()
        self.train(self.nodes["n1"], len(self.names))
        for node in self.nodes.values():
            self.await_members(node, self.names)

    def begin_and_run(self, pace):
        self.begin(pace)
        # The watch knows by then what is usual, and waits no longer than its least.
        self.await_line(self.nodes["n1"], lambda line: line["step"] > 5, "it runs")

    def hits(self):
        if not os.path.exists(self.path("hits")):
            return []
        with open(self.path("hits"), encoding="utf-8") as told:
            return [line.split() for line in told]

    def hang(self, point):
        """What comes there in n2 stands still from now on; at which step."""
        self.order("n2", "hang", point)
        return self.await_hang(point)

    def await_hang(self, point):
        hit = self.wait_until(self.hits, f"n2 comes to {point}")[0]
        self.assertEqual(hit[:3], [str(self.nodes["n2"].process.pid), "hang", point])
        return int(hit[3])

    def rest(self):
        return [self.nodes["n1"], self.nodes["n3"]]

    def expect_that_n2_takes_itself_out(self, step):
        """The reason is in its log and in those of the others, who go on without it."""
        for node in self.rest():
            self.await_members(node, ["n1", "n3"], 3 * cluster.TIMEOUT)
            self.await_line(node, lambda line: line["step"] > step + 5, "it goes on")
        for node in self.nodes.values():
            self.wait_until(lambda node=node: NO_ANSWER in self.log(node).text(),
                            f"{node.name} says why")
        for node in self.rest():
            lost = node.ask("job", "show", "small", "--json").json["lost_members"]
            self.assertEqual([one["node"] for one in lost], ["n2"])
            self.assertIn(NO_ANSWER, lost[0]["reason"])
        taken_out = self.nodes["n2"].ask("job", "show", "small", "--json").json
        self.assertIn(NO_ANSWER, taken_out["reason"])
        self.assertIn(NO_ANSWER, self.nodes["n2"].said())
        self.assertIsNone(self.nodes["n2"].process.poll())

    def end(self):
        self.pace(None)
        self.check_all(list(self.nodes.values()), 2 * cluster.TIMEOUT)


class Hang(Hanging):
    def test_a_trainer_in_its_gradient_costs_the_member_until_it_is_back(self):
        self.begin_and_run(100)
        self.expect_that_n2_takes_itself_out(self.hang("slice"))
        self.order("n2", "go", "slice")
        for node in self.nodes.values():
            self.await_members(node, self.names)
        self.assertIn("what had not answered is back", self.log(self.nodes["n2"]).text())
        self.end()

    def test_a_data_source_costs_the_member_until_it_is_started_again(self):
        self.begin_and_run(150)
        self.expect_that_n2_takes_itself_out(self.hang("data"))
        stuck = self.nodes["n2"]
        stuck.signal(signal.SIGTERM)
        self.assertEqual(stuck.wait(), 0, stuck.said())
        self.assertIn("some work did not end in time", stuck.said())
        self.start_node("n2")
        for node in self.nodes.values():
            self.await_members(node, self.names)
        self.end()

    def test_a_disk_is_told_of_and_costs_no_member(self):
        self.begin_and_run(200)
        step = self.hang("checkpoint.shard")
        slow, other = self.nodes["n2"], self.nodes["n1"]
        view = self.log(other).views[-1].id

        def told():
            return slow.ask("job", "show", "small", "--json").json.get("late_disk")
        late = self.wait_until(told, "the disk is late", 3 * cluster.TIMEOUT)
        self.assertEqual((late["work"], late["step"]), ("written", step))
        words = f"the disk of the checkpoints does not answer: that of step {step} is written since"
        self.assertIn(words, self.log(slow).text())
        self.assertIn(words, slow.said())
        # The copies of the others count, and nobody has left.
        durable = other.ask("job", "show", "small", "--json").json["durable"]
        self.assertGreater(durable["step"], step)
        self.assertEqual(self.log(other).views[-1].id, view)
        self.await_members(other, self.names)
        self.pace(None)
        self.check_all(self.rest(), 2 * cluster.TIMEOUT)
        self.order("n2", "go", "checkpoint.shard")
        self.wait_until(lambda: "the disk of the checkpoints answers" in self.log(slow).text(),
                        "its disk answers")
        self.check_all([slow])


class Alone(training.TrainingTest):
    steps, every = 100, 20
    pace_at = "slice"

    def test_says_that_it_hangs_and_what_is_not_saved(self):
        self.start_nodes(["n1"])
        node = self.nodes["n1"]
        self.pace(50)
        self.train(node, 1)
        self.await_line(node, lambda line: line["step"] > 5, "it runs")
        self.order("n1", "hang", "slice")

        def hangs():
            shown = node.ask("job", "show", "small", "--json").json
            return shown if "hang" in shown else None
        shown = self.wait_until(hangs, "it says that it hangs", 3 * cluster.TIMEOUT)
        self.assertEqual((shown["phase"], shown["hang"]["work"]), ("running", "compute"))
        self.assertIn(NO_ANSWER, shown["reason"])
        self.assertEqual(shown["unsaved_steps"],
                         shown["step"] - shown.get("checkpoint", {"step": 0})["step"])
        self.assertIn(NO_ANSWER, self.line(node)["reason"])
        self.order("n1", "go", "slice")
        self.pace(None)
        line = self.await_line(node, lambda line: line["phase"] == "finished", "it goes on")
        self.assertEqual(line.get("reason", ""), "")


class FirstTime(Hanging):
    """What the node has never done before may take a minute."""

    def test_a_trainer_in_its_first_gradient_costs_the_member(self):
        self.begin(100, before=lambda: self.order("n2", "hang", "slice"))
        self.assertEqual(self.await_hang("slice"), 1)
        self.expect_that_n2_takes_itself_out(0)
        self.order("n2", "go", "slice")
        for node in self.nodes.values():
            self.await_members(node, self.names)
        self.end()

    def test_a_disk_that_is_to_give_the_state_costs_the_member(self):
        self.begin_and_run(100)
        durable = self.wait_until(lambda: self.nodes["n1"].ask("job", "show", "small", "--json")
                                  .json.get("durable"), "a checkpoint is durable")
        for node in self.nodes.values():
            node.signal(signal.SIGKILL)
        for node in self.nodes.values():
            node.wait()
        self.order("n2", "hang", "checkpoint.read")
        for name in self.names:
            self.start_node(name)
        self.assertGreaterEqual(self.await_hang("checkpoint.read"), durable["step"])
        line = self.await_line(self.nodes["n2"], lambda line: line["phase"] == "failed",
                               "it has failed", 3 * cluster.TIMEOUT)
        self.assert_says(line["reason"], "the disk of the checkpoints does not answer", "read since",
                         "leaves the view")
        for node in self.rest():
            self.await_members(node, ["n1", "n3"])
        self.pace(None)
        self.check_all(self.rest(), 2 * cluster.TIMEOUT)


if __name__ == "__main__":
    if "all" in sys.argv[3:4]:
        del sys.argv[3]
    else:
        del FirstTime
    cluster.main()
