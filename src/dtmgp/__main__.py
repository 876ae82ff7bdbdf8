"""`python -m dtmgp` is the same as `dtmgp`."""

from dtmgp.cli import main

if __name__ == "__main__":
    main()
