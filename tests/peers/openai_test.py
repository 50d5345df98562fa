"""Texts and chats that a real node serves, asked for by OpenAI's own client, against those that
transformers' generate() gives from the same folder: greedy ones token for token.

Models are tiny, with random weights and a tokenizer that is trained here. Where the best two scores of a
step are nearer than rounding, a text is compared up to there. About a minute, half of it imports.
usage: openai_test.py GPUNODE [TEST...]
"""
import json
import pathlib
import unittest

import peer

import openai
import torch
import transformers
from transformers import (MistralConfig, MistralForCausalLM, Qwen2Config,
                          Qwen2ForCausalLM)

import served_models
from served_models import NEW_TOKENS, Served, client
from small_models import (CONTEXT, LINES, LONG, MIXED, SHORT, VOCABULARY, gpt2, llama,
                          pieces_of_sentences, trained_tokenizer)

setUpModule = served_models.start_node


class SameTexts(unittest.TestCase):
    """Greedy ones, token for token."""

    @classmethod
    def setUpClass(cls):
        cls.ask = client()

    def setUp(self):
        torch.manual_seed(7)

    def ours(self, served, prompt, count, **options):
        return self.ask.completions.create(model=served.name, prompt=prompt, max_tokens=count,
                                           temperature=0, **options)

    def expect_the_same(self, served, prompt, tokens, **options):
        answer = self.ours(served, prompt, len(tokens), **options)
        self.assertEqual(answer.choices[0].text, served.text_of(tokens, prompt))
        ended = tokens[-1] == served.model.config.eos_token_id
        self.assertEqual(answer.choices[0].finish_reason, "stop" if ended else "length")
        self.assertEqual(answer.usage.prompt_tokens, served.tokens_of(prompt).input_ids.shape[1])
        self.assertEqual(answer.usage.completion_tokens, len(tokens))

    def expect_texts(self, served):
        prompts = [SHORT, MIXED, served.fitting(LONG, CONTEXT // 2),
                   served.fitting(LONG, CONTEXT - NEW_TOKENS)]
        compared, seen = 0, set()
        for prompt in prompts:
            with self.subTest(model=served.name, prompt=prompt[:20]):
                tokens, _ = served.continued(prompt)
                compared += len(tokens)
                seen.update(tokens)
                if tokens:
                    self.expect_the_same(served, prompt, tokens)
        self.assertGreater(compared, len(prompts) * NEW_TOKENS // 2, "hangs on rounding too often")
        self.assertGreater(len(seen), 12, "says too little to compare")
        # A text says which tokens it is of where each beginning of it is the same too.
        tokens, _ = served.continued(MIXED)
        for count in range(1, len(tokens), 3):
            with self.subTest(model=served.name, count=count):
                self.expect_the_same(served, MIXED, tokens[:count])

    def test_of_gpt2(self):
        self.expect_texts(Served("gpt2", gpt2()))

    def test_of_a_gpt2_with_a_narrow_network_in_bf16(self):
        served = Served("gpt2-bf16", gpt2(n_inner=96, n_head=2), dtype=torch.bfloat16)
        self.assertEqual(json.loads((served.folder / "config.json").read_text())["dtype"], "bfloat16")
        self.expect_texts(served)

    def test_of_llama_with_grouped_queries_in_several_files(self):
        served = Served("llama", llama(), tokenizer=trained_tokenizer("<|begin|>"), max_shard_size="60KB")
        self.assertGreater(len(list(served.folder.glob("model-*.safetensors"))), 2)
        self.assertTrue((served.folder / "model.safetensors.index.json").exists())
        self.expect_texts(served)

    def test_of_a_llama_2_go_on_with_a_space_where_a_word_begins(self):
        model = llama(eos_token_id=2)
        with torch.no_grad():
            model.lm_head.weight[3:3 + 256] = 0  # bytes that make no character have no one text
        served = Served("llama-2", model, tokenizer=pieces_of_sentences())
        self.expect_texts(served)
        prompt, text = "", ""
        for word in LINES[0].split():  # until a text begins with a word
            prompt = f"{prompt} {word}".lstrip()
            tokens, _ = served.continued(prompt)
            text = served.text_of(tokens, prompt)
            if text.startswith(" "):
                break
        self.assertEqual(text[:1], " ")
        answer = self.ours(served, prompt, len(tokens), echo=True)
        self.assertEqual(answer.choices[0].text, prompt + text)

    def test_of_a_tied_llama_in_bf16_of_another_base(self):
        self.expect_texts(Served(
            "llama-tied", dtype=torch.bfloat16, tokenizer=trained_tokenizer("<|begin|>"), model=llama(
                tie_word_embeddings=True, num_key_value_heads=1, rms_norm_eps=3e-5,
                rope_parameters={"rope_type": "default", "rope_theta": 500000.0})))

    def test_of_mistral(self):
        self.expect_texts(Served("mistral", llama(MistralConfig, MistralForCausalLM,
                                                  sliding_window=None)))

    def test_of_mistral_in_fp16_whose_window_is_its_context(self):
        self.expect_texts(Served("mistral-window", dtype=torch.float16, model=llama(
            MistralConfig, MistralForCausalLM, sliding_window=CONTEXT)))

    def test_of_qwen2_with_more_scores_than_tokens(self):
        self.expect_texts(Served("qwen2", llama(Qwen2Config, Qwen2ForCausalLM,
                                                vocab_size=VOCABULARY + 56)))

    def test_of_a_tied_qwen2(self):
        self.expect_texts(Served("qwen2-tied", llama(Qwen2Config, Qwen2ForCausalLM,
                                                     tie_word_embeddings=True, seed=6)))

    def test_that_end_by_themselves(self):
        served = Served("ending", gpt2(seed=8))
        prompt = served.fitting(LONG, 40)
        tokens, _ = served.continued(prompt)
        end = next(token for at, token in enumerate(tokens) if at > 5 and token not in tokens[:at])
        served.model.generation_config.eos_token_id = [end, 3]
        served.model.save_pretrained(served.folder)
        served.name = "ended"
        served.serve()
        tokens, cut = served.continued(prompt)
        self.assertEqual((tokens[-1], cut), (end, False))
        answer = self.ours(served, prompt, NEW_TOKENS)
        self.assertEqual(answer.choices[0].text, served.text_of(tokens[:-1]))
        self.assertEqual(answer.choices[0].finish_reason, "stop")
        self.assertEqual(answer.usage.completion_tokens, len(tokens))

    def test_with_a_penalty_of_repetitions(self):
        served = Served("penalised", llama(seed=11))
        plain, _ = served.continued(MIXED)
        tokens, _ = served.continued(MIXED, repetition_penalty=1.7)
        self.assertGreater(len(tokens), 8)
        self.assertNotEqual(tokens, plain[:len(tokens)])
        self.expect_the_same(served, MIXED, tokens, extra_body={"repetition_penalty": 1.7})

    def test_of_an_untied_gpt2_are_refused_with_the_reason(self):
        folder = pathlib.Path(served_models.WORLD.path("models")) / "untied"
        gpt2(tie_word_embeddings=False).save_pretrained(folder)
        trained_tokenizer().save_pretrained(folder)
        done = served_models.NODE.ask("serve", str(folder), "--name", "untied")
        self.assertNotEqual(done.code, 0)
        self.assertIn("tie_word_embeddings", done.err + done.out)


TEMPLATE = """{%- if messages[0].role != 'system' %}<|system|>
Be brief.
{% endif %}
{%- for message in messages %}<|{{ message['role'] }}|>
{{ message['content'] | trim }}
{% endfor %}
{%- if add_generation_prompt %}<|assistant|>
{% endif %}"""
CHAT = [{"role": "user", "content": "  What does 我能吞下玻璃 mean? "},
        {"role": "assistant", "content": "It is a sentence."},
        {"role": "user", "content": "Which?"}]


class Chats(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        tokenizer = trained_tokenizer()
        tokenizer.chat_template = TEMPLATE
        cls.served = Served("chatty", llama(Qwen2Config, Qwen2ForCausalLM), tokenizer)
        cls.client = client()

    def test_are_the_texts_of_their_template(self):
        served = self.served
        prompt = served.tokenizer.apply_chat_template(CHAT, tokenize=False, add_generation_prompt=True)
        tokens, cut = served.continued(prompt)
        expected = served.text_of(tokens)
        told = self.client.chat.completions.create(
            model="chatty", messages=CHAT, temperature=0, max_completion_tokens=NEW_TOKENS)
        text = told.choices[0].message.content
        self.assertEqual(text[:len(expected)] if cut else text, expected)
        self.assertEqual(told.usage.prompt_tokens, served.tokens_of(prompt).input_ids.shape[1])
        self.assertEqual(told.choices[0].message.role, "assistant")

    def test_come_in_pieces_too(self):
        asked = {"model": "chatty", "messages": CHAT, "seed": 3, "max_completion_tokens": NEW_TOKENS}
        whole = self.client.chat.completions.create(**asked).choices[0].message.content
        chunks = list(self.client.chat.completions.create(stream=True, **asked))
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertEqual("".join(one.choices[0].delta.content or "" for one in chunks), whole)
        self.assertEqual(chunks[-1].choices[0].finish_reason, "length")

    def test_are_refused_where_the_model_has_no_template(self):
        Served("mute", llama(Qwen2Config, Qwen2ForCausalLM))
        with self.assertRaises(openai.BadRequestError) as refused:
            self.client.chat.completions.create(model="mute", messages=CHAT)
        self.assertIn("no chat template", refused.exception.body["message"])


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    peer.main(transformers, openai)
