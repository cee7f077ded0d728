"""The path table of semantics 5.1, one row per spelling.

Is: data, and the links of the tree it is tried on. Is not: a test.
Above: `test_workspace_paths.py`. Below: the standard library.
"""

import unicodedata

ESCAPE = "workspace.path_escape"
INVALID = "workspace.invalid_path"
NOT_VISIBLE = "workspace.path_not_visible"
NOT_WRITABLE = "workspace.path_not_writable"
REFUSED = "workspace.symlink_refused"
IS_DIRECTORY = "workspace.path_is_directory"
NOT_DIRECTORY = "workspace.not_a_directory"
IRREGULAR = "workspace.not_regular_file"
MISSING = "workspace.file_not_found"

LINKS = {
    "output/to-file": "file.txt",
    "output/to-dir": "dir",
    "output/to-top": "..",
    "output/to-outside": "../../outside",
    "output/to-secret": "../../outside/secret.txt",
    "output/absolute": "/etc/passwd",
    "output/dangling-in": "not-there",
    "output/dangling-out": "../../outside/not-there",
    "output/loop-a": "loop-b",
    "output/loop-b": "loop-a",
    "output/dir/out": "../../../outside",
    "output/to-dir-then-out": "dir/out",
    "evil": "../outside",
    "mild": "output",
}


ROWS = [
    # Row 1: malformed, but not pointing outside.
    ("", INVALID),
    (".", INVALID),
    ("/", INVALID),
    ("//", INVALID),
    ("./.", INVALID),
    ("/./", INVALID),
    ("\\", INVALID),
    ("./A:", INVALID),
    ("./C:/x", INVALID),
    ("./file:x", INVALID),
    ("output/a\x00b", INVALID),
    ("output/a\nb", INVALID),
    ("output/a\x7fb", INVALID),
    ("output/a\x85b", INVALID),
    ("output/a\ud800b", INVALID),
    ("output/" + "/".join("a" * 31), "deep"),
    ("output/" + "/".join("a" * 32), INVALID),
    ("output/" + "a" * 255, "long"),
    ("output/" + "a" * 256, INVALID),
    ("output/" + "é" * 127, "long"),
    ("output/" + "é" * 128, INVALID),
    ("output/" + "/".join(["a" * 100] * 5), "long"),
    ("output/" + "/".join(["a" * 101] * 5), INVALID),
    ("output/file.txt/", INVALID),
    ("output/file.txt/.", INVALID),
    ("output\\file.txt\\", INVALID),
    ("output/CON", INVALID),
    ("output/nul.txt", INVALID),
    ("output/com1.txt", INVALID),
    ("output/LPT9", INVALID),
    ("output/com¹", INVALID),
    ("output/aux .log", INVALID),
    ("output/prn:x", INVALID),
    ("output/conin$", INVALID),
    ("output/aux/file.txt", INVALID),
    ("~", INVALID),
    ("~/file.txt", INVALID),
    ("./~root/file.txt", INVALID),
    ("output/dir/../file.txt", INVALID),
    ("output/..", INVALID),
    ("output\\..\\file.txt", INVALID),
    # Row 2: absolute, but under the workspace.
    ("/workspace/output/file.txt", INVALID),
    ("/workspace", INVALID),
    ("//workspace//output/file.txt", INVALID),
    ("\\workspace\\output\\file.txt", INVALID),
    ("/workspace/output/../input", INVALID),
    ("{top}/output/file.txt", INVALID),
    ("{top}", INVALID),
    # Row 3: pointing outside.
    ("..", ESCAPE),
    ("../ws/output/file.txt", ESCAPE),
    ("output/../../outside/secret.txt", ESCAPE),
    ("output/./..//../x", ESCAPE),
    ("..\\..\\x", ESCAPE),
    ("output\\..\\..\\x", ESCAPE),
    ("/..", ESCAPE),
    ("/...", ESCAPE),
    ("/etc/passwd", ESCAPE),
    ("/workspace/../etc/passwd", ESCAPE),
    ("/workspaces/x", ESCAPE),
    ("{top}x/output", ESCAPE),
    ("{top}/../outside/secret.txt", ESCAPE),
    ("C:\\x", ESCAPE),
    ("c:x", ESCAPE),
    ("Z:/x", ESCAPE),
    ("\\\\server\\share\\x", ESCAPE),
    ("//server/share", ESCAPE),
    ("\\\\?\\C:\\x", ESCAPE),
    ("file:///etc/passwd", ESCAPE),
    ("FILE:x", ESCAPE),
    ("../" * 300 + "x", ESCAPE),
    ("../a\x00b", ESCAPE),
    # Row 4: a component links to the outside.
    ("output/to-outside", ESCAPE),
    ("output/to-outside/secret.txt", ESCAPE),
    ("output/to-secret", ESCAPE),
    ("output/to-outside/not-there", ESCAPE),
    ("output/absolute", ESCAPE),
    ("output/dangling-out", ESCAPE),
    ("output/dir/out/secret.txt", ESCAPE),
    ("output/to-dir/out/secret.txt", ESCAPE),
    ("output/to-dir-then-out/secret.txt", ESCAPE),
    ("output/to-top/evil/secret.txt", ESCAPE),
    ("evil/secret.txt", ESCAPE),
    # Row 5: a component links to the inside.
    ("output/to-file", REFUSED),
    ("output/to-dir", REFUSED),
    ("output/to-dir/deep.txt", REFUSED),
    ("output/to-top/input", REFUSED),
    ("output/dangling-in", REFUSED),
    ("output/loop-a", REFUSED),
    ("output/loop-a/x", REFUSED),
    ("mild/file.txt", REFUSED),
    # Row 6: not visible, whether it exists or not.
    ("journal/0001", NOT_VISIBLE),
    ("manifest.json", NOT_VISIBLE),
    (".toolrail/locks/00", NOT_VISIBLE),
    ("checkpoints/x", NOT_VISIBLE),
    ("no-such-root/x", NOT_VISIBLE),
    ("Output/file.txt", NOT_VISIBLE),
    ("output/.tr-0123456789abcdef.tmp", NOT_VISIBLE),
    ("http://example.org/x", NOT_VISIBLE),
    # Row 7: file and directory confused.
    ("output", IS_DIRECTORY),
    ("output/dir", IS_DIRECTORY),
    ("output/file.txt/x", NOT_DIRECTORY),
    ("output/file.txt/x/y", NOT_DIRECTORY),
    ("output/fifo/x", NOT_DIRECTORY),
    # Special files.
    ("output/fifo", IRREGULAR),
    ("output/sock", IRREGULAR),
    # What is fine.
    ("output/file.txt", "ok"),
    ("./output//dir/./deep.txt", "ok"),
    ("output\\dir\\deep.txt", "ok"),
    ("output/café.txt", "ok"),
    (unicodedata.normalize("NFD", "output/café.txt"), "ok"),
    # Odd names that are only names.
    ("output/ .. ", "odd"),
    ("output/...", "odd"),
    ("output/a~b", "odd"),
    ("output/%2e%2e/x", "odd"),
    ("output/a:b", "odd"),
    ("output/console.txt", "odd"),
    ("output/com10", "odd"),
    ("output/\uff0e\uff0e/x", "odd"),
    ("output/file.txt ", "odd"),
    ("output/\u2028", "odd"),
]
"""A path and what it ends with; `deep`, `long` and `odd` are fine, and there is nothing."""
