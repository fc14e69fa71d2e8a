// `posenc inspect`: schemes by distance and by order, and a trained model's use of order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/process.h"
#include "cli/runs.h"

namespace posenc {
namespace {

using ::testing::HasSubstr;

Json inspected(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "inspect");
  arguments.insert(arguments.end(), {"--format", "json"});
  const Outcome done = run({arguments});
  EXPECT_EQ(done.code, 0) << done.err;
  return Json::parse(done.out);
}

// The opening demonstration: attention sees a set; a causal mask tells the order from the second layer on; a scheme tells it at once.
TEST(Inspect, OrderCountsOnlyThroughAMaskOrPositions) {
  const Json none = inspected({"none", "--probe", "order"})["order"];
  EXPECT_LT(none["unmasked_no_position"], 1e-12);
  EXPECT_LT(none["causal_no_position_one_layer"], 1e-12);
  EXPECT_GT(none["causal_no_position_two_layers"], 1e-3);
  EXPECT_LT(none["scheme_one_layer"], 1e-12);
  for (const char* scheme : {"sinusoidal", "rope", "alibi", "shaw", "fox", "cope"}) {
    const Json order = inspected({scheme, "--probe", "order"})["order"];
    EXPECT_GT(order["scheme_two_layers"], 1e-4) << scheme;
    if (std::string(scheme) != "cope") {  // whose vectors are zeros before training
      EXPECT_GT(order["scheme_one_layer"], 1e-6) << scheme;
    }
  }
  EXPECT_LT(inspected({"rope", "--probe", "order"})["order"]["shift"], 1e-9);
  EXPECT_GT(inspected({"sinusoidal", "--probe", "order"})["order"]["shift"], 1e-3);
}

// Four heads: slopes 1/4, 1/16, 1/64, 1/256. Distances 0, 1, 2, 3, 4, …
TEST(Inspect, ShowsTheBiasAndTheRotationByDistance) {
  const Json alibi = inspected({"alibi", "--probe", "distance"})["distance"];
  EXPECT_EQ(alibi["distances"][4], 4);
  EXPECT_EQ(alibi["bias"][0][4], -1.0);
  EXPECT_EQ(alibi["bias"][3][4], -0.015625);
  EXPECT_FALSE(alibi.contains("rotation"));
  const Json rope = inspected({"rope", "--set", "/model/head_dim=2", "--probe", "distance"})["distance"];
  EXPECT_NEAR(rope["rotation"][1].get<double>(), 0.5403023, 1e-7);  // cos 1: the one pair turns by a radian
  EXPECT_FALSE(rope.contains("bias"));
  const Outcome text = run({{"inspect", "fire"}});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("bias, head 3"));
}

TEST(Inspect, SaysWhatTheContextOfARunIsWorth) {
  const Json rows = inspected({whole_run().path})["order"];
  EXPECT_EQ(rows[0]["change"], 0.0);
  EXPECT_GT(rows[1]["change"], 0.0) << "shuffling the words of a sentence costs nothing";
  EXPECT_EQ(rows.size(), 3u + 5u);  // distances 1, 2, 4, 8, 16
  EXPECT_GT(rows[3]["change"].get<double>(), rows[7]["change"].get<double>()) << "the last token counts less than the sixteenth";
  for (const Json& row : rows) EXPECT_TRUE(row["stderr"].is_number());
}

TEST(Inspect, RefusesWhatThereIsNot) {
  EXPECT_EQ(run({{"inspect", "ropee"}}).code, 2);
  EXPECT_EQ(run({{"inspect", "rope", "--probe", "colour"}}).code, 2);
  EXPECT_EQ(run({{"inspect", "rope", "--set", "/model/heads=0"}}).code, 2);
}

}  // namespace
}  // namespace posenc
