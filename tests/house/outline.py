"""The outline of a C++ file: its functions and classes, by a scanner of braces that knows no more
of the language than the house's own style needs.

It gives every function with a body (name, lines), every function that a header declares where
others can see it, and every class with the number of its fields. Macros, strings and comments are
blanked first; what it does not understand it takes for an initialiser, which is no finding.
"""
import dataclasses
import re

KEYWORDS = {"if", "for", "while", "switch", "return", "sizeof", "decltype", "requires", "noexcept",
            "alignas", "static_assert", "explicit", "operator", "new", "delete", "catch", "defined",
            "auto", "void", "bool", "int", "double", "float", "char", "throw", "default"}
NOT_A_FIELD = re.compile(r"^\s*(using|friend|typedef|static|template|enum|struct|class|union|"
                         r"extern)\b")
ACCESS = re.compile(r"\b(public|private|protected)\s*$")
CALLED = re.compile(r"([A-Za-z_]\w*)\s*$")


@dataclasses.dataclass
class Function:
    name: str
    line: int
    lines: int


@dataclasses.dataclass
class Declared:
    name: str
    line: int
    inline: bool = False


@dataclasses.dataclass
class Class:
    name: str
    line: int
    fields: int = 0
    plain: bool = False                                  # a struct: whoever holds it holds its fields
    held: list = dataclasses.field(default_factory=list)  # types of the fields, as written


@dataclasses.dataclass
class Outline:
    functions: list = dataclasses.field(default_factory=list)
    classes: list = dataclasses.field(default_factory=list)
    declared: list = dataclasses.field(default_factory=list)  # of functions that others can see


@dataclasses.dataclass
class Scope:
    kind: str  # namespace, class, function, other
    name: str = ""
    line: int = 0
    public: bool = True
    resume: str = None  # the statement that goes on behind the closing brace
    depth: int = 0      # of round brackets around the opening brace
    entry: Class = None


def blanked(text):
    """The text with comments, strings and preprocessor lines blank, each as long as before."""
    keep = lambda match: re.sub(r"[^\n]", " ", match.group(0))
    text = re.sub(r'R"(\w*)\(.*?\)\1"', keep, text, flags=re.S)
    text = re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'
                  r"(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'", keep, text, flags=re.S)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", keep, text, flags=re.M)


def without_brackets(statement):
    """The statement without what stands in angle, round and curly brackets."""
    statement = statement.replace("->", "  ").replace("operator<", "operator").replace("<=>", "")
    for pair in (r"<[^<>]*>", r"\([^()]*\)", r"\{[^{}]*\}", r"\[[^\[\]]*\]"):
        while (shorter := re.sub(pair, " ", statement)) != statement:
            statement = shorter
    return statement


def name_of(statement):
    """The name in front of the first round bracket that is not inside a template's arguments."""
    depth = 0
    for index, char in enumerate(statement):
        if char == "<" and not statement[:index].endswith("operator"):
            depth += 1
        elif char == ">" and not statement[:index].endswith("-"):
            depth -= 1
        elif char == "(" and depth <= 0:
            found = re.search(r"((?:[A-Za-z_]\w*::)*~?[A-Za-z_]\w*|operator\W+)\s*$",
                              statement[:index])
            return found.group(1) if found else ""
    return ""


def kind_of(statement, around):
    """What an opening brace behind the statement begins."""
    if around not in ("namespace", "class"):
        return "other"
    bare = without_brackets(re.sub(r"\[\[.*?\]\]", "", statement)).strip()
    if re.search(r"\bnamespace\b", bare) or bare == "extern":
        return "namespace"
    if re.search(r"\benum\b", bare):
        return "other"
    if re.search(r"(^|\s)(struct|class|union)\s", bare) and "(" not in statement.split("class")[-1]:
        return "class"
    if "(" not in statement or re.search(r"(?<![=!<>])=(?!=)", without_brackets(statement)) and \
            "operator" not in statement:
        return "other"
    behind = without_brackets(statement)
    if re.search(r"[^:]:[^:]", behind) and re.search(r"[\w>]\s*$", statement) and \
            not re.search(r"\b(const|noexcept|override|final)\s*$", statement):
        return "other"  # an initialiser in a constructor's list
    return "function"


