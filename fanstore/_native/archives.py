"""Loads libarchive, for archives that are neither tar nor zip: the system's, or the one in the
package `archi` (`pip install 'fanstore-fs[archives]'`)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, files
from typing import Any

from cffi import FFI

SONAME = "libarchive.so.13"
_PACKAGE = "archi"

OK, EOF, WARN = 0, 1, -20

# A selection: an mtree names files of this machine, and some filters start programs.
FILTERS = ("bzip2", "compress", "gzip", "lz4", "lzip", "lzma", "rpm", "xz", "zstd")
FORMATS = ("7zip", "cpio", "iso9660", "rar", "rar5", "tar")

ffi = FFI()
ffi.cdef(
    """
    struct archive;
    struct archive_entry;
    struct archive *archive_read_new(void);
    int archive_read_support_filter_bzip2(struct archive *);
    int archive_read_support_filter_compress(struct archive *);
    int archive_read_support_filter_gzip(struct archive *);
    int archive_read_support_filter_lz4(struct archive *);
    int archive_read_support_filter_lzip(struct archive *);
    int archive_read_support_filter_lzma(struct archive *);
    int archive_read_support_filter_rpm(struct archive *);
    int archive_read_support_filter_xz(struct archive *);
    int archive_read_support_filter_zstd(struct archive *);
    int archive_read_support_format_7zip(struct archive *);
    int archive_read_support_format_cpio(struct archive *);
    int archive_read_support_format_iso9660(struct archive *);
    int archive_read_support_format_rar(struct archive *);
    int archive_read_support_format_rar5(struct archive *);
    int archive_read_support_format_tar(struct archive *);
    int archive_read_open_fd(struct archive *, int, size_t);
    int archive_read_next_header(struct archive *, struct archive_entry **);
    int archive_read_data_block(struct archive *, const void **, size_t *, int64_t *);
    int archive_read_free(struct archive *);
    const char *archive_error_string(struct archive *);
    const char *archive_entry_pathname(struct archive_entry *);
    const char *archive_entry_pathname_utf8(struct archive_entry *);
    const char *archive_entry_hardlink(struct archive_entry *);
    const char *archive_entry_hardlink_utf8(struct archive_entry *);
    const char *archive_entry_symlink(struct archive_entry *);
    const char *archive_entry_symlink_utf8(struct archive_entry *);
    unsigned int archive_entry_mode(struct archive_entry *);
    int64_t archive_entry_uid(struct archive_entry *);
    int64_t archive_entry_gid(struct archive_entry *);
    int64_t archive_entry_mtime(struct archive_entry *);
    long archive_entry_mtime_nsec(struct archive_entry *);
    int64_t archive_entry_size(struct archive_entry *);
    int archive_entry_size_is_set(struct archive_entry *);
    int archive_entry_is_encrypted(struct archive_entry *);
    """
)


def _places() -> Iterator[str]:
    yield SONAME
    try:
        for file in files(_PACKAGE) or ():
            if file.name.startswith("libarchive") and ".so" in file.name:
                yield str(file.locate())
    except PackageNotFoundError:
        return


@cache
def libarchive() -> Any:
    """Returns the library's functions. Raises OSError if there is no library."""
    error = OSError("no libarchive")
    for place in _places():
        try:
            return ffi.dlopen(place)
        except OSError as failure:
            error = failure
    raise error
