#include "schemes/inner.h"

#include "core/error.h"

#ifndef POSENC_TENSORS

namespace posenc {
namespace {

constexpr const char *kKey = "scheme", *kCopies = "share_layers";

SchemeInfo without_copies(SchemeInfo info) {
  info.describe = [describe = info.describe] {
    Json object = describe();
    object["properties"].erase(kCopies);
    return object;
  };
  info.resolve = [resolve = info.resolve](const Json& given, const Reader& reader) {
    if (given.contains(kCopies)) reader.problem(kCopies, "belongs to the scheme around this one");
    Json resolved = resolve(given, reader);
    resolved.erase(kCopies);
    return resolved;
  };
  return info;
}

}  // namespace

const std::vector<SchemeInfo>& bias_schemes() {
  static const std::vector<SchemeInfo> some = [] {
    std::vector<SchemeInfo> found;
    for (const SchemeInfo& info : schemes()) {
      if (info.traits.hooks == "distance_bias" || info.traits.hooks == "bias") found.push_back(without_copies(info));
    }
    return found;
  }();
  return some;
}

void BiasScheme::check(const ModelShape& shape, const Reader& reader) const {
  find_registered(bias_schemes(), name)->check(parameters, shape, reader);
}

bool Codec<BiasScheme>::read(const Json& j, BiasScheme& out, const FieldRule&, const Reader& reader) {
  return read_registered(bias_schemes(), kKey, "scheme with a bias", j, out, reader);
}

Json Codec<BiasScheme>::write(const BiasScheme& value) {
  const SchemeInfo* info = find_registered(bias_schemes(), value.name);
  POSENC_CHECK(info, "no scheme with a bias is called " + value.name);
  const Document document{value.parameters, value.name, {}};
  std::vector<Problem> problems;
  return write_registered(kKey, {info->name, info->resolve(value.parameters, Reader(document, problems))});
}

Json Codec<BiasScheme>::describe(const FieldRule&) { return describe_registered(bias_schemes(), kKey); }

}  // namespace posenc

#endif
