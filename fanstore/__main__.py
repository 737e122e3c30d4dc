"""`python -m fanstore`."""

from fanstore.cli import main

main()
