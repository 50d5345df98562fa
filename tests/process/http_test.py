"""Inference over HTTP: any node answers for any model, whole and piece by piece, in OpenAI's form; a text
goes on without a seam where the replica that writes it is lost.
usage: http_test.py GPUNODE GPUNODE_FAULTY [unittest arguments]
"""
import http.client
import json
import urllib.parse

import cluster


class Front:
    """A client of a node's front, as one that knows OpenAI's API."""

    def __init__(self, node):
        self.url = urllib.parse.urlparse(node.info["http"])

    def connect(self):
        return http.client.HTTPConnection(self.url.hostname, self.url.port, timeout=cluster.TIMEOUT)

    def ask(self, method, path, body=None):
        """(status, JSON)."""
        connection = self.connect()
        headers = {"Content-Type": "application/json"} if body is not None else {}
        connection.request(method, "/v1" + path, json.dumps(body) if body is not None else None,
                           headers)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, json.loads(text)

    def text(self, **fields):
        status, told = self.ask("POST", "/completions", {"model": "m", "prompt": "1", **fields})
        assert status == 200, told
        return told["choices"][0]["text"]

    def events(self, **fields):
        """What a stream tells, an object each, until it is done."""
        connection = self.connect()
        connection.request("POST", "/v1/completions",
                           json.dumps({"model": "m", "prompt": "1", "stream": True, **fields}),
                           {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        for line in answer:
            line = line.strip()
            if line == b"data: [DONE]":
                break
            if line:
                yield json.loads(line.removeprefix(b"data: "))
        connection.close()


class OverHttp(cluster.ProcessTest):
    def setUp(self):
        super().setUp()
        self.first = self.world.start("a")
        self.assertEqual(self.first.ask("train", self.job_file(steps=20)).code, 0)
        self.assertEqual(self.first.ask("job", "wait", "small").code, 0)
        self.weights = self.world.path("weights.safetensors")
        self.assertEqual(self.first.ask("checkpoint", "export", "small", "--out",
                                        self.weights).code, 0)
        self.serve(self.first)
        self.asked = self.world.join("asked", self.first, ("--http", "127.0.0.1:0"))
        self.front = Front(self.asked)
        cluster.wait_until(lambda: self.front.ask("GET", "/models")[1]["data"], "m is known")

    def serve(self, node):
        served = node.ask("serve", self.weights, "--name", "m")
        self.assertEqual(served.code, 0, str(served))

    def test_any_node_answers_for_any_model(self):
        self.assertEqual([one["id"] for one in self.front.ask("GET", "/models")[1]["data"]], ["m"])
        told = self.front.ask("POST", "/completions", {"model": "m", "prompt": "1", "seed": 3,
                                                       "max_tokens": 40})[1]
        said = self.first.ask("generate", "--model", "m", "--prompt", "1", "--seed", "3",
                              "--max-tokens", "40", "--json").json
        self.assertEqual(told["usage"], {"prompt_tokens": 1, "completion_tokens": 40,
                                         "total_tokens": 41})
        self.assertEqual(told["choices"][0]["text"], said["text"])
        streamed = list(self.front.events(seed=3, max_tokens=40))
        self.assertEqual("".join(one["choices"][0]["text"] for one in streamed), said["text"])
        self.assertEqual(streamed[-1]["choices"][0]["finish_reason"], "length")
        self.assertEqual({one["id"] for one in streamed}, {streamed[0]["id"]})
        status, refused = self.front.ask("POST", "/completions", {"model": "n", "prompt": "1"})
        self.assertEqual(status, 404)
        self.assertIn("gpunode serve", refused["error"]["message"])
        line = [one for one in self.asked.ask("nodes", "--json").json["nodes"] if one["self"]][0]
        self.assertEqual(line["http"], self.asked.info["http"])
        self.assertIn(self.asked.info["http"], self.asked.said())

    def test_a_text_goes_on_without_a_seam_where_its_replica_is_lost(self):
        long = {"seed": 5, "max_tokens": 30_000}
        whole = self.front.text(**long)
        second = self.world.join("b", self.first)
        text, after = "", 0
        for at, event in enumerate(self.front.events(**long)):
            self.assertNotIn("error", event)
            text += event["choices"][0]["text"]
            after += 1
            if at == 20:  # the first one is writing, as there was no other one
                self.serve(second)
                cluster.wait_until(lambda: len(self.asked.ask("models", "--json").json["models"]) == 2,
                                   "both serve")
                self.first.kill()
                after = 0
        self.assertGreater(after, 100, "it was lost in the middle of the text")
        self.assertEqual(text, whole)

    def test_a_text_whose_only_replica_is_lost_ends_with_an_error(self):
        told = []
        for event in self.front.events(seed=5, max_tokens=60_000):
            told.append(event)
            if len(told) == 20:
                self.first.kill()
        self.assertIn("error", told[-1])
        self.assertIn(told[-1]["error"]["code"], ("peer_lost", "unavailable", "not_found"))

    def test_answers_only_where_told_to(self):
        self.assertEqual(self.first.info["http"], "")
        self.world.write("d/gpunode.toml", 'http = "127.0.0.1:0"\n')
        self.assertTrue(self.world.start("d").info["http"].startswith("http://127.0.0.1:"))


if __name__ == "__main__":
    cluster.main()
