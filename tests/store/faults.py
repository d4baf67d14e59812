"""Small, full and read-only disks for tests: a mount namespace of the test's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DISK = Path("/mnt")


def run_on_small_disk(script: str, *arguments: str, size: str = "4m", timeout_s: float = 60) -> str:
    """What `script` prints, run by this Python with an empty disk of `size` mounted at `DISK`.

    The script may remount it read-only with `mount -o remount,ro /mnt`. Skips where the system does not allow it.
    """
    if sys.platform != "linux" or shutil.which("unshare") is None:
        pytest.skip("small disks need Linux's unshare")
    if os.geteuid() != 0:
        pytest.skip("small disks need root")
    mount = f"mount -t tmpfs -o size={size} tmpfs {DISK}"
    if subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True, check=False).returncode:
        pytest.skip("this system allows no mounts")
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", f'{mount} && exec "$@"', "sh", sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
