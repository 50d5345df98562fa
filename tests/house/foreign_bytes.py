"""Nothing that a peer sends reaches an abort: GPUNODE_CHECK is for what only we can break.

Where bytes of others are read or taken in, a check needs a reason: a comment in the lines above it
that begins with "Ours:" and says why no peer, file or user can break it. Such places are the files
that decode or answer, by their names, and the functions on_... of the modules that peers speak to.
usage: foreign_bytes.py ROOT | foreign_bytes.py --self-test
"""
import re
import tempfile

import outline
import source_tree

FILES = re.compile(r"(_codec|_calls|_protocol|_server|_socket|_session|_sessions|_stream|_reader)"
                   r"\.(cpp|hpp)$")
FOLDERS = ("runtime/collective/", "runtime/directory/", "runtime/job/", "runtime/membership/",
           "runtime/security/", "runtime/transport/", "runtime/view/", "actors/checkpoint/",
           "actors/inference/", "actors/job/", "actors/node/")
EVENT = re.compile(r"(^|::)on_\w+$")
CHECK = re.compile(r"\bGPUNODE_CHECK\s*\(")
REASON = re.compile(r"^\s*// Ours: \S")


def has_reason(lines, number):
    """Whether the comment right above the line (counted from 1) gives one."""
    for line in reversed(lines[:number - 1]):
        if REASON.match(line):
            return True
        if not line.strip().startswith(("//", "GPUNODE_CHECK")):
            return False
    return False


def check_file(path, lines):
    text = "\n".join(lines)
    blank = outline.blanked(text).splitlines()
    checks = [number for number, line in enumerate(blank, 1) if CHECK.search(line)]
    if not checks:
        return
    events = [(one.line, one.line + one.lines) for one in outline.outline(text).functions
              if EVENT.search(one.name)] if path.startswith(FOLDERS) else []
    for number in checks:
        inside = FILES.search(path) or any(begin <= number <= end for begin, end in events)
        if inside and not has_reason(lines, number):
            yield (f"{path}:{number}: a peer's bytes come here: refuse them with an error, or say in "
                   "a comment that begins with 'Ours:' why they cannot break this check")


def check(root):
    paths = source_tree.files(root, ("runtime", "actors"))
    return [finding for path in paths
            for finding in check_file(path, source_tree.lines(root, path))], len(paths)


EVENTS = """namespace a {
void Core::on_message(int from) {
  %s
  GPUNODE_CHECK(from > 0,
                "one");
}
void Core::begin(int from) {
  GPUNODE_CHECK(from > 0, "another");
}
}
"""
REASONED = "// Ours: the link names\n  // its sender.\n  GPUNODE_CHECK(from < 9, \"two\");"
CLEAN = {"runtime/job/core.cpp": EVENTS % REASONED,
         "runtime/job/plan.cpp": "void plan() {\n  GPUNODE_CHECK(true, text);\n}\n",
         "runtime/tensor/a.cpp": EVENTS % "",
         "runtime/job/job_codec.cpp": "// GPUNODE_CHECK( is for others.\n"}
SEEDED = [("runtime/job/core.cpp", EVENTS % "int unrelated;", 1),
          ("runtime/job/core.cpp", EVENTS % "// A reason of no kind.", 1),
          ("runtime/view/view_codec.cpp", "int read() {\n  GPUNODE_CHECK(true, text);\n}\n", 1),
          ("actors/job/job_board_calls.cpp", EVENTS % "", 2)]


def self_test():
    for path, text, expected in [("runtime/base/a.cpp", "", 0)] + SEEDED:
        with tempfile.TemporaryDirectory() as root:
            source_tree.write_tree(root, {**CLEAN, path: text})
            findings, _ = check(root)
            assert len(findings) == expected, f"{path}: {findings}"
    print(f"{len(SEEDED)} seeded violations found")


if __name__ == "__main__":
    source_tree.main(check, self_test)
