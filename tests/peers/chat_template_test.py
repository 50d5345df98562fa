"""Chat templates rendered by Jinja, set up as transformers has it, against ours: templates in the style of
the families that models have, each on many conversations, and templates drawn at random from a grammar.
The same text, or both refuse; what ours alone refuses is counted, and must say that it is not known.

About a minute. GPUNODE_CHAT_SEED draws others, GPUNODE_CHAT_COUNT so many.
usage: chat_template_test.py CHAT_TEMPLATE_PROBE [TEST...]
"""
import datetime
import functools
import json
import os
import subprocess
import sys
import unittest

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

import chat_families
import chat_grammar

PROBE = sys.argv.pop(1)
SEED = int(os.environ.get("GPUNODE_CHAT_SEED", "1"))
COUNT = int(os.environ.get("GPUNODE_CHAT_COUNT", "5000"))
NOW = datetime.datetime(2025, 2, 27, 9, 5, 7)


class Generation(jinja2.ext.Extension):
    """{% generation %}, as transformers has it for masks of what is trained on."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("answered"), [], [], body).set_lineno(line)

    def answered(self, caller):
        return caller()


def environment():
    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def strftime_now(format):
        return NOW.strftime(format)
    made.filters["tojson"] = tojson
    made.globals.update(raise_exception=raise_exception, strftime_now=strftime_now)
    return made


ENVIRONMENT = environment()


@functools.lru_cache
def compiled(text):
    return ENVIRONMENT.from_string(text)


def theirs(order):
    """The rendering, or the exception."""
    order = json.loads(json.dumps(order))  # Jinja's `indent` changes a list that it is given
    try:
        template = compiled(order["template"])
        return template.render(
            messages=order.get("messages"), tools=order.get("tools"), documents=order.get("documents"),
            add_generation_prompt=order.get("prompt", False), **order.get("tokens", {}),
            **order.get("more", {})), None
    except Exception as error:  # whatever a template does in Python
        return None, error


def ours(orders):
    done = subprocess.run([PROBE], capture_output=True, text=True, check=True,
                          input="".join(json.dumps(order) + "\n" for order in orders))
    return [json.loads(line) for line in done.stdout.split("\n")[:-1]]


class TheSameText(unittest.TestCase):
    def compare(self, orders):
        """How many were equal, refused by both, and refused by ours alone as not known."""
        equal = both = alone = 0
        mistakes = []
        answers = ours(orders)
        self.assertEqual(len(answers), len(orders))
        for order, answer in zip(orders, answers):
            text, error = theirs(order)
            if error is None and answer.get("text") == text:
                equal += 1
            elif error is not None and "error" in answer:
                both += 1
            elif error is None and (answer.get("code") in ("unsupported", "resource_exhausted")
                                    or "slice" in answer.get("error", "")):
                # A slice of constants that makes no sense is undefined in Jinja, which folds them.
                alone += 1
                if "-v" in sys.argv:
                    print("alone:", ascii(order["template"]), answer["error"])
            else:
                mistakes.append(f"{order['template']!a}\n  theirs {text!a} {error!a}\n  ours {answer}")
        print(f"{self.id()}: {equal} equal, {both} refused by both, {alone} by ours alone, "
              f"{len(mistakes)} differ")
        self.assertEqual(mistakes[:20], [])
        return equal, both, alone

    def test_families(self):
        orders = list(chat_families.orders())
        equal, both, alone = self.compare(orders)
        self.assertEqual(alone, 0)
        self.assertGreater(equal, 2 * both)

    def test_expressions_drawn_at_random(self):
        draw = chat_grammar.Grammar(SEED)
        equal, _, alone = self.compare([draw.expression_order() for _ in range(COUNT)])
        self.assertGreater(equal, COUNT // 2)
        self.assertLess(alone, COUNT // 20)

    def test_templates_drawn_at_random(self):
        draw = chat_grammar.Grammar(SEED + 1_000_000)
        equal, _, alone = self.compare([draw.template_order() for _ in range(COUNT // 2)])
        self.assertGreater(equal, COUNT // 4)
        self.assertLess(alone, COUNT // 20)


if __name__ == "__main__":
    unittest.main()
