#include "core/machine.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <sstream>
#include <string_view>
#include <vector>

namespace posenc {
namespace {

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The number `text` starts with; nullopt for "max", an empty file, or a number beyond int64.
std::optional<std::int64_t> number(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t:"), text.size()));
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

/// The rest of the first line that starts with `key`.
std::string after_key(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(key, 0) == 0) return line.substr(key.size());
  }
  return "";
}

int affinity_cores() {
  for (int capacity = 1024; capacity <= 1 << 20; capacity *= 2) {  // the kernel refuses a mask smaller than its own
    cpu_set_t* mask = CPU_ALLOC(static_cast<std::size_t>(capacity));
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(capacity));
    const bool read = sched_getaffinity(0, bytes, mask) == 0;
    const int cores = read ? CPU_COUNT_S(bytes, mask) : 0;
    CPU_FREE(mask);
    if (read) return cores;
  }
  return 1;
}

/// Calls `visit` with the directory of this process's group and each of its ancestors, in every hierarchy that may hold
/// limits. Limits of an ancestor bind too, and in a container the path may be the host's, of which only the top is mounted.
void for_each_cgroup(const std::string& root, const std::function<void(const std::string&)>& visit) {
  std::istringstream lines(file_text(root + "/proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {  // "0::/user.slice" (v2) or "4:cpu,cpuacct:/user.slice" (v1)
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::vector<std::string> mounts = {"/" + controllers};
    if (controllers.empty()) mounts = {"", "/unified"};
    if (("," + controllers + ",").find(",cpu,") != std::string::npos) mounts.push_back("/cpu");
    for (const std::string& mount : mounts) {
      std::filesystem::path group = line.substr(second + 1);
      for (;; group = group.parent_path()) {
        visit(root + "/sys/fs/cgroup" + mount + group.string());
        if (group == group.parent_path()) break;
      }
    }
  }
}

void read_cpu_limit(const std::string& group, CgroupLimits& limits) {
  const std::string both = file_text(group + "/cpu.max");  // v2: "50000 100000" or "max 100000"
  auto quota = number(both);
  auto period = number(both.substr(std::min(both.find(' '), both.size())));
  if (!quota) {
    quota = number(file_text(group + "/cpu.cfs_quota_us"));  // v1: −1 is no limit
    period = number(file_text(group + "/cpu.cfs_period_us"));
  }
  if (!quota || !period || *quota <= 0 || *period <= 0) return;
  const double cpus = static_cast<double>(*quota) / static_cast<double>(*period);
  limits.cpus = std::min(limits.cpus.value_or(cpus), cpus);
}

void read_memory_limit(const std::string& group, CgroupLimits& limits) {
  auto limit = number(file_text(group + "/memory.max"));
  auto used = number(file_text(group + "/memory.current"));
  std::string cache_key = "inactive_file ";
  if (!limit) {
    limit = number(file_text(group + "/memory.limit_in_bytes"));
    used = number(file_text(group + "/memory.usage_in_bytes"));
    cache_key = "total_inactive_file ";
  }
  if (!limit) return;
  const std::int64_t cache = number(after_key(file_text(group + "/memory.stat"), cache_key)).value_or(0);  // given back on demand
  const std::int64_t left = std::max<std::int64_t>(0, *limit - std::max<std::int64_t>(0, used.value_or(0) - cache));
  limits.memory_left = std::min(limits.memory_left.value_or(left), left);
}

std::int64_t address_space_left() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kUnlimited;
  const std::int64_t used = number(file_text("/proc/self/statm")).value_or(0) * sysconf(_SC_PAGESIZE);
  const auto allowed = static_cast<std::int64_t>(std::min<rlim_t>(limit.rlim_cur, static_cast<rlim_t>(kUnlimited)));
  return std::max<std::int64_t>(0, allowed - used);
}

}  // namespace

CgroupLimits cgroup_limits(const std::string& root) {
  CgroupLimits limits;
  for_each_cgroup(root, [&](const std::string& group) {
    read_cpu_limit(group, limits);
    read_memory_limit(group, limits);
  });
  return limits;
}

int available_cores() {
  const int cores = affinity_cores();
  const std::optional<double> quota = cgroup_limits().cpus;
  return std::max(1, quota && *quota < cores ? static_cast<int>(std::ceil(*quota)) : cores);
}

std::int64_t available_memory() {
  const auto kib = number(after_key(file_text("/proc/meminfo"), "MemAvailable"));
  return std::min({kib ? *kib * 1024 : kUnlimited, cgroup_limits().memory_left.value_or(kUnlimited), address_space_left()});
}

std::int64_t peak_rss() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
}

std::string cpu_model() {
  const std::string line = after_key(file_text("/proc/cpuinfo"), "model name");
  const std::size_t start = line.find_first_not_of(" \t:");
  return start == std::string::npos ? "unknown" : line.substr(start);
}

std::string simd_level() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    return "avx512";
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "avx2";
#endif
  return "baseline";
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

}  // namespace posenc
