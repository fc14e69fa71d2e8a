#pragma once
// A scheme as a parameter of another: "kerple_log" or {"scheme": "kerple_log", …}. Only those that are nothing but a bias.

#include "core/registered.h"
#include "core/schema.h"
#include "schemes/info.h"

namespace posenc {

/// Name and parameters of a scheme with a bias. It has as many copies as the scheme around it, so share_layers is none of its
/// parameters.
struct BiasScheme : Registered {
  /// The rules of the scheme named, that need the model's sizes.
  void check(const ModelShape& shape, const Reader& reader) const;
};

/// Not to be called while schemes() is being built; the functions of Codec call it.
const std::vector<SchemeInfo>& bias_schemes();

template <>
struct Codec<BiasScheme> {
  static bool read(const Json&, BiasScheme&, const FieldRule&, const Reader&);
  static Json write(const BiasScheme&);
  static Json describe(const FieldRule&);
  static std::string type_name() { return "scheme name or object"; }
};

}  // namespace posenc
