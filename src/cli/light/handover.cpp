// The tensor commands of the light executable: replace this process by `posenc-torch` with the same arguments. OpenMP and malloc
// read their environment while they are loaded, so what LibTorch needs is set here, before: workers wait without spinning,
// kernels stay on the worker's own thread, and freed activations are kept for the next step instead of being given back to the
// system and faulted in again (1.2 times the steps per second).

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "cli/command.h"
#include "cli/tensor_commands.h"
#include "run/signals.h"

namespace posenc {
namespace {

int hand_over() {
  setenv("OMP_WAIT_POLICY", "passive", 0);
  setenv("OMP_NUM_THREADS", "1", 0);
  setenv("OPENBLAS_NUM_THREADS", "1", 0);
  setenv("MALLOC_MMAP_THRESHOLD_", "268435456", 0);
  setenv("MALLOC_TRIM_THRESHOLD_", "536870912", 0);
  setenv("MALLOC_TOP_PAD_", "67108864", 0);  // a worker's empty heap stays: it would be unmapped whatever the threshold
  const fs::path program = fs::read_symlink("/proc/self/exe").parent_path() / "posenc-torch";
  std::vector<char*> argv;
  for (const std::string& argument : process_arguments()) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  hold_stop_signals();  // one that comes from here on waits for posenc-torch; one that came before would be lost with this process
  if (stop_requested()) throw Error(ExitCode::kStopped, "stopped by a signal before it began");
  execv(program.c_str(), argv.data());
  throw Error(ExitCode::kIo, program.string() + ": " + std::strerror(errno));
}

}  // namespace

int run_train(const Experiment&, const fs::path&, RunMode) { return hand_over(); }
int run_eval(const fs::path&, const Experiment&, const std::string&) { return hand_over(); }
int run_generate(const GenerateRequest&, const Experiment&) { return hand_over(); }
int run_search(const SearchRequest&, const Experiment&) { return hand_over(); }
int run_inspect(const InspectRequest&, const Experiment&) { return hand_over(); }
int run_plan(const Experiment&, const std::string&) { return hand_over(); }
int run_doctor(const std::string&) { return hand_over(); }
int run_bench(const std::vector<BenchCase>&, const BenchOptions&, const std::string&) { return hand_over(); }

}  // namespace posenc
