"""The rules of the house that a machine can check in a file's text or name.

File-head comment, no work left over in comments, no sleeping tests, no names that say
nothing, what may stand at the top, and how long a README is.
usage: house_rules.py ROOT | house_rules.py --self-test
"""
import os
import re
import subprocess
import tempfile

import source_tree

EXAMPLE_LINES = 120
README_LINES = 40
TOP_FOLDERS = ("runtime", "kernels", "actors", "schemas", "tools", "examples", "tests", "cmake")
TOP_ENTRIES = TOP_FOLDERS + ("CMakeLists.txt", "CMakePresets.json", "README.md", "CHANGELOG.md",
                             "SECURITY.md", "LICENSE")
LEFT_OVER = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
EMPTY_NAMES = re.compile(r"(^|_)(manager|handler|util|utils|helper|helpers|common|misc)(_|\.|$)")
SLEEPS = re.compile(r"\b(sleep_for|sleep_until|usleep|nanosleep|sleep)\s*\(")
HASH_COMMENTS = (".py", ".sh", ".cmake", "CMakeLists.txt")
TEXT_ENDINGS = source_tree.CODE_ENDINGS + (".fbs", ".js", ".css", ".toml") + HASH_COMMENTS


def has_head_comment(path, text):
    """True when the first line that is not a shebang, pragma or blank begins a comment.

    A .cpp may begin with a header of ours instead, the one whose promise it keeps: that header's
    comment then is the head of both.
    """
    if path.endswith(".cpp") and text and text[0].startswith('#include "'):
        return True
    for line in text[:4]:
        if line.startswith(("#!", "#pragma once")) or not line.strip():
            continue
        if path.endswith(".py"):
            return line.startswith(('"""', "#", "'''"))
        if path.endswith(HASH_COMMENTS) or path.endswith(".toml"):
            return line.startswith("#")
        return line.startswith(("//", "/*"))
    return False


def check_file(root, path):
    text = source_tree.lines(root, path)
    if path.startswith("examples/") and len(text) >= EXAMPLE_LINES:
        yield f"{path}:{len(text)}: an example stays under {EXAMPLE_LINES} lines"
    if not has_head_comment(path, text):
        yield f"{path}:1: a file begins with a comment: what it is, why, who owns it, what it costs"
    if EMPTY_NAMES.search(os.path.basename(path)):
        yield f"{path}:1: no manager, handler, util, helper, common or misc in names"
    waits = path.startswith(("tests/unit/", "tests/sim/"))
    for number, line in enumerate(text, 1):
        if LEFT_OVER.search(line):
            yield f"{path}:{number}: no work left over in comments"
        if waits and SLEEPS.search(line):
            yield f"{path}:{number}: no sleeps in unit tests and in the simulator"
        if not waits and path.endswith(".hpp") and line.startswith("using namespace"):
            yield f"{path}:{number}: no using namespace in a header"
    if path.endswith((".hpp", ".cuh")) and "#pragma once" not in text:
        yield f"{path}:1: a header has #pragma once"


def top_entries(root):
    """What is at the top: as git sees it, so that a build tree or an editor's file is no finding."""
    asked = subprocess.run(["git", "-C", root, "ls-files"], capture_output=True, text=True,
                           check=False)
    if asked.returncode == 0 and asked.stdout:
        return sorted({line.split("/")[0] for line in asked.stdout.splitlines()})
    return sorted(name for name in os.listdir(root) if not name.startswith("build"))


def without_words(lines):
    """A folder's README without its glossary, which is as long as there are words."""
    kept, words = [], False
    for line in lines:
        words = line == "## Words" or (words and line.startswith(("One meaning", "|", "#"))) or \
            (words and not line)
        if not words:
            kept.append(line)
    return kept


def check(root):
    paths = source_tree.files(root, TOP_FOLDERS, TEXT_ENDINGS)
    findings = [finding for path in paths for finding in check_file(root, path)]
    for name in top_entries(root):
        if name not in TOP_ENTRIES and not name.startswith("."):
            findings.append(f"{name}:1: not an entry that stands at the top of the house")
    for folder in TOP_FOLDERS:
        readme = f"{folder}/README.md"
        if not os.path.exists(os.path.join(root, readme)):
            findings.append(f"{readme}:1: each top-level folder has a README")
        elif len(without_words(source_tree.lines(root, readme))) > README_LINES:
            findings.append(f"{readme}:{README_LINES + 1}: at most {README_LINES} lines")
    return findings, len(paths)


HEADER = "#pragma once\n// What it is.\n"
CLEAN = {f"{folder}/README.md": "short\n" for folder in TOP_FOLDERS}
CLEAN.update({"runtime/base/a.hpp": HEADER, "LICENSE": "x", "runtime/CMakeLists.txt": "# map\n",
              "tests/process/kill_test.cpp": "// Starts processes.\nsleep_for(x);\n",
              "runtime/base/b.cpp": '#include "runtime/base/b.hpp"\n'})
SEEDED = [
    ("examples/01_a.cpp", "// Head.\n" + "int x;\n" * EXAMPLE_LINES, "stays under"),
    ("runtime/base/a.cpp", "int x;\n", "begins with a comment"),
    ("runtime/CMakeLists.txt", "add_library(x)\n", "begins with a comment"),
    ("runtime/base/a.cpp", "// Head.\n// TO" + "DO: later\n", "left over"),
    ("tests/unit/a_test.cpp", "// Head.\nstd::this_thread::sleep_for(x);\n", "no sleeps"),
    ("tests/sim/a_test.cpp", "// Head.\nusleep (3);\n", "no sleeps"),
    ("runtime/base/a.hpp", "// Head.\nint x;\n", "#pragma once"),
    ("runtime/base/a.hpp", HEADER + "using namespace std;\n", "no using namespace"),
    ("runtime/base/string_util.hpp", HEADER, "in names"),
    ("actors/node/job_manager.cpp", "// Head.\n", "in names"),
    ("kernels/README.md", "x\n" * (README_LINES + 1), "at most"),
    ("notes/plan.md", "x\n", "at the top"),
]


def self_test():
    with tempfile.TemporaryDirectory() as root:
        source_tree.write_tree(root, CLEAN)
        findings, _ = check(root)
        assert not findings, f"the clean tree has findings: {findings}"
    for path, text, words in SEEDED:
        with tempfile.TemporaryDirectory() as root:
            source_tree.write_tree(root, {**CLEAN, path: text})
            findings, _ = check(root)
            assert len(findings) == 1, f"{path}: {findings}"
            assert words in findings[0], f"{path}: {findings}"
    print(f"{len(SEEDED)} seeded violations found")


if __name__ == "__main__":
    source_tree.main(check, self_test)
