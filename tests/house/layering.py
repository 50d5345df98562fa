"""Reads every #include and holds it against the brackets of the house's layers.

The brackets are the DEPENDS and LIBRARIES of each gpunode_module() in the CMakeLists.txt of runtime,
kernels and actors: a module includes its own folder and the modules it names, and a library's
headers only where it names that library. What is true everywhere stands in RULES below.
usage: layering.py ROOT | layering.py --self-test
"""
import os
import re
import tempfile

import source_tree

LAYERS = ("runtime", "kernels", "actors")

# Library in a LIBRARIES list: the headers that come with it.
LIBRARY_HEADERS = {
    "CAF::core": r"caf/",
    "cppzmq": r"zmq(_addon)?\.(h|hpp)$",
    "flatbuffers::flatbuffers": r"flatbuffers/",
    "OpenSSL::Crypto": r"openssl/",
    "PkgConfig::sodium": r"sodium(\.h$|/)",
    "OpenSSL::SSL": r"openssl/ssl\.h$",
    "PkgConfig::xxhash": r"xxhash\.h$|xxh3\.h$",
    "nlohmann_json::nlohmann_json": r"nlohmann/",
    "tomlplusplus::tomlplusplus": r"toml(\+\+)?[/.]",
    "CLI11::CLI11": r"CLI/",
    "OneDNN::dnnl": r"oneapi/|dnnl",
}
CUDA_HEADERS = re.compile(r"cuda|cublas|cudnn|curand|cooperative_groups|mma\.h|nvml")

# (headers, files that may include them, the rule in words); tests may include anything but caf/all.
RULES = [
    (re.compile(r"zmq"), re.compile(r"runtime/transport/|tools/bench/peers/"),
     "zmq only in runtime/transport and in the bench's peers"),
    (re.compile(r"openssl/ssl\.h$"), re.compile(r"runtime/http/"), "TLS only in runtime/http"),
    (re.compile(r"caf/"), re.compile(r"actors/|examples/|tools/bench/job_driver"),
     "caf/ only in actors"),
    (CUDA_HEADERS, re.compile(r"kernels/cuda/"), "CUDA headers only in kernels/cuda"),
    (re.compile(r"schemas/\w+_generated\.h$"),
     re.compile(r".*_codec\.[ch]pp$"),
     "generated schema headers only in codecs"),
    (re.compile(r"fstream$|sys/socket\.h$|netinet/|runtime/base/clock\.hpp$"),
     re.compile(r"(?!kernels/)"), "no file, socket or clock in kernels"),
]


def read_brackets(root):
    """{folder: (name, modules it names, libraries it names)}, and {module name: folder}."""
    brackets, folder_of = {}, {}
    for layer in LAYERS:
        path = os.path.join(root, layer, "CMakeLists.txt")
        if not os.path.exists(path):
            continue
        with open(path, encoding="utf-8") as stream:
            text = re.sub(r"#.*", "", stream.read())
        for call in re.findall(r"gpunode_module\(([^)]*)\)", text):
            words = call.split()
            values, key = {"FOLDER": [], "DEPENDS": [], "LIBRARIES": []}, None
            for word in words[1:]:
                if word in values:
                    key = word
                else:
                    values[key].append(word)
            folder = f"{layer}/{values['FOLDER'][0]}"
            brackets[folder] = (words[0], set(values["DEPENDS"]), set(values["LIBRARIES"]))
            folder_of[words[0]] = folder
    return brackets, folder_of


def owner(path, brackets):
    """The module folder in which a path lies, or None (a layer's own page, tools, tests)."""
    folder = "/".join(path.split("/")[:2])
    return folder if folder in brackets else None


def check_bracket(path, name, brackets, folder_of):
    """The rule that an include of one of our headers breaks, or None."""
    mine, theirs = owner(path, brackets), owner(name, brackets)
    top = name.split("/")[0]
    if top == "tests" and not path.startswith("tests/"):
        return "nothing but a test includes tests/"
    if top == "tools" and not path.startswith(("tools/", "tests/")):
        return "nothing but a tool includes tools/"
    layer = path.split("/")[0]
    if layer not in LAYERS:
        return None
    if top == "schemas":
        if mine and "schemas" not in brackets[mine][1]:
            return f"{mine} does not name schemas in its DEPENDS"
        return None
    if mine is None:  # a page above the modules, such as actors/messages.hpp
        above = {"runtime": [], "kernels": ["runtime"], "actors": ["runtime", "kernels"]}[layer]
        if top not in above + [layer] or name.startswith(("kernels/cpu", "kernels/cuda")):
            return f"{layer}/ may not include {top}/"
        return None
    if theirs == mine or (theirs is None and top == layer):
        return None
    if theirs is None:
        return f"{mine} includes {name}, which is in no module"
    if brackets[theirs][0] not in brackets[mine][1]:
        return f"{mine} does not name {brackets[theirs][0]} in its DEPENDS"
    return None


def check_library(path, name, brackets):
    """The rule that an include of a foreign header breaks, or None."""
    if name == "caf/all.hpp":
        return "never caf/all.hpp: name the headers used"
    if path.startswith("tests/"):
        return None
    for headers, allowed, rule in RULES:
        if headers.match(name) and not allowed.match(path):
            return rule
    mine = owner(path, brackets)
    if mine:
        for library, headers in LIBRARY_HEADERS.items():
            if re.match(headers, name) and library not in brackets[mine][2]:
                return f"{mine} does not name {library} in its LIBRARIES"
    return None


