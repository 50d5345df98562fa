"""Schemas only grow: each schemas/*.fbs must conform to its copy of the last release.

flatc --conform judges types, offsets and defaults; it does not see a field that was dropped or renamed,
so the names are compared here: the released list must be how today's begins. The copies are in tests/house/schemas_released. A schema without a copy has not been released yet.
At a release, and only then, today's schemas become the copies: schema_gate.py ROOT FLATC --accept
usage: schema_gate.py ROOT FLATC [--accept] | schema_gate.py --self-test FLATC
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

import source_tree

RELEASED = "tests/house/schemas_released"


def conforms(flatc, old, new, include):
    """None, or flatc's own words for what is incompatible."""
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run([flatc, "--cpp", "-o", scratch, "-I", include, "--conform", old,
                               "--conform-includes", os.path.dirname(old), new],
                              capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else (done.stdout + done.stderr).strip().splitlines()[-1]


def declared(path):
    """{declaration: its members in order}: table, struct, enum and union of one schema."""
    with open(path, encoding="utf-8") as stream:
        text = re.sub(r"//.*|/\*.*?\*/|\([^)]*\)", "", stream.read())
    found = {}
    for kind, name, body in re.findall(r"\b(table|struct|enum|union)\s+(\w+)[^{]*{([^}]*)}", text):
        members = [re.split(r"[:=]", m)[0].strip() for m in re.split(r"[;,]", body)]
        found[f"{kind} {name}"] = [m for m in members if m]
    return found


def dropped(old, new):
    """None, or the first declaration whose released members are not how today's begin."""
    today = declared(new)
    for name, members in declared(old).items():
        if name not in today:
            return f"{name} is gone"
        if today[name][:len(members)] != members:
            return f"{name} no longer begins with {', '.join(members)}"
    return None


def check(root, flatc):
    findings, compared, fresh = [], 0, 0
    schemas = os.path.join(root, "schemas")
    for old in sorted(glob.glob(os.path.join(root, RELEASED, "*.fbs"))):
        name = os.path.basename(old)
        new = os.path.join(schemas, name)
        if not os.path.exists(new):
            findings.append(f"schemas/{name}:1: a released schema was removed")
            continue
        compared += 1
        told = conforms(flatc, old, new, schemas) or dropped(old, new)
        if told:
            findings.append(f"schemas/{name}:1: incompatible with the released one: {told}; "
                            "append instead (at a release: schema_gate.py ROOT FLATC --accept)")
    for new in sorted(glob.glob(os.path.join(schemas, "*.fbs"))):
        name = os.path.basename(new)
        fresh += not os.path.exists(os.path.join(root, RELEASED, name))
        text = "\n".join(source_tree.lines(root, f"schemas/{name}"))
        if "file_identifier" not in text and "root_type" in text:
            findings.append(f"schemas/{name}:1: a schema with a root has a file_identifier")
        if "nested_flatbuffer" in text or "flexbuffer" in text:
            findings.append(f"schemas/{name}:1: no nested or flexible buffers")
    return findings, f"{compared} released schemas compared, {fresh} not released yet"


def accept(root):
    """Makes today's schemas the released ones."""
    os.makedirs(os.path.join(root, RELEASED), exist_ok=True)
    for new in sorted(glob.glob(os.path.join(root, "schemas", "*.fbs"))):
        shutil.copy(new, os.path.join(root, RELEASED, os.path.basename(new)))
        print(f"released: {os.path.basename(new)}")


def self_test(flatc):
    table = 'namespace t; table A { %s } root_type A; file_identifier "TTTT";\n'
    old = table % "x:uint32; y:string;"
    cases = [(old, None), (table % "x:uint32; y:string; z:ulong;", None),
             (table % "x:uint32;", "no longer begins"),
             (table % "y:string; x:uint32;", "incompatible"),
             (table % "x:uint32; w:string;", "no longer begins"),
             (old.replace("A", "B"), "is gone"),
             (old.replace("table A", "// more\ntable B { b:int; } table A"), None),
             (table % "x:uint64; y:string;", "incompatible"),
             (old.replace(' file_identifier "TTTT";', ""), "file_identifier"),
             (None, "was removed")]
    for new, words in cases:
        with tempfile.TemporaryDirectory() as root:
            source_tree.write_tree(root, {f"{RELEASED}/a.fbs": old})
            source_tree.write_tree(root, {"schemas/a.fbs": new} if new else {"schemas/x": ""})
            findings, _ = check(root, flatc)
            assert len(findings) == (words is not None), (new, findings)
            assert words is None or words in findings[0], (new, findings)
    print(f"{len(cases)} seeded changes judged as they should be")


if __name__ == "__main__":
    if sys.argv[1] == "--self-test":
        self_test(sys.argv[2])
    elif "--accept" in sys.argv:
        accept(sys.argv[1])
    else:
        found, told = check(sys.argv[1], sys.argv[2])
        source_tree.report(found, told)
