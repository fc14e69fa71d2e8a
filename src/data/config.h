#pragma once
// The `data` part of an experiment: where the text comes from and how it becomes tokens. No torch.
//
//   "data": {"corpus": "austen", "tokenizer": "byte"}
//   "data": {"path": "notes.txt"}                                            one file, split 90/5/5 by position
//   "data": {"path": {"train": "a.txt", "valid": "b.txt", "test": "c.txt"}}
//
// Reading it opens no file; load_dataset (dataset.h) does.

#include <string>

#include "core/schema.h"

namespace posenc {

struct DataConfig {
  std::string kind = "text";      ///< only "text" here
  std::string corpus = "austen";  ///< a named corpus (corpora.h); ignored when a path is given
  struct Paths {                  ///< instead of a corpus: one file (all parts from it) or three
    std::string all, train, valid, test;
    bool given() const { return !all.empty() || !train.empty() || !valid.empty() || !test.empty(); }
  } path;
  std::string tokenizer = "byte";  ///< byte | char | ids
};

template <>
const Schema<DataConfig>& schema<DataConfig>();

/// A string (one file) or an object with exactly train, valid and test; null when no path is given.
template <>
struct Codec<DataConfig::Paths> {
  static bool read(const Json& j, DataConfig::Paths& out, const FieldRule& rule, const Reader& r);
  static Json write(const DataConfig::Paths& paths);
  static Json describe(const FieldRule& rule);
  static std::string type_name() { return "file or {train, valid, test}"; }
};

}  // namespace posenc
