"""What OpenAI's client and those built on it rely on beside the texts: their chances, streams, seeds, ends,
errors, going away, many at once. About a minute, half of it imports.
usage: openai_client_test.py GPUNODE [TEST...]
"""
import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import unittest

import peer

import openai
import torch
import transformers

import served_models
from served_models import Served, client, cluster
from small_models import LINES, MIXED, SHORT, gpt2

setUpModule = served_models.start_node


class Client(unittest.TestCase):
    """What OpenAI's client and those built on it rely on."""

    @classmethod
    def setUpClass(cls):
        torch.manual_seed(7)
        cls.served = Served("m", gpt2(seed=9))
        cls.ask = client()

    def create(self, **fields):
        return self.ask.completions.create(**{"model": "m", "prompt": MIXED, "max_tokens": 24,
                                              **fields})

    def text(self, **fields):
        return self.create(**fields).choices[0].text

    def pieces(self, **fields):
        with self.create(stream=True, **fields) as stream:
            return list(stream)

    def test_lists_models(self):
        self.assertIn("m", [one.id for one in self.ask.models.list()])
        self.assertEqual(self.ask.models.retrieve("m").object, "model")

    def test_has_texts_by_their_seeds(self):
        first = self.text(seed=3)
        self.assertEqual(self.text(seed=3), first)
        self.assertNotEqual(self.text(seed=4), first)
        self.assertNotEqual(self.text(), self.text())
        answer = self.create(seed=3, n=3)
        self.assertEqual([one.index for one in answer.choices], [0, 1, 2])
        self.assertEqual(answer.choices[0].text, first)
        self.assertEqual(len({one.text for one in answer.choices}), 3)
        self.assertEqual(self.create(seed=3, n=3).choices, answer.choices)
        self.assertEqual(answer.usage.completion_tokens, 72)
        self.assertEqual(answer.usage.total_tokens, 72 + answer.usage.prompt_tokens)
        self.assertEqual((answer.object, answer.model), ("text_completion", "m"))

    def test_has_a_text_a_prompt(self):
        prompts = [SHORT, MIXED, "чаю"]
        answer = self.create(prompt=prompts, temperature=0, echo=True)
        self.assertEqual([one.text for one in answer.choices],
                         [prompt + self.text(prompt=prompt, temperature=0) for prompt in prompts])

    def test_has_drawn_texts_by_their_chances(self):
        given = self.served.tokens_of(SHORT)
        scores = self.served.model(**given).logits[:, -1].detach()
        for options in ({"temperature": 1.5}, {"temperature": 0.7, "top_p": 0.8},
                        {"temperature": 1.2, "top_k": 5}):
            with self.subTest(**options):
                scaled = scores / options["temperature"]
                if "top_p" in options:
                    scaled = transformers.TopPLogitsWarper(options["top_p"])(None, scaled)
                if "top_k" in options:
                    scaled = transformers.TopKLogitsWarper(options["top_k"])(None, scaled)
                chances = {}
                for token, chance in enumerate(scaled.softmax(-1)[0].tolist()):
                    text = self.served.text_of([token])
                    chances[text] = chances.get(text, 0) + chance
                told = dict(options)
                extra = {"extra_body": {"top_k": told.pop("top_k")}} if "top_k" in told else {}
                drawn = [one.text for seed in range(16) for one in self.create(
                    prompt=SHORT, max_tokens=1, n=128, seed=seed, **told, **extra).choices]
                for text in set(drawn):
                    self.assertGreater(chances[text], 0, ascii(text))
                for text, chance in chances.items():
                    spread = (chance * (1 - chance) / len(drawn)) ** 0.5
                    self.assertLess(abs(drawn.count(text) / len(drawn) - chance),
                                    5 * spread + 2 / len(drawn), ascii(text))

    def test_of_the_best_token_alone_is_greedy(self):
        greedy = self.text(temperature=0)
        self.assertEqual(self.text(extra_body={"top_k": 1}), greedy)
        self.assertEqual(self.text(top_p=0), greedy)
        self.assertEqual(self.text(extra_body={"min_p": 1}), greedy)

    def test_ends_before_what_stops_it(self):
        whole = self.text(temperature=0)
        middle = len(whole) // 2
        for stop in (whole[middle:middle + 1], whole[middle:middle + 3],
                     ["never said", whole[middle + 2:middle + 5], whole[middle:middle + 2]]):
            each = [stop] if isinstance(stop, str) else stop
            before = whole[:min(whole.find(one) for one in each if one in whole)]
            with self.subTest(stop=ascii(stop)):
                answer = self.create(temperature=0, stop=stop).choices[0]
                self.assertEqual((answer.text, answer.finish_reason), (before, "stop"))
                told = self.pieces(temperature=0, stop=stop)
                self.assertEqual("".join(one.choices[0].text for one in told), before)
                self.assertEqual(told[-1].choices[0].finish_reason, "stop")
        self.assertEqual(self.text(temperature=0, stop="never said"), whole)

    def test_streams_the_same_text(self):
        for fields in ({"temperature": 0}, {"seed": 12}, {"seed": 13, "prompt": SHORT},
                       {"seed": 14, "max_tokens": 2000, "temperature": 2}):
            with self.subTest(**fields):
                whole = self.create(**fields)
                told = self.pieces(stream_options={"include_usage": True}, **fields)
                self.assertEqual(told[-1].choices, [])
                self.assertEqual(told[-1].usage, whole.usage)
                parts = [one.choices[0] for one in told[:-1]]
                self.assertEqual("".join(one.text for one in parts), whole.choices[0].text)
                self.assertEqual({one.finish_reason for one in parts[:-1]}, {None})
                self.assertEqual(parts[-1].finish_reason, whole.choices[0].finish_reason)
                self.assertEqual(len({one.id for one in told}), 1)

    def test_streams_several_choices(self):
        whole, texts = self.create(seed=5, n=4, echo=True), [""] * 4
        for piece in self.pieces(seed=5, n=4, echo=True):
            texts[piece.choices[0].index] += piece.choices[0].text
        self.assertEqual(texts, [one.text for one in whole.choices])

    def test_is_refused_by_name(self):
        with self.assertRaises(openai.NotFoundError) as caught:
            self.create(model="absent")
        self.assertIn("absent", caught.exception.message)
        self.assertEqual(caught.exception.code, "not_found")
        with self.assertRaises(openai.NotFoundError):
            self.ask.models.retrieve("absent")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.ask.embeddings.create(model="m", input="a")
        self.assertIn("/v1/completions", caught.exception.message)
        with self.assertRaises(openai.BadRequestError) as caught:
            self.create(prompt=SHORT * 1000)
        self.assertIn("shorten it", caught.exception.message)
        for field, value in {"temperature": 3, "top_p": -1, "max_tokens": 0, "n": 1000,
                             "presence_penalty": 9, "logprobs": 6, "best_of": 4,
                             "suffix": "x", "prompt": [1, -2]}.items():
            for stream in (False, True):
                with self.subTest(field=field, stream=stream):
                    with self.assertRaises(openai.BadRequestError) as caught:
                        self.create(stream=stream, **{field: value})
                    self.assertEqual(caught.exception.param, field)
                    self.assertIn(f"'{field}'", caught.exception.message)
                    self.assertEqual(caught.exception.type, "invalid_request_error")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.create(extra_body={"temprature": 1})
        self.assertEqual(caught.exception.param, "temprature")
        self.assertIn("did you mean 'temperature'", caught.exception.message)

    def test_by_many_at_once_has_the_texts_of_one_alone(self):
        asked = [{"seed": at, "prompt": LINES[at % len(LINES)], "max_tokens": 40,
                  "temperature": at % 2 * 1.0} for at in range(16)]
        alone = [self.text(**fields) for fields in asked]

        def streamed(own, fields):
            with own.completions.create(model="m", stream=True, **fields) as stream:
                return "".join(one.choices[0].text for one in stream)

        def whole(own, fields):
            return own.completions.create(model="m", **fields).choices[0].text

        clients = [client() for _ in asked]
        with concurrent.futures.ThreadPoolExecutor(len(asked)) as pool:
            for way in (whole, streamed):
                self.assertEqual(list(pool.map(way, clients, asked)), alone)

    def test_may_be_curl(self):
        if not shutil.which("curl"):
            self.skipTest("there is no curl")
        body = {"model": "m", "prompt": MIXED, "max_tokens": 24, "temperature": 0, "stream": True}
        done = subprocess.run(
            ["curl", "--silent", "--fail", "--no-buffer", "--max-time", str(cluster.TIMEOUT),
             served_models.NODE.info["http"] + "/completions", "-H", "Content-Type: application/json",
             "--data-binary", "@-"], input=json.dumps(body), capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        events = done.stdout.removesuffix("\n\n").split("\n\n")
        self.assertEqual(events.pop(), "data: [DONE]")
        told = [json.loads(event.removeprefix("data: ")) for event in events]
        self.assertEqual("".join(one["choices"][0]["text"] for one in told),
                         self.text(temperature=0))


def cpu_seconds(pid):
    """What a process has taken so far, of all its threads."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class GoingAway(unittest.TestCase):
    """Clients that go before their text is whole, of a model that would write it for minutes."""

    @classmethod
    def setUpClass(cls):
        cls.served = Served("slow", gpt2(n_layer=4, n_embd=384, n_positions=512))

    def wait_until_idle(self):
        taken = [cpu_seconds(served_models.NODE.process.pid)]

        def idle():
            taken.append(cpu_seconds(served_models.NODE.process.pid))
            return taken[-1] - taken[-2] < 0.1  # a fifth of a core
        cluster.wait_until(idle, "the node is idle", every=0.5)

    def failures(self):
        lines = served_models.NODE.ask("metrics").out.splitlines()
        return sum(float(line.split()[-1]) for line in lines
                   if line.startswith('gpunode_generate_failures_total{model="slow"'))

    def expect_ended(self, before, texts=1):
        cluster.wait_until(lambda: self.failures() == before + texts, "the text is given up")
        self.wait_until_idle()
        answer = client().completions.create(model="slow", prompt=SHORT, max_tokens=4)
        self.assertEqual(answer.usage.completion_tokens, 4)

    def test_in_the_middle_of_a_stream_end_it(self):
        before = self.failures()
        stream = client().completions.create(model="slow", prompt=SHORT, max_tokens=65536,
                                             stream=True)
        for _ in range(5):
            next(iter(stream))
        stream.close()
        self.expect_ended(before)

    def test_before_a_whole_answer_end_it(self):
        before = self.failures()
        with self.assertRaises(openai.APITimeoutError):
            client().with_options(timeout=0.5).completions.create(model="slow", prompt=SHORT,
                                                                  max_tokens=65536)
        self.expect_ended(before)

    def test_while_several_choices_are_written_end_all(self):
        before = self.failures()
        stream = client().completions.create(model="slow", prompt=SHORT, max_tokens=65536, n=3,
                                             stream=True)
        next(iter(stream))
        stream.close()
        self.expect_ended(before, texts=3)


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    peer.main(transformers, openai)
