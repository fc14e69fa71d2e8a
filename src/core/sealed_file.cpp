#include "core/sealed_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "core/error.h"
#include "core/files.h"

namespace posenc {
namespace {

static_assert(std::endian::native == std::endian::little, "the payload length is copied as little-endian");

constexpr std::string_view kMagic = "posenc-ckpt ";
constexpr std::string_view kVersion = "0001";
constexpr std::size_t kVersionEnd = kMagic.size() + kVersion.size();
constexpr std::size_t kHeaderSize = kVersionEnd + sizeof(std::uint64_t);
constexpr std::size_t kTrailerSize = sizeof(XXH128_canonical_t);

std::string checksum(std::string_view bytes) {
  XXH128_canonical_t digest;
  XXH128_canonicalFromHash(&digest, XXH3_128bits(bytes.data(), bytes.size()));
  return {reinterpret_cast<const char*>(digest.digest), sizeof digest.digest};
}

[[noreturn]] void refuse(const fs::path& path, const std::string& reason) { throw DataError(path.string() + ": " + reason); }

[[noreturn]] void refuse_truncated(const fs::path& path, std::uint64_t present, std::uint64_t needed, const char* part) {
  refuse(path, "damaged checkpoint (truncated): " + std::to_string(present) + " of " + std::to_string(needed) + " " + part +
                   " bytes present; use another checkpoint");
}

void check_version(const fs::path& path, std::string_view version) {
  if (!std::all_of(version.begin(), version.end(), [](unsigned char c) { return c >= '0' && c <= '9'; })) {
    refuse(path, "not a checkpoint that posenc wrote: its format version is not a number");
  }
  if (version == kVersion) return;
  const bool older = version < kVersion;
  refuse(path, "checkpoint of " + std::string(older ? "an older" : "a newer") + " format: found version " + std::string(version) +
                   ", this posenc reads " + std::string(kVersion) +
                   (older ? "; read it with the posenc that wrote it, or train again" : "; update posenc"));
}

}  // namespace

void write_sealed(const fs::path& path, std::string_view payload) {
  const std::uint64_t length = payload.size();
  std::string bytes;
  bytes.reserve(kHeaderSize + payload.size() + kTrailerSize);
  bytes.append(kMagic).append(kVersion).append(reinterpret_cast<const char*>(&length), sizeof length).append(payload);
  bytes += checksum(bytes);
  write_file_atomic(path, bytes);
}

std::string read_sealed(const fs::path& path) {
  std::string bytes = read_file(path);
  const std::string_view all = bytes;
  if (all.substr(0, kMagic.size()) != kMagic.substr(0, all.size())) refuse(path, "not a checkpoint");
  const std::size_t least = kHeaderSize + kTrailerSize;
  if (all.size() < kVersionEnd) refuse_truncated(path, all.size(), least, "header and trailer");
  check_version(path, all.substr(kMagic.size(), kVersion.size()));
  if (all.size() < least) refuse_truncated(path, all.size(), least, "header and trailer");

  std::uint64_t length = 0;
  std::memcpy(&length, all.data() + kVersionEnd, sizeof length);
  const std::uint64_t present = all.size() - least;
  if (length > present) refuse_truncated(path, present, length, "payload");
  if (length < present || checksum(all.substr(0, kHeaderSize + length)) != all.substr(kHeaderSize + length)) {
    refuse(path, "damaged checkpoint (checksum): its bytes are not those that were written; use another checkpoint");
  }
  bytes.resize(kHeaderSize + length);
  bytes.erase(0, kHeaderSize);
  return bytes;
}

}  // namespace posenc
