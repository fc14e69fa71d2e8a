#include "core/machine.h"

#include <gmock/gmock.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

namespace posenc {
namespace {

/// A made-up root with control group files.
class Tree {
 public:
  explicit Tree(const std::string& name) : root_(testing::TempDir() + "posenc_machine_" + name) {
    std::filesystem::remove_all(root_);
  }
  ~Tree() { std::filesystem::remove_all(root_); }
  Tree& put(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
    return *this;
  }
  CgroupLimits limits() const { return cgroup_limits(root_); }

 private:
  std::string root_;
};

// Fault 137: taskset -c N. On a thread of its own, so that the rest of the program keeps its mask.
TEST(Machine, CountsTheCoresOfTheAffinityMask) {
  std::thread([] {
    cpu_set_t all, one;
    ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &all)) ++cpu;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(available_cores(), 1);
    EXPECT_LE(available_cores(), CPU_COUNT(&all));
  }).join();
}

// Fault 137: a quota of 1 CPU.
TEST(Machine, ReadsTheQuotaOfVersionTwo) {
  Tree tree("v2");
  tree.put("/proc/self/cgroup", "0::/user.slice/job\n").put("/sys/fs/cgroup/user.slice/job/cpu.max", "100000 100000\n");
  EXPECT_EQ(tree.limits().cpus, 1.0);
  tree.put("/sys/fs/cgroup/user.slice/job/cpu.max", "max 100000\n");
  EXPECT_EQ(tree.limits().cpus, std::nullopt);
}

TEST(Machine, AnAncestorsLimitBindsToo) {
  Tree tree("ancestor");
  tree.put("/proc/self/cgroup", "0::/a/b\n")
      .put("/sys/fs/cgroup/a/cpu.max", "150000 100000\n")
      .put("/sys/fs/cgroup/a/b/cpu.max", "400000 100000\n")
      .put("/sys/fs/cgroup/a/memory.max", "1000\n")
      .put("/sys/fs/cgroup/a/memory.current", "400\n")
      .put("/sys/fs/cgroup/a/b/memory.max", "max\n");
  EXPECT_EQ(tree.limits().cpus, 1.5);
  EXPECT_EQ(tree.limits().memory_left, 600);
}

TEST(Machine, FindsTheLimitsOfAContainerThatSeesItsHostsPath) {
  Tree tree("container");
  tree.put("/proc/self/cgroup", "0::/docker/0123abcd\n").put("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(tree.limits().cpus, 0.5);
}

TEST(Machine, ReadsVersionOne) {
  Tree tree("v1");
  tree.put("/proc/self/cgroup", "9:name=systemd:/x\n4:cpu,cpuacct:/x\n3:memory:/x\n")
      .put("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "200000\n")
      .put("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n")
      .put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n")
      .put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n")
      .put("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "1000000\n")
      .put("/sys/fs/cgroup/memory/x/memory.usage_in_bytes", "700000\n")
      .put("/sys/fs/cgroup/memory/x/memory.stat", "inactive_file 1\ntotal_inactive_file 200000\n")
      .put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(tree.limits().cpus, 2.0);
  EXPECT_EQ(tree.limits().memory_left, 500000);  // 1000000 − (700000 − 200000)
}

TEST(Machine, MemoryInUseBeyondTheLimitLeavesNothing) {
  Tree tree("full");
  tree.put("/proc/self/cgroup", "0::/\n").put("/sys/fs/cgroup/memory.max", "1000").put("/sys/fs/cgroup/memory.current", "4000");
  EXPECT_EQ(tree.limits().memory_left, 0);
}

TEST(Machine, NoControlGroupsMeanNoLimits) {
  const CgroupLimits limits = Tree("none").limits();
  EXPECT_EQ(limits.cpus, std::nullopt);
  EXPECT_EQ(limits.memory_left, std::nullopt);
}

TEST(Machine, HonoursTheLimitOfTheAddressSpace) {
  constexpr std::int64_t kLeft = 64 << 20;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  ASSERT_GT(available_memory(), kLeft);
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit tight = before;
  tight.rlim_cur = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + kLeft);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &tight), 0);
  const std::int64_t left = available_memory();
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_LE(left, kLeft);
  EXPECT_GT(left, kLeft / 2);
}

TEST(Machine, PeakMemoryCountsWhatWasTouched) {
  const std::vector<char> touched(std::size_t{64} << 20, 1);
  EXPECT_GE(peak_rss(), std::int64_t{64} << 20);
  EXPECT_EQ(touched.back(), 1);
}

TEST(Machine, NamesItself) {
  EXPECT_THAT(simd_level(), testing::AnyOf("avx512", "avx2", "baseline"));
  EXPECT_THAT(cpu_model(), testing::Not(testing::IsEmpty()));
  EXPECT_THAT(host_name(), testing::Not(testing::IsEmpty()));
  EXPECT_THAT(utc_now(), testing::MatchesRegex("20[0-9][0-9]-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9]Z"));
}

}  // namespace
}  // namespace posenc
