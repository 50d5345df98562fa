"""Tokenizers of the families that models have, trained here by Hugging Face's tokenizers, against ours: on
ten thousand lines of mixed scripts the same tokens, and the same text of them again.

About 40 s. GPUNODE_TOKENIZER_SEED draws other lines.
usage: tokenizers_test.py TOKENIZER_PROBE [TEST...]
"""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors, trainers)

PROBE = sys.argv.pop(1)
LINES = 10_000
RNG = random.Random(int(os.environ.get("GPUNODE_TOKENIZER_SEED", "1")))

SCRIPTS = {
    "latin": "AZ az", "accents": "\u00c0\u024f", "greek": "\u0370\u03ff", "cyrillic": "\u0400\u052f",
    "hebrew": "\u0590\u05ff", "arabic": "\u0600\u06ff", "devanagari": "\u0900\u097f",
    "thai": "\u0e00\u0e7f", "hangul": "\uac00\ud7a3", "jamo": "\u1100\u11ff", "kana": "\u3040\u30ff",
    "han": "\u4e00\u9fff", "rare han": "\U00020000\U0002a6df", "pictures": "\U0001f300\U0001faff",
    "mathematics": "\U0001d400\U0001d7ff", "combining": "\u0300\u036f",
    "punctuation": "\u2000\u206f !/ :@ \u3000\u303f \uff00\uffef",
    "numbers": "09 \u0660\u0669 \u2150\u218b", "enclosed": "\u2460\u24ff \U0001f100\U0001f1ff",
    "anything": "\u0080\ud7ff \ue000\uffff"}
SPACES = [" "] * 8 + ["", "", "  ", "   ", "\t", "\n", "\r\n", "\u00a0", "\u3000", "\n\n", " " * 6,
                      "\u200b", "\u0085", "\u2028"]
ENGLISH = ("the and of to a in that is was he for it with as his on be at by I this had not are but from "
           "or have an they which one you were her all she there would their we him been has when who "
           "will more no if out so said what up its about into than them can only other new some could "
           "time these two may then do first any my now such like our over man me even most made after "
           "unbelievable running runner internationalisation").split()
CODE = ["def f(x):\n    return x", "don't", "I'LL", "it's", "we've", "x += 1;", "</s>", "<s>",
        "<|endoftext|>", "[MASK]", "[CLS]", "<|im_start|>user\n", "<|im_end|>", "http://a.b/c?d=e",
        "3.14159", "1,000,000", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "e\u0301", "\ufb01",
        "\u0130stanbul", "\u03a3\u0391\u03a3", "\u00df", " mask ", "na\u00efve", "<0x0A>", "\u2581",
        "a\u2581b", "<extra>", "x<extra>y"]

GPT4_WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
              r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
MIXED_CASE_WORDS = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
                    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|"
                    r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def word():
    ranges = SCRIPTS[RNG.choice(["latin"] * 6 + list(SCRIPTS))].split(" ")
    ranges = [pair for pair in ranges if len(pair) == 2]
    return "".join(chr(RNG.randint(ord(pair[0]), ord(pair[1])))
                   for pair in RNG.choices(ranges, k=RNG.randint(1, 9)))


def line():
    return "".join(RNG.choice([RNG.choice(ENGLISH), RNG.choice(ENGLISH), word(), RNG.choice(CODE)])
                   + RNG.choice(SPACES) for _ in range(RNG.randint(0, 12)))


TRAINING = [line() for _ in range(5000)]
TEXTS = [line() for _ in range(LINES)]


def byte_level(words, special=("<|endoftext|>",), normalizer=None, ignore_merges=False):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = words
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.train_from_iterator(TRAINING, trainers.BpeTrainer(
        vocab_size=3000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=list(special), show_progress=False))
    return tokenizer


def by_words(expression):
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(expression), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def surrounded(tokenizer, before):
    return processors.TemplateProcessing(
        single=f"{before} $A", pair=f"{before} $A $B",
        special_tokens=[(before, tokenizer.token_to_id(before))])


def sentence_piece(words, normalizer):
    """As Llama 2's: characters, and bytes for those it has not."""
    trained = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    trained.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="always")
    trained.train_from_iterator(TRAINING[:3000], trainers.BpeTrainer(
        vocab_size=2500, limit_alphabet=200, show_progress=False,
        special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]))
    as_file = json.loads(trained.to_str())
    as_file["pre_tokenizer"] = as_file["normalizer"] = None
    as_file["added_tokens"] = []
    tokenizer = Tokenizer.from_str(json.dumps(as_file))
    if words:
        tokenizer.pre_tokenizer = words
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.add_special_tokens([AddedToken(text, normalized=False)
                                  for text in ("<unk>", "<s>", "</s>")])
    tokenizer.add_tokens(["<extra>"])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(),
                                           decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = surrounded(tokenizer, "<s>")
    return tokenizer


