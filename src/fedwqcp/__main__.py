"""``python -m fedwqcp``."""

from fedwqcp.cli.main import main

main()
