#include "data/dataset.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "core/error.h"
#include "core/files.h"

namespace posenc {
namespace {

struct Text {
  std::string source, bytes;
};
using Texts = std::array<Text, 3>;  // train, valid, test
constexpr std::array<const char*, 3> kNames = {"train", "valid", "test"};

/// A user's file: there, readable, not empty, and UTF-8 where it becomes `chars`.
std::string read_text(const std::string& path, bool chars) {
  std::error_code ignored;  // anything but these two is for read_file to report
  const fs::file_type type = fs::status(path, ignored).type();
  if (type == fs::file_type::not_found) {
    throw ConfigError({{"", "/data/path", path + " does not exist (working directory " + fs::current_path().string() + ")"}});
  }
  if (type == fs::file_type::directory) throw ConfigError({{"", "/data/path", path + " is a directory; give a text file"}});
  std::string text = read_file(path);
  if (text.empty()) throw DataError(path + " is empty: there is nothing to learn from");
  if (chars) require_utf8(text, path);
  return text;
}

/// One file by position: 90 % train, 5 % valid, 5 % test, in bytes; for `chars` a cut moves on to the next code point.
Texts cut_file(const std::string& path, bool chars) {
  const std::string text = read_text(path, chars);
  const auto cut = [&](std::size_t twentieths) {
    std::size_t at = text.size() * twentieths / 20;
    while (chars && at < text.size() && (text[at] & 0xC0) == 0x80) ++at;
    return at;
  };
  const std::array<std::size_t, 4> ends = {0, cut(18), cut(19), text.size()};
  Texts texts;
  for (std::size_t i = 0; i < 3; ++i) {
    if (ends[i] == ends[i + 1]) {
      throw DataError(path + " holds " + std::to_string(text.size()) +
                      " bytes, too few to split 90/5/5; give more text, or train, valid and test files");
    }
    texts[i] = {path + "[" + std::to_string(ends[i]) + ", " + std::to_string(ends[i + 1]) + ")",
                text.substr(ends[i], ends[i + 1] - ends[i])};
  }
  return texts;
}

Texts read_files(const DataConfig::Paths& path, bool chars) {
  return {{{path.train, read_text(path.train, chars)},
           {path.valid, read_text(path.valid, chars)},
           {path.test, read_text(path.test, chars)}}};
}

Texts read_corpus(const Corpus& corpus) {
  Texts texts;
  for (std::size_t i = 0; i < 3; ++i) {
    const CorpusPart& part = corpus.parts[i];
    texts[i] = {corpus.name + "/" + part.name + " (" + part.contents + ")", read_part(corpus, part)};
  }
  return texts;
}

void require_distinct(const Split& a, const Split& b) {
  if (a.sha256 != b.sha256) return;
  throw DataError("the " + a.name + " text (" + a.source + ") and the " + b.name + " text (" + b.source +
                  ") are the same; give different files, or one file to split 90/5/5");
}

Texts read_texts(const DataConfig& config, bool chars) {
  if (!config.path.given()) return read_corpus(find_corpus(config.corpus));
  return config.path.all.empty() ? read_files(config.path, chars) : cut_file(config.path.all, chars);
}

Dataset load_task(const DataConfig& config, std::shared_ptr<Tokenizer> tokenizer) {
  Dataset dataset;
  dataset.task = std::make_shared<const TaskData>(config);
  dataset.tokenizer = make_symbol_tokenizer(dataset.task->task().alphabet());
  if (tokenizer && tokenizer->state() != dataset.tokenizer->state())
    throw DataError("the run was trained on another alphabet than that of the task " + config.task->label());
  return dataset;
}

}  // namespace

const Split& Dataset::split(const std::string& name) const {
  for (const Split* split : {&train, &valid, &test}) {
    if (split->name == name) return *split;
  }
  throw ConfigError("unknown split \"" + name + "\" (one of train, valid, test)");
}

Dataset load_dataset(const DataConfig& config, std::shared_ptr<Tokenizer> tokenizer) {
  if (config.is_task()) return load_task(config, std::move(tokenizer));
  const bool chars = (tokenizer ? tokenizer->name() : config.tokenizer) == "char";
  const Texts texts = read_texts(config, chars);
  if (tokenizer == nullptr) {
    const std::string all = chars ? texts[0].bytes + texts[1].bytes + texts[2].bytes : "";
    tokenizer = make_tokenizer(config.tokenizer, all, texts[0].source);
  }
  Dataset dataset;
  dataset.tokenizer = tokenizer;
  const std::array<Split*, 3> splits = {&dataset.train, &dataset.valid, &dataset.test};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto& [source, text] = texts[i];
    *splits[i] = {kNames[i], tokenizer->encode(text, source), static_cast<std::int64_t>(text.size()), source, sha256(text)};
  }
  if (config.path.all.empty()) {  // parts of one file may well read the same
    require_distinct(dataset.train, dataset.valid);
    require_distinct(dataset.train, dataset.test);
    require_distinct(dataset.valid, dataset.test);
  }
  return dataset;
}

void require_window(const Split& split, std::int64_t length) {
  const auto tokens = static_cast<std::int64_t>(split.tokens.size());
  if (tokens > length) return;
  throw ConfigError("the " + split.name + " text (" + split.source + ") holds " + std::to_string(tokens) + " tokens, so " +
                    std::to_string(std::max<std::int64_t>(tokens - 1, 0)) + " targets; a window of " + std::to_string(length) +
                    " needs " + std::to_string(length + 1) + " tokens: give more text or a shorter length");
}

}  // namespace posenc
