// Text classification: which of Jane Austen's six novels a window is from. Learned with a scheme and without any (none) it shows
// what positions are worth to a classifier, on the text that language models learn from. Windows for training and for tests come
// from different blocks of every novel.
#include <algorithm>

#include "data/corpora.h"
#include "data/tasks/draw.h"
#include "data/tasks/task.h"

namespace posenc {
namespace {

constexpr std::int64_t kBlock = 1024;   ///< bytes; a window lies within one
constexpr std::int64_t kShortest = 32;  ///< less of it stands in several novels too often

struct NovelParameters {};

/// A novel as a part of the corpus holds it.
struct Novel {
  std::size_t part;              ///< train, valid, test
  std::string::size_type begin;  ///< its first byte there; it ends where the next begins, or with the part
};

/// Emma, Mansfield Park, Pride and Prejudice, Northanger Abbey; Persuasion; Sense and Sensibility. The parts have checksums, so that
/// the places are fixed.
constexpr Novel kNovels[] = {{0, 0}, {0, 883028}, {0, 1766308}, {0, 2451076}, {1, 0}, {2, 0}};
constexpr const char* kLabels = "123456";

/// Every novel on one line: what is no printable ASCII character is a blank.
std::vector<std::string> read_novels() {
  const Corpus& corpus = find_corpus("austen");
  std::vector<std::string> parts, novels;
  for (const CorpusPart& part : corpus.parts) {
    parts.push_back(read_part(corpus, part));
    std::ranges::replace_if(
        parts.back(), [](char c) { return c < ' ' || c > '~'; }, ' ');
  }
  for (std::size_t i = 0; i < std::size(kNovels); ++i) {
    const auto [part, begin] = kNovels[i];
    const bool last = i + 1 == std::size(kNovels) || kNovels[i + 1].part != part;
    novels.push_back(parts[part].substr(begin, last ? std::string::npos : kNovels[i + 1].begin - begin));
  }
  return novels;
}

const std::vector<std::string>& all_novels() {
  static const std::vector<std::string> all = read_novels();
  return all;
}

class NovelTask : public Task {
 public:
  explicit NovelTask(const NovelParameters&) {}
  std::string alphabet() const override {
    std::string printable;
    for (char c = ' '; c <= '~'; ++c) printable += c;
    return printable;
  }
  std::string misfit(std::int64_t length) const override {
    const std::string most = at_most_misfit(length, kBlock, "text is dealt out to training and tests in blocks of that size");
    return most.empty() ? at_least_misfit(length, kShortest) : most;
  }
  std::int64_t longest(std::int64_t length) const override { return length + 1; }
  void prepare() const override { all_novels(); }

  Example draw(std::int64_t length, double, Rng& rng) const override {
    const std::size_t novel = rng.below(std::size(kNovels));
    const std::string& text = all_novels()[novel];
    const std::uint64_t block = rng.below(text.size() / kBlock);
    const std::uint64_t start = block * kBlock + rng.below(static_cast<std::uint64_t>(kBlock - length + 1));
    return {text.substr(start, static_cast<std::size_t>(length)),
            {kLabels[novel]},
            "novel " + std::to_string(novel) + " block " + std::to_string(block)};
  }
};

}  // namespace

template <>
const Schema<NovelParameters>& schema<NovelParameters>() {
  static const Schema<NovelParameters> table("no parameters");
  return table;
}

TaskInfo novel_task() {
  TaskInfo info;
  info.name = "novel";
  info.aliases = {"text_classification"};
  info.title = "which novel a piece of text is from (corpus austen)";
  info.paper = "Sinha et al. 2021, arXiv:2104.06644 (word order in classification)";
  info.length = "bytes of text";
  return task_info<NovelParameters, NovelTask>(std::move(info));
}

}  // namespace posenc
