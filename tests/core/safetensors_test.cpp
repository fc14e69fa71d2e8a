#include "core/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/files.h"
#include "core/scratch.h"

namespace posenc {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string container(std::string header, std::string_view data = "") {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(header.size() >> 8 * i & 0xff);
  return bytes.append(header).append(data);
}

/// One tensor "w" with the given members and `size` bytes of data.
std::string one_tensor(const std::string& members, std::size_t size) {
  return container(R"({"w":{)" + members + "}}", std::string(size, '\0'));
}

std::string refusal(const std::string& bytes) {
  const std::string message = message_of<DataError>([&] { parse_safetensors(bytes, "m.safetensors"); });
  EXPECT_THAT(message, HasSubstr("m.safetensors"));
  return message;
}

const RawTensor& only(const TensorFile& file) { return file.tensors.at("w"); }

TEST(Safetensors, ReadsEveryReferenceFile) {
  int files = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(POSENC_SOURCE_DIR "/tests/golden")) {
    if (entry.path().extension() != ".safetensors") continue;
    const TensorFile file = read_safetensors(entry.path());
    EXPECT_GE(file.tensors.size(), 14u) << entry.path();
    EXPECT_EQ(parse_safetensors(format_safetensors(file), "copy").tensors.size(), file.tensors.size());
    ++files;
  }
  EXPECT_GE(files, 16);
}

// Values read from the file with Python's struct module.
TEST(Safetensors, ReadsTheValuesOfAReferenceFile) {
  const TensorFile file = read_safetensors(POSENC_SOURCE_DIR "/tests/golden/train/nanogpt_const_lr.init.safetensors");
  EXPECT_EQ(file.tensors.size(), 28u);
  const RawTensor& weight = file.tensors.at("transformer.h.0.attn.c_attn.weight");
  EXPECT_THAT(weight.shape, ElementsAre(96, 32));
  EXPECT_EQ(weight.numel(), 3072);
  const std::vector<double> values = weight.to_double();
  ASSERT_EQ(values.size(), 3072u);
  EXPECT_EQ(values[0], -0.0269775390625);
  EXPECT_EQ(values[3], -0.033447265625);
}

TEST(Safetensors, WritesTheDocumentedBytes) {
  TensorFile file;
  file.tensors["bb"] = {DType::kU8, {3}, "xyz"};
  file.tensors["a"] = {DType::kF32, {}, std::string("\0\0\x80\x3f", 4)};
  file.metadata["format"] = "pt";
  const std::string header = R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                             R"("bb":{"dtype":"U8","shape":[3],"data_offsets":[4,7]}})";
  ASSERT_EQ(header.size() % 8, 1u) << "so that there is something to pad";
  const std::string bytes = container(header + std::string(7, ' '), std::string("\0\0\x80\x3fxyz", 7));
  EXPECT_EQ(format_safetensors(file), bytes);
  const TensorFile back = parse_safetensors(bytes, "m");
  EXPECT_THAT(back.tensors.at("a").to_double(), ElementsAre(1.0));
  EXPECT_EQ(back.tensors.at("bb").bytes, "xyz");
  EXPECT_EQ(back.metadata.at("format"), "pt");
}

// Fault 112: the words 0x3C00 (F16) and 0x3F80 (BF16) are 1.0; further words from IEEE 754-2019 binary16.
TEST(Safetensors, ConvertsHalfPrecision) {
  const auto values = [](DType dtype, std::string bytes) {
    return RawTensor{dtype, {static_cast<std::int64_t>(bytes.size() / 2)}, bytes}.to_double();
  };
  EXPECT_THAT(values(DType::kBF16, std::string("\x80\x3f\x00\xc0\x49\x40", 6)), ElementsAre(1.0, -2.0, 3.140625));
  EXPECT_THAT(values(DType::kF16, std::string("\x00\x3c\x00\xc0\xff\x7b\x01\x00\x00\x04\x00\x7c\x00\xfc", 14)),
              ElementsAre(1.0, -2.0, 65504.0, std::ldexp(1.0, -24), std::ldexp(1.0, -14), HUGE_VAL, -HUGE_VAL));
  EXPECT_TRUE(std::isnan(values(DType::kF16, "\x01\x7e")[0]));
  const double negative_zero = values(DType::kF16, std::string("\x00\x80", 2))[0];
  EXPECT_TRUE(negative_zero == 0 && std::signbit(negative_zero));
}

