"""Templates drawn at random from a seed, out of what chat templates use: expressions mostly of kinds that
fit together, statements around them, and white space wherever Jinja has a rule for it."""
import random

MORE = {
    "name": "World", "empty": "", "odd": " \u00e9t\u00e9 \u4f60\u597d \U0001f600\n\tx ", "n": 7, "zero": 0, "f": 2.5, "big": 1e16,
    "yes": True, "no": False, "nothing": None,
    "words": ["beta", "Alpha", "gamma", "alpha"], "numbers": [3, 1, 2, 3], "mixed": [1, "a", None, 2.5, True],
    "nested": [[1, 2], [3], []], "pairs": [[1, "one"], [2, "two"]],
    "user": {"name": "Ann", "age": 31, "tags": ["x", "y"], "items": "own", "deep": {"a": {"b": [10, 20]}}},
    "none_dict": {},
    "people": [{"name": "Bo", "age": 5, "on": True}, {"name": "al", "age": 30, "on": False},
               {"name": "Cy", "age": 5}],
}
MESSAGES = [{"role": "system", "content": " Be brief. "}, {"role": "user", "content": "Hi <there>\n"},
            {"role": "assistant", "content": "Hello 'you'", "tool_calls": []},
            {"role": "user", "content": "Bye"}]
TEXTS = ["", "a", "abc", " x ", "a-b-c", "Hello World", "line\\nline", "\\u00e9", "it\\'s", "a,b,,c", "%s!", "ab ab"]


