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

std::string ExtensionConfig::label() const { return registered_label(extensions(), *this); }

bool Codec<ExtensionConfig>::read(const Json& j, ExtensionConfig& out, const FieldRule&, const Reader& reader) {
  return read_registered(extensions(), "method", "extension", j, out, reader);
}

Json Codec<ExtensionConfig>::write(const ExtensionConfig& value) { return write_registered("method", value); }

Json Codec<ExtensionConfig>::describe(const FieldRule&) { return describe_registered(extensions(), "method"); }

std::string extension_misfit(const ExtensionConfig& config, const std::vector<const SchemeInfo*>& schemes) {
  const ExtensionInfo& extension = *find_registered(extensions(), config.name);
  std::string of_positionless;
  bool fits = false;
  for (const SchemeInfo* scheme : schemes) {
    const std::string reason = extension.misfit(*scheme);
    if (reason.empty()) fits = true;
    else if (scheme->traits.hooks.empty()) of_positionless = reason;
    else return reason;
  }
  return fits ? "" : of_positionless;
}

std::string needs_rotary(const std::string& method, const SchemeInfo& scheme) {
  if (scheme.traits.rotary) return "";
  return method + " changes the frequencies of a rotary scheme (rope, xpos); " + scheme.name + " has none";
}

std::string needs_distances(const std::string& method, const SchemeInfo& scheme) {
  const SchemeTraits& t = scheme.traits;
  if (t.relative && t.real_positions && !t.content_dependent && !t.hooks.empty()) return "";
  return method + " replaces far distances and needs a scheme whose logits are q·k and a function of the distance; " +
         scheme.name + " is not one";
}

std::string needs_softmax(const std::string& method, const SchemeInfo& scheme) {
  return scheme.traits.softmax ? "" : method + " is a temperature of the softmax; the weights of " + scheme.name + " are not one";
}

#else

#define POSENC_EXTENSION(name) std::unique_ptr<Extension> make_##name(const Json&);
#include "extend/list.def"
#undef POSENC_EXTENSION

Frame Extension::apply(Frame frame, const Lengths& lengths) const {
  frame.visible = visible(frame.visible, lengths);
  frame.stepwise = stepwise();
  frame.rescale = [this, lengths](const Frequencies& trained, std::int64_t keys) {
    Lengths seen = lengths;
    if (stepwise()) seen.window = keys;
    return frequencies(trained, seen);
  };
  frame.far = far(frame, lengths);
  frame.temperature = temperature(frame, lengths);
  return frame;
}

std::unique_ptr<Extension> make_extension(const ExtensionConfig& config) {
#define POSENC_EXTENSION(entry) \
  if (config.name == #entry) return make_##entry(config.parameters);
#include "extend/list.def"
#undef POSENC_EXTENSION
  POSENC_CHECK(false, "no extension is called " + config.name);
}

std::unique_ptr<Extension> make_extension(const Json& named) {
  std::vector<Problem> problems;
  const Document document{named, "extension", {}};
  ExtensionConfig config;
  Codec<ExtensionConfig>::read(document.root, config, {}, Reader(document, problems));
  if (!problems.empty()) throw ConfigError(std::move(problems));
  return make_extension(config);
}

#endif

}  // namespace posenc
