"""Tiny language models of transformers with random weights, and tokenizers trained on a few lines of
several scripts: what a test of texts serves and asks.
"""
import json

import torch
import transformers
from tokenizers import (AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors, trainers)
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

CONTEXT = 160
VOCABULARY = 512
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
