#pragma once
// What this process may use of the machine it runs on.

#include <cstdint>
#include <optional>
#include <string>

namespace posenc {

/// Cores this process may use: the affinity mask, cut to the cgroup's CPU quota (rounded up), at least 1.
int available_cores();

/// Bytes this process may still allocate: the least of MemAvailable, the cgroup's limit less its use, and RLIMIT_AS.
std::int64_t available_memory();

/// What the control groups (v1 and v2) of this process and their ancestors allow. `root` stands before /proc and /sys;
/// tests pass a made-up tree.
struct CgroupLimits {
  std::optional<double> cpus;               ///< CPU quota, in cores
  std::optional<std::int64_t> memory_left;  ///< bytes; page cache that can be dropped counts as free
};
CgroupLimits cgroup_limits(const std::string& root = "");

/// Peak resident set of this process, in bytes.
std::int64_t peak_rss();

std::string cpu_model();   ///< as /proc/cpuinfo names it
std::string simd_level();  ///< "avx512", "avx2" or "baseline"
std::string host_name();
std::string utc_now();  ///< "2026-01-31T12:00:00Z"

}  // namespace posenc
