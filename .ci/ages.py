"""Gives each file of a fresh clone the age that it had in the last run on this machine, if it is as it was then.

Cargo compiles again what is newer than its last build, and in a fresh clone everything is. Call it as `ages.py KEPT` in the
clone: the folder KEPT holds the files of the last run, and has those of this one afterwards. It belongs to the folder of
builds, into which nothing else may be built.
"""

import filecmp
import os
import shutil
import subprocess
import sys
from pathlib import Path

kept = Path(sys.argv[1])
tracked = [Path(os.fsdecode(name)) for name in subprocess.check_output(["git", "ls-files", "-z"]).split(b"\0") if name]
files = [file for file in tracked if file.is_file() and not file.is_symlink()]
for file in files:
    last = kept / file
    if last.is_file() and filecmp.cmp(file, last, shallow=False):
        shutil.copystat(last, file)
# Before anything is built: should the run end in the middle, its files are newer than what it has not built.
shutil.rmtree(kept, ignore_errors=True)
for file in files:
    (kept / file).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(file, kept / file)