class Grammar:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.names = []  # set by the template itself
        self.wildness = 1.0  # how often an expression is of any kinds, where it may be

    def pick(self, *choices):
        choice = self.rng.choice(choices)
        return choice() if callable(choice) else choice

    def expression_order(self):
        form = self.pick("{{ %s }}", "{{ (%s)|string }}", "{{- %s -}}", "{{ [%s] }}", "{{ (%s)|tojson }}",
                         "{{ %s }}|{{ (%s) is defined }}", "{%% if %s %%}yes{%% else %%}no{%% endif %%}")
        value = self.any(self.rng.randint(1, 4))
        return {"template": form.replace("%s", value).replace("%%", "%"), "more": MORE,
                "messages": MESSAGES}

    # Expressions of a kind; `d`: how deep they may go on.
    def any(self, d):
        wild = self.wild if self.rng.random() < self.wildness else self.text
        return self.rng.choice([self.text, self.integer, self.list, self.dict, self.flag, self.text,
                                self.number, wild, self.made])(d)

    def made(self, d):
        return self.rng.choice(self.names) if self.names else self.text(d)

    def wild(self, d):
        """Of any kinds, whether they fit together or not."""
        if d <= 0:
            return self.pick("missing", "nothing", "n", "name", "words", "user", "none", "f", "yes")
        a, b = self.any(d - 1), self.any(d - 1)
        return self.pick(
            f"({a}) {self.pick('+', '-', '*', '~', '==', '!=', '<', '<=', '>', '>=', 'in', 'not in', 'and', 'or')} ({b})",
            f"({a})[{b}]", f"({a}).{self.pick('name', 'items', 'x', 'keys', 'append', 'upper', 'pop', '0')}",
            f"({a})|{self.filter_name()}", f"({a}) is {self.test_name()}", f"({a})|default({b})",
            f"({a}) if ({b})", f"({a})|first", f"({a})|last|default('none')", f"not ({a})", f"-({a})",
            f"({a})|map('upper')|list", f"({a})|join({b})", f"({a})({b})", f"({a})[{self.integer(0)}:{b}]",
            f"({a}) % ({b})", f"({a}) // ({b})", f"({a}) / ({b})", f"({a})|int", f"({a})|float",
            f"({a})|select|list", f"({a})|unique|list", f"({a})|sort", f"({a})|reverse|list",
            f"({a})|items|list", f"({a})|dictsort", f"({a})|replace({b}, 'z')", f"({a})|round",
            f"({a})|tojson(indent={self.pick('2', '4', 'none')})", f"({a})|indent")

    def filter_name(self):
        return self.rng.choice(["trim", "upper", "lower", "length", "count", "list", "tojson", "string", "title",
                                "capitalize", "int", "float", "reverse", "abs", "join", "indent", "first", "last",
                                "items", "d", "unique", "sort", "safe"])

    def test_name(self):
        return self.rng.choice(["defined", "undefined", "none", "string", "mapping", "iterable", "sequence",
                                "number", "integer", "float", "boolean", "true", "false", "callable", "odd",
                                "even", "not none", "not defined", "lower", "upper", "eq 1", "equalto 'a'",
                                "in [1, 'a']", "ne none", "gt 2", "divisibleby 3", "not string", "sameas true"])

    def literal_text(self):
        quote = self.rng.choice("'\"")
        return quote + self.rng.choice(TEXTS).replace("\\'", "\\" + quote) + quote

    def text(self, d):
        if d <= 0:
            return self.pick(self.literal_text, "name", "odd", "empty", "user.name", "messages[0].content",
                             "messages[1]['content']", "words[0]", "user['name']", "bos_token")
        t, u = (lambda: self.text(d - 1)), (lambda: self.text(self.rng.randint(0, d - 1)))
        return self.pick(
            lambda: f"{t()} ~ {self.any(d - 1)}", lambda: f"({t()} + {u()})", lambda: f"({t()}).strip()",
            lambda: f"({t()}).{self.pick('lstrip', 'rstrip', 'strip')}({u()})", lambda: f"({t()})|trim",
            lambda: f"({t()}).split({u()})[{self.pick('0', '-1', '1')}]",
            lambda: f"({t()}).{self.pick('upper', 'lower', 'title', 'capitalize')}()",
            lambda: f"({t()})|{self.pick('upper', 'lower', 'title', 'capitalize', 'string', 'length', 'list')}",
            lambda: f"({t()}).replace({u()}, {u()})", lambda: f"({t()})|replace({u()}, {u()})",
            lambda: f"({t()})[{self.bounds(d - 1)}]", lambda: f"({t()})|default({u()}, true)",
            lambda: f"({self.list(d - 1)})|join({u()})", lambda: f"({u()}).join(words)",
            lambda: f"({t()} if {self.flag(d - 1)} else {u()})", lambda: f"({self.any(d - 1)})|tojson",
            lambda: f"({self.any(d - 1)})|tojson({self.json_options()})", lambda: f"({t()}) * {self.pick('0', '2', '3')}",
            lambda: f"({t()})|indent({self.pick('2', 'first=true', 'width=3, blank=true', '')})",
            lambda: f"({t()}).{self.pick('removeprefix', 'removesuffix')}({u()})",
            lambda: f"'%s' % ({self.any(d - 1)})", lambda: f"'%s-%d'|format({u()}, {self.integer(d - 1)})",
            lambda: f"strftime_now({self.pick(chr(39) + '%d %b %Y' + chr(39), chr(39) + '%B %-d, %H:%M:%S %p %A' + chr(39))})",
            lambda: f"({t()})[{self.integer(0)}]", lambda: f"({t()})|reverse", lambda: f"({t()})|{self.pick('first', 'last')}",
            lambda: f"({self.list(d - 1)})|{self.pick('first', 'last')}", lambda: f"({t()}).splitlines()|join('|')",
            lambda: f"({t()}).{self.pick('split', 'rsplit')}({self.pick('', 'none, 1', chr(39) + 'a' + chr(39) + ', 1', 'maxsplit=1')})")

    def json_options(self):
        return self.pick("indent=2", "indent=4", "ensure_ascii=true", "sort_keys=true", "separators=(',', ':')",
                         "indent=1, separators=(',', '=')", "false, 2", "indent='>'", "indent=0")

    def bounds(self, d):
        part = (lambda: self.pick("", "1", "-1", "0", "-2", lambda: self.integer(d)))
        return self.pick(lambda: f"{part()}:{part()}", lambda: f"{part()}:{part()}:{self.pick('', '1', '-1', '2', '-2')}",
                         "::-1", "1:", ":-1")

    def integer(self, d):
        if d <= 0:
            return self.pick("0", "1", "2", "-1", "10", "n", "zero", "numbers[1]", "user.age", "1_000", "42")
        i, j = (lambda: self.integer(d - 1)), (lambda: self.integer(self.rng.randint(0, d - 1)))
        return self.pick(
            lambda: f"({i()} {self.pick('+', '-', '*', '//', '%')} {j()})", lambda: f"({i()} ** {self.pick('2', '0', '3')})",
            lambda: f"({self.any(d - 1)})|length", lambda: f"-{i()}", lambda: f"({self.text(d - 1)})|int",
            lambda: f"({self.text(d - 1)})|int({j()})", lambda: f"({self.number(d - 1)})|int", lambda: f"({i()})|abs",
            lambda: f"({self.list(d - 1)})[{self.pick('0', '-1', '1')}]", lambda: f"({self.text(d - 1)}).count({self.text(0)})",
            lambda: f"({self.text(d - 1)}).{self.pick('find', 'rfind')}({self.text(0)})",
            lambda: f"({i()} if {self.flag(d - 1)} else {j()})")

    def number(self, d):
        if d <= 0:
            return self.pick("f", "1.5", "0.1", "2.0", "1e3", "1e-7", "123456.789", "big", "3.0e20", "n")
        x = (lambda: self.number(d - 1))
        return self.pick(
            lambda: f"({x()} {self.pick('+', '-', '*', '/', '//', '%')} {self.rng.choice([self.number, self.integer])(d - 1)})",
            lambda: f"({self.integer(d - 1)} / {self.pick('3', '4', '7', 'n')})", lambda: f"({x()})|round",
            lambda: f"({x()})|round({self.pick('1', '2', '0')})", lambda: f"({x()})|round(method={self.pick(repr('ceil'), repr('floor'))})",
            lambda: f"({self.text(d - 1)})|float", lambda: f"({x()} ** {self.pick('2', '0.5', '-1')})", lambda: f"-({x()})",
            lambda: f"({self.pick(repr('1.50'), repr(' 7 '), repr('1e2'), repr('-3'), repr('1_0'), repr('x'), repr('+5'), repr('.5'))})|{self.pick('int', 'float')}")

    def flag(self, d):
        if d <= 0:
            return self.pick("true", "false", "True", "no", "yes", "missing", "nothing is none", "name is string",
                             "add_generation_prompt", "tools", "words")
        a, b = (lambda: self.flag(d - 1)), (lambda: self.any(d - 1))
        return self.pick(
            lambda: f"({a()} {self.pick('and', 'or')} {a()})", lambda: f"(not {a()})",
            lambda: f"({b()}) is {self.test_name()}", lambda: f"({b()} {self.pick('==', '!=')} {b()})",
            lambda: f"({self.integer(d - 1)} {self.pick('<', '<=', '>', '>=')} {self.integer(d - 1)})",
            lambda: f"({self.text(d - 1)} {self.pick('<', 'in', 'not in', '>=')} {self.text(d - 1)})",
            lambda: f"({self.integer(0)} < {self.integer(d - 1)} {self.pick('<=', '!=', '<')} {self.integer(0)})",
            lambda: f"({b()}) {self.pick('in', 'not in')} ({self.list(d - 1)})",
            lambda: f"({self.text(d - 1)}) {self.pick('in', 'not in')} ({self.dict(d - 1)})",
            lambda: f"({self.text(d - 1)}).{self.pick('startswith', 'endswith')}({self.pick(lambda: self.text(0), lambda: '(' + self.text(0) + ', ' + self.text(0) + ')')})")

    def list(self, d):
        if d <= 0:
            return self.pick("words", "numbers", "mixed", "nested", "people", "messages", "user.tags", "[]", "()",
                             "[1, 2]", "('a', 'b')", "(1,)", "range(3)", "['b', 'A', 'c']", "pairs")
        x = (lambda: self.list(d - 1))
        return self.pick(
            lambda: f"[{self.any(d - 1)}, {self.any(d - 1)}]", lambda: f"({x()})[{self.bounds(d - 1)}]",
            lambda: f"({x()} + {x()})", lambda: f"({x()})|list", lambda: f"({x()})|sort", lambda: f"words|sort(reverse=true)",
            lambda: f"words|sort(case_sensitive=true)", lambda: f"people|sort(attribute={self.pick(repr('age'), repr('name'), repr('age,name'))})",
            lambda: f"({x()})|unique|list", lambda: f"({x()})|reverse|list", lambda: f"people|map(attribute={self.pick(repr('name'), repr('on'), repr('name.0'))})|list",
            lambda: f"people|map(attribute='on', default={self.any(d - 1)})|list", lambda: f"({x()})|map({self.pick(repr('upper'), repr('string'), repr('length'), repr('trim'), repr('default') + ', 1')})|list",
            lambda: f"({x()})|{self.pick('select', 'reject')}({self.pick('', repr('string'), repr('equalto') + ', 1', repr('in') + ', [1, 2]', repr('none'), repr('gt') + ', 1', repr('==') + ', ' + repr('a'))})|list",
            lambda: f"people|{self.pick('selectattr', 'rejectattr')}({self.pick(repr('on'), repr('on') + ', ' + repr('defined'), repr('age') + ', ' + repr('equalto') + ', 5', repr('name') + ', ' + repr('in') + ', [' + repr('Bo') + ']')})|map(attribute='name')|list",
            lambda: f"messages|selectattr('role', 'equalto', {self.pick(repr('user'), repr('system'), repr('x'))})|list",
            lambda: f"({self.dict(d - 1)}).{self.pick('keys', 'values', 'items')}(){self.pick('', '|list')}",
            lambda: f"({self.dict(d - 1)})|items|list", lambda: f"({self.dict(d - 1)})|dictsort{self.pick('', '(reverse=true)', '(by=' + repr('value') + ')', '(true)')}",
            lambda: f"({self.text(d - 1)}).split({self.pick('', repr(','), repr(' '), repr('a'))})",
            lambda: f"range({self.pick('2', '1, 4', '5, 0, -2', 'n')}){self.pick('', '|list', '[1:]', '[::-1]')}",
            lambda: f"({x()} * {self.pick('0', '2')})", lambda: f"({self.any(d - 1)}, {self.any(d - 1)})",
            lambda: f"({x()} if {self.flag(d - 1)} else {x()})")

    def dict(self, d):
        if d <= 0:
            return self.pick("user", "none_dict", "{}", "{'a': 1}", "people[0]", "messages[2]", "{1: 'x', 'b': none}")
        return self.pick(
            lambda: f"{{{self.text(0)}: {self.any(d - 1)}, {self.text(0)}: {self.any(d - 1)}}}", "user.deep", "user['deep'].a",
            lambda: f"dict(a={self.any(d - 1)})", lambda: f"dict({self.dict(d - 1)}, z={self.any(0)})", "dict(pairs)",
            lambda: f"({self.dict(d - 1)} if {self.flag(d - 1)} else {self.dict(d - 1)})",
            lambda: f"{{'k': {self.any(d - 1)}}}", lambda: f"({self.dict(d - 1)}).get({self.text(0)}, {{}})",
            lambda: f"namespace(a={self.any(d - 1)})")

    # Templates: statements with white space and marks for it.
    def template_order(self):
        self.names, self.wildness = [], 0.1
        body = self.body(self.rng.randint(1, 3), self.rng.randint(1, 5))
        if self.rng.random() < 0.2:
            body = body.replace("\n", "\r\n")
        order = {"template": body, "more": MORE, "messages": MESSAGES, "prompt": self.rng.random() < 0.5,
                 "tokens": {"bos_token": "<s>", "eos_token": "</s>"}}
        self.names = []
        return order

    def body(self, d, count):
        return "".join(self.data() + self.statement(d) for _ in range(count)) + self.data()

    def data(self):
        return self.rng.choice(["", "", "", " ", "\n", "\n\n", "  \n", "\n  ", "text", "<|im_start|>", " x\n ", "\t", "{ x }",
                                "a\n\n  b ", "\u00a0", "}} %}", "\n{# note #}\n", "  {#- note -#}  ", "{#+ x +#}\n"])

    def tag(self, inside):
        begin, end = self.rng.choice(["", "", "", "-", "-", "+"]), self.rng.choice(["", "", "", "-", "-", "+"])
        space = self.rng.choice([" ", " ", " ", "\n  ", ""])
        if inside[0] in "-+" or not space:
            space = " "
        return "{%" + begin + space + inside + " " + end + "%}"

    def shown(self, value):
        begin, end = self.rng.choice(["", "", "-"]), self.rng.choice(["", "", "-"])
        return "{{" + begin + " " + value + " " + end + "}}"

    def name(self):
        name = self.rng.choice(["x", "y", "z", "name", "n", "total"])
        if name not in self.names:
            self.names.append(name)
        return name

    def statement(self, d):
        if d <= 0:
            return self.shown(self.any(self.rng.randint(0, 2)))
        return self.rng.choice([self.condition, self.loop, self.set, self.set_block, self.macro,
                                self.namespace, self.loop, self.condition, lambda _: self.shown(self.any(2)),
                                self.generation])(d)

    def condition(self, d):
        made = self.tag("if " + self.flag(2)) + self.body(d - 1, 1)
        for _ in range(self.rng.randint(0, 2)):
            made += self.tag("elif " + self.flag(1)) + self.body(d - 1, 1)
        if self.rng.random() < 0.5:
            made += self.tag("else") + self.body(d - 1, 1)
        return made + self.tag("endif")

    def loop(self, d):
        several = self.rng.random() < 0.25
        target = "a, b" if several else self.rng.choice(["item", "x", "m"])
        source = self.pick("pairs", "user.items()", "user|items", "user.deep|dictsort", "nested") if several else \
            self.pick(lambda: self.list(1), lambda: self.list(2), "messages", "people|selectattr('on')", "name", "user")
        made = f"for {target} in {source}"
        if self.rng.random() < 0.25:
            made += " if " + (self.flag(1) if several else self.pick(f"{target} is string", f"{target}", lambda: self.flag(1)))
        names, self.names = self.names, self.names + target.split(", ")
        inside = self.body(d - 1, self.rng.randint(1, 2))
        for _ in range(self.rng.randint(0, 2)):
            inside += self.shown("loop." + self.rng.choice(
                ["index", "index0", "first", "last", "length", "revindex", "revindex0", "previtem", "nextitem",
                 "depth", "other", "previtem is defined", "nextitem is undefined"]))
        if self.rng.random() < 0.2:
            inside += self.tag("if loop.index " + self.rng.choice(["> 1", "== 2", "is odd"])) + \
                self.tag(self.rng.choice(["break", "continue"])) + self.tag("endif") + self.data()
        inside += self.shown(target.split(", ")[-1])
        self.names = names
        if self.rng.random() < 0.2:
            inside += self.tag("else") + self.body(d - 1, 1)
        return self.tag(made) + inside + self.tag("endfor")

    def set(self, d):
        value = self.any(2)
        if self.rng.random() < 0.15:
            return self.tag(f"set {self.name()}, {self.name()} = {self.pick('pairs', '1, 2', value)}")
        return self.tag(f"set {self.name()} = {value}")

    def set_block(self, d):
        inside = self.body(d - 1, 1)
        return self.tag(f"set {self.name()}") + inside + self.tag("endset")

    def generation(self, d):
        return self.tag("generation") + self.body(d - 1, 1) + self.tag("endgeneration")

    def macro(self, d):
        names = self.names
        self.names = ["p", "q"]
        inside = self.body(d - 1, 1) + self.shown(self.any(1)) + self.shown("p")
        self.names = names
        signature = self.rng.choice(["p, q", "p, q=1", "p='a', q=name", "p=none, q=p"])
        call = self.pick(lambda: f"m({self.any(1)})", lambda: f"m({self.any(0)}, {self.any(0)})", lambda: f"m(q={self.any(0)}, p=1)",
                         "m()", "m(1)|trim", "m(1, r=2)", "m(1, 2, 3)")
        return self.tag(f"macro m({signature})") + inside + self.tag("endmacro") + self.data() + self.shown(call)

    def namespace(self, d):
        values = self.any(1), self.any(1)
        made = self.tag(f"set ns = namespace(a={values[0]}, found=false)") + self.data()
        made += self.tag(f"for item in {self.list(1)}") + self.tag(f"set ns.a = {self.pick('loop.index', 'item', values[1], 'ns.a ~ item')}")
        made += self.tag("endfor")
        return made + self.shown(self.pick("ns.a", "ns.found", "ns.missing", "ns", "ns['a']"))
