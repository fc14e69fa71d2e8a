#include "core/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/files.h"
#include "core/json.h"

namespace posenc {
namespace {

static_assert(std::endian::native == std::endian::little, "tensor data is used in place as little-endian");

constexpr std::size_t kLengthSize = 8;
constexpr std::uint64_t kMaxHeader = 100'000'000;  // the limit of the reference implementation
constexpr std::size_t kMaxName = 512;
constexpr std::size_t kMaxRank = 8;
constexpr JsonLimits kHeaderLimits{.max_bytes = kMaxHeader, .max_depth = 4, .max_values = 500'000};
constexpr const char* kMetadata = "__metadata__";

struct DTypeInfo {
  DType dtype;
  const char* name;
  std::size_t size;
};
constexpr std::array<DTypeInfo, 10> kDTypes{{{DType::kF64, "F64", 8},
                                             {DType::kF32, "F32", 4},
                                             {DType::kF16, "F16", 2},
                                             {DType::kBF16, "BF16", 2},
                                             {DType::kI64, "I64", 8},
                                             {DType::kI32, "I32", 4},
                                             {DType::kI16, "I16", 2},
                                             {DType::kI8, "I8", 1},
                                             {DType::kU8, "U8", 1},
                                             {DType::kBool, "BOOL", 1}}};

const DTypeInfo& info(DType dtype) {
  const auto found = std::find_if(kDTypes.begin(), kDTypes.end(), [&](const DTypeInfo& d) { return d.dtype == dtype; });
  POSENC_CHECK(found != kDTypes.end(), "a DType outside its enumeration");
  return *found;
}

/// Text of the file as it may be printed: quoted, escaped, cut.
std::string quote(const std::string& text) {
  const std::string whole = Json(text).dump(-1, ' ', true);
  return whole.size() <= 80 ? whole : whole.substr(0, 76) + "…\"";
}

/// Printable UTF-8 short enough to be a name; C0, DEL and C1 control characters would reach the terminal in messages.
bool is_valid_name(const std::string& name) {
  for (std::size_t i = 0; i < name.size(); ++i) {
    const unsigned char c = name[i];
    const unsigned char next = i + 1 < name.size() ? name[i + 1] : 0;
    if (c < 0x20 || c == 0x7f || (c == 0xc2 && next >= 0x80 && next <= 0x9f)) return false;
  }
  return name.size() <= kMaxName;
}

/// One tensor as its header describes it, not yet read.
struct Entry {
  std::string name;
  DType dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin, end;
};

/// The header of one file. Its errors name the file and the tensor.
class HeaderReader {
 public:
  HeaderReader(const std::string& file, std::uint64_t data_size) : file_(file), data_size_(data_size) {}

  [[noreturn]] void refuse(const std::string& reason) const { throw DataError(file_ + ": " + reason); }

  /// The entries in the order of their data, which they cover exactly.
  std::vector<Entry> entries(const Json& header) const {
    std::vector<Entry> all;
    for (const auto& [name, value] : header.items()) {
      if (name == kMetadata) continue;
      if (!is_valid_name(name)) refuse("tensor name " + quote(name) + " is longer than 512 bytes or holds control characters");
      all.push_back(entry(name, value));
    }
    std::sort(all.begin(), all.end(),
              [](const Entry& a, const Entry& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
    std::uint64_t covered = 0;
    for (const Entry& e : all) {
      if (e.begin != covered) {
        refuse_tensor(e.name, "its data begin at " + std::to_string(e.begin) + " where the tensors before end at " +
                                  std::to_string(covered) + "; tensors may neither overlap nor leave gaps");
      }
      covered = e.end;
    }
    if (covered != data_size_) {
      refuse("the tensors cover " + std::to_string(covered) + " of " + std::to_string(data_size_) + " data bytes");
    }
    return all;
  }

  std::map<std::string, std::string> metadata(const Json& header) const {
    std::map<std::string, std::string> strings;
    if (!header.contains(kMetadata) || header[kMetadata].is_null()) return strings;
    if (!header[kMetadata].is_object()) refuse("__metadata__ is neither an object of strings nor null");
    for (const auto& [key, value] : header[kMetadata].items()) {
      if (!value.is_string()) refuse("__metadata__ entry " + quote(key) + " is not a string");
      strings[key] = value.get<std::string>();
    }
    return strings;
  }

 private:
  [[noreturn]] void refuse_tensor(const std::string& name, const std::string& reason) const {
    refuse("tensor " + quote(name) + ": " + reason);
  }

  Entry entry(const std::string& name, const Json& value) const {
    if (!value.is_object()) refuse_tensor(name, "its entry is not an object of dtype, shape and data_offsets");
    for (const auto& [key, ignored] : value.items()) {
      if (key != "dtype" && key != "shape" && key != "data_offsets") refuse_tensor(name, "unknown key " + quote(key));
    }
    for (const char* key : {"dtype", "shape", "data_offsets"}) {
      if (!value.contains(key)) refuse_tensor(name, std::string("missing key \"") + key + "\"");
    }
    Entry e{name, dtype(name, value["dtype"]), {}, 0, 0};
    const std::vector<std::int64_t> offsets = integers(name, "data_offsets", value["data_offsets"], 2);
    if (offsets.size() != 2) refuse_tensor(name, "data_offsets is not a pair");
    e.begin = static_cast<std::uint64_t>(offsets[0]), e.end = static_cast<std::uint64_t>(offsets[1]);
    e.shape = integers(name, "shape", value["shape"], kMaxRank);
    check_size(e);
    return e;
  }

  DType dtype(const std::string& name, const Json& value) const {
    if (!value.is_string()) refuse_tensor(name, "dtype is not a string");
    const std::string text = value.get<std::string>();
    std::string known;
    for (const DTypeInfo& d : kDTypes) {
      if (text == d.name) return d.dtype;
      known += (known.empty() ? "" : ", ") + std::string(d.name);
    }
    refuse_tensor(name, "unknown dtype " + quote(text) + " (known: " + known + ")");
  }

  std::vector<std::int64_t> integers(const std::string& name, const std::string& key, const Json& value, std::size_t most) const {
    if (!value.is_array()) refuse_tensor(name, key + " is not a list");
    if (value.size() > most) {
      refuse_tensor(name, key + " has " + std::to_string(value.size()) + " numbers, at most " + std::to_string(most) + " may be");
    }
    std::vector<std::int64_t> numbers;
    for (const Json& item : value) {
      if (!item.is_number_unsigned() || item.get<std::uint64_t>() > INT64_MAX) {
        refuse_tensor(name, key + " holds something other than integers from 0 to 2^63 - 1");
      }
      numbers.push_back(item.get<std::int64_t>());
    }
    return numbers;
  }

  void check_size(const Entry& e) const {
    std::uint64_t bytes = dtype_size(e.dtype);
    for (const std::int64_t extent : e.shape) {
      if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) {
        refuse_tensor(e.name, "the size of shape " + Json(e.shape).dump() + " overflows 64 bits");
      }
    }
    const std::string range = "[" + std::to_string(e.begin) + ", " + std::to_string(e.end) + "]";
    if (e.begin > e.end || e.end > data_size_) {
      refuse_tensor(e.name, "data_offsets " + range + " do not lie in the " + std::to_string(data_size_) + " data bytes present");
    }
    if (e.end - e.begin != bytes) {
      refuse_tensor(e.name, "shape " + Json(e.shape).dump() + " of " + dtype_name(e.dtype) + " takes " + std::to_string(bytes) +
                                " bytes, data_offsets " + range + " hold " + std::to_string(e.end - e.begin));
    }
  }

  const std::string& file_;
  std::uint64_t data_size_;
};

Json parse_header(std::string_view text, const std::string& file) {
  try {
    Json header = parse_json(text, file, kHeaderLimits).root;
    // A config may hold comments, a container may not.
    if (!Json::accept(text)) throw DataError(file + ": the header is not plain JSON");
    return header;
  } catch (const ConfigError& error) {
    throw DataError(file + ": the header is not valid: " + error.what());
  }
}

double half_to_double(std::uint16_t word) {
  const int exponent = word >> 10 & 31;
  const int fraction = word & 1023;
  const double sign = word >> 15 ? -1.0 : 1.0;
  if (exponent == 31) return fraction ? std::nan("") : sign * HUGE_VAL;
  return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

double bfloat_to_double(std::uint16_t word) { return std::bit_cast<float>(std::uint32_t{word} << 16); }

/// `bytes` as values of type T, each converted.
template <class T, class Convert>
std::vector<double> convert(const std::string& bytes, Convert to_number) {
  std::vector<double> values;
  values.reserve(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + i, sizeof value);
    values.push_back(to_number(value));
  }
  return values;
}

template <class T>
std::vector<double> convert(const std::string& bytes) {
  return convert<T>(bytes, [](T value) { return static_cast<double>(value); });
}

}  // namespace

std::size_t dtype_size(DType dtype) { return info(dtype).size; }
const char* dtype_name(DType dtype) { return info(dtype).name; }

std::int64_t RawTensor::numel() const {
  std::int64_t n = 1;
  for (const std::int64_t extent : shape) n *= extent;
  return n;
}

std::vector<double> RawTensor::to_double() const {
  switch (dtype) {
    case DType::kF64:
      return convert<double>(bytes);
    case DType::kF32:
      return convert<float>(bytes);
    case DType::kF16:
      return convert<std::uint16_t>(bytes, half_to_double);
    case DType::kBF16:
      return convert<std::uint16_t>(bytes, bfloat_to_double);
    case DType::kI64:
      return convert<std::int64_t>(bytes);
    case DType::kI32:
      return convert<std::int32_t>(bytes);
    case DType::kI16:
      return convert<std::int16_t>(bytes);
    case DType::kI8:
      return convert<std::int8_t>(bytes);
    case DType::kU8:
      return convert<std::uint8_t>(bytes);
    case DType::kBool:
      return convert<std::uint8_t>(bytes, [](std::uint8_t value) { return value ? 1.0 : 0.0; });
  }
  POSENC_CHECK(false, "a DType outside its enumeration");
}

TensorFile parse_safetensors(std::string_view bytes, const std::string& name) {
  std::uint64_t length = 0;
  if (bytes.size() < kLengthSize + 2) {
    throw DataError(name + ": not a safetensors file: it has " + std::to_string(bytes.size()) + " bytes");
  }
  std::memcpy(&length, bytes.data(), kLengthSize);
  const std::uint64_t most = std::min<std::uint64_t>(kMaxHeader, bytes.size() - kLengthSize);
  if (length < 2 || length > most || bytes[kLengthSize] != '{') {
    throw DataError(name + ": not a safetensors file, or cut short: it says that its header takes " + std::to_string(length) +
                    " bytes (2 to " + std::to_string(most) + " are possible) and must then begin with '{'");
  }
  const std::string_view data = bytes.substr(kLengthSize + length);
  const HeaderReader reader(name, data.size());
  const Json header = parse_header(bytes.substr(kLengthSize, length), name);

  const std::vector<Entry> entries = reader.entries(header);
  TensorFile file{{}, reader.metadata(header)};
  for (const Entry& e : entries) {
    file.tensors[e.name] = {e.dtype, e.shape, std::string(data.substr(e.begin, e.end - e.begin))};
  }
  return file;
}

TensorFile read_safetensors(const std::filesystem::path& path) { return parse_safetensors(read_file(path), path.string()); }

std::string format_safetensors(const TensorFile& file) {
  Json header = Json::object();
  if (!file.metadata.empty()) header[kMetadata] = file.metadata;
  std::uint64_t end = 0;
  for (const auto& [name, tensor] : file.tensors) {
    POSENC_CHECK(name != kMetadata && is_valid_name(name), "not a tensor name: " + name);
    POSENC_CHECK(tensor.bytes.size() == tensor.numel() * dtype_size(tensor.dtype), "bytes and shape of " + name + " differ");
    const std::uint64_t begin = std::exchange(end, end + tensor.bytes.size());
    header[name] = {{"dtype", dtype_name(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
  }
  std::string text = dump_json_line(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  bytes.reserve(sizeof length + text.size() + end);
  bytes += text;
  for (const auto& [name, tensor] : file.tensors) bytes += tensor.bytes;
  return bytes;
}

}  // namespace posenc
