"""The shape of the house: what stands in it is used, small enough to be read, and as its map says.

Modules have files and name only what they include; public functions have callers, and types users;
files, functions and classes keep their measure; the walks in the head of CMakeLists.txt can be
walked; words that were given up stay away. What may be otherwise, and why, is in exceptions.py.
usage: shape_rules.py ROOT | shape_rules.py --self-test
"""
import collections
import os
import re
import sys
import tempfile

import exceptions
import house_rules
import layering
import outline
import source_tree

FILE_LINES = 450
FUNCTION_LINES = 70
CLASS_FIELDS = 40
WALK_FILES = (16, 12)  # a gradient's, and that of `generate`
FACE = "actors/node/node.hpp"  # its callers are other people's programs
TEXTS = source_tree.CODE_ENDINGS + (".fbs", ".md", ".py", ".sh", ".txt", ".cmake")
# The history, the rules themselves and what was released keep the words of their time.
OWN_WORDS = ("CHANGELOG.md", "tests/house/")


class Findings:
    """Findings, and which exceptions were needed."""

    def __init__(self, allowed):
        self.list, self.allowed, self.needed = [], allowed, set()

    def add(self, table, key, finding):
        if key in self.allowed.get(table, {}):
            self.needed.add((table, key))
        else:
            self.list.append(finding)

    def stale(self):
        for table, keys in self.allowed.items():
            for key in sorted(set(keys) - {k for t, k in self.needed if t == table}):
                self.list.append(f"tests/house/exceptions.py:1: {table} has no need of {key} any more")


def check_lengths(findings, root):
    for path in source_tree.files(root, house_rules.TOP_FOLDERS, house_rules.TEXT_ENDINGS):
        count = len(source_tree.lines(root, path))
        if count > FILE_LINES:
            findings.add("LONG_FILES", path, f"{path}:{count}: no file over {FILE_LINES} lines: look "
                                             "for the second concept")


def check_measures(findings, path, drawn):
    for function in drawn.functions:
        if function.lines > FUNCTION_LINES:
            findings.add("LONG_FUNCTIONS", f"{path}:{function.name}",
                         f"{path}:{function.line}: {function.name} has {function.lines} lines; "
                         f"no function over {FUNCTION_LINES}")


def check_fields(findings, drawn):
    """A field that is a struct counts as the struct's fields, if nothing else holds one like it. What
    a class is given when it is made, its options and specs, is no state of its own."""
    entries = [(path, entry) for path, one in drawn.items() for entry in one.classes]
    holders = collections.defaultdict(list)
    for path, entry in entries:
        for field in entry.held:
            for word in set(re.findall(r"\b[A-Z]\w*(?=[\s&*]+\w+$)", field)):
                holders[word].append((entry, field))
    structs = collections.defaultdict(list)
    for _, entry in entries:
        structs[entry.name.split("::")[-1]].append(entry)

    def whole(entry):
        count = entry.fields
        for name, held in holders.items():
            mine = [field for holder, field in held if holder is entry]
            values = [field for _, field in held if not re.search(r"[&*]\s*\w+$", field)]
            if name.endswith(("Options", "Spec")):
                continue
            if mine and len(values) == 1 and len(structs[name]) == 1 and structs[name][0].plain and \
                    values[0] in mine and structs[name][0] is not entry:
                count += whole(structs[name][0]) - 1
        return count
    for path, entry in entries:
        if (count := whole(entry)) > CLASS_FIELDS:
            findings.add("WIDE_CLASSES", f"{path}:{entry.name}",
                         f"{path}:{entry.line}: {entry.name} has {count} fields, counted through structs "
                         f"that only it holds; no class over {CLASS_FIELDS}")


