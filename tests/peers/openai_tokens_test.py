"""What OpenAI's client is told of tokens, against transformers' own log probabilities, prompts as token numbers, and
texts in a form that is asked for. About a minute, half of it imports.
usage: openai_tokens_test.py GPUNODE [TEST...]
"""
import json
import math
import typing
import unittest

import peer

import openai
import pydantic
import torch
import transformers
from transformers import Qwen2Config, Qwen2ForCausalLM

import served_models
from served_models import NEW_TOKENS, Served, client
from small_models import MIXED, SHORT, gpt2, llama, trained_tokenizer

setUpModule = served_models.start_node

NEAR = 1e-4
TEMPLATE = "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
CHAT = [{"role": "user", "content": "Which?"}]


class Told(unittest.TestCase):
    """With a model whose tokens are told of."""

    @classmethod
    def setUpClass(cls):
        torch.manual_seed(7)
        tokenizer = trained_tokenizer()
        tokenizer.chat_template = TEMPLATE
        cls.served = Served(cls.__name__, llama(Qwen2Config, Qwen2ForCausalLM), tokenizer)
        cls.ask = client()

    def create(self, **fields):
        return self.ask.completions.create(**{"model": self.served.name, "prompt": MIXED,
                                              "temperature": 0, **fields})


class LogProbabilities(Told):
    def theirs(self, prompt, tokens):
        """Of each token behind the prompt, of all that could stand there."""
        before = self.served.tokens_of(prompt).input_ids
        whole = torch.cat([before, torch.tensor([tokens])], dim=1)
        with torch.no_grad():
            scores = self.served.model(whole).logits[0, before.shape[1] - 1:-1]
        return scores.double().log_softmax(-1)

    def test_are_those_of_transformers(self):
        tokens, _ = self.served.continued(MIXED)
        self.assertGreater(len(tokens), 8)
        rated = self.theirs(MIXED, tokens)
        choice = self.create(max_tokens=len(tokens), logprobs=5).choices[0]
        told = choice.logprobs
        self.assertEqual(len(told.tokens), len(tokens))
        for at, token in enumerate(tokens):
            self.assertAlmostEqual(told.token_logprobs[at], rated[at, token].item(), delta=NEAR)
            best = rated[at].topk(5).values.tolist()
            for ours, other in zip(sorted(told.top_logprobs[at].values(), reverse=True), best):
                self.assertAlmostEqual(ours, other, delta=NEAR)
            if not told.tokens[at].startswith("bytes:"):
                self.assertTrue(choice.text[told.text_offset[at]:].startswith(told.tokens[at]))
        self.assertTrue(any(offset > 0 for offset in told.text_offset))

    def test_do_not_change_with_how_a_text_is_drawn_nor_the_text_with_them(self):
        plain = self.create(max_tokens=NEW_TOKENS, temperature=0.8, seed=5, top_p=0.9)
        told = self.create(max_tokens=NEW_TOKENS, temperature=0.8, seed=5, top_p=0.9, logprobs=2)
        self.assertEqual(told.choices[0].text, plain.choices[0].text)
        self.assertIsNone(plain.choices[0].logprobs)
        first = self.create(max_tokens=1, logprobs=2).choices[0].logprobs
        self.assertEqual(set(first.top_logprobs[0].values()) - set(
            told.choices[0].logprobs.top_logprobs[0].values()), set())

    def test_come_in_pieces_too(self):
        asked = {"max_tokens": NEW_TOKENS, "logprobs": 3, "temperature": 1.2, "seed": 4}
        whole = self.create(**asked).choices[0].logprobs
        pieces = [one.choices[0].logprobs for one in self.create(stream=True, **asked)]
        self.assertGreater(len([one for one in pieces if one]), 1)
        for field in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
            joined = [one for piece in pieces if piece for one in getattr(piece, field)]
            self.assertEqual(joined, getattr(whole, field), field)

    def test_of_a_chat_have_bytes_that_make_up_its_text(self):
        asked = {"model": self.served.name, "messages": CHAT, "temperature": 0, "logprobs": True,
                 "top_logprobs": 20, "max_completion_tokens": 12}
        told = self.ask.chat.completions.create(**asked).choices[0]
        content = told.logprobs.content
        self.assertEqual(bytes(sum((one.bytes for one in content), [])).decode(errors="replace"),
                         told.message.content)
        prompt = self.served.tokenizer.apply_chat_template(CHAT, tokenize=False)
        tokens, _ = self.served.continued(prompt, 12)
        rated = self.theirs(prompt, tokens)
        for at, token in enumerate(tokens):
            self.assertAlmostEqual(content[at].logprob, rated[at, token].item(), delta=NEAR)
            best = [one.logprob for one in content[at].top_logprobs]
            self.assertEqual(len(best), 20)
            for ours, other in zip(best, rated[at].topk(20).values.tolist()):
                self.assertAlmostEqual(ours, other, delta=NEAR)
        pieces = [one.choices[0].logprobs
                  for one in self.ask.chat.completions.create(stream=True, **asked)]
        self.assertEqual([one for piece in pieces if piece for one in piece.content], content)

    def test_are_refused_beyond_what_there_is(self):
        for fields in ({"logprobs": 6}, {"logprobs": 1, "echo": True}):
            with self.assertRaises(openai.BadRequestError) as refused:
                self.create(**fields)
            self.assertEqual(refused.exception.body["param"], "logprobs")


