"""Images as a job: a small ResNet learns written digits, and what its batch normalisation measures is
part of the state like the weights: no member's death shows in either.

The digits (8x8, "Optical Recognition of Handwritten Digits", UCI) lie beside the checkout, or where
GPUNODE_OPTDIGITS says; where they are absent the test says so and is skipped.
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
format = "table"
validation_fraction = 0.1

[model]
kind = "resnet"

[train]
seed = 1
steps = {steps}
batch = 64
slices = 4
learning_rate = 3e-3
min_learning_rate = 3e-5
warmup_steps = 20

[checkpoint]
every = {every}

[exchange]
{exchange}
"""


class Digits(training.TrainingTest):
    steps, every = 300, 100
    exchange = ""

    def setUp(self):
        super().setUp()
        self.data = cluster.shared_data("optdigits.tra", "GPUNODE_OPTDIGITS")
        if not self.data or not os.path.exists(self.data):
            print("skipped: ../shared/data/optdigits.tra is not there")
            self.skipTest("no digits")
        self.world.offers["digits"] = self.data

    def job(self, nodes, least=1):
        return self.world.write("small.toml", JOB.format(
            nodes=nodes, least=least, data=self.world.offered(self.data), steps=self.steps, every=self.every,
            exchange=self.exchange))

    def accuracy(self, node):
        shown = node.ask("job", "show", "small", "--json").json
        return shown["validation_accuracy"]

    def test_a_member_dies_and_comes_back_and_the_digits_are_learned(self):
        self.undisturbed()
        self.start_nodes(["one", "two"])
        one, two = self.nodes["one"], self.nodes["two"]
        self.pace(20)
        self.train(one, 2)
        self.await_members(one, ["one", "two"])
        self.await_line(one, lambda line: line["step"] >= 30, "some steps")
        two.signal(signal.SIGKILL)
        self.assertEqual(two.wait(), -signal.SIGKILL)
        self.await_members(one, ["one"])
        two = self.start_node("two")
        self.await_members(one, ["one", "two"])
        self.pace(None)
        self.check_all([one, two])
        for node in (one, two):
            self.assertGreaterEqual(self.accuracy(node), 0.98, f"of the held-out digits, {node.name}")
        self.check_served(one, two)
        self.check_carried(one)

    def check_carried(self, node):
        """To the names of torchvision and timm, and back, with the size of images said or kept."""
        file, folder = self.world.path("weights"), self.world.path("folder")
        state_dict = os.path.join(folder, "model.safetensors")
        for words in (("checkpoint", "export", "small", "--state", node.state, "--out", file),
                      ("model", "export", file, "--out", folder),
                      ("model", "import", folder, "--out", file + "-1"),
                      ("model", "import", state_dict, "--image", "8x8", "--out", file + "-2")):
            done = self.world.run(*words)
            self.assertEqual(done.code, 0, str(done))
        with open(file, "rb") as stream:
            ours = stream.read()
        for again in ("-1", "-2"):
            with open(file + again, "rb") as stream:
                self.assertEqual(stream.read(), ours)
        for words in (("model", "export", file, "--out", file),
                      ("model", "import", folder, "--out", folder)):
            self.assert_fails(self.world.run(*words), 1, "is not a")
        done = self.world.run("model", "import", state_dict, "--image", "8by8", "--out", file)
        self.assert_fails(done, 2, "8by8 is neither 224 nor 224x160")

    def check_served(self, server, client):
        """The trained model tells digits by the running statistics of its checkpoint, each alone."""
        with open(self.data, encoding="utf-8") as stream:
            rows = [line.split() for line in list(stream)[:200]]
        asked = "".join("\t".join(row[:-1]) + "\n" for row in rows)
        served = server.ask("serve", "small")
        self.assertEqual(served.code, 0, str(served))
        cluster.wait_until(lambda: client.ask("models", "--json").json["models"], "it is known")
        path = self.world.write("rows.txt", asked)
        told = client.ask("generate", "--model", "small", "--max-tokens", "1000", "--prompt-file",
                          path, "--json")
        self.assertEqual(told.code, 0, str(told))
        classes = told.json["text"].split()
        self.assertEqual(told.json["tokens"], len(rows))
        right = sum(one == row[-1] for one, row in zip(classes, rows))
        self.assertGreaterEqual(right, 0.98 * len(rows))
        wrong = client.ask("generate", "--model", "small", "--prompt", "1 2 3")
        self.assertNotEqual(wrong.code, 0)
        self.assertIn("the model reads 64 features", wrong.out + wrong.err)

    def test_members_that_round_their_gradients_or_train_alone_for_a_while_learn_it_too(self):
        for name, exchange in (("int8", 'mode = "int8"'),
                               ("local", 'mode = "local"\ninner_steps = 10')):
            with self.subTest(name):
                self.exchange = exchange
                self.steps, self.every = (30, 30) if name == "local" else (300, 100)
                self.nodes = {}
                names = [name + "-one", name + "-two"]
                self.start_nodes(names)
                one, two = (self.nodes[each] for each in names)
                self.train(one, 2, least=2)
                for node in (one, two):
                    self.await_line(node, lambda line: line["phase"] == "finished", "finished")
                self.assertEqual(self.export(one, self.steps), self.export(two, self.steps))
                self.assertGreaterEqual(self.accuracy(one), 0.96)
                for node in (one, two):
                    node.kill()


if __name__ == "__main__":
    cluster.main()
