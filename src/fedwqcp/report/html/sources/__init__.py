"""One file for each kind of thing to report on; `kinds` lists them."""