def check_callers(findings, sources, drawn):
    """Every function that a header declares is named in some other source, or twice in its own, where
    one is its definition."""
    once, twice = collections.defaultdict(set), collections.defaultdict(set)
    for path, text in sources.items():
        if not path.startswith("tests/"):
            for word, times in collections.Counter(re.findall(r"\b[a-z]\w*\b", text)).items():
                (twice if times > 1 else once)[word].add(path)
    for path in sources:
        if not path.startswith(layering.LAYERS) or not path.endswith(".hpp") or path == FACE:
            continue
        source = path[:-len("hpp")] + "cpp"
        for one in {one.name: one for one in reversed(drawn[path].declared)}.values():
            itself = {path} if one.inline else {path, source}
            if twice[one.name] or once[one.name] - itself:
                continue
            findings.add("CALLED_BY_TESTS", f"{path}:{one.name}",
                         f"{path}:{one.line}: nobody but tests calls {one.name}")


def check_users(findings, sources, drawn):
    """Every type that a header declares is named by some other source, or by its own besides itself."""
    words = {path: set(re.findall(r"\b[A-Z]\w*\b", text)) for path, text in sources.items()}
    for path in sources:
        if not path.startswith(layering.LAYERS) or not path.endswith(".hpp") or path == FACE:
            continue
        for one in drawn[path].classes:
            name = one.name.split("::")[-1]
            itself = rf"(?<!struct )(?<!class )(?<!~)\b{name}\b(?!\(|& operator|&&?( \w+)?\) =)"
            if not re.search(itself, sources[path]) and not any(
                    name in known for other, known in words.items() if other != path):
                findings.list.append(f"{path}:{one.line}: nobody names {name}")


def check_modules(findings, root):
    brackets, _ = layering.read_brackets(root)
    used = collections.defaultdict(set)
    paths = source_tree.files(root, layering.LAYERS)

    def take(mine, path):
        for _, quoted, name in source_tree.includes(root, path):
            theirs = layering.owner(name, brackets)
            if quoted and theirs:
                used[mine].add(brackets[theirs][0])
            elif quoted and name in paths:  # a layer's own page: who includes it needs what it needs
                take(mine, name)
    for path in paths:
        if mine := layering.owner(path, brackets):
            take(mine, path)
    for folder, (name, depends, _) in brackets.items():
        place = f"{folder.split('/')[0]}/CMakeLists.txt:1"
        if not any(path.startswith(folder + "/") for path in paths):
            findings.list.append(f"{place}: module {name} has no files")
            continue
        for below in sorted(depends - used[folder] - {"schemas"}):
            findings.list.append(f"{place}: {name} names {below} and includes nothing of it")


def walks_of(text):
    """Each walk's steps as (file, arrow, file); a walk ends with its paragraph."""
    for comment in re.findall(r"^# The walk.*?\n((?:# [^\n]*\n)+)", text, flags=re.M):
        words = re.findall(r"->|~\w+~>|(?:[\w]+/)+\w+\.[ch]pp", comment)
        yield [(words[i - 1], words[i], words[i + 1]) for i in range(1, len(words) - 1)
               if ">" in words[i] and ">" not in words[i - 1] + words[i + 1]]


def within_folder(root, path):
    """The file, its own header, and the headers of its folder that these include."""
    folder = "/".join(path.split("/")[:2]) + "/"
    open_files, seen = [path, re.sub(r"\.cpp$", ".hpp", path)], []
    while open_files:
        one = open_files.pop()
        if one in seen or not os.path.exists(os.path.join(root, one)):
            continue
        seen.append(one)
        open_files += [name for _, quoted, name in source_tree.includes(root, one)
                       if quoted and name.startswith(folder)]
    return seen


def check_walks(findings, root):
    with open(os.path.join(root, "CMakeLists.txt"), encoding="utf-8") as stream:
        walks = list(walks_of(stream.read()))
    if len(walks) != len(WALK_FILES) or not all(walks):
        findings.list.append("CMakeLists.txt:1: the head tells the walks of a gradient and of `generate`")
    for steps, limit in zip(walks, WALK_FILES):
        check_walk(findings, root, steps, limit)


