"""Lets PyTorch's wheel be imported without the gigabytes of CUDA's packages that it names.

The wheel links CUDA's libraries although only a GPU needs them. For each one a shared library of its
name is put beside PyTorch's own, where the loader looks before it looks elsewhere; its functions do
nothing but say that there is no device, and each library has those of all. Needs cc, nm and ldd.
usage: cuda_stubs.py TORCH_LIB_FOLDER
"""
import pathlib
import re
import subprocess
import sys
import tempfile

NO_DEVICE = 100  # cudaErrorNoDevice
# Functions of which PyTorch asks more than an error.
ANSWERS = {
    "cudaGetErrorString": 'const char* cudaGetErrorString() { return "a stub without a device"; }',
    "cudaGetErrorName": 'const char* cudaGetErrorName() { return "stub"; }',
    "cudaGetLastError": "int cudaGetLastError() { return 0; }",
    "cudaPeekAtLastError": "int cudaPeekAtLastError() { return 0; }",
    "cudaStreamIsCapturing":
        "int cudaStreamIsCapturing(void* stream, int* status) { return *status = 0; }",
}


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def needed(library):
    """{soname: where the loader finds it, or None}"""
    found = {}
    for line in output("ldd", str(library)).splitlines():
        if match := re.match(r"\s*(\S+) => (not found|\S+)", line):
            found[match[1]] = None if match[2] == "not found" else pathlib.Path(match[2])
    return found


def symbols(library, *flags):
    """{name: its version, or ""}"""
    lines = output("nm", "-D", *flags, str(library)).splitlines()
    parts = (line.split()[-1].partition("@") for line in lines if line.strip())
    return {name: version.lstrip("@") for name, _, version in parts}


def build(folder, soname, names):
    source = ["/* no device */"]
    versions = {}
    for name, version in sorted(names.items()):
        answer = 0 if name.startswith("__") else NO_DEVICE
        source.append(ANSWERS.get(name, f"long {name}() {{ return {answer}; }}"))
        if version:
            versions.setdefault(version, []).append(name)
    script = [f"{version} {{ {'; '.join(members)}; }};" for version, members in versions.items()]
    with tempfile.TemporaryDirectory() as work:
        code, versioned = pathlib.Path(work, "stub.c"), pathlib.Path(work, "versions")
        code.write_text("\n".join(source) + "\n", encoding="ascii")
        versioned.write_text("\n".join(script) + "\n", encoding="ascii")
        subprocess.run(["cc", "-w", "-fno-builtin", "-shared", "-fPIC", f"-Wl,-soname,{soname}",
                        f"-Wl,--version-script={versioned}", "-o", str(folder / soname),
                        str(code)], check=True)


def main(folder):
    own = sorted(folder.glob("lib*.so*"))
    absent, present = set(), set()
    for library in own:
        for soname, path in needed(library).items():
            if path is None or re.match(r"libcu|libnv|libnccl", soname):
                absent.add(soname)
            elif path.parent.resolve() != folder.resolve():
                present.add(path)
    absent -= {library.name for library in own}
    wanted, given = {}, set()
    for library in own:
        wanted |= symbols(library, "--undefined-only")
    for library in own + [path for path in present if path.name not in absent]:
        given |= symbols(library, "--defined-only").keys()
    # What Python itself gives stays open; those of CUDA are plain C names.
    wanted = {name: version for name, version in wanted.items()
              if name not in given and re.match(r"(__)?(cu|nv|CU|nccl)", name)}
    for soname in sorted(absent):
        build(folder, soname, wanted)
    print(f"{len(absent)} libraries of CUDA stand in as stubs: {', '.join(sorted(absent))}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
