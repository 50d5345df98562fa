"""`bench infer` asks a model of rows and one of texts, by the node's own calls and over HTTP.
usage: load_test.py GPUNODE GPUNODE_FAULTY [unittest arguments]
"""
import cluster
import models
import table_test


class Load(cluster.ProcessTest):
    def setUp(self):
        super().setUp()
        self.node = self.world.start("a", "up", "--http", "127.0.0.1:0")
        self.http = self.node.info["http"]

    def measure(self, model, *words):
        done = self.node.ask("bench", "infer", "--model", model, "--seconds", "1", "--json", *words)
        self.assertEqual(done.code, 0, str(done))
        told = done.json
        self.assertEqual(told["failed"], [], told)
        load = told["load"]
        self.assertEqual(load["asked"], load["answered"])
        times = load["answer"]
        self.assertTrue(0 < times["p50"] <= times["p90"] <= times["p99"] <= times["max"], told)
        self.assertAlmostEqual(load["p99_by_p50"], times["p99"] / times["p50"], 3)
        return told

    def test_rows(self):
        self.world.write("data/rows.csv", table_test.rows())
        job = self.world.write("rows.toml", table_test.JOB.format(
            nodes=1, least=1, data='set = "rows"', form="table", kind="mlp", steps=50, every=50,
            settings="features = 2\nclasses = 4\nhidden = 32"))
        self.assertEqual(self.node.ask("train", job).code, 0)
        self.assertEqual(self.node.ask("job", "wait", "small").code, 0)
        self.assertEqual(self.node.ask("serve", "small", "--name", "rows").code, 0)
        for words in ((), ("--http", self.http)):
            told = self.measure("rows", "--rows", "3", "--askers", "4", *words)
            self.assertEqual(told["kind"], "rows")
            self.assertEqual(told["load"]["tokens"], 3, "rows of a request")
            self.assertNotIn("first", told["load"])
            self.assertAlmostEqual(told["load"]["rate"], 0.7 * told["full"]["requests_per_second"])
        figures = self.node.ask("metrics").out
        failed = [line for line in figures.splitlines() if line.startswith("gpunode_infer_failures_total{")]
        self.assertEqual([line for line in failed if not line.endswith(" 0")], [])

    def test_texts(self):
        models.write_model(self.world.path("weights"), layers=1, channels=32)
        self.assertEqual(self.node.ask("serve", self.world.path("weights"), "--name", "t").code, 0)
        for words in ((), ("--http", self.http)):
            told = self.measure("t", "--rate", "20", "--prompt-tokens", "9", "--max-tokens", "7",
                                *words)
            self.assertNotIn("full", told)
            load = told["load"]
            self.assertEqual((told["kind"], load["prompt_tokens"], load["tokens"]), ("texts", 9, 7))
            self.assertLess(0, load["first"]["p50"])
            self.assertLess(load["first"]["p50"], load["answer"]["p50"])
            self.assertLess(0, load["token"]["p50"])
        refused = self.node.ask("bench", "infer", "--model", "t", "--rate", "20", "--seconds", "1",
                                "--timeout", "1ms", "--json")
        self.assertEqual(refused.code, 1, str(refused))
        self.assertEqual(refused.json["error"]["code"], "timeout")

    def test_says_what_is_wrong(self):
        for words, remedy in (((), "gpunode models"), (("--http", self.http), "none")):
            done = self.node.ask("bench", "infer", "--model", "none", *words)
            self.assert_fails(done, 1, "no node serves a model named 'none'", remedy)
        for words, name in (((), "--model"), (("--model", "m", "--load", "much"), "--load"),
                            (("--model", "m", "--load", "50%", "--rate", "3"), "--rate"),
                            (("--model", "m", "--http", "https://box"), "--http")):
            self.assert_fails(self.node.ask("bench", "infer", *words), 2, name)
        nobody = self.node.ask("bench", "infer", "--model", "m", "--http", "http://127.0.0.1:1")
        self.assert_fails(nobody, 1, "nobody answers", "127.0.0.1:1")


if __name__ == "__main__":
    cluster.main()
