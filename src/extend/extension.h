#pragma once
// Inference-time extensions: a trained model taken past its training length without touching its weights. An extension overrides
// one thing of how positions are seen; it adds no parameters and keeps no state between windows, so one checkpoint serves every
// row of the table. At factor 1, where it has one, it changes no bit.
//
// One file, src/extend/<name>.cpp, plus one line in list.def; compiled twice like a scheme (see schemes/info.h).

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
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
  std::string label() const;
};

struct ExtensionInfo : RegisteredInfo {
  /// Whether it changes windows within the training length too, where other extensions change no bit.
  bool within_training = false;
  /// Why it cannot be used with a scheme, naming what it needs; "" when it can.
  std::function<std::string(const SchemeInfo&)> misfit;
};

template <class Parameters>
ExtensionInfo extension_info(ExtensionInfo info) {
  take_parameters<Parameters>(info);
  return info;
}

const std::vector<ExtensionInfo>& extensions();

/// {"method": "pi", …its parameters} or "pi".
template <>
struct Codec<ExtensionConfig> {
  static bool read(const Json&, ExtensionConfig&, const FieldRule&, const Reader&);
  static Json write(const ExtensionConfig&);
  static Json describe(const FieldRule&);
  static std::string type_name() { return "extension"; }
};

/// Why an extension cannot be used on a model of these schemes, "" when it can: it must fit every scheme that has positions at
/// all, and one.
std::string extension_misfit(const ExtensionConfig& config, const std::vector<const SchemeInfo*>& schemes);

// Misfits that several extensions have in common; "" when there is none.
std::string needs_rotary(const std::string& method, const SchemeInfo& scheme);
std::string needs_distances(const std::string& method, const SchemeInfo& scheme);
std::string needs_softmax(const std::string& method, const SchemeInfo& scheme);

#ifdef POSENC_TENSORS

/// The lengths an extension may depend on.
struct Lengths {
  std::int64_t train = 0;
  std::int64_t window = 0;                                         ///< input positions of the window at hand
  double last_position = std::numeric_limits<double>::infinity();  ///< of the scheme (Scheme::last_position)

  /// A configured factor, else how far the window goes beyond training: window / train, at least 1.
  double factor(const std::optional<double>& given) const {
    return given.value_or(std::max(1.0, static_cast<double>(window) / static_cast<double>(train)));
  }
};

/// An extension overrides what it changes and nothing else.
class Extension {
 public:
  virtual ~Extension() = default;
  /// New positions for those of a window.
  virtual Positions remap(const Positions& positions, const Lengths&) const { return positions; }
  /// New frequencies for a rotary scheme (SchemeTraits::rotary).
  virtual Frequencies frequencies(const Frequencies& trained, const Lengths&) const { return trained; }
  /// Whether frequencies count, as the window, the keys each query has so far instead of the whole window.
  virtual bool stepwise() const { return false; }
  /// Positions for keys too far away; of a relative scheme.
  virtual std::optional<FarPositions> far(const Frame&, const Lengths&) const { return {}; }
  /// Which keys a query may see, given which it might in training.
  virtual Visibility visible(const Visibility& trained, const Lengths&) const { return trained; }
  /// [Q] float64, a factor on q·k; undefined: none.
  virtual Tensor temperature(const Frame&, const Lengths&) const { return {}; }
  /// Windows are cut, from their end, into pieces of so many inputs that do not see each other; 0: they are not.
  virtual std::int64_t piece(const Lengths&) const { return 0; }

  /// All of the above but remap and piece, for the queries of a frame whose positions are remapped already. The frame refers to
  /// this extension.
  Frame apply(Frame frame, const Lengths& lengths) const;
};

std::unique_ptr<Extension> make_extension(const ExtensionConfig& config);
/// As a config names it: "pi", or {"method": "pi", …}. ConfigError when that is not right.
std::unique_ptr<Extension> make_extension(const Json& named);

#endif

}  // namespace posenc