def check_walk(findings, root, steps, limit):
    place = "CMakeLists.txt:1"
    files = {name for one, _, other in steps for name in (one, other)}
    if len(files) > limit:
        findings.list.append(f"{place}: the walk has {len(files)} files, at most {limit}")
    for name in sorted(files):
        if not os.path.exists(os.path.join(root, name)):
            findings.list.append(f"{place}: the walk names {name}, which does not exist")
    for one, arrow, other in steps:
        if not all(os.path.exists(os.path.join(root, name)) for name in (one, other)):
            continue
        if arrow == "->":
            header = re.sub(r"\.cpp$", ".hpp", other)
            near = within_folder(root, one)
            if header not in near and not any(name == header for path in near for _, _, name in
                                              source_tree.includes(root, path)):
                findings.list.append(f"{place}: the walk goes from {one} to {other}, which it does "
                                     "not include")
            continue
        word = re.compile(rf"\b{arrow[1:-2]}\b")
        for name in (one, other):
            if not word.search("\n".join(source_tree.lines(root, name))):
                findings.list.append(f"{place}: on the walk, {name} knows no {arrow[1:-2]}")


def check_words(findings, root, words):
    tops = source_tree.CODE_FOLDERS + ("schemas", "cmake")
    paths = source_tree.files(root, tops, TEXTS) + ["README.md", "CMakeLists.txt"]
    for word, instead in words.items():
        retired = re.compile(rf"(?<![A-Za-z0-9]){word}(?:e?s)?(?![A-Za-z0-9])", re.I if word.islower() else 0)
        for path in paths:
            if path.startswith(OWN_WORDS) or not os.path.exists(os.path.join(root, path)):
                continue
            if retired.search(path):
                findings.list.append(f"{path}:1: '{word}' is retired: {instead}")
            for number, line in enumerate(source_tree.lines(root, path), 1):
                if retired.search(line):
                    findings.list.append(f"{path}:{number}: '{word}' is retired: {instead}")


def check(root, allowed, words):
    findings = Findings(allowed)
    sources, drawn = {}, {}
    for path in source_tree.files(root):
        with open(os.path.join(root, path), encoding="utf-8") as stream:
            text = stream.read()
        drawn[path] = outline.outline(text)
        check_measures(findings, path, drawn[path])
        # Macros call too, comments do not.
        sources[path] = re.sub(r"//[^\n]*", "", text)
    check_lengths(findings, root)
    check_fields(findings, drawn)
    check_callers(findings, sources, drawn)
    check_users(findings, sources, drawn)
    check_modules(findings, root)
    check_walks(findings, root)
    check_words(findings, root, words)
    findings.stale()
    return findings.list, len(sources)


def tables():
    return {name: getattr(exceptions, name) for name in
            ("LONG_FILES", "LONG_FUNCTIONS", "WIDE_CLASSES", "CALLED_BY_TESTS")}


HEADER = "#pragma once\nnamespace a {\nint twice(int x);\n}\n"
CLEAN = {
    "CMakeLists.txt": "# The map.\n#\n# The walk from main:\n"
                      "#   tools/gpunode/main.cpp -> runtime/base/a.cpp ~Bytes~>\n"
                      "#   runtime/view/b.cpp\n#\n# The walk of `generate`:\n"
                      "#   tools/gpunode/main.cpp -> runtime/base/a.hpp\nproject(x)\n",
    "runtime/CMakeLists.txt": "gpunode_module(base FOLDER base)\n"
                              "gpunode_module(view FOLDER view DEPENDS base)\n",
    "runtime/base/a.hpp": HEADER,
    "runtime/base/a.cpp": '#include "runtime/base/a.hpp"\nint a::twice(int x) { return 2 * x; }\n'
                          "struct Bytes {};\n",
    "runtime/view/b.hpp": "struct Wide {\n  int a;\n};\n",
    "runtime/view/b.cpp": '#include "runtime/base/a.hpp"\nint b = a::twice(1); Bytes none;\n',
    "tools/gpunode/main.cpp": '#include "tools/gpunode/face.hpp"\nint main() {}\n',
    "tools/gpunode/face.hpp": '#include "runtime/base/a.hpp"\n',
    "tests/unit/a_test.cpp": "int x = spare() + shown();\nWide a;\nOuter b;\nS c;\n",
}
LONG = "int f() {\n" + "  g();\n" * FUNCTION_LINES + "}\n"
WIDE = "class Wide {\n" + "".join(f"  std::map<int, int> m{i}_;\n" for i in range(CLASS_FIELDS)) + \
       "  std::function<void(int)> last_ = nullptr;\n  void no_field(int a, int b);\n};\n"
