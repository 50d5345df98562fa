"""Models of Hugging Face's transformers, tiny and with random weights, against ours: what transformers
writes is read by us, scores and gradients are the same, and what we write is read by transformers.

Tolerances: peer.py. About 40 s, of which half is Python importing its libraries.
usage: transformers_test.py PEER_PROBE [TEST...]
"""
import peer
from peer import SCORES, randomised, relative

import numpy
import torch
import transformers

SAMPLES = 3


def tokens_of(config, positions):
    generator = torch.Generator().manual_seed(9)
    return torch.randint(config.vocab_size, (SAMPLES, positions + 1), generator=generator)


class Model(peer.Peer):
    def probe(self, model, samples):
        """Ours on the raw samples: scores, loss, {name: gradient}."""
        model.save_pretrained(self.folder / "theirs")
        return self.asked(self.folder / "theirs", samples)

    def expect_read_back(self, model):
        again = type(model).from_pretrained(self.folder / "export")
        self.assertEqual(again.state_dict().keys(), model.state_dict().keys())
        for name, tensor in model.state_dict().items():
            self.assertTrue(torch.equal(tensor, again.state_dict()[name]), name)
        return again.eval()

    def causal(self, model):
        """All that is said of a model that predicts the next token."""
        model = randomised(model)
        config = model.config
        tokens = tokens_of(config, config.max_position_embeddings)
        raw = tokens.to(torch.uint8 if config.vocab_size <= 256 else torch.int32).numpy().tobytes()
        scores, loss, gradients = self.probe(model, raw)
        theirs = model(tokens[:, :-1]).logits
        self.assertLess(relative(scores.view(theirs.shape), theirs), SCORES)
        reference = torch.nn.functional.cross_entropy(theirs.flatten(0, 1), tokens[:, 1:].flatten(),
                                                      reduction="sum")
        self.assertLess(abs(loss / reference.item() - 1), SCORES)
        reference.backward()
        self.expect_gradients(model, gradients)
        again = self.expect_read_back(model)
        self.assertTrue(torch.equal(again(tokens[:, :-1]).logits, theirs))


class Gpt2(Model):
    def config(self, **changes):
        return transformers.GPT2Config(**{"n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 24,
                                          "vocab_size": 300, **changes})

    def test_is_ours(self):
        self.causal(transformers.GPT2LMHeadModel(self.config()))

    def test_over_bytes_and_with_a_narrow_network(self):
        self.causal(transformers.GPT2LMHeadModel(self.config(vocab_size=120, n_inner=64)))

    def test_without_its_head_has_shorter_names(self):
        model = randomised(transformers.GPT2LMHeadModel(self.config()))
        samples = tokens_of(model.config, 24).to(torch.int32).numpy().tobytes()
        whole = self.probe(model, samples)[0]
        self.assertTrue(torch.equal(self.probe(model.transformer, samples)[0], whole))


class Llama(Model):
    def settings(self, **changes):
        return {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
                "hidden_size": 32, "intermediate_size": 88, "max_position_embeddings": 24,
                "vocab_size": 300, **changes}

    def test_with_grouped_queries_is_ours(self):
        self.causal(transformers.LlamaForCausalLM(transformers.LlamaConfig(**self.settings())))

    def test_with_tied_weights_another_base_and_epsilon(self):
        config = transformers.LlamaConfig(**self.settings(
            tie_word_embeddings=True, rms_norm_eps=3e-5, vocab_size=99,
            rope_parameters={"rope_type": "default", "rope_theta": 500000.0}))
        self.causal(transformers.LlamaForCausalLM(config))

    def test_qwen2_has_biases_of_queries_keys_and_values(self):
        self.causal(transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**self.settings())))

    def test_mistral_without_a_window_is_a_llama(self):
        config = transformers.MistralConfig(**self.settings(sliding_window=None))
        model = randomised(transformers.MistralForCausalLM(config))
        tokens = tokens_of(config, 24)
        scores = self.probe(model, tokens.to(torch.int32).numpy().tobytes())[0]
        theirs = model(tokens[:, :-1]).logits
        self.assertLess(relative(scores.view(theirs.shape), theirs), SCORES)

    def test_in_bf16_is_read_too(self):
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**self.settings()))
        model = randomised(model).to(torch.bfloat16)
        tokens = tokens_of(model.config, 24)
        scores = self.probe(model, tokens.to(torch.int32).numpy().tobytes())[0]
        read = transformers.LlamaForCausalLM.from_pretrained(self.folder / "theirs",
                                                             dtype=torch.float32)
        theirs = read.eval()(tokens[:, :-1]).logits
        self.assertLess(relative(scores.view(theirs.shape), theirs), SCORES)


class Bert(Model):
    def config(self, **changes):
        return transformers.BertConfig(**{
            "num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 32,
            "intermediate_size": 48, "max_position_embeddings": 24, "vocab_size": 300, **changes})

    def input(self, name):
        return torch.from_numpy(
            numpy.fromfile(self.folder / f"input.{name}", dtype=numpy.int32)).long()

    def samples(self, vocabulary, padding, separator):
        """Two segments each, the last samples with more and more padding."""
        generator = torch.Generator().manual_seed(3)
        tokens = torch.randint(104 if vocabulary > 257 else 1, vocabulary, (5, 24),
                               generator=generator)
        tokens[:, 7] = separator
        for sample in range(1, 5):
            tokens[sample, 24 - 4 * sample:] = padding
        return tokens

    def expect_the_same(self, config, separator):
        model = randomised(transformers.BertForMaskedLM(config))
        tokens = self.samples(config.vocab_size, config.pad_token_id, separator)
        raw = tokens.to(torch.uint8 if config.vocab_size <= 257 else torch.int32).numpy().tobytes()
        scores, loss, gradients = self.probe(model, raw)
        shown, segments = self.input("tokens").view(5, 24), self.input("segments").view(5, 24)
        targets, lengths = self.input("targets").view(5, 24), self.input("lengths")
        self.assertEqual(lengths.tolist(), [24, 20, 16, 12, 8])
        self.assertEqual(torch.where(targets >= 0, targets, shown).tolist(), tokens.tolist())
        self.assertEqual(segments[0].tolist(), [0] * 8 + [1] * 16)
        real = torch.arange(24) < lengths[:, None]
        theirs = model(input_ids=shown, token_type_ids=segments, attention_mask=real.long()).logits
        self.assertLess(relative(scores.view(theirs.shape)[real], theirs[real]), SCORES)
        self.assertGreater((targets >= 0).sum(), 5)
        reference = torch.nn.functional.cross_entropy(theirs.flatten(0, 1), targets.flatten(),
                                                      ignore_index=-1, reduction="sum")
        self.assertLess(abs(loss / reference.item() - 1), SCORES)
        reference.backward()
        self.expect_gradients(model, gradients)
        self.expect_read_back(model)

    def test_with_segments_padding_and_hidden_tokens_is_ours(self):
        self.expect_the_same(self.config(), separator=102)

    def test_with_another_padding_and_epsilon(self):
        self.expect_the_same(self.config(pad_token_id=9, layer_norm_eps=1e-5), separator=102)


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    peer.main(transformers)
