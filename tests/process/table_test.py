"""A classifier of the rows of a table as a job: members die, and the weights stay the same.

Data and model that do not fit are told apart before a step.
"""
import os
import signal

import cluster
import training

JOB = """
name = "small"
nodes = {nodes}
min_nodes = {least}

[data]
{data}
format = "{form}"

[model]
kind = "{kind}"
{settings}

[train]
seed = 1
steps = {steps}
batch = 16
slices = 8
warmup_steps = 10

[checkpoint]
every = {every}
"""


def rows():
    """Points of the plane and the quarter they lie in, below a header."""
    lines = ["x,y,quarter"]
    for i in range(600):
        x, y = i * 37 % 101 - 50, i * 53 % 97 - 48
        lines.append(f"{x / 50:.3f},{y / 48:.3f},{2 * (x > 0) + (y > 0)}")
    return "\n".join(lines) + "\n"


class Table(training.TrainingTest):
    steps, every = 200, 50
    settings = "features = 2\nclasses = 4\nhidden = 32"

    def job(self, nodes, least=1, **other):
        data = self.path("data/rows.csv")
        if not os.path.exists(data):
            self.world.write("data/rows.csv", rows())
        return self.world.write("small.toml", JOB.format(**{
            "nodes": nodes, "least": least, "data": self.world.offered(data), "steps": self.steps,
            "every": self.every, "form": "table", "kind": "mlp", "settings": self.settings,
            **other}))

    def test_a_member_is_killed_and_the_weights_are_those_of_one_node_alone(self):
        self.undisturbed()
        self.start_nodes(["one", "two"])
        one, two = self.nodes["one"], self.nodes["two"]
        self.pace(30)
        self.train(one, 2)
        self.await_members(one, ["one", "two"])
        self.await_line(one, lambda line: line["step"] >= 20, "a few steps")
        two.signal(signal.SIGKILL)
        self.assertEqual(two.wait(), -signal.SIGKILL)
        self.await_members(one, ["one"])
        self.pace(None)
        self.check_all([one])
        shown = one.ask("job", "show", "small", "--json").json
        self.assertEqual(shown["proof"]["samples"], self.steps * 16)
        self.assertGreater(shown["validation_accuracy"], 0.8, "of the quarters")
        self.assertEqual(one.ask("serve", "small").code, 0)
        self.world.write("asked.csv", "x,y\n0.9,0.9\n-0.9,-0.9\n")
        told = one.ask("generate", "--model", "small", "--prompt-file", self.path("asked.csv"))
        self.assertEqual(told.out, "3\n0\n", str(told))
        for words in ((), ("--prompt", "x,y")):
            none = one.ask("generate", "--model", "small", *words)
            self.assert_fails(none, 1 if words else 2, "a line of 2 numbers", "--prompt-file")

    def refusal(self, node, **other):
        told = node.ask("train", self.job(1, **other), "--json")
        self.assertNotEqual(told.code, 0, str(told))
        return told.out + told.err

    def test_data_that_does_not_fit_the_model_is_told(self):
        node = self.world.start("alone")
        has = "the data, data set 'rows', has "
        self.assertIn("reads samples of text u8[17], " + has + "features f32[2], label i32[1]",
                      self.refusal(node, kind="gpt", settings="context = 16"))
        self.assertIn("reads samples of features f32[3], label i32[1], " + has + "features f32[2]",
                      self.refusal(node, settings="features = 3\nclasses = 4"))
        self.assertIn("column 3: '2' is no class of the model, which has classes = 2",
                      self.refusal(node, settings="features = 2\nclasses = 2"))
        self.assertIn("data.format must be", self.refusal(node, form="csv"))
        self.assertIn(has + "text u8", self.refusal(node, form="text"))
        self.world.write("data/rows.csv", rows() + "1.0,x,2\n")
        self.assertIn("line 602: column 2: 'x' is no finite number", self.refusal(node))


if __name__ == "__main__":
    cluster.main()
