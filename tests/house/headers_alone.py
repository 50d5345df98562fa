"""Every header compiles alone, in whatever order it is included.

A header whose own .cpp includes it before anything else is proved by the build, so that order is
checked here and costs nothing; only the other headers are given to the compiler.
usage: headers_alone.py ROOT JOBS COMPILER [COMPILER ARGUMENTS...] | headers_alone.py --self-test
"""
import concurrent.futures
import os
import subprocess
import sys
import tempfile

import source_tree

BUILT = ("runtime/", "kernels/", "actors/")


def own_source(root, header):
    """The .cpp that the build compiles beside a header, or None."""
    source = header[:-len(".hpp")] + ".cpp"
    built = header.startswith(BUILT) and header.count("/") in (2, 3)
    return source if built and os.path.exists(os.path.join(root, source)) else None


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
    findings, alone = [], []
    headers = [h for h in source_tree.files(root, endings=(".hpp",)) if not h.startswith(exclude)]
    for header in headers:
        source = own_source(root, header)
        if source is None:
            alone.append(header)
            continue
        first = next(source_tree.includes(root, source), (1, True, "nothing"))
        if first[2] != header:
            findings.append(f"{source}:{first[0]}: its own header comes first, not {first[2]}")
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        findings += [f for f in pool.map(lambda h: compile_alone(root, h, command), alone) if f]
    return findings, f"{len(headers)} headers, {len(alone)} of them compiled here"


def self_test(command):
    good = "#pragma once\n#include <string>\ninline std::string a() { return {}; }\n"
    bad = "#pragma once\ninline std::string a() { return {}; }\n"
    cases = [({"runtime/base/a.hpp": good}, None),
             ({"runtime/base/a.hpp": bad}, "does not compile alone"),
             ({"runtime/base/a.hpp": bad, "runtime/base/a.cpp":
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