// Fault 112.
TEST(Safetensors, ConvertsTheOtherDtypes) {
  EXPECT_THAT((RawTensor{DType::kF64, {1}, std::string("\0\0\0\0\0\0\xf8\x3f", 8)}.to_double()), ElementsAre(1.5));
  EXPECT_THAT((RawTensor{DType::kF32, {1}, std::string("\0\0\xc0\xbf", 4)}.to_double()), ElementsAre(-1.5));
  EXPECT_THAT((RawTensor{DType::kI64, {1}, std::string(8, '\xff')}.to_double()), ElementsAre(-1));
  EXPECT_THAT((RawTensor{DType::kI32, {1}, std::string("\x01\x02\0\0", 4)}.to_double()), ElementsAre(513));
  EXPECT_THAT((RawTensor{DType::kI16, {1}, "\xfe\xff"}.to_double()), ElementsAre(-2));
  EXPECT_THAT((RawTensor{DType::kI8, {1}, "\x80"}.to_double()), ElementsAre(-128));
  EXPECT_THAT((RawTensor{DType::kU8, {1}, "\x80"}.to_double()), ElementsAre(128));
  EXPECT_THAT((RawTensor{DType::kBool, {2}, std::string("\0\x01", 2)}.to_double()), ElementsAre(0, 1));
}

// Fault 112.
TEST(Safetensors, RefusesAnUnknownDtypeByName) {
  EXPECT_THAT(refusal(one_tensor(R"("dtype":"F7","shape":[1],"data_offsets":[0,4])", 4)),
              AllOf(HasSubstr("\"w\""), HasSubstr("unknown dtype \"F7\""), HasSubstr("F64, F32, F16, BF16")));
  EXPECT_THAT(refusal(one_tensor(R"("dtype":"f32","shape":[1],"data_offsets":[0,4])", 4)), HasSubstr("unknown dtype \"f32\""));
  EXPECT_THAT(refusal(one_tensor(R"("dtype":7,"shape":[1],"data_offsets":[0,4])", 4)), HasSubstr("dtype is not a string"));
  EXPECT_THAT(refusal(one_tensor(R"("dtype":"\u001b[31m","shape":[1],"data_offsets":[0,4])", 4)), HasSubstr(R"("\u001b[31m")"));
}

// Fault 107.
TEST(Safetensors, RefusesAShapeThatIsNotItsByteRange) {
  EXPECT_THAT(refusal(one_tensor(R"("dtype":"F32","shape":[1000,1000],"data_offsets":[0,4])", 4)),
              AllOf(HasSubstr("\"w\""), HasSubstr("4000000 bytes"), HasSubstr("hold 4")));
  EXPECT_THAT(refusal(one_tensor(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4])", 4)),
              AllOf(HasSubstr("[4294967296,4294967296]"), HasSubstr("overflows")));
  EXPECT_THAT(refusal(one_tensor(R"("dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0])", 0)),
              HasSubstr("overflows"));
  EXPECT_EQ(only(parse_safetensors(one_tensor(R"("dtype":"F32","shape":[0],"data_offsets":[0,0])", 0), "m")).numel(), 0);
  EXPECT_EQ(only(parse_safetensors(one_tensor(R"("dtype":"F32","shape":[],"data_offsets":[0,4])", 4), "m")).numel(), 1);
}

// Fault 109.
TEST(Safetensors, RefusesAHeaderLengthThatCannotBe) {
  const std::string good = one_tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])", 4);
  const auto with_length = [&](const std::string& length) { return refusal(std::string(good).replace(0, 8, length)); };
  EXPECT_THAT(with_length(std::string(8, '\xff')), HasSubstr("18446744073709551615 bytes"));
  EXPECT_THAT(with_length(static_cast<char>(good.size()) + std::string(7, '\0')), HasSubstr("not a safetensors file"));
  EXPECT_THAT(with_length(std::string(8, '\0')), HasSubstr("header takes 0 bytes"));
  EXPECT_THAT(refusal(good.substr(0, 7)), HasSubstr("7 bytes"));
  EXPECT_THAT(refusal(""), HasSubstr("0 bytes"));
}

