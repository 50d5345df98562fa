"""The programs are built so that a fault is hard to use (cmake/GpunodeBuild.cmake): looked for in them.

usage: hardening.py PROGRAM... | hardening.py --self-test C++-COMPILER
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile


def shown(program, *flags):
    return subprocess.run(["readelf", "-W", *flags, program], capture_output=True, text=True,
                          check=True).stdout


def lacks_of(program):
    """What a program lacks, each with the flag that gives it."""
    segments = shown(program, "-l")
    symbols = shown(program, "--dyn-syms")
    stack = re.search(r"GNU_STACK(?:\s+0x\w+){5}\s+(\S+)", segments)
    checks = (
        ("no address of its own choice: -pie", re.search(r"Type:\s+DYN", shown(program, "-h")) and
         "INTERP" in segments),
        ("no relocations that are read-only: -z relro", "GNU_RELRO" in segments),
        ("late binding: -z now", re.search(r"BIND_NOW|Flags:.*\bNOW\b", shown(program, "-d"))),
        ("a stack that runs: -z noexecstack", stack and "E" not in stack.group(1)),
        ("unguarded stacks: -fstack-protector-strong", "__stack_chk_fail" in symbols),
        ("unchecked copies: -D_FORTIFY_SOURCE", re.search(r"\b__\w+_chk@", symbols)))
    return [text for text, good in checks if not good]


SOURCE = """#include <cstdio>
#include <cstring>
int main(int count, char** words) {
  char text[16];
  std::strcpy(text, words[0] + count);
  return std::printf("%s", text);
}
"""
HARD = ("-O2", "-fPIE", "-pie", "-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2",
        "-Wl,-z,relro,-z,now,-z,noexecstack")
SOFT = ("-O2", "-fno-PIE", "-no-pie", "-fno-stack-protector", "-U_FORTIFY_SOURCE",
        "-Wl,-z,norelro,-z,lazy,-z,execstack")


def self_test(compiler):
    with tempfile.TemporaryDirectory() as folder:
        source, program = os.path.join(folder, "a.cpp"), os.path.join(folder, "a")
        with open(source, "w", encoding="utf-8") as stream:
            stream.write(SOURCE)
        found = {}
        for name, flags in (("hard", HARD), ("soft", SOFT)):
            subprocess.run([compiler, *flags, source, "-o", program], check=True,
                           stderr=subprocess.DEVNULL)
            found[name] = lacks_of(program)
    assert not found["hard"], found
    assert len(found["soft"]) == 6, found
    print("a program without them lacks all six")


def main(words):
    if not shutil.which("readelf"):
        print("skipped: readelf is not installed")
    elif words[0] == "--self-test":
        self_test(words[1])
    else:
        findings = [f"{program}: {lack}" for program in words for lack in lacks_of(program)]
        print("\n".join(findings) or f"{len(words)} programs lack nothing")
        sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
