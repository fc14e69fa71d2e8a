#pragma once
// Inference-time extensions: a trained model taken past its training length without touching its weights. An extension overrides
// one thing of how positions are seen; it adds no parameters and keeps no state between windows, so one checkpoint serves every
// row of the table.
//
// One file, src/extend/<name>.cpp, plus one line in list.def; compiled twice like a scheme (see schemes/info.h).

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/registered.h"
#include "core/schema.h"
#include "schemes/info.h"
#ifdef POSENC_TENSORS
#include "schemes/scheme.h"
#endif

namespace posenc {

/// An extension as a config names it: "pi", or {"method": "pi", "factor": 4}.
struct ExtensionConfig : Registered {
  /// What tables show: "pi", or "pi(factor=4)" when parameters differ from the defaults.
  std::string label() const;
};

struct ExtensionInfo {
  std::string name;
  std::vector<std::string> aliases;
  std::string title, paper;
  /// Why it cannot be used with a scheme, naming what it needs; "" when it can.
  std::function<std::string(const SchemeInfo&)> misfit;

  std::function<std::vector<FieldDoc>()> parameters;
  std::function<Json()> describe;
  std::function<Json(const Json&, const Reader&)> resolve;
};

template <class Parameters>
ExtensionInfo extension_info(ExtensionInfo info) {
  info.parameters = [] { return schema<Parameters>().document(); };
  info.describe = [] { return schema<Parameters>().describe(); };
  info.resolve = [](const Json& given, const Reader& reader) {
    Parameters p{};
    schema<Parameters>().read(given, p, reader);
    return schema<Parameters>().write(p);
  };
  return info;
}

const std::vector<ExtensionInfo>& extensions();

#ifdef POSENC_TENSORS

/// The lengths an extension may depend on.
struct Lengths {
  std::int64_t train = 0;
  std::int64_t window = 0;                                         ///< input positions of the window at hand
  double last_position = std::numeric_limits<double>::infinity();  ///< of the scheme (Scheme::last_position)
};

class Extension {
 public:
  virtual ~Extension() = default;
  /// New positions for those of a window.
  virtual Positions remap(const Positions& positions, const Lengths&) const { return positions; }
};

std::unique_ptr<Extension> make_extension(const ExtensionConfig& config);

#endif

}  // namespace posenc
