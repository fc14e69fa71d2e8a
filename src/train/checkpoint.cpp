#include "train/checkpoint.h"

#include <cstring>

#include "core/files.h"
#include "core/sealed_file.h"

namespace posenc {
namespace {

DType raw_dtype(torch::ScalarType type) {
  switch (type) {
    case torch::kFloat64:
      return DType::kF64;
    case torch::kFloat32:
      return DType::kF32;
    case torch::kFloat16:
      return DType::kF16;
    case torch::kBFloat16:
      return DType::kBF16;
    case torch::kInt64:
      return DType::kI64;
    default:
      POSENC_CHECK(false, std::string("tensors of this dtype are not stored: ") + torch::toString(type));
  }
}

/// A slot as read: its number of steps and tensors.
struct Slot {
  std::int64_t step;
  Json extra;
  TensorFile file;
};

Slot read_slot(const fs::path& path, const std::string& experiment) {
  Slot slot{0, {}, parse_safetensors(read_sealed(path), path.string())};
  const auto field = [&](const char* key) {
    const auto it = slot.file.metadata.find(key);
    if (it == slot.file.metadata.end()) throw DataError(path.string() + ": damaged checkpoint (no \"" + key + "\")");
    return it->second;
  };
  if (field("experiment") != experiment) throw DataError(path.string() + ": checkpoint of another experiment");
  slot.step = std::stoll(field("step"));
  slot.extra = Json::parse(field("extra"));
  return slot;
}

void load_group(const TensorFile& file, const std::string& prefix, const std::string& source,
                const std::vector<std::string>& names, std::vector<Tensor> into) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto it = file.tensors.find(prefix + names[i]);
    if (it == file.tensors.end()) throw DataError(source + ": no tensor \"" + prefix + names[i] + "\"");
    load_raw(it->second, source + ": " + it->first, into[i]);
  }
}

std::vector<std::string> parameter_names(const LanguageModel& model) { return model.named_parameters().keys(); }

}  // namespace

RawTensor to_raw(const Tensor& tensor) {
  const Tensor plain = tensor.detach().contiguous();
  RawTensor raw{raw_dtype(plain.scalar_type()), plain.sizes().vec(), {}};
  raw.bytes.assign(static_cast<const char*>(plain.data_ptr()), plain.nbytes());
  return raw;
}

void load_raw(const RawTensor& raw, const std::string& name, Tensor into) {
  if (raw.shape != into.sizes().vec()) {
    std::ostringstream message;
    message << name << ": shape " << c10::IntArrayRef(raw.shape) << " does not match " << into.sizes();
    throw DataError(message.str());
  }
  const torch::NoGradGuard no_grad;
  if (raw.dtype == raw_dtype(into.scalar_type()) && into.is_contiguous()) {
    std::memcpy(into.data_ptr(), raw.bytes.data(), raw.bytes.size());
  } else {
    into.copy_(torch::tensor(raw.to_double(), torch::kFloat64).view(raw.shape));
  }
}

TensorFile model_tensors(const LanguageModel& model) {
  TensorFile file;
  for (const auto& item : model.named_parameters()) file.tensors[item.key()] = to_raw(item.value());
  return file;
}

void load_model_tensors(const TensorFile& file, const std::string& source, LanguageModel& model) {
  const auto names = parameter_names(model);
  load_group(file, "", source, names, model.parameters());
  for (const auto& [name, tensor] : file.tensors) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw DataError(source + ": the model has no parameter \"" + name + "\"");
  }
}

CheckpointStore::CheckpointStore(fs::path directory, std::string experiment)
    : directory_(std::move(directory)), experiment_(std::move(experiment)) {}

fs::path CheckpointStore::slot(int index) const { return directory_ / (std::to_string(index) + ".posenc"); }

void CheckpointStore::save(std::int64_t step, const Json& extra, const LanguageModel& model, AdamW& optimizer) {
  fs::create_directories(directory_);
  TensorFile file = model_tensors(model);
  const auto names = parameter_names(model);
  for (std::size_t i = 0; i < names.size(); ++i) {
    file.tensors["adamw.first." + names[i]] = to_raw(optimizer.first_moments()[i]);
    file.tensors["adamw.second." + names[i]] = to_raw(optimizer.second_moments()[i]);
  }
  file.metadata = {{"step", std::to_string(step)},
                   {"updates", std::to_string(optimizer.updates())},
                   {"experiment", experiment_},
                   {"extra", dump_json_line(extra)}};
  write_sealed(slot(next_slot_), format_safetensors(file));
  next_slot_ = 1 - next_slot_;
}

std::optional<std::int64_t> CheckpointStore::newest_step() const {
  std::optional<std::int64_t> newest;
  for (int i = 0; i < 2; ++i) {
    if (!fs::exists(slot(i))) continue;
    try {
      newest = std::max(newest.value_or(0), read_slot(slot(i), experiment_).step);
    } catch (const DataError&) {  // load() reports it
    }
  }
  return newest;
}

std::optional<CheckpointInfo> CheckpointStore::load(LanguageModel& model, AdamW& optimizer) {
  std::optional<Slot> newest;
  CheckpointInfo info;
  bool any = false;
  for (int i = 0; i < 2; ++i) {
    if (!fs::exists(slot(i))) continue;
    any = true;
    try {
      Slot found = read_slot(slot(i), experiment_);
      if (newest && newest->step >= found.step) continue;
      newest = std::move(found);
      next_slot_ = 1 - i;
    } catch (const DataError& error) {
      info.warnings.push_back(error.what());
    }
  }
  if (!any) return std::nullopt;
  if (!newest) {
    std::string message = directory_.string() + ": no usable checkpoint; nothing is restarted in silence";
    for (const std::string& warning : info.warnings) message += "\n  " + warning;
    throw DataError(message);
  }
  const std::string source = slot(1 - next_slot_).string();
  const auto names = parameter_names(model);
  load_group(newest->file, "", source, names, model.parameters());
  load_group(newest->file, "adamw.first.", source, names, optimizer.first_moments());
  load_group(newest->file, "adamw.second.", source, names, optimizer.second_moments());
  optimizer.set_updates(std::stoll(newest->file.metadata.at("updates")));
  info.step = newest->step;
  info.extra = std::move(newest->extra);
  return info;
}

}  // namespace posenc
