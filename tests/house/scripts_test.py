"""The scripts that a person runs first: they refuse what they do not know, and stay runnable.

usage: scripts_test.py ROOT
"""
import glob
import os
import subprocess
import sys

import source_tree


def run(root, *command):
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


def refuses(root, *command):
    """A finding unless the command ends with 2 and names cause and remedy."""
    done = run(root, *command)
    if done.returncode != 2 or command[-1] not in done.stderr or "--help" not in done.stderr:
        yield f"{command[0]}:1: {' '.join(command[1:])} ends with {done.returncode}: {done.stderr}"


def check(root):
    scripts = [os.path.relpath(p, root) for p in glob.glob(os.path.join(root, "tools", "*.sh"))]
    for script in sorted(scripts) + [".ci/run"]:
        if not os.access(os.path.join(root, script), os.X_OK):
            yield f"{script}:1: not executable"
        if run(root, "bash", "-n", script).returncode != 0:
            yield f"{script}:1: bash cannot read it"
    for script in sorted(scripts):
        yield from refuses(root, f"./{script}", "--no-such-flag")
        helped = run(root, f"./{script}", "--help")
        if helped.returncode != 0 or "usage:" not in helped.stdout:
            yield f"{script}:1: --help ends with {helped.returncode}"
    if run(root, "./tools/check.sh", "--jobs", "many").returncode != 2:
        yield "tools/check.sh:1: takes a word for the number of jobs"
    calls = [line for line in source_tree.lines(root, ".ci/run") if not line.startswith("#")]
    if len(calls) != 1 or "tools/check.sh" not in calls[0]:
        yield ".ci/run:1: calls tools/check.sh and nothing else"


if __name__ == "__main__":
    source_tree.report(list(check(sys.argv[1])), "the scripts")
