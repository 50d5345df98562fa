"""The service's unit is one that systemd takes, and keeps the node from most of its machine.

usage: systemd_test.py UNIT.in
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

MOST_EXPOSED = 2.0  # of 10, as systemd counts


def analysed(*words):
    done = subprocess.run(["systemd-analyze", *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def exposure(path):
    _, text = analysed("security", "--offline=yes", "--no-pager", path)
    found = re.search(r"exposure level for \S+: ([0-9.]+)", text)
    assert found, f"systemd-analyze security says: {text}"
    return float(found.group(1))


def main(template):
    if not shutil.which("systemd-analyze"):
        print("skipped: systemd-analyze is not installed")
        return
    with open(template, encoding="utf-8") as stream:
        text = stream.read()
    # The program is not installed yet; any other that may be started takes its place.
    text = re.sub(r"^(Exec\w+)=@\w+@/gpunode", rf"\1={shutil.which('true')}", text, flags=re.M)
    text = re.sub(r"^User=\w+", "User=daemon", text, flags=re.M)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "gpunode.service")
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)
        code, said = analysed("verify", path)
        own = [line for line in said.splitlines() if "gpunode" in line]
        assert code == 0 and not own, f"systemd-analyze verify: {code}: {said}"
        now = exposure(path)
        assert now <= MOST_EXPOSED, f"exposure level {now}, at most {MOST_EXPOSED} is wanted"
        # A unit without its sandbox is told apart, and one that is broken is.
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(re.sub(r"^(Protect|Private|Restrict|SystemCall)\w+=.*\n", "", text,
                                flags=re.M))
        open_one = exposure(path)
        assert open_one > now + 2, f"without its sandbox the unit is at {open_one}, with it at {now}"
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text.replace("NoNewPrivileges=yes", "NoNewPrivilege=yes"))
        assert "NoNewPrivilege" in analysed("verify", path)[1], "a misspelt key is told"
    print(f"exposure level {now}")


if __name__ == "__main__":
    main(sys.argv[1])
