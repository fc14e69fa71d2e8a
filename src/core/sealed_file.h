#pragma once
// A sealed file: bytes that are either exactly what was written or refused. Checkpoints are kept in it. The layout:
//
//   offset  bytes  content
//   0       16     "posenc-ckpt 0001": magic, a space, the format version in four decimal digits
//   16      8      length n of the payload, little-endian
//   24      n      payload
//   24+n    16     XXH3-128 (canonical, big-endian) of everything before it
//
// The checksum finds accidents, not forgery: the payload must still be read as if it were hostile.

#include <filesystem>
#include <string>
#include <string_view>

namespace posenc {

/// Replaces `path` in one step (write_file_atomic). IoError.
void write_sealed(const std::filesystem::path& path, std::string_view payload);

/// The payload. IoError when the file cannot be read; DataError, naming the file, that tells apart: not a checkpoint, an older
/// format version, a newer one, damaged (truncated), damaged (checksum).
std::string read_sealed(const std::filesystem::path& path);

}  // namespace posenc
