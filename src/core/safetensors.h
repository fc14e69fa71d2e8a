#pragma once
// The safetensors container (8-byte header length, JSON header, raw little-endian data), read as if every file were hostile. All
// sizes are checked against the bytes present before anything is allocated; names, ranges, dtypes and shapes are refused rather
// than guessed at. DataError names the file and the tensor.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace posenc {

enum class DType { kF64, kF32, kF16, kBF16, kI64, kI32, kI16, kI8, kU8, kBool };

std::size_t dtype_size(DType dtype);
const char* dtype_name(DType dtype);  ///< "F32", …

/// A tensor as bytes: row-major, little-endian.
struct RawTensor {
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::string bytes;

  std::int64_t numel() const;
  /// The values as double, whatever the (floating or integer) dtype.
  std::vector<double> to_double() const;
};

struct TensorFile {
  std::map<std::string, RawTensor> tensors;
  std::map<std::string, std::string> metadata;  ///< the optional "__metadata__" strings
};

/// Parses a container held in memory. `name` labels it in messages.
TensorFile parse_safetensors(std::string_view bytes, const std::string& name);
TensorFile read_safetensors(const std::filesystem::path& path);

/// The container as bytes; data in the order of the names, header padded to 8 bytes. Deterministic.
std::string format_safetensors(const TensorFile& file);

}  // namespace posenc
