#include "data/rdb.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <string>

#include "core/error.h"
#include "core/scratch.h"

namespace posenc {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace std::string_literals;

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

/// Two objects, made with Python's struct and zlib: c("Über", "", "two words") in version 3, and the integer vector 7L in
/// version 2.
const std::string kTwoObjects = from_hex(
    "0000004578da8be06260606066606162646066053219584343dc742d800c018804032748f0f09ca4d4222887014a7396"
    "94e72b94e717a5140300c4d208570000001a78da8be062606060626061626460620632197881981188d9010b780086");

constexpr std::size_t kFirstObjectSize = 62;

std::string u32(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

/// A file of one object: claimed size and zlib stream.
std::string object(const std::string& serialised) {
  uLongf size = compressBound(serialised.size());
  std::string stream(size, '\0');
  compress(reinterpret_cast<Bytef*>(stream.data()), &size, reinterpret_cast<const Bytef*>(serialised.data()), serialised.size());
  return u32(static_cast<std::uint32_t>(serialised.size())) + stream.substr(0, size);
}

const std::string kHeader = "X\n"s + u32(2) + u32(0x40201) + u32(0x20300);

std::string refusal(const std::string& bytes) {
  return message_of<DataError>([&] { read_rdb_texts(bytes, "evil.rdb"); });
}

TEST(Rdb, CharacterVectorsBecomeLinesAndOthersArePassedOver) {
  EXPECT_THAT(read_rdb_texts(kTwoObjects, "x"), ElementsAre("Über\n\ntwo words\n"));
}

TEST(Rdb, AnEmptyFileHasNoTexts) { EXPECT_THAT(read_rdb_texts("", "x"), IsEmpty()); }

TEST(Rdb, EveryTruncationIsRefused) {
  for (std::size_t size = 1; size < kTwoObjects.size(); ++size) {
    if (size == kFirstObjectSize) continue;
    EXPECT_THROW(read_rdb_texts(kTwoObjects.substr(0, size), "x"), DataError) << size;
  }
}

TEST(Rdb, ADamagedStreamIsRefusedWithItsPlace) {
  std::string bytes = kTwoObjects;
  bytes[20] ^= 0x40;
  EXPECT_THAT(refusal(bytes), AllOf(HasSubstr("evil.rdb"), HasSubstr("offset 4"), HasSubstr("69 bytes")));
}

// 4 GiB claimed by a file of 100 bytes: refused before anything of that size is allocated.
TEST(Rdb, AClaimedSizeTheFileCannotHoldIsRefused) {
  EXPECT_THAT(refusal(u32(0xFFFFFFFF) + std::string(96, 'x')), HasSubstr("cannot come from the 96 left"));
  std::string understated = object(kHeader + u32(16) + u32(0));
  understated[3] -= 1;
  EXPECT_THAT(refusal(understated), HasSubstr("not a zlib stream"));
}

TEST(Rdb, ObjectsThatAreNotWhatTheySayAreRefused) {
  EXPECT_THAT(refusal(object("A\n3\n")), HasSubstr("not R's XDR"));
  EXPECT_THAT(refusal(object("X\n"s + u32(4) + u32(0) + u32(0))), HasSubstr("version 4"));
  EXPECT_THAT(refusal(object("X\n"s + u32(3) + u32(0) + u32(0) + u32(0xFFFFFFFF))), HasSubstr("needs 4294967295 bytes"));
  EXPECT_THAT(refusal(object(kHeader + u32(16) + u32(0xFFFFFFFF))), HasSubstr("needs 4 bytes, 0 are left"));  // elements missing
  EXPECT_THAT(refusal(object(kHeader + u32(16) + u32(1) + u32(9) + u32(100) + "short")),
              HasSubstr("needs 100 bytes, 5 are left"));
  EXPECT_THAT(refusal(object(kHeader + u32(16) + u32(1) + u32(13) + u32(0))), HasSubstr("is no string"));
  EXPECT_THAT(refusal(object(kHeader + u32(16) + u32(1) + u32(9) + u32(0xFFFFFFFF))), HasSubstr("NA"));
}

}  // namespace
}  // namespace posenc
