"""KServe's v2 protocol over HTTP: any node answers for a model of rows and for one of texts, as JSON and in
binary, and its health means something.
usage: kserve_test.py GPUNODE GPUNODE_FAULTY [unittest arguments]
"""
import http.client
import json
import struct
import urllib.parse

import cluster
import table_test


class OverKServe(cluster.ProcessTest):
    def setUp(self):
        super().setUp()
        self.first = self.world.start("a")
        self.world.write("data/rows.csv", table_test.rows())
        job = self.world.write("rows.toml", table_test.JOB.format(
            nodes=1, least=1, data='set = "rows"', form="table", kind="mlp", steps=150, every=50,
            settings="features = 2\nclasses = 4\nhidden = 32"))
        self.assertEqual(self.first.ask("train", job).code, 0)
        self.assertEqual(self.first.ask("job", "wait", "small").code, 0)
        self.assertEqual(self.first.ask("serve", "small", "--name", "rows").code, 0)
        self.asked = self.world.join("asked", self.first, ("--http", "127.0.0.1:0"))
        cluster.wait_until(lambda: self.ask("GET", "/models/rows")[0] == 200, "rows is known")

    def ask(self, method, path, body=None, headers=None):
        """(status, headers, bytes) of /v2 and the path."""
        url = urllib.parse.urlparse(self.asked.info["http"])
        connection = http.client.HTTPConnection(url.hostname, url.port, timeout=cluster.TIMEOUT)
        connection.request(method, "/v2" + path, body, headers or {})
        answer = connection.getresponse()
        told = answer.status, dict(answer.getheaders()), answer.read()
        connection.close()
        return told

    def infer(self, model, body):
        status, _, text = self.ask("POST", f"/models/{model}/infer", json.dumps(body))
        return status, json.loads(text)

    def rows(self, data, shape=(2, 2), **fields):
        return {"inputs": [{"name": "features", "datatype": "FP32", "shape": list(shape),
                            "data": data}], **fields}

    def test_tells_of_itself_and_its_models(self):
        for path in ("/health/live", "/health/ready", "/models/rows/ready",
                     "/models/rows/versions/1/ready"):
            self.assertEqual(self.ask("GET", path)[0], 200, path)
        told = json.loads(self.ask("GET", "")[2])
        self.assertEqual(told["name"], "gpunode")
        self.assertIn("binary_tensor_data", told["extensions"])
        model = json.loads(self.ask("GET", "/models/rows")[2])
        self.assertEqual(model["inputs"], [{"name": "features", "datatype": "FP32",
                                            "shape": [-1, 2]}])
        self.assertEqual([one["shape"] for one in model["outputs"]], [[-1], [-1, 4]])
        index = json.loads(self.ask("POST", "/repository/index")[2])
        self.assertEqual([(one["name"], one["state"]) for one in index], [("rows", "READY")])
        for path in ("/models/none", "/models/none/ready", "/models/rows/versions/2",
                     "/models/rows/other"):
            status, _, text = self.ask("GET", path)
            self.assertEqual(status, 404, path)
            self.assertIn("error", json.loads(text))

    def test_answers_rows_as_json_and_in_binary(self):
        data = [[0.9, 0.9], [-0.9, -0.9]]
        status, told = self.infer("rows", self.rows(data, id="seven"))
        self.assertEqual(status, 200, told)
        self.assertEqual((told["id"], told["model_name"], told["model_version"]), ("seven", "rows", "1"))
        classes, scores = told["outputs"]
        self.assertEqual((classes["name"], classes["data"]), ("class", [3, 0]))
        self.assertEqual((scores["shape"], len(scores["data"])), ([2, 4], 8))
        packed = struct.pack("<4f", 0.9, 0.9, -0.9, -0.9)
        head = json.dumps({"inputs": [{"name": "features", "datatype": "FP32", "shape": [2, 2],
                                       "parameters": {"binary_data_size": len(packed)}}],
                           "parameters": {"binary_data_output": True}}).encode()
        status, headers, body = self.ask("POST", "/models/rows/versions/1/infer", head + packed, {
            "Inference-Header-Content-Length": str(len(head))})
        self.assertEqual(status, 200, body)
        json_bytes = int(headers["Inference-Header-Content-Length"])
        sizes = [one["parameters"]["binary_data_size"]
                 for one in json.loads(body[:json_bytes])["outputs"]]
        self.assertEqual(sizes, [16, 32])
        self.assertEqual(struct.unpack("<2q", body[json_bytes:json_bytes + 16]), (3, 0))
        self.assertEqual(list(struct.unpack("<8f", body[json_bytes + 16:])), [
            struct.unpack("<f", struct.pack("<f", score))[0] for score in scores["data"]])
        counts = json.loads(self.ask("GET", "/models/rows/stats")[2])["model_stats"][0]
        self.assertEqual((counts["execution_count"], counts["inference_count"]), (2, 4))
        figures = self.first.ask("metrics").out
        self.assertIn('gpunode_infer_rows_total{model="rows"} 4', figures)
        self.assertIn('gpunode_infer_seconds_count{model="rows"} 2', figures)

    def test_refuses_what_does_not_fit_by_name(self):
        for body, status, word in (
                (self.rows([1, 2, 3], (1, 3)), 400, "[-1, 2]"),
                (self.rows([1, 2], (2, 2)), 400, "as many elements"),
                (self.rows([1, 2], (1, 2), outputs=[{"name": "other"}]), 400, "other"),
                ({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}]}, 400,
                 "'features'"),
                ({"inputs": [{"name": "x", "datatype": "FP16", "shape": [1], "data": [1]}]}, 501,
                 "FP16")):
            told = self.infer("rows", body)
            self.assertEqual(told[0], status, told)
            self.assertIn(word, told[1]["error"])
        self.assertEqual(self.infer("none", self.rows([1, 2], (1, 2)))[0], 404)
        self.assertIn('gpunode_infer_failures_total{model="rows",reason="other"} 2', self.first.ask("metrics").out)

    def test_continues_texts(self):
        self.world.write("data/text.txt", cluster.TEXT)
        text_job = self.job_file(name="texts", steps=5)
        self.assertEqual(self.first.ask("train", text_job).code, 0)
        self.assertEqual(self.first.ask("job", "wait", "texts").code, 0)
        self.assertEqual(self.first.ask("serve", "texts").code, 0)
        cluster.wait_until(lambda: self.ask("GET", "/models/texts")[0] == 200, "texts is known")
        body = {"inputs": [{"name": "text_input", "datatype": "BYTES", "shape": [1],
                            "data": ["1"]}], "parameters": {"max_tokens": 9, "seed": 3}}
        status, told = self.infer("texts", body)
        self.assertEqual(status, 200, told)
        said = self.first.ask("generate", "--model", "texts", "--prompt", "1", "--seed", "3",
                              "--max-tokens", "9", "--json").json
        self.assertEqual(told["outputs"][0]["data"], [said["text"]])
        self.assertEqual(self.infer("texts", self.rows([1, 2], (1, 2)))[0], 501)


if __name__ == "__main__":
    cluster.main()