class Tokens(Told):
    """As prompts."""

    def test_give_the_text_that_they_read(self):
        prompts = [SHORT, MIXED]
        numbers = [self.served.tokens_of(one).input_ids[0].tolist() for one in prompts]
        texts = [one.text for one in self.create(prompt=prompts, max_tokens=16).choices]
        answer = self.create(prompt=numbers, max_tokens=16)
        self.assertEqual([one.text for one in answer.choices], texts)
        self.assertEqual(answer.usage.prompt_tokens, sum(len(one) for one in numbers))
        self.assertEqual(self.create(prompt=numbers[0], max_tokens=16).choices[0].text, texts[0])
        echoed = self.create(prompt=numbers[1], max_tokens=16, echo=True).choices[0].text
        self.assertEqual(echoed, self.served.tokenizer.decode(numbers[1]) + texts[1])

    def test_that_are_none_of_the_models_are_refused(self):
        with self.assertRaises(openai.BadRequestError) as refused:
            self.create(prompt=[1, 1_000_000])
        self.assertIn("token 1000000 at place 1", refused.exception.body["message"])


class Animal(pydantic.BaseModel):
    name: typing.Literal["cat", "dog"]
    legs: int
    colours: list[typing.Literal["black", "white"]]
    owner: typing.Optional[bool]


SCHEMA = {"type": "object", "additionalProperties": False, "required": ["name", "size"],
          "properties": {"name": {"type": "string", "minLength": 2, "maxLength": 8},
                         "size": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                         "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3}}}


class Forms(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.manual_seed(7)
        tokenizer = trained_tokenizer()
        tokenizer.chat_template = TEMPLATE
        cls.served = Served("formed", gpt2(seed=9), tokenizer)
        cls.ask = client()

    def chat(self, **fields):
        return self.ask.chat.completions.create(
            **{"model": "formed", "messages": CHAT, "max_completion_tokens": 3000, **fields})

    def expect_valid(self, text):
        value = json.loads(text)
        self.assertLessEqual({"name", "size"}, set(value))
        self.assertLessEqual(set(value), {"name", "size", "tags"})
        self.assertTrue(2 <= len(value["name"]) <= 8, value)
        self.assertTrue(value["size"] is None or isinstance(value["size"], int))
        self.assertLessEqual(set(value.get("tags", [])), {"a", "b"})

    def test_of_a_schema_are_valid_by_it(self):
        asked = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}}
        texts = []
        for seed in range(6):
            choice = self.chat(response_format=asked, seed=seed, temperature=1.0).choices[0]
            self.assertEqual(choice.finish_reason, "stop", choice.message.content)
            self.expect_valid(choice.message.content)
            texts.append(choice.message.content)
        self.assertEqual(self.chat(response_format=asked, seed=3).choices[0].message.content, texts[3])
        self.assertGreater(len(set(texts)), 3)
        chunks = self.chat(response_format=asked, seed=3, stream=True)
        self.assertEqual("".join(one.choices[0].delta.content or "" for one in chunks), texts[3])
        completion = self.ask.completions.create(
            model="formed", prompt=SHORT, max_tokens=3000, seed=1, extra_body={"guided_json": SCHEMA})
        self.expect_valid(completion.choices[0].text)

    def test_may_be_a_class_of_pydantic(self):
        parsed = self.ask.chat.completions.parse(model="formed", messages=CHAT, seed=2,
                                                 max_completion_tokens=3000, response_format=Animal)
        animal = parsed.choices[0].message.parsed
        self.assertIsInstance(animal, Animal)
        self.assertTrue(math.isfinite(animal.legs))

    def test_may_be_any_json_or_one_of_some_texts(self):
        for seed in range(4):
            choice = self.chat(response_format={"type": "json_object"}, seed=seed).choices[0]
            if choice.finish_reason == "stop":
                self.assertIsInstance(json.loads(choice.message.content), dict)
            else:
                self.assertEqual(choice.finish_reason, "length")
        chosen = {self.chat(extra_body={"guided_choice": ["yes", "no"]}, seed=seed)
                  .choices[0].message.content for seed in range(30)}
        self.assertEqual(chosen, {"yes", "no"})

    def test_are_refused_with_the_place_that_is_not_known(self):
        schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "x"}}}
        with self.assertRaises(openai.BadRequestError) as refused:
            self.chat(response_format={"type": "json_schema",
                                       "json_schema": {"name": "x", "schema": schema}})
        self.assertIn("#/properties/a/pattern", refused.exception.body["message"])


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    peer.main(transformers, openai)
