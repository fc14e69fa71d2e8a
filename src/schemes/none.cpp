// No positional encoding (NoPE): Haviv et al. 2022 (arXiv:2203.16634), Kazemnejad et al. 2023 (arXiv:2305.19466). Only the causal
// mask breaks the symmetry of attention.
#include "schemes/info.h"
#ifdef POSENC_TENSORS
#include "schemes/scheme.h"
#endif

namespace posenc {

#ifndef POSENC_TENSORS

SchemeInfo none_info() {
  SchemeInfo info;
  info.name = "none";
  info.aliases = {"nope", "nopos", "no_pe"};
  info.title = "no positional encoding (NoPE)";
  info.paper = "Haviv et al. 2022, arXiv:2203.16634; Kazemnejad et al. 2023, arXiv:2305.19466";
  info.traits = {.relative = true};
  return scheme_info<NoParameters>(std::move(info));
}

#else

std::shared_ptr<Scheme> make_none(const Json&, const ModelShape&) { return std::make_shared<Scheme>(); }

#endif

}  // namespace posenc
