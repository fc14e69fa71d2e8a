#include "data/rdb.h"

#include <zlib.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "core/error.h"

namespace posenc {
namespace {

constexpr std::uint32_t kStringVector = 16, kString = 9;  // SEXPTYPE of STRSXP and CHARSXP
constexpr std::size_t kMaxRatio = 1032;                   // deflate cannot expand further (zlib's technical details)

/// A cursor over big-endian bytes that refuses to run past their end.
class BigEndian {
 public:
  BigEndian(std::string_view bytes, std::string label) : bytes_(bytes), label_(std::move(label)) {}

  [[noreturn]] void fail(const std::string& problem) const {
    throw DataError(label_ + ", offset " + std::to_string(at_) + ": " + problem);
  }
  std::size_t remaining() const { return bytes_.size() - at_; }
  std::string_view rest() const { return bytes_.substr(at_); }
  std::string_view take(std::size_t n) {
    if (n > remaining()) fail("needs " + std::to_string(n) + " bytes, " + std::to_string(remaining()) + " are left");
    at_ += n;
    return bytes_.substr(at_ - n, n);
  }
  std::uint32_t u32() {
    std::uint32_t value = 0;
    for (char c : take(4)) value = value << 8 | static_cast<unsigned char>(c);
    return value;
  }
  std::size_t offset() const { return at_; }

 private:
  std::string_view bytes_;
  std::string label_;
  std::size_t at_ = 0;
};

/// The next object of the file, decompressed.
std::string read_object(BigEndian& file) {
  const std::size_t size = file.u32();
  if (size / kMaxRatio > file.remaining()) {
    file.fail("an object of " + std::to_string(size) + " bytes cannot come from the " + std::to_string(file.remaining()) +
              " left");
  }
  std::string object(size, '\0');
  uLongf produced = size;
  uLong consumed = file.remaining();
  const int status = uncompress2(reinterpret_cast<Bytef*>(object.data()), &produced,
                                 reinterpret_cast<const Bytef*>(file.rest().data()), &consumed);
  if (status != Z_OK || produced != size) {
    file.fail("not a zlib stream of " + std::to_string(size) + " bytes (a truncated or damaged file?)");
  }
  file.take(consumed);
  return object;
}

/// The lines of a serialised character vector; nullopt for an object of another type.
std::optional<std::string> read_lines(BigEndian object) {
  if (object.take(2) != "X\n") object.fail("not R's XDR serialisation");
  const std::uint32_t version = object.u32();
  object.take(8);  // the R that wrote it, the oldest that can read it
  if (version != 2 && version != 3) object.fail("serialisation version " + std::to_string(version) + " (2 and 3 are known)");
  if (version == 3) object.take(object.u32());  // native encoding
  if ((object.u32() & 0xFF) != kStringVector) return std::nullopt;
  std::string text;
  for (std::uint32_t left = object.u32(); left > 0; --left) {
    if ((object.u32() & 0xFF) != kString) object.fail("an element of a character vector is no string");
    const std::uint32_t size = object.u32();
    if (size == 0xFFFFFFFF) object.fail("a missing (NA) string");
    text.append(object.take(size)) += '\n';
  }
  return text;
}

}  // namespace

std::vector<std::string> read_rdb_texts(std::string_view bytes, const std::string& name) {
  std::vector<std::string> texts;
  BigEndian file(bytes, name);
  while (file.remaining() > 0) {
    const std::string label = name + ": object at " + std::to_string(file.offset());
    const std::string object = read_object(file);
    if (std::optional<std::string> text = read_lines(BigEndian(object, label))) texts.push_back(std::move(*text));
  }
  return texts;
}

}  // namespace posenc
