#include "extend/extension.h"

#include <array>
#include <charconv>

namespace posenc {

#ifndef POSENC_TENSORS

#define POSENC_EXTENSION(name) ExtensionInfo name##_info();
#include "extend/list.def"
#undef POSENC_EXTENSION

const std::vector<ExtensionInfo>& extensions() {
  static const std::vector<ExtensionInfo> all = {
#define POSENC_EXTENSION(name) name##_info(),
#include "extend/list.def"
#undef POSENC_EXTENSION
  };
  return all;
}

namespace {

/// A parameter as people write it: 4 rather than 4.0.
std::string show(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_number_float()) return dump_json_line(value);
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.begin(), text.end(), value.get<double>()).ptr};
}

}  // namespace

std::string ExtensionConfig::label() const {
  const ExtensionInfo* info = find_registered(extensions(), name);
  POSENC_CHECK(info, "no extension is called " + name);
  std::vector<Problem> none;
  const Document empty{Json::object(), "", {}};
  const Json defaults = info->resolve(empty.root, Reader(empty, none));
  std::string changed;
  for (const auto& [key, value] : parameters.items()) {
    if (value == defaults.at(key)) continue;
    changed += (changed.empty() ? "" : ",") + key + "=" + show(value);
  }
  return changed.empty() ? name : name + "(" + changed + ")";
}

#else

#define POSENC_EXTENSION(name) std::unique_ptr<Extension> make_##name(const Json&);
#include "extend/list.def"
#undef POSENC_EXTENSION

std::unique_ptr<Extension> make_extension(const ExtensionConfig& config) {
#define POSENC_EXTENSION(entry) \
  if (config.name == #entry) return make_##entry(config.parameters);
#include "extend/list.def"
#undef POSENC_EXTENSION
  POSENC_CHECK(false, "no extension is called " + config.name);
}

#endif

}  // namespace posenc
