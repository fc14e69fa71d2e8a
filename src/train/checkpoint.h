#pragma once
// What a run must keep to continue as if it had never stopped: parameters, optimizer moments, the number of steps done and a JSON
// of whatever the caller adds (last metrics, seconds so far). Batches and dropout are pure functions of (seed, step), so there is
// no loader or generator state.
//
// Two slots, checkpoints/0.posenc and 1.posenc, sealed with a checksum and written atomically; a save replaces the older one, so
// one good checkpoint always exists. The highest valid step wins; slots of another experiment (by its hash) are not taken.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"
#include "core/safetensors.h"
#include "model/language_model.h"
#include "train/optimizer.h"

namespace posenc {

/// A tensor's bytes and back. `into` must have the same shape; dtypes are converted.
RawTensor to_raw(const Tensor& tensor);
void load_raw(const RawTensor& raw, const std::string& name, Tensor into);

/// The model's parameters by name, as model.safetensors holds them.
TensorFile model_tensors(const LanguageModel& model);

/// Loads parameters by name; DataError (naming `source`) unless names and shapes are exactly the model's.
void load_model_tensors(const TensorFile& file, const std::string& source, LanguageModel& model);

struct CheckpointInfo {
  std::int64_t step = 0;              ///< optimizer steps done
  Json extra;                         ///< what the caller saved
  std::vector<std::string> warnings;  ///< damaged slots that were passed over
};

class CheckpointStore {
 public:
  /// `experiment` identifies the run (experiment_hash); it is stored and compared.
  CheckpointStore(std::filesystem::path directory, std::string experiment);

  void save(std::int64_t step, const Json& extra, const LanguageModel& model, AdamW& optimizer);

  /// Step of the newest valid slot: what load() would take; nullopt where it would not.
  std::optional<std::int64_t> newest_step() const;

  /// Loads the newest valid slot. nullopt when there is none at all; DataError when slots exist and none is usable.
  std::optional<CheckpointInfo> load(LanguageModel& model, AdamW& optimizer);

 private:
  std::filesystem::path slot(int index) const;

  std::filesystem::path directory_;
  std::string experiment_;
  int next_slot_ = 0;  ///< the one not holding the newest valid checkpoint
};

}  // namespace posenc
