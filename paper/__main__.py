"""`python -m paper`: the figures and tables of the papers, made again."""

from paper.program import main

if __name__ == "__main__":
    main()