SEEDED = [
    ({"runtime/view/b.cpp": CLEAN["runtime/view/b.cpp"] + "int x;\n" * FILE_LINES}, "no file over"),
    ({"runtime/view/b.cpp": CLEAN["runtime/view/b.cpp"] + LONG}, "f has 72 lines"),
    ({"runtime/view/b.hpp": WIDE}, "Wide has 41 fields"),
    ({"runtime/view/b.hpp": "struct Inner {\n" + "  int x;\n" * CLASS_FIELDS + "};\n"
      "class Outer {\n  Inner inner_;\n  int more_;\n};\n"}, "Outer has 41 fields"),
    ({"runtime/base/a.hpp": HEADER + "int spare();\n"}, "nobody but tests calls spare"),
    ({"runtime/base/a.hpp": HEADER + "struct S {\n  int spare() const { return 1; }\n};\n"},
     "nobody but tests calls spare"),
    ({"runtime/base/a.hpp": HEADER + "class Spare final {\n  Spare(const Spare&) = delete;\n};\n"},
     "nobody names Spare"),
    ({"runtime/CMakeLists.txt": CLEAN["runtime/CMakeLists.txt"] +
      "gpunode_module(http FOLDER http)\n"}, "http has no files"),
    ({"runtime/CMakeLists.txt": CLEAN["runtime/CMakeLists.txt"].replace("base)\n", "base DEPENDS view)\n", 1)},
     "base names view"),
    ({"CMakeLists.txt": "# The map.\nproject(x)\n"}, "the head tells"),
    ({"CMakeLists.txt": CLEAN["CMakeLists.txt"].replace("base/a.cpp", "base/z.cpp")}, "not exist"),
    ({"tools/gpunode/face.hpp": "\n"}, "does not include"),
    ({"CMakeLists.txt": CLEAN["CMakeLists.txt"].replace("Bytes", "Chunks")}, "knows no Chunks"),
    ({"runtime/view/b.cpp": CLEAN["runtime/view/b.cpp"] + "// an old_word\n"}, "'old_word' is"),
    ({"runtime/view/old_word.cpp": "int y;\n"}, "'old_word' is"),
]
SHAPES = {  # what the scanner must not take for what it is not
    "struct A {\n  A() : a_{1}, b_(2) {}\n  int a_, b_ = f(1, 2);\n  using X = int;\n};\n": ("A", 2),
    "struct B {\n  std::function<void(const int&)> on_x;\n  enum class E { x, y };\n  E e;\n"
    "  bool operator==(const B&) const = default;\n};\n": ("B", 2),
}


def self_test():
    allowed = {"CALLED_BY_TESTS": {"runtime/view/shown.hpp:shown": "as an example"}}
    clean = {**CLEAN, "runtime/view/shown.hpp": "int shown();\n"}
    for change, words in [({}, None)] + SEEDED:
        with tempfile.TemporaryDirectory() as root:
            source_tree.write_tree(root, {**clean, **change})
            findings, _ = check(root, allowed, {"old_word": "new_word"})
            if words is None:
                assert not findings, f"the clean tree has findings: {findings}"
            else:
                assert findings and all(words in one for one in findings), f"{words}: {findings}"
    with tempfile.TemporaryDirectory() as root:
        source_tree.write_tree(root, CLEAN)
        findings, _ = check(root, allowed, {})
        assert len(findings) == 1 and "no need of" in findings[0], findings
    for text, (name, fields) in SHAPES.items():
        found = [entry.fields for entry in outline.outline(text).classes if entry.name == name]
        assert found == [fields], f"{name}: {found}"
    print(f"{len(SEEDED) + 1} seeded violations found")


if __name__ == "__main__":
    if sys.argv[1] == "--self-test":
        self_test()
    else:
        found, count = check(sys.argv[1], tables(), exceptions.RETIRED_WORDS)
        source_tree.report(found, f"{count} files")
