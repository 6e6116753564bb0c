// Which tensors are in which group, and what can be wrong with that.
#include "paceline/parameters/ps/parameter_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::ps {
namespace {

using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::Optional;

constexpr auto kNone = std::nullopt;

Layout model() {
  Layout layout;
  layout.add("conv.weight", TensorKind::kParameter, {40});
  layout.add("conv.bias", TensorKind::kParameter, {40});
  layout.add("norm.weight", TensorKind::kParameter, {40});
  layout.add("head.bias", TensorKind::kConstant, {40});
  return layout;
}

TEST(Glob, IsWhatItSays) {
  for (const auto& [glob, text] : std::vector<std::pair<const char*, const char*>>{{"", ""},
                                                                                   {"*", ""},
                                                                                   {"*", "abc"},
                                                                                   {"**", "a"},
                                                                                   {"a*", "a"},
                                                                                   {"*c", "abc"},
                                                                                   {"a*c", "abbc"},
                                                                                   {"a?c", "abc"},
                                                                                   {"*.bias", "a.b.bias"},
                                                                                   {"*b*b", "abab"},
                                                                                   {"a*b*c", "axbxbxc"},
                                                                                   {"?*", "x"},
                                                                                   {"*.*.", "a.b."},
                                                                                   {"*ab", "aab"},
                                                                                   {"*aab*", "aaab"},
                                                                                   {"[a]", "[a]"},
                                                                                   {"a.b", "a.b"}})
    EXPECT_TRUE(matches_glob(glob, text)) << glob << " " << text;
  for (const auto& [glob, text] : std::vector<std::pair<const char*, const char*>>{{"", "a"},
                                                                                   {"a", ""},
                                                                                   {"?", ""},
                                                                                   {"a", "ab"},
                                                                                   {"ab", "a"},
                                                                                   {"*.bias", "bias"},
                                                                                   {"*.bias", "a.biases"},
                                                                                   {"a*c", "abd"},
                                                                                   {"a?c", "ac"},
                                                                                   {"a.b", "axb"},
                                                                                   {"[a]", "a"},
                                                                                   {"*b*b", "ab"},
                                                                                   {"A", "a"}})
    EXPECT_FALSE(matches_glob(glob, text)) << glob << " " << text;
  // No longer than the product of the two.
  EXPECT_FALSE(matches_glob("*a*a*a*a*a*a*a*a*a*b", std::string(5000, 'a')));
}

TEST(ParameterGroups, NamesAndGlobsFindTheirTensors) {
  const std::vector<ParameterGroup> groups{{.tensors = {"norm.weight"}}, {.match = "*.bias"}};
  ASSERT_TRUE(check_groups(model(), groups).ok());
  EXPECT_THAT(groups_in(model(), groups), ElementsAre(Eq(kNone), Optional(1u), Optional(0u), Optional(1u)));
  EXPECT_THAT(groups_in(model(), {}), ElementsAre(Eq(kNone), Eq(kNone), Eq(kNone), Eq(kNone)));
}

TEST(ParameterGroups, APieceIsOfItsTensorsGroup) {
  const std::vector<ParameterGroup> groups{{.tensors = {"norm.weight"}}, {.match = "*.bias"}};
  const std::vector<Layout> parts = model().split_evenly(5);
  ASSERT_EQ(parts[0].tensors()[0].name, "conv.weight@0");
  std::vector<std::string> found;
  for (const Layout& part : parts) {
    const auto of = groups_in(part, groups);
    for (std::size_t i = 0; i < of.size(); ++i)
      found.push_back(part.tensors()[i].name + "=" + (of[i] ? std::to_string(*of[i]) : "-"));
  }
  EXPECT_THAT(found, ElementsAre("conv.weight@0=-", "conv.weight@32=-", "conv.bias@0=1", "conv.bias@16=1",
                                 "norm.weight@0=0", "norm.weight@16=0", "head.bias=1"));
}

TEST(ParameterGroups, WhatIsWrongIsOneLine) {
  const auto says = [](std::vector<ParameterGroup> groups) {
    const absl::Status status = check_groups(model(), groups);
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  EXPECT_EQ(says({{.tensors = {"norm.weight", "norm.bais"}}}),
            "optimizer.group: the model has no tensor 'norm.bais'");
  EXPECT_EQ(says({{.match = "*.gamma"}}), "optimizer.group: no tensor of the model matches '*.gamma'");
  const char* twice = "optimizer.group: tensor 'conv.bias' is named twice; write it in one group, once";
  EXPECT_EQ(says({{.tensors = {"conv.bias", "conv.bias"}}}), twice);
  EXPECT_EQ(says({{.tensors = {"conv.bias"}}, {.match = "*.bias"}}), twice);
  EXPECT_EQ(says({{.match = "conv.*"}, {.match = "*.bias"}}), twice);
  // A piece's name is no tensor's.
  EXPECT_THAT(says({{.tensors = {"conv.bias@16"}}}), HasSubstr("no tensor 'conv.bias@16'"));
}

TEST(ParameterGroups, AGroupHasItsOwnNumbersAndTheOptimizersElse) {
  const OptimizerConfig adamw{.kind = OptimizerKind::kAdamW, .beta1 = 0.8, .weight_decay = 0.1};
  EXPECT_EQ(optimizer_of(adamw, {}), adamw);
  const OptimizerConfig own = optimizer_of(
      adamw, {.rate = 0.5, .steps_behind = 7, .beta2 = 0.9, .epsilon = 1e-5, .weight_decay = 0.0});
  EXPECT_EQ(own.rate, 0.5);
  EXPECT_EQ(own.beta1, 0.8);
  EXPECT_EQ(own.beta2, 0.9);
  EXPECT_EQ(own.epsilon, 1e-5);
  EXPECT_EQ(own.weight_decay, 0.0);
  EXPECT_EQ(own.steps_behind, 7);
}

}  // namespace
}  // namespace paceline::ps
