#include "extend/extension.h"

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

std::string ExtensionConfig::label() const {
  const ExtensionInfo* info = find_registered(extensions(), name);
  POSENC_CHECK(info, "no extension is called " + name);
  std::string changed;
  for (const std::string& part : changed_parameters(*info, *this)) changed += (changed.empty() ? "" : ",") + part;
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
