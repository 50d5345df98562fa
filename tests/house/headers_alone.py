"""Every header compiles alone, in whatever order it is included.

A header that some built source includes before anything else is proved by the build, and a source
that has a header of its own must do so; only the other headers are given to the compiler.
usage: headers_alone.py ROOT JOBS COMPILER [COMPILER ARGUMENTS...] | headers_alone.py --self-test
"""
import concurrent.futures
import os
import subprocess
import sys
import tempfile

import source_tree

BUILT = ("runtime/", "kernels/", "actors/", "tests/unit/")


def first_include(root, source):
    """(line, name) of a source's first include."""
    first = next(source_tree.includes(root, source), None)
    return (first[0], first[2]) if first else (1, "nothing")


def compile_alone(root, header, command):
    """A finding, or None: the header as the only include of an otherwise empty file."""
    done = subprocess.run(command + ["-fsyntax-only", "-I", root, "-include",
                                     os.path.join(root, header), "-x", "c++", os.devnull],
                          capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr)
    return f"{header}:1: does not compile alone: {first}"


def check(root, jobs, command, exclude=()):
    findings, proved = [], set()
    headers = [h for h in source_tree.files(root, endings=(".hpp",)) if not h.startswith(exclude)]
    for source in source_tree.files(root, endings=(".cpp",)):
        if not source.startswith(BUILT) or source.startswith(exclude):
            continue
        own = source[:-len(".cpp")] + ".hpp"
        line, first = first_include(root, source)
        proved.add(first)
        if own in headers and first != own:
            findings.append(f"{source}:{line}: its own header comes first, not {first}")
    alone = [header for header in headers if header not in proved]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        findings += [f for f in pool.map(lambda h: compile_alone(root, h, command), alone) if f]
    return findings, f"{len(headers)} headers, {len(alone)} of them compiled here"


def self_test(command):
    good = "#pragma once\n#include <string>\ninline std::string a() { return {}; }\n"
    bad = "#pragma once\ninline std::string a() { return {}; }\n"
    cases = [({"runtime/base/a.hpp": good}, None),
             ({"runtime/base/a.hpp": bad}, "does not compile alone"),
             ({"runtime/base/a.hpp": good, "runtime/base/a.cpp":
               "#include <string>\n#include \"runtime/base/a.hpp\"\n"}, "comes first"),
             ({"runtime/base/a.hpp": good, "runtime/base/a.cpp":
               "// head\n#include \"runtime/base/a.hpp\"\n"}, None)]
    for tree, words in cases:
        with tempfile.TemporaryDirectory() as root:
            source_tree.write_tree(root, tree)
            findings, _ = check(root, 1, command)
            assert len(findings) == (words is not None), findings
            assert words is None or words in findings[0], findings
    print(f"{len(cases)} seeded trees judged as they should be")


if __name__ == "__main__":
    if sys.argv[1] == "--self-test":
        self_test(sys.argv[2:])
    else:
        found, told = check(sys.argv[1], int(sys.argv[2]), sys.argv[3:],
                            exclude=("kernels/cuda/",))
        source_tree.report(found, told)
