#include <algorithm>

#include "core/error.h"
#include "schemes/info.h"
#ifdef POSENC_TENSORS
#include "schemes/rotation.h"
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

Tensor Scheme::rotate(const Tensor& x, Side side, const Frame& frame) const {
  const Turn by = turn(side, frame);
  return by.cos.defined() ? turn_pairs(x, by.cos, by.sin, by.interleaved) : x;
}

Tensor Frequencies::angles(const Tensor& positions) const {
  const Tensor all = torch::outer(positions, inv_freq);
  if (first <= 0) return all;
  return torch::where((positions < first).unsqueeze(1), torch::outer(positions, first_inv_freq), all);
}

Tensor Scheme::bias(const Frame& frame) const {
  const Tensor distances = frame.distances();                                                // [Q, K]
  const Tensor flat = distance_bias(distances.flatten());                                    // [H, Q·K]
  return flat.defined() ? flat.unflatten(1, {distances.size(0), distances.size(1)}) : flat;  // [H, Q, K]
}

Frame Frame::rows(std::int64_t begin, std::int64_t end) const {
  const std::int64_t seen = first_query + end;
  Frame part = *this;
  part.queries = queries.slice(begin, end);
  part.keys = keys.slice(0, seen);
  part.first_query = first_query + begin;
  if (far) part.far = FarPositions{far->from, far->queries.slice(begin, end), far->keys.slice(0, seen)};
  if (temperature.defined()) part.temperature = temperature.slice(0, begin, end);
  return part;
}

Frame Frame::beyond() const {
  Frame frame = *this;
  frame.queries = far->queries;
  frame.keys = far->keys;
  frame.far.reset();
  return frame;
}

Tensor Frame::is_far() const { return distances() >= far->from; }

Tensor Frame::distances() const { return (queries.values.unsqueeze(1) - keys.values.unsqueeze(0)).clamp_min(0); }

Tensor Frame::unseen() const {
  const Tensor query = torch::arange(first_query, first_query + query_count()).unsqueeze(1);  // [Q, 1]
  const Tensor key = torch::arange(key_count()).unsqueeze(0);                                 // [1, K]
  Tensor hidden = torch::zeros({query_count(), key_count()}, torch::kBool);
  if (visible.window > 0) hidden = hidden | (query - key >= visible.window);
  if (visible.chunk > 0) hidden = hidden | (query.floor_divide(visible.chunk) != key.floor_divide(visible.chunk));
  if (visible.keep_first > 0) hidden = hidden & (key >= visible.keep_first);
  return hidden | (key > query);  // [Q, K]
}

Tensor Frame::seen_counts() const {
  const Tensor before = torch::arange(first_query, first_query + query_count(), torch::kFloat64);  // keys before each query
  Tensor seen = before + 1;
  if (visible.window > 0) seen = seen.clamp_max(static_cast<double>(visible.window));
  if (visible.chunk > 0) seen = torch::minimum(seen, before.remainder(static_cast<double>(visible.chunk)) + 1);
  return seen + (before + 1 - seen).clamp_max(static_cast<double>(visible.keep_first));  // the first keys, where not seen anyway
}

std::vector<Tensor> Scheme::used_parameters() const {
  std::vector<Tensor> used = parameters();
  for (const Tensor& tensor : shared_) {
    if (std::none_of(used.begin(), used.end(), [&](const Tensor& own) { return own.is_same(tensor); })) used.push_back(tensor);
  }
  return used;
}

#endif

}  // namespace posenc
