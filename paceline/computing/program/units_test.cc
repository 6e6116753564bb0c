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

TEST(CutsOf, AreEqualWhereUnitsHaveTheSameNamesAndTensors) {
  Model model = model_of(2);
  model.units[0].name = "block 0";
  model.units[0].tensors = {0, 1};
  model.units[1].name = "block 1";
  model.units[1].tensors = {2};
  model.libraries = "PyTorch 2.8.0";
  const auto cuts = cuts_of(model);
  ASSERT_TRUE(cuts.has_value());
  EXPECT_EQ(cuts->libraries, "PyTorch 2.8.0");
  Model other = model;
  other.units[0].flops = 7;
  other.units[0].message_bytes = 7;
  EXPECT_EQ(cuts_of(other)->digest, cuts->digest);
  other.units[0].name = "block 0 to 1";
  EXPECT_NE(cuts_of(other)->digest, cuts->digest);
  other = model;
  other.units[0].tensors = {0};
  other.units[1].tensors = {1, 2};
  EXPECT_NE(cuts_of(other)->digest, cuts->digest);
  EXPECT_FALSE(cuts_of(model_of(0)).has_value());
}

TEST(CheckCut, SaysWhyAWorkerCannotCutTheModel) {
  EXPECT_TRUE(check_cut("w1", model_of(2)).ok());
  Model model = model_of(0);
  model.uncut = "stages need PyTorch 2.0 or later, and this is 1.13.1";
  EXPECT_EQ(check_cut("w1", model).message(),
            "w1: the program's model cannot be cut: stages need PyTorch 2.0 or later, and this is 1.13.1; "
            "install the same versions of PyTorch and of its libraries on every host");
}

TEST(CheckStages, RefusesDataWhoseLengthNobodyKnows) {
  EXPECT_EQ(checked("[data]\nopen_end = true\n", model_of(2)).message(),
            "parallel: stages need data whose length is known, and nobody knows the length of these "
            "(data.open_end). "
            "Write \"data\" or \"uneven-data\"");
}

}  // namespace
}  // namespace paceline::program
