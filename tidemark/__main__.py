"""The `tidemark` command, `python -m tidemark`, and the file that `spark-submit` is given."""

from __future__ import annotations

import sys
from pathlib import Path

if not __package__:
    # Started as a file: Python searches its directory, and Tidemark's packages are one above.
    root = str(Path(__file__).resolve().parent.parent)
    sys.path[:] = [*sys.path[1:], *([] if root in sys.path else [root])]

from tidemark.own_packages import set_others_aside

FAILED = 1
WRONG_REQUEST = 2


def main() -> None:
    """Ends with SystemExit."""
    try:
        set_others_aside()
        if "run" in sys.argv[1:2]:
            from pipelines.early_signals import hold_signals

            hold_signals()
        from pipelines.cli import main as run_command
    except ImportError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(WRONG_REQUEST)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(FAILED)
    run_command()


if __name__ == "__main__":
    main()