def word_piece(normalizer, words):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, words
    tokenizer.train_from_iterator(TRAINING, trainers.WordPieceTrainer(
        vocab_size=3000, show_progress=False,
        special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return tokenizer


class TheSameTokens(unittest.TestCase):
    def expect_ours(self, tokenizer, streams=True):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "tokenizer.json"
            tokenizer.save(str(path))
            done = subprocess.run([PROBE, path], capture_output=True, text=True,
                                  input="".join(json.dumps(text) + "\n" for text in TEXTS))
        self.assertEqual(done.returncode, 0, done.stderr)
        answers = done.stdout.split("\n")[:-1]
        self.assertEqual(len(answers), LINES)
        for text, answer in zip(TEXTS, map(json.loads, answers)):
            ids = tokenizer.encode(text).ids
            self.assertEqual(answer.get("ids"), ids, ascii(text))
            self.assertEqual(answer["text"], tokenizer.decode(ids), ascii(text))
            self.assertEqual(answer["all"], tokenizer.decode(ids, skip_special_tokens=False),
                             ascii(text))
            if streams:
                self.assertEqual(answer["streamed"], answer["text"], ascii(text))

    def test_gpt2(self):
        self.expect_ours(byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False)))

    def test_roberta(self):
        tokenizer = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True),
                               ("<s>", "<pad>", "</s>", "<unk>"))
        tokenizer.add_special_tokens([AddedToken("[MASK]", lstrip=True)])
        tokenizer.post_processor = processors.RobertaProcessing(
            ("</s>", tokenizer.token_to_id("</s>")), ("<s>", tokenizer.token_to_id("<s>")))
        self.expect_ours(tokenizer)

    def test_llama_3(self):
        tokenizer = byte_level(by_words(GPT4_WORDS), ("<|begin|>", "<|endoftext|>"),
                               ignore_merges=True)
        tokenizer.post_processor = processors.Sequence(
            [processors.ByteLevel(trim_offsets=False), surrounded(tokenizer, "<|begin|>")])
        self.expect_ours(tokenizer)

    def test_qwen_2(self):
        tokenizer = byte_level(by_words(GPT4_WORDS.replace("{1,3}", "")),
                               normalizer=normalizers.NFC())
        tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
        tokenizer.add_tokens([AddedToken("<extra>", normalized=False, single_word=True)])
        self.expect_ours(tokenizer)

    def test_mistral(self):
        self.expect_ours(byte_level(by_words(MIXED_CASE_WORDS), ("<unk>", "<s>", "</s>"),
                                    ignore_merges=True))

    def test_llama_2(self):
        self.expect_ours(sentence_piece(None, normalizers.Sequence(
            [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])))

    def test_llama_2_in_newer_files(self):
        self.expect_ours(sentence_piece(pre_tokenizers.Metaspace(
            replacement="\u2581", prepend_scheme="first", split=False), None))

    def test_bert(self):
        self.expect_ours(word_piece(normalizers.BertNormalizer(lowercase=True),
                                    pre_tokenizers.BertPreTokenizer()), streams=False)

    def test_bert_cased(self):
        self.expect_ours(word_piece(normalizers.BertNormalizer(lowercase=False),
                                    pre_tokenizers.BertPreTokenizer()), streams=False)

    def test_word_pieces_of_normal_forms(self):
        tokenizer = word_piece(
            normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(),
                                  normalizers.Lowercase(), normalizers.Strip(),
                                  normalizers.Replace(Regex(r"\s+"), " ")]),
            pre_tokenizers.Sequence([pre_tokenizers.Whitespace(),
                                     pre_tokenizers.Digits(individual_digits=True),
                                     pre_tokenizers.Punctuation("contiguous")]))
        tokenizer.add_tokens([AddedToken("na\u00efve", normalized=True),
                              AddedToken("mask", lstrip=True, rstrip=True, single_word=True)])
        tokenizer.decoder = decoders.WordPiece(cleanup=False)
        self.expect_ours(tokenizer, streams=False)

    def test_words_that_end(self):
        tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
        tokenizer.normalizer = normalizers.NFKC()
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split("-", "merged_with_previous"),
            pre_tokenizers.Split(Regex("[.,]"), "merged_with_next")])
        tokenizer.train_from_iterator(TRAINING, trainers.BpeTrainer(
            vocab_size=3000, limit_alphabet=150, end_of_word_suffix="</w>",
            special_tokens=["<unk>"], show_progress=False))
        tokenizer.decoder = decoders.BPEDecoder()
        self.expect_ours(tokenizer, streams=False)


if __name__ == "__main__":
    unittest.main()
