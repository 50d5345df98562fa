"""Texts that a real node serves, asked for by OpenAI's own client, against those that transformers'
generate() gives from the same folder: greedy ones token for token, drawn ones by their chances; and what
such clients rely on beside the texts: streams, seeds, ends, errors, going away, many at once.

Models are tiny, with random weights and a tokenizer that is trained here. Where the best two scores of a
step are nearer than rounding, a text is compared up to there. About a minute, half of it imports.
usage: openai_test.py GPUNODE [TEST...]
"""
import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import peer

import numpy
import openai
import torch
import transformers
from tokenizers import (AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors, trainers)
from transformers import (GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, MistralConfig,
                          MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "process"))
import cluster

CONTEXT = 160
VOCABULARY = 512
NEW_TOKENS = 32
NEAR = 2 * peer.SCORES  # so near, relative to the largest score, two of them may change places
LINES = ["The quick brown fox jumps over the lazy dog, and doesn't look back; 1234567890 times.",
         "Съешь ещё этих мягких французских булок, да выпей чаю.",
         "我能吞下玻璃而不伤身体。いろはにほへと ちりぬるを。",
         "ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश।",
         "نص حكيم له سر قاطع وذو شأن عظيم", "가나다라마바사 아자차카타파하 🙂🚀👩‍👩‍👧",
         "def f(x):\n    return x ** 2  # square\n\n\nprint(f(3))"]
SHORT, MIXED, LONG = "The", "Don't! Съешь 我能吞下玻璃 ऋषियों 🙂\n\n  x = 3.14  ", " ".join(LINES * 3)


def trained_tokenizer(begin=None):
    """Byte-level pairs; with `begin`, that token stands before every text, as Llama 3 has it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>"] + ([begin] if begin else [])
    tokenizer.train_from_iterator(LINES * 20, trainers.BpeTrainer(
        vocab_size=VOCABULARY, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=special, show_progress=False))
    assert tokenizer.get_vocab_size() == VOCABULARY
    if begin:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{begin} $A", pair=f"{begin} $A {begin} $B",
            special_tokens=[(begin, tokenizer.token_to_id(begin))])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|endoftext|>", bos_token=begin,
        clean_up_tokenization_spaces=False)


def pieces_of_sentences():
    """As Llama 2's: words begin with their space, a text loses its first one, and characters that
    have no token are bytes."""
    trained = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    trained.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="always")
    special = ["<unk>", "<s>", "</s>"]
    trained.train_from_iterator(LINES * 20, trainers.BpeTrainer(
        vocab_size=VOCABULARY, limit_alphabet=90, show_progress=False,
        special_tokens=special + [f"<0x{byte:02X}>" for byte in range(256)]))
    settings = json.loads(trained.to_str())
    settings.update(pre_tokenizer=None, added_tokens=[])
    tokenizer = Tokenizer.from_str(json.dumps(settings))
    tokenizer.add_special_tokens([AddedToken(text, normalized=False) for text in special])
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"),
                                                 normalizers.Replace(" ", "\u2581")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(),
                                           decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>",
        clean_up_tokenization_spaces=False)


def lively(model, seed):
    """The model with weights so large that its texts do not say one token for ever."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.25 * torch.randn(parameter.shape, generator=generator)
    return model.eval()


def gpt2(seed=5, **changes):
    return lively(GPT2LMHeadModel(GPT2Config(**{
        "n_layer": 2, "n_head": 4, "n_embd": 48, "n_positions": CONTEXT, "vocab_size": VOCABULARY,
        "bos_token_id": 0, "eos_token_id": 0, **changes})), seed)


def llama(config=LlamaConfig, model=LlamaForCausalLM, seed=5, **changes):
    return lively(model(config(**{
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "hidden_size": 48, "intermediate_size": 112, "max_position_embeddings": CONTEXT,
        "vocab_size": VOCABULARY, "bos_token_id": 1, "eos_token_id": 0, **changes})), seed)


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


def setUpModule():
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
        folder = pathlib.Path(WORLD.path("models")) / "untied"
        gpt2(tie_word_embeddings=False).save_pretrained(folder)
        trained_tokenizer().save_pretrained(folder)
        done = NODE.ask("serve", str(folder), "--name", "untied")
        self.assertNotEqual(done.code, 0)
        self.assertIn("tie_word_embeddings", done.err + done.out)


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
        with self.assertRaises(openai.NotFoundError) as caught:
            self.ask.chat.completions.create(model="m", messages=[{"role": "user", "content": "a"}])
        self.assertIn("/v1/completions", caught.exception.message)
        for field, value in {"temperature": 3, "top_p": -1, "max_tokens": 0, "n": 1000,
                             "presence_penalty": 9, "logprobs": 5, "best_of": 4,
                             "suffix": "x", "prompt": [1, 2]}.items():
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
             NODE.info["http"] + "/completions", "-H", "Content-Type: application/json",
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
        taken = [cpu_seconds(NODE.process.pid)]

        def idle():
            taken.append(cpu_seconds(NODE.process.pid))
            return taken[-1] - taken[-2] < 0.1  # a fifth of a core
        cluster.wait_until(idle, "the node is idle", every=0.5)

    def failures(self):
        lines = NODE.ask("metrics").out.splitlines()
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
