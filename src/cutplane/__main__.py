"""``python -m cutplane`` is the command line too."""

from cutplane.cli import main

if __name__ == "__main__":
    main()
