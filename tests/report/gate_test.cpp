#include "report/gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace posenc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Gate, ReadsMetricPlaceSignAmountAndPercent) {
  const Gate relative = parse_gate("ppl@512>+2%");
  EXPECT_EQ(relative.metric, GateMetric::kPerplexity);
  EXPECT_EQ(relative.length, 512);
  EXPECT_TRUE(relative.change && relative.relative);
  EXPECT_DOUBLE_EQ(relative.amount, 0.02);
  const Gate absolute = parse_gate("ppl@2048>30");
  EXPECT_FALSE(absolute.change || absolute.relative);
  EXPECT_DOUBLE_EQ(absolute.amount, 30);
  EXPECT_EQ(parse_gate("nll>+0.01").metric, GateMetric::kNll);
  EXPECT_DOUBLE_EQ(parse_gate("nll > -0.05").amount, -0.05);
  EXPECT_EQ(parse_gate("bpb>+.5").metric, GateMetric::kBitsPerByte);
  const Gate placed = parse_gate("bits_per_byte@rope@sliding@64>+1%");
  EXPECT_EQ(placed.scheme, "rope");
  EXPECT_EQ(placed.protocol, "sliding");
  EXPECT_EQ(placed.length, 64);
}

TEST(Gate, RefusesBadSyntaxWithAnExample) {
  for (const char* text :
       {"",         "ppl",      "ppl>",    "ppl>+",    "ppl>%",    "ppl>2%",    "ppl>++2%",    "ppl>+2%%",         "ppl>+2x",
        "ppl>nan",  "ppl>+inf", "ppl<+2%", "loss>+2%", "ppl@>+2%", "ppl@0>+2%", "ppl@1@2>+2%", "ppl@rope@alibi>3", ">+2%",
        "ppl>0x10", "ppl>+2,5%"}) {
    try {
      parse_gate(text);
      FAIL() << text;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr(text), HasSubstr("ppl@512>+2%")));
    }
  }
}

}  // namespace
}  // namespace posenc
