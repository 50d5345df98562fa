"""A node that serves models of transformers from their folders, and OpenAI's client of it.
"""
import os
import pathlib
import sys
import unittest

import peer

import openai
import torch
import transformers

from small_models import trained_tokenizer

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "process"))
import cluster

NEW_TOKENS = 32
NEAR = 2 * peer.SCORES  # so near, relative to the largest score, two of them may change places


class Served:
    """A model that the node serves from its folder, and the same one in transformers, read from
    there too."""

    def __init__(self, name, model, tokenizer=None, dtype=torch.float32, **saving):
        self.name, self.folder = name, pathlib.Path(WORLD.path("models")) / name
        model.to(dtype).save_pretrained(self.folder, **saving)
        self.tokenizer = tokenizer or trained_tokenizer()
        self.tokenizer.save_pretrained(self.folder)
        self.serve()

    def serve(self):
        """Anew where the folder was written again."""
        self.model = transformers.AutoModelForCausalLM.from_pretrained(
            self.folder, dtype=torch.float32).eval()
        done = NODE.ask("serve", str(self.folder), "--name", self.name)
        assert done.code == 0, str(done)

    def tokens_of(self, prompt):
        return self.tokenizer(prompt, return_tensors="pt")

    def fitting(self, prompt, tokens):
        """As much of its beginning as has so many tokens at most."""
        while self.tokens_of(prompt).input_ids.shape[1] > tokens:
            prompt = prompt[:-1]
        return prompt

    def continued(self, prompt, count=NEW_TOKENS, **options):
        """Theirs, as far as it does not hang on rounding: the tokens, and whether it is cut."""
        given = self.tokens_of(prompt)
        made = self.model.generate(**given, do_sample=False, max_new_tokens=count,
                                   pad_token_id=0, return_dict_in_generate=True,
                                   output_scores=True, **options)
        tokens = made.sequences[0, given.input_ids.shape[1]:].tolist()
        for at, scores in enumerate(made.scores):
            best = scores[0].topk(2).values
            if best[0] - best[1] < NEAR * scores[0].abs().max():
                return tokens[:at], True
        return tokens, False

    def text_of(self, tokens, prompt=""):
        """What they add to the prompt's text."""
        before = self.tokens_of(prompt).input_ids[0].tolist() if prompt else []
        text = self.tokenizer.decode(before + tokens, skip_special_tokens=True)
        return text[len(self.tokenizer.decode(before, skip_special_tokens=True)):]


WORLD = NODE = None


def start_node():
    """Of the whole module; to be called as its setUpModule()."""
    global WORLD, NODE
    torch.manual_seed(7)
    cluster.PROGRAMS["gpunode"] = os.path.abspath(peer.PROBE)
    WORLD = cluster.World()
    unittest.addModuleCleanup(WORLD.close)
    NODE = WORLD.start("a", "up", "--http", "127.0.0.1:0", "--device", "cpu")


def client():
    """One that tries nothing twice, so that each refusal is seen."""
    made = openai.OpenAI(base_url=NODE.info["http"], api_key="none", max_retries=0,
                         timeout=cluster.TIMEOUT)
    unittest.addModuleCleanup(made.close)
    return made
