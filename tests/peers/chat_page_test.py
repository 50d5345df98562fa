"""The chat page of the HTTP front in a real browser: Debian's chromium, led by playwright. Skipped with a line
where the machine has none.
usage: chat_page_test.py GPUNODE [TEST...]
"""
import json
import os
import shutil
import sys
import unittest

BROWSER = shutil.which("chromium")
if not BROWSER:
    print("skipped: no chromium here (apt-get install chromium)")
    sys.exit(77)

import peer

import transformers
from playwright.sync_api import expect, sync_playwright

import served_models
from served_models import Served, cluster
from small_models import gpt2, trained_tokenizer

TEMPLATE = """{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"""
HARM = """<img src=x onerror="document.title='harmed'"><script>document.title='harmed'</script>"""
CODE = "Look:\n```python\nprint('<b>')\n```\nDone."

setUpModule = served_models.start_node


def endless(**changes):
    """A model whose texts end nowhere by themselves."""
    model = gpt2(eos_token_id=None, **changes)
    model.generation_config.eos_token_id = None
    return model


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        chatty = trained_tokenizer()
        chatty.chat_template = TEMPLATE
        Served("chatty", endless(), chatty)
        Served("plain", endless())
        slow = trained_tokenizer()
        slow.chat_template = TEMPLATE
        Served("slow", endless(n_layer=4, n_embd=384, n_positions=512), slow)
        cls.playwright = sync_playwright().start()
        cls.addClassCleanup(cls.playwright.stop)
        cls.browser = cls.playwright.chromium.launch(executable_path=BROWSER,
                                                     args=["--no-sandbox"])
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        self.complaints = []
        self.open()

    def tearDown(self):
        self.assertEqual(self.complaints, [], "of the browser")

    def open(self, node=None, path="/", **options):
        """In a browser that knows nothing yet."""
        url = (node or served_models.NODE).info["http"].removesuffix("/v1") + path
        context = self.browser.new_context(**options)
        self.addCleanup(context.close)
        context.set_default_timeout(1000 * cluster.TIMEOUT)
        self.page = context.new_page()
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", lambda said: self.complaints.append(said.text)
                     if said.type == "error" and "401" not in said.text
                     and "501" not in said.text and "400" not in said.text else None)
        self.page.goto(url)

    def choose(self, model, tokens=24):
        expect(self.page.locator(f"#model option[value={model}]")).to_be_attached()
        self.page.get_by_label("Model").select_option(model)
        if not self.page.get_by_label("Most tokens").is_visible():
            self.page.get_by_text("Settings").click()
        self.page.get_by_label("Most tokens").fill(str(tokens))
        self.page.get_by_label("Seed").fill("3")

    def say(self, text):
        self.page.get_by_label("Message").fill(text)
        self.page.get_by_label("Message").press("Enter")

    def answer(self, number=-1):
        return self.page.locator("article.assistant .text").nth(number)

    def expect_said(self, text):
        expect(self.page.get_by_role("status")).to_contain_text(text)

    def texts_as(self, text):
        """Has whatever is asked for from now on answered by this text: by the server, in its stream."""
        def ask(route):
            body = json.loads(route.request.post_data)
            body.update(guided_choice=[text], max_tokens=400)
            route.continue_(post_data=json.dumps(body))
        self.page.route("**/v1/chat/completions", ask)

    def test_lists_models_and_streams_an_answer_that_can_be_had_again(self):
        for path in ("/", "/chat"):
            self.open(path=path)
            self.choose("chatty")
        self.assertEqual(self.page.locator("#model option").all_inner_texts(),
                         ["chatty", "plain", "slow"])
        self.say("Hello")
        self.expect_said("as long as it may be")
        first = self.answer().text_content()
        self.assertTrue(first)
        expect(self.page.locator("article.user .text")).to_have_text("Hello")
        self.page.get_by_role("button", name="Retry").click()
        self.expect_said("as long as it may be")
        expect(self.page.locator("article.assistant")).to_have_count(1)
        self.assertEqual(self.answer().text_content(), first, "the same seed")
        asked = []
        self.page.on("request", lambda request: asked.append(request.post_data))
        self.page.get_by_label("System prompt").fill("Be brief")
        self.say("Again")
        expect(self.page.locator("article.assistant")).to_have_count(2)
        self.expect_said("as long as it may be")
        sent = json.loads(asked[0])
        self.assertEqual([one["role"] for one in sent["messages"]],
                         ["system", "user", "assistant", "user"])
        self.assertEqual((sent["seed"], sent["temperature"], sent["stream"]), (3, 0.7, True))
        self.page.get_by_role("button", name="New chat").click()
        expect(self.page.locator("article")).to_have_count(0)

    def test_shows_the_text_while_it_comes_and_stops_it(self):
        for stop in (lambda: self.page.get_by_role("button", name="Stop").click(),
                     lambda: self.page.keyboard.press("Escape")):
            self.open()
            self.choose("slow", 65536)
            self.say("Hello")
            expect(self.answer()).not_to_be_empty()
            self.assertTrue(self.page.get_by_role("button", name="Stop").is_visible())
            stop()
            self.expect_said("Stopped")
            expect(self.page.get_by_role("button", name="Stop")).to_be_hidden()
            there = self.answer().text_content()
            self.page.wait_for_timeout(300)
            self.assertEqual(self.answer().text_content(), there, "nothing comes any more")

    def test_shows_html_of_a_model_and_of_a_person_as_text(self):
        self.choose("chatty")
        self.texts_as(HARM)
        self.say(HARM)
        expect(self.answer()).to_have_text(HARM)
        expect(self.page.locator("article.user .text")).to_have_text(HARM)
        self.assertEqual(self.page.locator("main img, main script").count(), 0)
        self.assertEqual(self.page.title(), "gpunode chat")

    def test_shows_code_as_code_and_as_text(self):
        self.choose("chatty")
        self.texts_as(CODE)
        self.say("Code?")
        expect(self.answer().locator("pre")).to_have_text("print('<b>')\n")
        self.assertEqual(self.answer().locator("b").count(), 0)

    def test_has_a_model_without_a_template_continue_the_text_and_says_so(self):
        self.choose("plain")
        self.say("The quick")
        self.expect_said("has no chat template")
        self.assertTrue(self.answer().text_content())

    def test_tells_what_the_server_refuses(self):
        self.choose("chatty")
        self.page.get_by_label("Temperature").fill("7")
        self.say("Hello")
        self.expect_said("temperature")
        expect(self.page.locator("article.assistant .bad")).to_contain_text("temperature")

    def test_asks_for_a_key_where_one_is_wanted_and_keeps_it_for_its_tab(self):
        made = served_models.WORLD.run("http-key", "create", "bob", "--state",
                                       served_models.WORLD.state("k"))
        self.assertEqual(made.code, 0, str(made))
        node = served_models.WORLD.start("k", "up", "--http", "127.0.0.1:0", "--device", "cpu")
        self.addCleanup(node.kill)
        self.open(node)
        for key, said in (("wrong", "not known here"), (made.out.strip(), "No model is served yet")):
            self.page.get_by_label("API key").fill(key)
            self.page.get_by_role("button", name="Use key").click()
            self.expect_said(said)
        self.assertEqual(self.page.evaluate("localStorage.length"), 0)
        self.page.reload()
        self.expect_said("No model is served yet")

    def test_fits_a_phone_and_runs_nothing_of_others(self):
        self.open(viewport={"width": 360, "height": 640}, color_scheme="dark")
        self.choose("chatty")
        self.say("Hello")
        self.expect_said("as long as it may be")
        self.assertLessEqual(self.page.evaluate("document.documentElement.scrollWidth"), 360)
        below = self.page.evaluate("""() => document.documentElement.scrollHeight - window.innerHeight
                                            - window.scrollY""")
        self.assertLess(below, 2, "the end of the answer is in view")
        ran = self.page.evaluate("""() => {
          const script = document.createElement('script');
          script.textContent = "document.title = 'harmed'";
          document.body.append(script);
          return document.title;
        }""")
        self.assertEqual(ran, "gpunode chat", "by the policy")
        self.assertTrue(self.complaints and "Content Security Policy" in self.complaints.pop())
        dark = self.page.evaluate("getComputedStyle(document.body).backgroundColor")
        self.assertEqual(dark, "rgb(23, 24, 26)")


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    peer.main(transformers)
