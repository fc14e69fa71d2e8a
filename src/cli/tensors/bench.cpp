#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <array>
#include <cstdlib>

#include "cli/command.h"
#include "cli/tensor_commands.h"
#include "core/error.h"
#include "core/machine.h"
#include "kernels/attention.h"
#include "report/table.h"
#include "run/blas.h"
#include "run/signals.h"

namespace posenc {
namespace {

/// What the measurements stand against.
struct Machine {
  BlasInfo blas = blas_info();
  double sgemm = sgemm_gflops(1024);  ///< GFLOP/s of one thread
  std::array<double, 3> load{};       ///< over 1, 5 and 15 minutes, before the first measurement
  Machine() { getloadavg(load.data(), static_cast<int>(load.size())); }

  std::optional<double> share(const Measurement& m) const {
    return m.gflops ? std::optional(*m.gflops / (m.threads * sgemm)) : std::nullopt;
  }
};

template <class T>
void put(Json& json, const char* key, const std::optional<T>& value) {
  if (value) json[key] = *value;
}

Json to_json(const Measurement& m, const Machine& machine) {
  Json json = {{"name", m.name},
               {"threads", m.threads},
               {"seconds", m.seconds},
               {"seconds_min", m.seconds_min},
               {"seconds_max", m.seconds_max}};
  put(json, "gflops", m.gflops);
  put(json, "share_of_sgemm", machine.share(m));
  put(json, "tokens_per_s", m.tokens_per_second);
  put(json, "peak_rss_bytes", m.peak_rss_bytes);
  return json;
}

std::string as_json(const std::vector<Measurement>& measured, const Machine& machine, int threads) {
  Json json = {{"schema", "posenc.bench/1"},    {"posenc", POSENC_VERSION},          {"cpu", cpu_model()},
               {"simd", simd_level()},          {"kernels", kernels::simd_target()}, {"threads", threads},
               {"blas", to_json(machine.blas)}, {"load_average", machine.load},      {"sgemm_gflops_one_thread", machine.sgemm},
               {"benchmarks", Json::array()}};
  for (const Measurement& m : measured) json["benchmarks"].push_back(to_json(m, machine));
  return dump_json(json);
}

/// "12.3 ms", with four digits or so.
std::string duration(double seconds) {
  if (seconds >= 1) return short_number(seconds) + " s";
  return seconds >= 1e-3 ? short_number(seconds * 1e3) + " ms" : short_number(seconds * 1e6) + " µs";
}

std::string as_table(const std::vector<Measurement>& measured, const Machine& machine, int threads) {
  const auto shown = [](const std::optional<double>& value, double factor = 1, const char* unit = "") {
    return value ? fmt::format("{:.0f}{}", *value * factor, unit) : std::string();
  };
  Table table;
  table.header = {"benchmark", "median", "least", "most", "threads", "GFLOP/s", "of sgemm", "tokens/s", "peak memory"};
  table.align = {Align::kLeft};
  for (const Measurement& m : measured) {
    const std::optional<double> peak = m.peak_rss_bytes;
    table.rows.push_back({m.name, duration(m.seconds), duration(m.seconds_min), duration(m.seconds_max),
                          std::to_string(m.threads), shown(m.gflops), shown(machine.share(m), 100, " %"),
                          shown(m.tokens_per_second), shown(peak, 1.0 / (1 << 20), " MiB")});
  }
  table.notes = {fmt::format("{}, {}; kernels: {}; {} threads; load average {:.2f} before", cpu_model(), simd_level(),
                             kernels::simd_target(), threads, machine.load[0]),
                 "peak memory is that of the whole process up to then: run one benchmark alone to know its own",
                 fmt::format("sgemm, n = 1024: {:.0f} GFLOP/s on one thread ({}, {} kernel)", machine.sgemm, machine.blas.library,
                             machine.blas.core.empty() ? "no" : machine.blas.core)};
  return render(table, "text");
}

}  // namespace

int run_bench(const std::vector<BenchCase>& cases, const BenchOptions& options, const std::string& format) {
  const Machine machine;
  std::vector<Measurement> measured;
  for (const BenchCase& c : cases) {
    if (stop_requested()) throw Error(ExitCode::kStopped, "stopped by a signal before " + c.name);
    measured.push_back(measure(c, options));
    spdlog::info("{}: {}", c.name, duration(measured.back().seconds));
  }
  deliver(format == "json" ? as_json(measured, machine, options.threads) : as_table(measured, machine, options.threads), "");
  return 0;
}

}  // namespace posenc
