"""python -m edge_lightning is edge-lightning."""

from edge_lightning.cli import main

if __name__ == "__main__":
    main()
