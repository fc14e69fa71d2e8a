#pragma once
// Schemes that give every position a vector of its own (sinusoidal, learned), and the ways to bring it together with the token
// embedding e, the "fusion":
//
//   add             e + p                                      Vaswani et al. 2017
//   add_scaled      e + γ·p, γ learned from d_model^-1/2       x-transformers' scaled sinusoid
//   concat          [e; p], e narrower by position_width; a tied head reads the part of e
//   concat_project  W·[e; p], W [C, 2C] learned
//   gated           g⊙e + (1−g)⊙p, g = σ(W·[e; p] + b)
//   film            e⊙(1 + W_s·p) + W_b·p
//   per_layer       p is added to the residual stream before every layer
//   qk_only         p is added to what queries and keys are projected from, in every layer, and never enters the values:
//                   position-infused attention, Press et al. 2021 (Shortformer, arXiv:2012.15832)

#include <optional>
#include <string>

#include "schemes/info.h"
#ifdef POSENC_TENSORS
#include "schemes/scheme.h"
#endif

namespace posenc {

/// Parameters that every absolute scheme has; its own struct derives from this.
struct FusionParameters {
  std::string fusion = "add";
  std::optional<std::int64_t> position_width;

  /// Width of the position vectors in a model of width d_model.
  std::int64_t width(std::int64_t d_model) const { return fusion == "concat" ? position_width.value_or(d_model / 2) : d_model; }
};

void check_fusion(const FusionParameters& p, const ModelShape& shape, const Reader& reader);

/// Adds the fields of FusionParameters to the table of a struct derived from it.
template <class Parameters>
Schema<Parameters> with_fusion(Schema<Parameters> table) {
  std::string Parameters::*const fusion = &Parameters::fusion;
  std::optional<std::int64_t> Parameters::*const position_width = &Parameters::position_width;
  table
      .field("fusion", fusion,
             "how positions join the embeddings: added (scaled by a learned number), concatenated (and projected), gated, film, "
             "added before every layer, or to the inputs of queries and keys alone")
      .choices({"add", "add_scaled", "concat", "concat_project", "gated", "film", "per_layer", "qk_only"})
      .field("position_width", position_width, "concat: dims of the position; null: half of d_model")
      .at_least(1);
  return table;
}

#ifdef POSENC_TENSORS

class AbsoluteScheme : public Scheme {
 public:
  AbsoluteScheme(const FusionParameters& p, std::int64_t d_model);

  Tensor embed(const Tensor& x, const Frame& frame) const override;
  Tensor layer_input(const Tensor& x, const Frame& frame) const override;
  Tensor attention_input(const Tensor& x, const Frame& frame) const override;
  std::int64_t token_width() const override { return d_model_ - (fusion_ == "concat" ? width_ : 0); }
  void initialise(torch::Generator generator) override;

 protected:
  /// The vectors of the frame's queries, [Q, width] in `dtype`.
  virtual Tensor vectors(const Frame& frame, torch::ScalarType dtype) const = 0;
  std::int64_t width() const { return width_; }

 private:
  std::string fusion_;
  std::int64_t d_model_, width_;
  Tensor scale_;          ///< add_scaled: [1]
  Tensor weight_, bias_;  ///< concat_project and gated: [C, 2C], [C]; film: W_s [C, C]
  Tensor shift_;          ///< film: W_b [C, C]
};

#endif

}  // namespace posenc
