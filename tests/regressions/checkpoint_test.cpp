// Checkpoints that are damaged, foreign, or cannot be written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "cli/process.h"
#include "cli/runs.h"
#include "core/safetensors.h"
#include "core/sealed_file.h"

namespace posenc {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TensorFile read_checkpoint(const fs::path& slot) { return parse_safetensors(read_sealed(slot), slot.string()); }
int step_of(const fs::path& slot) { return std::stoi(read_checkpoint(slot).metadata.at("step")); }

/// The two slots of a run, the newer one first.
std::pair<fs::path, fs::path> slots_of(const fs::path& run) {
  const fs::path a = run / "checkpoints/0.posenc", b = run / "checkpoints/1.posenc";
  return step_of(a) > step_of(b) ? std::pair(a, b) : std::pair(b, a);
}

// Fault 88: one flipped bit in the newer slot; the older one is used, and that is said.
TEST(Checkpoint, FallsBackToTheOtherSlotWhenTheNewestIsDamaged) {
  const Scratch scratch;
  const fs::path path = killed_run().copy_to(scratch / "run");
  const auto [newest, older] = slots_of(path);
  const int step = step_of(older);
  std::string bytes = read_file(newest);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_text(newest, bytes);
  const Outcome done = resume(path);
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.err, AllOf(HasSubstr("warning: " + newest.string() + ": damaged checkpoint"),
                              HasSubstr("resuming whole at step " + std::to_string(step) + " of 120")));
  expect_same_run(whole_run().path, path);
}

TEST(Checkpoint, EndsWithExitSixtyFiveWhenBothSlotsAreDamaged) {
  const Scratch scratch;
  const fs::path path = killed_run().copy_to(scratch / "run");
  const auto [newest, older] = slots_of(path);
  write_text(newest, read_file(newest).substr(0, fs::file_size(newest) / 2));
  write_text(older, "");
  const std::string first = read_file(newest);
  const Outcome refused = resume(path);
  EXPECT_EQ(refused.code, 65);
  EXPECT_THAT(refused.err, AllOf(HasSubstr(newest.string() + ": damaged checkpoint (truncated)"), HasSubstr(older.string())));
  EXPECT_EQ(read_file(newest), first);
  EXPECT_FALSE(fs::exists(path / "results.json"));
}

// Fault 99: a checkpoint of another experiment, further on than this run's own.
TEST(Checkpoint, DoesNotTakeTheCheckpointOfAnotherExperiment) {
  const Scratch scratch;
  const fs::path path = killed_run().copy_to(scratch / "run");
  const auto [newest, older] = slots_of(path);
  TensorFile foreign = read_checkpoint(slots_of(whole_run().path).first);
  ASSERT_EQ(foreign.metadata.at("step"), "120");
  foreign.metadata["experiment"] = std::string(64, '0');
  write_sealed(older, format_safetensors(foreign));
  const Outcome done = resume(path);
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.err, AllOf(HasSubstr("warning: " + older.string() + ": checkpoint of another experiment"),
                              Not(HasSubstr("at step 120"))));
  expect_same_run(whole_run().path, path);
}

// Fault 87: a file-size limit that the log stays under and a checkpoint does not.
TEST(Checkpoint, KeepsWhatItHasWhenTheDiskIsFull) {
  const Scratch scratch;
  const fs::path path = killed_run().copy_to(scratch / "run");
  const auto before = snapshot(path / "checkpoints");
  Command limited{{"train", "--config", whole_run().config, "--out", path, "--resume"}};
  limited.largest_file = 50'000;
  const Outcome failed = run(limited);
  EXPECT_EQ(failed.code, 74) << failed.err;
  EXPECT_THAT(failed.err, AllOf(HasSubstr("cannot write " + (path / "checkpoints").string()), HasSubstr("File too large"),
                                HasSubstr("bytes needed")));
  expect_untouched(path / "checkpoints", before);  // and no temporary file
  EXPECT_EQ(resume(path).code, 0);
  expect_same_run(whole_run().path, path);
}

}  // namespace
}  // namespace posenc
