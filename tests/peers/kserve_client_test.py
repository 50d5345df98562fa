"""What Triton's client relies on, of KServe's v2 protocol: health, metadata, tensors as JSON and in binary, keys.
usage: kserve_client_test.py GPUNODE [TEST...]
"""
import os
import pathlib
import sys
import unittest

import numpy
import tritonclient
import tritonclient.http as triton

PROBE = sys.argv.pop(1)
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "process"))
import cluster
import table_test

WORLD = NODE = None
POINTS = numpy.array([[0.9, 0.9], [-0.9, -0.9], [0.9, -0.9]], dtype=numpy.float32)


def setUpModule():
    """A node with a classifier of the plane's quarters and a model of texts."""
    global WORLD, NODE
    cluster.PROGRAMS["gpunode"] = os.path.abspath(PROBE)
    WORLD = cluster.World()
    unittest.addModuleCleanup(WORLD.close)
    WORLD.write("data/rows.csv", table_test.rows())
    WORLD.write("data/text.txt", cluster.TEXT)
    NODE = WORLD.start("a", "up", "--http", "127.0.0.1:0")
    jobs = {"rows": table_test.JOB.format(
        nodes=1, least=1, data='set = "rows"', form="table", kind="mlp", steps=150, every=50,
        settings="features = 2\nclasses = 4\nhidden = 32").replace('"small"', '"rows"'),
            "texts": cluster.JOB.format(name="texts", steps=5, every=5, nodes=1, min_nodes=1, top="",
                                        data='set = "text"')}
    for name, text in jobs.items():
        for words in (("train", WORLD.write(f"{name}.toml", text)), ("job", "wait", name),
                      ("serve", name)):
            done = NODE.ask(*words)
            assert done.code == 0, str(done)


def client():
    return triton.InferenceServerClient(NODE.info["http"].removeprefix("http://").removesuffix("/v1"),
                                        network_timeout=cluster.TIMEOUT)


def features(binary, rows=POINTS):
    made = triton.InferInput("features", list(rows.shape), "FP32")
    made.set_data_from_numpy(rows, binary_data=binary)
    return made


class Client(unittest.TestCase):
    def setUp(self):
        self.ask = client()
        self.addCleanup(self.ask.close)

    def test_sees_health_and_metadata(self):
        self.assertTrue(self.ask.is_server_live())
        self.assertTrue(self.ask.is_server_ready())
        self.assertTrue(self.ask.is_model_ready("rows"))
        self.assertTrue(self.ask.is_model_ready("rows", "1"))
        self.assertFalse(self.ask.is_model_ready("none"))
        self.assertEqual(self.ask.get_server_metadata()["name"], "gpunode")
        told = self.ask.get_model_metadata("rows")
        self.assertEqual(told["inputs"][0]["shape"], [-1, 2])
        self.assertEqual(self.ask.get_model_metadata("texts")["inputs"][0]["datatype"], "BYTES")
        self.assertEqual({one["name"] for one in self.ask.get_model_repository_index()},
                         {"rows", "texts"})

    def test_has_rows_answered_as_json_and_in_binary(self):
        scores = []
        for given in (False, True):
            for wanted in (False, True):
                with self.subTest(given=given, wanted=wanted):
                    outputs = [triton.InferRequestedOutput(name, binary_data=wanted)
                               for name in ("class", "scores")]
                    told = self.ask.infer("rows", [features(given)], outputs=outputs,
                                          request_id="seven")
                    self.assertEqual(told.as_numpy("class").tolist(), [3, 0, 2])
                    self.assertEqual(told.get_response()["id"], "seven")
                    scores.append(told.as_numpy("scores"))
        for one in scores:
            numpy.testing.assert_array_equal(one, scores[0])
        told = self.ask.infer("rows", [features(True)])  # all outputs, as the server likes
        self.assertEqual(told.as_numpy("scores").shape, (3, 4))
        self.assertGreaterEqual(
            self.ask.get_inference_statistics("rows")["model_stats"][0]["inference_count"], 15)

    def test_has_many_rows_answered_at_once(self):
        rows = numpy.tile(POINTS, (2000, 1))
        told = self.ask.infer("rows", [features(True, rows)])
        self.assertEqual(told.as_numpy("class").tolist(), [3, 0, 2] * 2000)

    def test_has_texts_continued(self):
        said = NODE.ask("generate", "--model", "texts", "--prompt", "1", "--seed", "3",
                        "--max-tokens", "9", "--json").json["text"]
        for binary in (False, True):
            made = triton.InferInput("text_input", [1], "BYTES")
            made.set_data_from_numpy(numpy.array([b"1"], dtype=object), binary_data=binary)
            told = self.ask.infer("texts", [made], parameters={"max_tokens": 9, "seed": 3})
            text = told.as_numpy("text_output")[0]  # of a model over bytes: not all are characters
            self.assertEqual(text.decode(errors="ignore"), said.replace("\ufffd", ""))

    def test_is_refused_with_the_reason(self):
        for rows, word in ((POINTS[:, :1].copy(), "[-1, 2]"),
                           (numpy.full((1, 2), numpy.nan, numpy.float32), "finite")):
            with self.assertRaises(tritonclient.utils.InferenceServerException) as caught:
                self.ask.infer("rows", [features(True, rows)])
            self.assertIn(word, str(caught.exception))
            self.assertEqual(caught.exception.status(), "400")


if __name__ == "__main__":
    import importlib.metadata
    print("tritonclient", importlib.metadata.version("tritonclient"), flush=True)
    unittest.main(verbosity=2)