def count_fields(statement):
    head = statement.split("=")[0]
    bare = without_brackets(head if "(" in head else statement)
    if NOT_A_FIELD.match(statement) or "operator" in statement or not bare.strip():
        return 0
    plain = re.sub(r"<[^<>]*(?:<[^<>]*(?:<[^<>]*>[^<>]*)*>[^<>]*)*>", " ", statement).split("=")[0]
    if "(" in plain or not re.search(r"\w\s+[*&]?\w", plain):
        return 0
    return 1 + bare.count(",")


class Scanner:
    def __init__(self):
        self.outline, self.stack, self.statement = Outline(), [], ""
        self.line = self.begun = 1
        self.depth = 0

    def around(self):
        return self.stack[-1].kind if self.stack else "namespace"

    def visible(self):
        return all(one.kind in ("namespace", "class") and one.public for one in self.stack)

    def open_brace(self):
        kind = kind_of(self.statement, self.around()) if self.depth == 0 else "other"
        if kind == "function" and not self.drop_override() and self.outline.declared:
            last = self.outline.declared[-1]
            last.inline = last.inline or last.name == name_of(self.statement)
        scope = Scope(kind, name_of(self.statement), self.begun, depth=self.depth)
        if kind == "class":
            found = re.search(r"\b(struct|class|union)\s+(?:\[\[.*?\]\]\s*)?([\w:]+)",
                              self.statement)
            scope.public = not found or found.group(1) != "class"
            scope.entry = Class(found.group(2) if found else "", self.begun,
                                plain=bool(found) and found.group(1) == "struct")
            self.outline.classes.append(scope.entry)
        elif kind == "namespace":
            scope.public = bool(re.search(r"namespace\s+\w", self.statement)) or \
                "extern" in self.statement
        elif kind == "other":
            scope.resume = self.statement
        self.stack.append(scope)
        self.statement, self.depth = "", 0

    def close_brace(self):
        if not self.stack:
            return
        scope = self.stack.pop()
        if scope.kind == "function":
            self.outline.functions.append(
                Function(scope.name, scope.line, self.line - scope.line + 1))
        self.depth = scope.depth
        goes_on = scope.resume is not None and (scope.depth or self.around() != "function")
        self.statement = scope.resume + "{}" if goes_on else ""

    def open_bracket(self):
        if self.depth == 0 and self.visible():
            found = CALLED.search(self.statement)
            before = self.statement[:found.start()] if found else ""
            plain = before.replace("->", "")
            if found and found.group(1) not in KEYWORDS and re.match("[a-z]", found.group(1)) \
                    and before.strip() and plain.count("<") <= plain.count(">") \
                    and not re.search(r"=|\boperator\b|\bfriend\b|::\s*$|:\s*$|,\s*$", before):
                self.outline.declared.append(Declared(found.group(1), self.line))
        self.depth += 1

    def drop_override(self):
        """Whoever calls an overriding function calls it by its base's name."""
        overrides = self.outline.declared and "override" in self.statement.split(")")[-1]
        if overrides:
            self.outline.declared.pop()
        return overrides

    def end_statement(self):
        if self.around() == "class" and self.stack[-1].entry:
            count = count_fields(self.statement)
            self.stack[-1].entry.fields += count
            if count:
                self.stack[-1].entry.held.append(self.statement.split("=")[0].strip())
        self.statement = ""

    def feed(self, char):
        if not self.statement.strip():
            self.begun = self.line
        if char == "{":
            return self.open_brace()
        if char == "}":
            return self.close_brace()
        if char == ";" and self.depth == 0:
            self.drop_override()
            return self.end_statement()
        if char == ":" and self.around() == "class" and ACCESS.search(self.statement):
            self.stack[-1].public = "public" in self.statement
            self.statement = ""
            return None
        if char == "(":
            self.open_bracket()
        elif char == ")":
            self.depth -= 1
        self.statement += char
        return None


def outline(text):
    scanner = Scanner()
    for char in blanked(text):
        scanner.feed(char)
        if char == "\n":
            scanner.line += 1
    return scanner.outline
