#pragma once
// Token streams to train and evaluate on. A corpus is named (installed by scripts/fetch_corpora) or given by path; it is split
// into train, valid and test by whole documents where the corpus has them, else by position (90/5/5), and tokenised by bytes or
// characters. No torch.
//
//   Dataset d = load_dataset(config);
//   d.train.tokens, d.valid.tokens, d.test.tokens
//
// Splits never overlap; Split::source tells which part of which file each covers.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/batches.h"
#include "data/config.h"
#include "data/corpora.h"
#include "data/task_data.h"
#include "data/tokenizer.h"

namespace posenc {

/// One part of a corpus.
struct Split {
  std::string name;  ///< "train", "valid", "test"
  std::vector<std::int32_t> tokens;
  std::int64_t bytes = 0;  ///< of the text these tokens stand for
  std::string source;      ///< "austen/valid (Persuasion)" or "file.txt[0, 1000)" in bytes: what it covers, for the manifest
  std::string sha256;      ///< of the text
};

/// Text in three parts, or a task.
struct Dataset {
  Split train, valid, test;
  std::shared_ptr<Tokenizer> tokenizer;
  std::shared_ptr<const TaskData> task;               ///< of a task, whose splits are empty; else null
  const Split& split(const std::string& name) const;  ///< "train" | "valid" | "test"
};

/// Loads and tokenises, with `tokenizer` where given (a trained run's, to evaluate it on other text), else with the config's.
/// ConfigError: a path that does not exist or is a directory, a corpus that is not installed (names the command that fetches it).
/// IoError: no permission. DataError: an empty file or split, two files with the same text (files that overlap in part are not
/// noticed), a checksum that does not match, `char` on invalid UTF-8 (byte offset), a task in another alphabet than `tokenizer`.
Dataset load_dataset(const DataConfig& config, std::shared_ptr<Tokenizer> tokenizer = nullptr);

/// Throws ConfigError when a split is shorter than one window of `length` inputs and the next token (needs length + 1 tokens);
/// names split, source and numbers.
void require_window(const Split& split, std::int64_t length);

}  // namespace posenc