def check(root):
    """All findings, and how many files were read."""
    brackets, folder_of = read_brackets(root)
    findings = []
    paths = source_tree.files(root)
    for path in paths:
        for number, quoted, name in source_tree.includes(root, path):
            rule = None
            if quoted and path.startswith("examples/") and path.count("/") > 1:
                pass  # a project of its own: its quoted headers are its own
            elif quoted and "/" not in name:
                rule = "includes are written from the root"
            elif quoted and name.split("/")[0] not in source_tree.CODE_FOLDERS + ("schemas",):
                rule = "a foreign header is included with <>"
            elif quoted:
                rule = check_bracket(path, name, brackets, folder_of)
            if rule is None:
                rule = check_library(path, name, brackets)
            if rule:
                findings.append(f'{path}:{number}: {rule} (includes {name})')
    for folder, (name, depends, _) in brackets.items():
        for below in sorted(depends - {"schemas"} - set(folder_of)):
            findings.append(f"{folder.split('/')[0]}/CMakeLists.txt:1: {name} names {below}, "
                            "which is no module")
    return findings, len(paths)


CLEAN = {
    "runtime/CMakeLists.txt": "gpunode_module(base FOLDER base LIBRARIES PkgConfig::xxhash)\n"
                              "gpunode_module(transport FOLDER transport DEPENDS base schemas\n"
                              "  LIBRARIES cppzmq flatbuffers::flatbuffers)\n"
                              "gpunode_module(view FOLDER view DEPENDS base)\n",
    "kernels/CMakeLists.txt": "gpunode_module(tensor FOLDER tensor DEPENDS base)\n"
                              "gpunode_module(cpu FOLDER cpu DEPENDS base tensor)\n",
    "actors/CMakeLists.txt": "gpunode_module(node FOLDER node DEPENDS base transport cpu # all\n"
                             "  LIBRARIES CAF::core)\n"
                             "gpunode_module(ingest FOLDER ingest DEPENDS base)\n",
    "runtime/transport/mesh_link.cpp": "#include <zmq.hpp>\n#include \"runtime/base/bytes.hpp\"\n",
    "runtime/transport/frame_codec.cpp": "#include \"schemas/frame_generated.h\"\n",
    "kernels/tensor/tensor.hpp": "#include \"runtime/base/bytes.hpp\"\n#include <vector>\n",
    "actors/node/node.cpp": "#include \"kernels/cpu/backend.hpp\"\n#include <caf/actor.hpp>\n",
    "tests/unit/runtime/transport/mesh_link_test.cpp": "#include <zmq.hpp>\n",
    "tools/bench/peers/zmq_all_reduce.cpp": "#include <zmq.h>\n",
    "examples/04_embed/main.cpp": "#include \"bigram.hpp\"\n",
}
# A file that breaks a rule, and a word of the rule that must be reported.
SEEDED = [
    ("runtime/view/a.cpp", '#include "runtime/transport/link.hpp"', "name transport"),
    ("runtime/view/a.cpp", "#include <zmq.h>", "zmq only"),
    ("runtime/view/a.cpp", "#include <caf/actor.hpp>", "caf/ only"),
    ("runtime/view/a.cpp", "#include <openssl/ssl.h>", "TLS only"),
    ("runtime/view/a.cpp", "#include <xxhash.h>", "PkgConfig::xxhash"),
    ("runtime/base/a.cpp", '#include "kernels/tensor/tensor.hpp"', "name tensor"),
    ("runtime/base/a.cpp", '#include "actors/node/node.hpp"', "name node"),
    ("runtime/base/a.cpp", '#include "bytes.hpp"', "from the root"),
    ("runtime/base/a.cpp", '#include "zlib/zlib.h"', "included with <>"),
    ("runtime/transport/link.cpp", '#include "schemas/frame_generated.h"', "only in codecs"),
    ("runtime/view/v_codec.cpp", '#include "schemas/view_generated.h"', "name schemas"),
    ("kernels/tensor/a.cpp", "#include <cuda_runtime.h>", "CUDA headers"),
    ("kernels/tensor/a.cpp", "#include <fstream>", "no file, socket or clock"),
    ("kernels/tensor/a.cpp", '  #  include "kernels/cpu/backend.hpp"', "name cpu"),
    ("actors/ingest/a.cpp", '#include "kernels/cpu/backend.hpp"', "name cpu"),
    ("actors/ingest/a.cpp", "#include <caf/actor.hpp>", "name CAF::core"),
    ("actors/node/a.cpp", "#include <caf/all.hpp>", "never caf/all.hpp"),
    ("actors/messages.hpp", '#include "kernels/cuda/backend.hpp"', "may not include"),
    ("actors/node/a.cpp", '#include "tests/support/x.hpp"', "nothing but a test"),
    ("tests/sim/a.cpp", "#include <caf/all.hpp>", "never caf/all.hpp"),
    ("tools/gpunode/a.cpp", "#include <zmq.hpp>", "zmq only"),
]


def self_test():
    with tempfile.TemporaryDirectory() as root:
        source_tree.write_tree(root, CLEAN)
        findings, _ = check(root)
        assert not findings, f"the clean tree has findings: {findings}"
    for path, line, words in SEEDED:
        with tempfile.TemporaryDirectory() as root:
            source_tree.write_tree(root, {**CLEAN, path: "// head\n" + line + "\n"})
            findings, _ = check(root)
            assert len(findings) == 1, f"{path} with {line}: {findings}"
            assert findings[0].startswith(f"{path}:2: ") and words in findings[0], findings
    print(f"{len(SEEDED)} seeded violations found, each with file, line and rule")


if __name__ == "__main__":
    source_tree.main(check, self_test)
