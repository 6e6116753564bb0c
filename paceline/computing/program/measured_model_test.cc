// Tests of what a program says about its model's times and memory.
#include "paceline/computing/program/measured_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace paceline::program {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

json unit(const std::string& name) {
  return {{"name", name},           {"parameters", 100},        {"trained", 60},
          {"parameter_bytes", 400}, {"frozen_bytes", 160},      {"tied_bytes", 0},
          {"tied_to", nullptr},     {"forward_ms", {1.0, 2.0}}, {"backward_ms", {3.0, 4.0}},
          {"sent_bytes", 8},        {"kept_bytes", 16},         {"peak_bytes", 4096}};
}

json message() {
  json tied = unit("b");
  tied["tied_bytes"] = 40;
  tied["tied_to"] = 0;
  tied["returned_bytes"] = 24;
  tied["kept_fixed_bytes"] = 90;
  tied["working_bytes"] = 5;
  tied["working_fixed_bytes"] = 700;
  return {{"profile",
           {{"model", "Net"},
            {"threads", 2},
            {"micro_batches", {2, 4}},
            {"units", {unit("a"), tied}},
            {"whole", {{"forward_ms", 3.5}, {"backward_ms", 7.5}, {"peak_bytes", nullptr}}}}}};
}

TEST(Fit, TellsAFixedPartFromAPartOfEachSample) {
  const MeasuredTime line = fit({1, 2, 4}, {7, 9, 13});
  EXPECT_DOUBLE_EQ(line.fixed_ms, 5);
  EXPECT_DOUBLE_EQ(line.each_ms, 2);
}

TEST(Fit, HasNoPartBelowZero) {
  const MeasuredTime steep = fit({1, 2}, {1, 4});  // -2 + 3u
  EXPECT_EQ(steep.fixed_ms, 0);
  EXPECT_DOUBLE_EQ(steep.each_ms, 9.0 / 5);
}

TEST(Fit, TakesNoSmallerMicroBatchForSlowerThanALargerOne) {
  const MeasuredTime disturbed = fit({1, 2, 4}, {90, 4, 8});
  EXPECT_DOUBLE_EQ(disturbed.fixed_ms, fit({1, 2, 4}, {4, 4, 8}).fixed_ms);
  const MeasuredTime falling = fit({1, 2}, {4, 2});
  EXPECT_DOUBLE_EQ(falling.fixed_ms, 2);
  EXPECT_EQ(falling.each_ms, 0);
}

TEST(Fit, OfOneSizeIsAllForEachSample) {
  const MeasuredTime line = fit({4}, {8});
  EXPECT_EQ(line.fixed_ms, 0);
  EXPECT_DOUBLE_EQ(line.each_ms, 2);
}

TEST(Measured, BecomesLayersOfAPlan) {
  const auto measured = parse_measured(message().dump());
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_EQ(measured->name, "Net");
  EXPECT_EQ(measured->whole->backward_ms, 7.5);
  EXPECT_EQ(measured->units[0].peak_bytes, 4096);
  const planner::ModelProfile profile = profile_of(*measured, 2);
  ASSERT_EQ(profile.layers.size(), 2u);
  const planner::LayerProfile& layer = profile.layers[1];
  EXPECT_EQ(layer.name, "b");
  EXPECT_DOUBLE_EQ(layer.work_ms, 1);  // 4 ms of 2 samples, 6 ms of 4
  EXPECT_DOUBLE_EQ(layer.fixed_ms, 2);
  EXPECT_EQ(layer.measured, (planner::SizeTimes{{2, 4}, {4, 6}}));
  EXPECT_DOUBLE_EQ(layer.ms(3), 5);
  EXPECT_DOUBLE_EQ(layer.forward_share, 0.3);
  EXPECT_EQ(layer.output_bytes, 8);
  EXPECT_EQ(layer.activation_bytes, 16);
  EXPECT_EQ(layer.activation_fixed_bytes, 90);
  EXPECT_EQ(layer.parameter_bytes, 400);
  EXPECT_EQ(layer.frozen_bytes, 160);
  EXPECT_EQ(layer.state_bytes, 2 * 60 * 4);
  EXPECT_EQ(layer.tied_bytes, 40);
  EXPECT_EQ(layer.tied_to, 0);
  EXPECT_EQ(layer.returned_bytes, 24);
  EXPECT_EQ(layer.working_bytes, 5);
  EXPECT_EQ(layer.working_fixed_bytes, 700);
  EXPECT_EQ(profile.layers[0].working_bytes, 0);  // the program does not say
  EXPECT_EQ(profile.layers[0].activation_fixed_bytes, 0);
}

TEST(Measured, ThatCannotBeIsOneLine) {
  const auto refused = [](const std::string& pointer, const json& value) {
    json changed = message();
    changed[json::json_pointer("/profile" + pointer)] = value;
    const absl::Status status = parse_measured(changed.dump()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << pointer;
    return std::string(status.message());
  };
  EXPECT_THAT(refused("", 1), HasSubstr("no profile of its model"));
  EXPECT_THAT(refused("/units/1/working_bytes", -1), HasSubstr("working_bytes cannot be"));
  EXPECT_THAT(refused("/units/1/kept_fixed_bytes", -1), HasSubstr("kept_fixed_bytes cannot be"));
  EXPECT_THAT(refused("/threads", 0), HasSubstr("threads cannot be"));
  EXPECT_THAT(refused("/micro_batches", json::array()), HasSubstr("without sizes"));
  EXPECT_THAT(refused("/micro_batches", {4, 2}), HasSubstr("do not ascend"));
  EXPECT_THAT(refused("/units", json::array()), HasSubstr("without units"));
  EXPECT_THAT(refused("/units/0", 1), HasSubstr("not an object"));
  EXPECT_THAT(refused("/units/0/parameters", -1), HasSubstr("parameters cannot be"));
  EXPECT_THAT(refused("/units/0/trained", 101), HasSubstr("more of its parameters than all"));
  EXPECT_THAT(refused("/units/0/forward_ms", {1.0}), HasSubstr("are not 2 times"));
  EXPECT_THAT(refused("/units/0/backward_ms", {1.0, -1.0}), HasSubstr("are not 2 times"));
  EXPECT_THAT(refused("/units/0/peak_bytes", "x"), HasSubstr("peak_bytes cannot be"));
  EXPECT_THAT(refused("/units/1/tied_to", 1), HasSubstr("tied to none before it"));
  EXPECT_THAT(refused("/whole/forward_ms", nullptr), HasSubstr("forward_ms cannot be"));
}

}  // namespace
}  // namespace paceline::program
