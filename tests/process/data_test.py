"""What jobs may read of a node: what its owner offers by name, and at the submitter's node what a path names.
Of the rest nobody learns whether it exists."""
import os

import cluster


class Data(cluster.ProcessTest):
    def setUp(self):
        super().setUp()
        self.text = self.world.write("data/text.txt", cluster.TEXT)
        self.first = self.world.start("first")
        self.second = self.world.join("second", self.first)
        cluster.wait_until(
            lambda: len(self.second.ask("nodes", "--json").json["nodes"]) == 2, "both are known")

    def job(self, place, name="small"):
        """A job of `first` for two nodes whose data are there."""
        with open(self.job_file(name, nodes=2, min_nodes=2, steps=10), encoding="utf-8") as stream:
            text = stream.read().replace('set = "text"', place)
        return self.world.write(f"{name}.toml", text)

    def refusal(self, place):
        done = self.first.ask("train", self.job(place), "--no-wait")
        self.assertEqual(done.code, 1, str(done))
        return done.out + done.err

    def test_a_path_is_read_at_the_submitters_node_alone_and_that_is_said(self):
        text = self.refusal(f'path = "{self.text}"')
        self.assert_says(text, "second", "data.path is read at the node that submits the job alone",
                         "[data.NAME]", "--data NAME=PATH")
        own = self.job_file("own", data=self.world.write("own.txt", cluster.TEXT))
        started = self.first.ask("train", own, "--follow")
        self.assertEqual(started.code, 0, str(started))

    def test_what_is_not_offered_is_refused_in_the_same_words_whether_it_is_there_or_not(self):
        secret = os.path.join(self.second.state, "identity.key")
        said = {self.refusal(f'path = "{place}"').split("second: ")[1].split("; first:")[0].strip()
                for place in (self.text, "/nowhere/at/all", secret, "/etc/shadow")}
        self.assertEqual(len(said), 1, said)
        # What the submitter's own node says of its files is its owner's to know.
        self.assert_says(self.refusal(f'path = "{self.first.state}/identity.key"'), "state directory")
        self.assert_says(self.refusal('set = "nosuch"'), "no data set 'nosuch'", "but rows, text")

    def test_a_set_gives_what_lies_in_it_and_nothing_of_the_state_directory(self):
        folder = self.world.path("corpus")
        self.world.write("corpus/a.txt", cluster.TEXT)
        third = self.world.join("third", self.first, flags=(
            "--data", f"corpus={folder}", "--data", f"keys={self.world.state('third')}",
            "--data", f"key={self.world.state('third')}/identity.key"))
        cluster.wait_until(
            lambda: len(self.first.ask("nodes", "--json").json["nodes"]) == 3, "all are known")
        told = {one["name"]: one for one in third.ask("config", "--json").json["data"]}
        self.assertNotIn("problem", told["corpus"])
        for name in ("keys", "key"):
            self.assertIn("state directory", told[name]["problem"])

        def job(name, place):
            return self.world.write(f"{name}.toml", cluster.JOB.format(
                name=name, steps=5, every=5, nodes=1, min_nodes=1, top="", data=place))

        def train(name, place):
            return third.ask("train", job(name, place), "--follow")

        def samples():
            return third.ask("train", job("plan", 'set = "corpus"'), "--check", "--json").json["data_samples"]
        self.assertEqual(train("one", 'set = "corpus"').code, 0)
        before = samples()
        for name in ("keys", "key"):
            self.assert_fails(train("two", f'set = "{name}"'), 1, "state directory")
        os.symlink(os.path.join(self.first.state, "identity.key"), os.path.join(folder, "b.txt"))
        self.assertEqual(samples(), before, "what the link leads to was read")


if __name__ == "__main__":
    cluster.main()
