"""Texts as vectors, asked for by OpenAI's client and Triton's, against what transformers' BERT gives.
About half a minute, most of it imports.
usage: embeddings_test.py GPUNODE [TEST...]
"""
import json
import pathlib
import unittest

import peer

import numpy
import openai
import torch
import transformers
import tritonclient.http as triton
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

import served_models
from served_models import client
from small_models import CONTEXT, LINES, LONG, MIXED, SHORT

setUpModule = served_models.start_node

NEAR = 1e-4


def word_pieces():
    """As BERT's: lower case, a text between two marks."""
    trained = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    trained.normalizer = normalizers.BertNormalizer(lowercase=True)
    trained.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trained.train_from_iterator(LINES * 20, trainers.WordPieceTrainer(
        vocab_size=512, show_progress=False,
        special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    trained.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=trained, unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        pad_token="[PAD]", mask_token="[MASK]")


class Encoder:
    """A model that the node serves, and the same one in transformers."""

    def __init__(self, name, pooling=None, *words):
        self.name, self.pooling = name, pooling or "mean"
        self.folder = pathlib.Path(served_models.WORLD.path("models")) / name
        self.tokenizer = word_pieces()
        config = transformers.BertConfig(
            vocab_size=self.tokenizer.vocab_size, hidden_size=64, num_hidden_layers=2,
            num_attention_heads=4, intermediate_size=96, max_position_embeddings=CONTEXT,
            initializer_range=0.2)
        whole = transformers.BertForMaskedLM(config).eval()
        whole.save_pretrained(self.folder)
        self.tokenizer.save_pretrained(self.folder)
        self.model = whole.bert
        if pooling:
            (self.folder / "1_Pooling").mkdir()
            (self.folder / "1_Pooling" / "config.json").write_text(json.dumps(
                {"word_embedding_dimension": 64, "pooling_mode_cls_token": pooling == "cls",
                 "pooling_mode_mean_tokens": pooling == "mean", "pooling_mode_max_tokens": False}))
        done = served_models.NODE.ask("serve", str(self.folder), "--name", name, *words)
        assert done.code == 0, str(done)

    def vector(self, text):
        given = self.tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            rows = self.model(**given).last_hidden_state[0]
        made = rows[0] if self.pooling == "cls" else rows.mean(0)
        return (made / made.norm()).numpy(), given.input_ids.shape[1]


TEXTS = [SHORT, MIXED, LONG[:200], "dog"]


class Embeddings(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.manual_seed(7)
        cls.encoder = Encoder("encoder")
        cls.ask = client()

    def assert_near(self, vector, text, encoder=None, near=NEAR):
        expected, _ = (encoder or self.encoder).vector(text)
        self.assertLess(numpy.abs(numpy.array(vector) - expected).max(), near, text)

    def create(self, texts, **fields):
        return self.ask.embeddings.create(model=self.encoder.name, input=texts, **fields)

    def test_are_those_of_transformers(self):
        told = self.create(TEXTS)  # their client asks for base64 by itself
        self.assertEqual(told.usage.prompt_tokens, sum(self.encoder.vector(text)[1] for text in TEXTS))
        for text, one in zip(TEXTS, told.data, strict=True):
            self.assert_near(one.embedding, text)
        self.assertEqual(self.create(TEXTS, encoding_format="float").data[1].embedding,
                         self.create(MIXED, encoding_format="float").data[0].embedding)

    def test_of_token_numbers(self):
        tokens = [self.encoder.tokenizer(text).input_ids for text in TEXTS]
        for text, one in zip(TEXTS, self.create(tokens).data, strict=True):
            self.assert_near(one.embedding, text)

    def test_of_the_first_token(self):
        first = Encoder("first", "cls")
        told = self.ask.embeddings.create(model="first", input=TEXTS)
        for text, one in zip(TEXTS, told.data, strict=True):
            self.assert_near(one.embedding, text, first)

    def test_with_smaller_weights(self):
        small = Encoder("small", None, "--weights", "int8")
        told = self.ask.embeddings.create(model="small", input=TEXTS)
        for text, one in zip(TEXTS, told.data, strict=True):
            expected, _ = small.vector(text)
            self.assertGreater(float(numpy.dot(one.embedding, expected)), 0.999)

    def test_what_cannot_be_read_is_refused(self):
        for wrong, word in ((["a", " ".join(LINES * 9)], "text 1"), ("", "empty"), ([[1, 100000]], "token")):
            with self.assertRaises(openai.BadRequestError) as refused:
                self.create(wrong)
            self.assertIn(word, str(refused.exception))
        with self.assertRaises(openai.BadRequestError) as refused:
            self.create("a", dimensions=8)
        self.assertEqual(refused.exception.param, "dimensions")
        with self.assertRaises(openai.OpenAIError) as refused:
            self.ask.completions.create(model=self.encoder.name, prompt="a")
        self.assertIn("embeddings", str(refused.exception))

    def test_as_named_tensors(self):
        url = served_models.NODE.info["http"].removeprefix("http://").removesuffix("/v1")
        for binary in (True, False):
            with triton.InferenceServerClient(url) as ask:
                self.assertEqual(ask.get_model_metadata(self.encoder.name)["inputs"][0]["name"], "text")
                given = triton.InferInput("text", [len(TEXTS)], "BYTES")
                given.set_data_from_numpy(numpy.array(TEXTS, dtype=object), binary_data=binary)
                told = ask.infer(self.encoder.name, [given]).as_numpy("embedding")
                for text, vector in zip(TEXTS, told, strict=True):
                    self.assert_near(vector, text)


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    peer.main(transformers, openai)
