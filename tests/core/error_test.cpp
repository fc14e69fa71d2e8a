#include "core/error.h"

#include <gmock/gmock.h>

namespace posenc {
namespace {

TEST(Error, ListsEveryProblemOnALineOfItsOwn) {
  const ConfigError error({{"rope.json:3:5", "/model/heads", "7 does not divide d_model 256 (try 4 or 8)"},
                           {"", "/seed", "-1 is below 0"},
                           {"rope.json:9:1", "", "trailing comma"}});
  EXPECT_STREQ(error.what(),
               "rope.json:3:5: /model/heads: 7 does not divide d_model 256 (try 4 or 8)\n"
               "/seed: -1 is below 0\n"
               "rope.json:9:1: trailing comma");
  EXPECT_EQ(error.problems().size(), 3u);
}

TEST(Error, CarriesTheExitCodeOfTheContract) {
  EXPECT_EQ(static_cast<int>(ConfigError("no").code()), 2);
  EXPECT_EQ(static_cast<int>(DataError("no").code()), 65);
  EXPECT_EQ(static_cast<int>(IoError("no").code()), 74);
}

TEST(Error, AFailedCheckIsALogicErrorNamingTheExpression) {
  const auto fail = [] { POSENC_CHECK(1 + 1 == 3, "arithmetic"); };
  EXPECT_THAT(fail,
              testing::ThrowsMessage<std::logic_error>(testing::AllOf(
                  testing::HasSubstr("arithmetic"), testing::HasSubstr("1 + 1 == 3"), testing::HasSubstr("error_test.cpp:"))));
}

}  // namespace
}  // namespace posenc
