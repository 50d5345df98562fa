"""What the house tests share: walking the project's own sources and reporting broken rules.

Every rule yields findings `path:line: rule`; a test fails when there is one, and prints them all.
"""
import os
import re
import sys

CODE_FOLDERS = ("runtime", "kernels", "actors", "tools", "examples", "tests")
CODE_ENDINGS = (".cpp", ".hpp", ".cu", ".cuh", ".inc")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def files(root, folders=CODE_FOLDERS, endings=CODE_ENDINGS):
    """Paths relative to root, sorted, of all files with these endings; build trees are left out."""
    found = []
    for folder in folders:
        for here, below, names in os.walk(os.path.join(root, folder)):
            below[:] = sorted(d for d in below if not d.startswith((".", "build", "__pycache__")))
            found += [os.path.relpath(os.path.join(here, n), root) for n in names
                      if n.endswith(endings)]
    return sorted(found)


def lines(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as stream:
        return stream.read().splitlines()


def includes(root, path):
    """(line number, quoted?, name) of each #include."""
    for number, line in enumerate(lines(root, path), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1) == '"', match.group(2)


def report(findings, checked):
    """Prints the findings and ends the process, non-zero when there are any."""
    for finding in findings:
        print(finding)
    print(f"{checked}: {len(findings)} broken rules")
    sys.exit(1 if findings else 0)


def main(check, self_test):
    """A script's whole command line: the root of the tree to check, or --self-test."""
    if sys.argv[1] == "--self-test":
        self_test()
    else:
        found, count = check(sys.argv[1])
        report(found, f"{count} files")


def write_tree(root, content):
    """Writes {path: text} below root: the seeded trees of the self-tests."""
    for path, text in content.items():
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as stream:
            stream.write(text)
