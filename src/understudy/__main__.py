"""Entry point of `python -m understudy`, and thus of `torchrun -m understudy`."""

from understudy.cli import main

if __name__ == "__main__":
    main()