// Fault 109: padding is as good as none.
TEST(Safetensors, AcceptsAPaddedHeaderAndAnEmptyOne) {
  const std::string header = R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  const std::string padded = header + std::string(256 - header.size(), ' ');
  EXPECT_EQ(only(parse_safetensors(container(padded, std::string(4, '\0')), "m")).numel(), 1);
  EXPECT_TRUE(parse_safetensors(container("{}"), "m").tensors.empty());
}

// Fault 111.
TEST(Safetensors, RefusesADuplicateTensorNamingIt) {
  const std::string entry = R"("twice":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  EXPECT_THAT(refusal(container("{" + entry + "," + entry + "}", std::string(4, '\0'))), HasSubstr("twice"));
}

TEST(Safetensors, RefusesRangesThatDoNotTileTheData) {
  using Text = std::string;
  const auto two = [](const Text& shape_a, const Text& range_a, const Text& shape_b, const Text& range_b, std::size_t size) {
    const Text a = R"("a":{"dtype":"U8","shape":)" + shape_a + R"(,"data_offsets":)" + range_a + "}";
    const Text b = R"("b":{"dtype":"U8","shape":)" + shape_b + R"(,"data_offsets":)" + range_b + "}";
    return container("{" + a + "," + b + "}", Text(size, '\0'));
  };
  EXPECT_THAT(refusal(two("[4]", "[0,4]", "[4]", "[2,6]", 6)), AllOf(HasSubstr("\"b\""), HasSubstr("overlap")));
  EXPECT_THAT(refusal(two("[4]", "[0,4]", "[4]", "[5,9]", 9)), AllOf(HasSubstr("\"b\""), HasSubstr("gaps")));
  EXPECT_THAT(refusal(two("[4]", "[0,4]", "[0]", "[2,2]", 4)), AllOf(HasSubstr("\"b\""), HasSubstr("begin at 2")));
  EXPECT_THAT(refusal(two("[4]", "[0,4]", "[4]", "[4,8]", 9)), HasSubstr("cover 8 of 9"));
  EXPECT_THAT(refusal(two("[4]", "[0,4]", "[4]", "[4,8]", 7)), HasSubstr("7 data bytes"));
  EXPECT_EQ(parse_safetensors(two("[0]", "[4,4]", "[4]", "[0,4]", 4), "m").tensors.size(), 2u);
}

