"""`python -m understudy`, and so `torchrun -m understudy`."""

from understudy.cli import main

if __name__ == "__main__":
    main()
