"""Files for programs on top of this package: written whole or not at all, read with a limit.

Every fault is an `InputError` that names the file.
"""

from fedwqcp._io import LOG_BYTES as LOG_BYTES
from fedwqcp._io import append_line as append_line
from fedwqcp._io import from_json as from_json
from fedwqcp._io import known_hint as known_hint
from fedwqcp._io import make_folder as make_folder
from fedwqcp._io import read as read
from fedwqcp._io import read_toml as read_toml
from fedwqcp._io import write_atomic as write_atomic