TEST(Safetensors, RefusesMalformedEntries) {
  EXPECT_THAT(refusal(container(R"({"w":[]})")), HasSubstr("\"w\": its entry is not an object"));
  EXPECT_THAT(refusal(one_tensor(R"("dtype":"U8","shape":[1])", 1)), HasSubstr("missing key \"data_offsets\""));
  EXPECT_THAT(refusal(one_tensor(R"("dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1)", 1)), HasSubstr("unknown key \"x\""));
  EXPECT_THAT(refusal(one_tensor(R"("dtype":"U8","shape":[-1],"data_offsets":[0,1])", 1)), HasSubstr("shape holds"));
  EXPECT_THAT(refusal(one_tensor(R"("dtype":"U8","shape":[1.0],"data_offsets":[0,1])", 1)), HasSubstr("shape holds"));
  EXPECT_THAT(refusal(one_tensor(R"("dtype":"U8","shape":[1],"data_offsets":[0])", 1)), HasSubstr("not a pair"));
  EXPECT_THAT(refusal(one_tensor(R"("dtype":"U8","shape":[1],"data_offsets":[1,0])", 1)), HasSubstr("[1, 0]"));
  EXPECT_THAT(refusal(one_tensor(R"("dtype":"U8","shape":[1],"data_offsets":[9223372036854775808,1])", 1)),
              HasSubstr("2^63 - 1"));
  EXPECT_THAT(refusal(one_tensor(R"("dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1])", 1)), HasSubstr("at most 8"));
}

TEST(Safetensors, RefusesHeadersThatAreNotPlainJson) {
  EXPECT_THAT(refusal(container(R"( {"w":1})")), HasSubstr("must then begin with '{'"));
  EXPECT_THAT(refusal(container("\xef\xbb\xbf{}")), HasSubstr("must then begin with '{'"));
  EXPECT_THAT(refusal(container("{}{}")), HasSubstr("header is not valid"));
  EXPECT_THAT(refusal(container("{\"\xff\":1}")), HasSubstr("header is not valid"));
  EXPECT_THAT(refusal(container("{}/* hidden */")), HasSubstr("not plain JSON"));
  EXPECT_THAT(refusal(one_tensor(R"("dtype":"U8","shape":[[[1]]],"data_offsets":[0,1])", 1)), HasSubstr("header is not valid"));
  EXPECT_THAT(refusal(container("{" + std::string(100'000, '['))), HasSubstr("header is not valid"));
}

TEST(Safetensors, RefusesNamesThatCannotBeShown) {
  const auto named = [](const std::string& name) {
    return container("{\"" + name + R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x");
  };
  EXPECT_THAT(refusal(named(std::string(513, 'n'))), HasSubstr("longer than 512 bytes"));
  EXPECT_THAT(refusal(named("a\\u001b[2J")), HasSubstr("control characters"));
  EXPECT_THAT(refusal(named("a\x7f")), HasSubstr("control characters"));
  EXPECT_THAT(refusal(named("a\xc2\x9b")), HasSubstr("control characters"));
  EXPECT_EQ(parse_safetensors(named(std::string(512, 'n')), "m").tensors.size(), 1u);
  EXPECT_EQ(parse_safetensors(named("größe"), "m").tensors.size(), 1u);
}

TEST(Safetensors, MetadataIsAMapOfStringsOrNull) {
  EXPECT_TRUE(parse_safetensors(container(R"({"__metadata__":null})"), "m").metadata.empty());
  EXPECT_EQ(parse_safetensors(container(R"({"__metadata__":{"a":"b"}})"), "m").metadata.at("a"), "b");
  EXPECT_THAT(refusal(container(R"({"__metadata__":{"a":1}})")), HasSubstr("\"a\" is not a string"));
  EXPECT_THAT(refusal(container(R"({"__metadata__":[]})")), HasSubstr("neither an object"));
}

// Checkpoint and weight formats of other programs, renamed.
TEST(Safetensors, RefusesOtherFormats) {
  EXPECT_THAT(refusal("GGUF\x03" + std::string(60, '\0')), HasSubstr("not a safetensors file"));
  EXPECT_THAT(refusal("PK\x03\x04" + std::string(60, '\0')), HasSubstr("not a safetensors file"));
  EXPECT_THAT(refusal("\x80\x02}q" + std::string(60, '\0')), HasSubstr("not a safetensors file"));
}

TEST(Safetensors, AnUnreadableFileIsAnInputOutputError) {
  const Scratch scratch;
  EXPECT_THROW(read_safetensors(scratch / "none.safetensors"), IoError);
}

}  // namespace
}  // namespace posenc
