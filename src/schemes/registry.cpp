#include "core/error.h"
#include "schemes/info.h"
#ifdef POSENC_TENSORS
#include "schemes/scheme.h"
#endif

namespace posenc {

#ifndef POSENC_TENSORS

#define POSENC_SCHEME(name) SchemeInfo name##_info();
#include "schemes/list.def"
#undef POSENC_SCHEME

const std::vector<SchemeInfo>& schemes() {
  static const std::vector<SchemeInfo> all = {
#define POSENC_SCHEME(name) name##_info(),
#include "schemes/list.def"
#undef POSENC_SCHEME
  };
  return all;
}

template <>
const Schema<NoParameters>& schema<NoParameters>() {
  static const Schema<NoParameters> table("no parameters");
  return table;
}

#else  // what a scheme computes

#define POSENC_SCHEME(name) std::shared_ptr<Scheme> make_##name(const Json&, const ModelShape&);
#include "schemes/list.def"
#undef POSENC_SCHEME

std::shared_ptr<Scheme> make_scheme(const std::string& name, const Json& parameters, const ModelShape& shape) {
#define POSENC_SCHEME(entry) \
  if (name == #entry) return make_##entry(parameters, shape);
#include "schemes/list.def"
#undef POSENC_SCHEME
  POSENC_CHECK(false, "no scheme is called " + name);
}

Tensor Scheme::bias(const Frame& frame) const {
  const Tensor distances = (frame.queries.values.unsqueeze(1) - frame.keys.values.unsqueeze(0)).clamp_min(0);  // [Q, K]
  const Tensor flat = distance_bias(distances.flatten());                                                      // [H, Q·K]
  return flat.defined() ? flat.unflatten(1, {distances.size(0), distances.size(1)}) : flat;                    // [H, Q, K]
}

#endif

}  // namespace posenc
