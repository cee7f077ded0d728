"""Tell what bytes are by looking at them, since servers mislabel.

Is: the few image and sound types a model can take. Is not: a full file-type library.
Above: `blocks.py`. Below: nothing.
"""

import re

IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
AUDIO_TYPES = frozenset(
    {"audio/wav", "audio/mpeg", "audio/ogg", "audio/flac", "audio/mp4", "audio/aac", "audio/webm"}
)
SNIFFABLE = IMAGE_TYPES | AUDIO_TYPES

_MIME = re.compile(r"(?=.{3,127}$)[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+")
_ALIASES = {
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "image/x-png": "image/png",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "audio/mp3": "audio/mpeg",
    "audio/opus": "audio/ogg",
    "audio/x-flac": "audio/flac",
    "audio/m4a": "audio/mp4",
    "audio/x-m4a": "audio/mp4",
    "audio/aacp": "audio/aac",
}
_PREFIXES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"ID3", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"\x1aE\xdf\xa3", "audio/webm"),
)
_RIFF_KINDS = {b"WAVE": "audio/wav", b"WEBP": "image/webp"}
_MP4_AUDIO_BRANDS = frozenset({b"M4A ", b"M4B ", b"mp42", b"isom"})


def normal_mime(declared: str | None) -> str | None:
    """Return a declared type without parameters and in its usual spelling; None if it is none."""
    bare = (declared or "").split(";", 1)[0].strip().lower()
    return _ALIASES.get(bare, bare) if _MIME.fullmatch(bare) else None


def sniff(data: bytes) -> str | None:
    """Return the image or sound type that the first bytes show; None for anything else."""
    for prefix, mime in _PREFIXES:
        if data.startswith(prefix):
            return mime
    if data[:4] == b"RIFF":
        return _RIFF_KINDS.get(data[8:12])
    if data[4:8] == b"ftyp" and data[8:12] in _MP4_AUDIO_BRANDS:
        return "audio/mp4"
    return _sniff_frame(data)


def _sniff_frame(data: bytes) -> str | None:
    """Tell MPEG sound by its frame header: eleven set bits, then version and layer."""
    if len(data) < 2 or data[0] != 0xFF or data[1] & 0xE0 != 0xE0:
        return None
    layer = data[1] & 0x06
    if layer == 0:
        return "audio/aac" if data[1] & 0xF0 == 0xF0 else None
    return "audio/mpeg"
