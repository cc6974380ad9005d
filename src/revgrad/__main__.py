"""`python -m revgrad`, and what torchrun starts: `torchrun … -m revgrad train …`."""

from revgrad.cli import main

if __name__ == "__main__":
    main()
