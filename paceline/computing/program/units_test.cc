#include "paceline/computing/program/units.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::program {
namespace {

using ::testing::HasSubstr;

Model model_of(std::size_t units) {
  Model model;
  model.units.resize(units);
  return model;
}

absl::Status checked(const std::string& more, const Model& model) {
  const std::string text =
      "parallel = \"static\"\nmicro_batch = 8\n[program]\nrun = \"train.py\"\n[[device]]\ncount = 2\n"
      "[[pipeline]]\ndevices = [\"w0\", \"w1\"]\ncuts = [1]\n" +
      more;
  return check_stages(config::parse_job(text, "job.toml").value(), model);
}

TEST(CheckStages, TakesAModelThatCanBeCutThere) {
  EXPECT_TRUE(checked("", model_of(2)).ok());
  EXPECT_THAT(std::string(checked("", model_of(1)).message()),
              HasSubstr("1 is not a unit of the program's model"));
  EXPECT_THAT(std::string(checked("", model_of(0)).message()), HasSubstr("it names no units"));
}

TEST(CheckStages, RefusesDataWhoseLengthNobodyKnows) {
  EXPECT_EQ(checked("[data]\nopen_end = true\n", model_of(2)).message(),
            "parallel: stages need data whose length is known, and nobody knows the length of these "
            "(data.open_end). "
            "Write \"data\" or \"uneven-data\"");
}

}  // namespace
}  // namespace paceline::program
