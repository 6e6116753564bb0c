#include "paceline/formats/config/optimizer_settings.h"

#include <map>
#include <set>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "paceline/formats/config/job_config.h"
#include "paceline/formats/config/old_keys.h"

namespace paceline::config {
namespace {

std::string said(const std::string& text) {
  return std::string(parse_job(text, "job.toml").status().message());
}

// The table of docs/job.md, once more.
TEST(OptimizerSettings, AreThoseThatItsStepReads) {
  const std::map<std::string, std::set<std::string>> with = {
      {"momentum", {"sgd", "rmsprop", "lars"}},
      {"beta1", {"adam", "adamw", "adamax", "nadam", "lamb", "lion"}},
      {"beta2", {"adam", "adamw", "adamax", "nadam", "lamb", "lion"}},
      {"epsilon", {"adam", "adamw", "nadam", "rmsprop", "adagrad", "adamax", "lamb", "adafactor"}}};
  for (const auto& [key, optimizers] : with) {
    for (const ps::OptimizerKind kind : ps::kEveryOptimizer) {
      if (ps::traits_of(kind).variant != nullptr) continue;
      const std::string name = ps::traits_of(kind).name;
      const std::string optimizer = fmt::format("[optimizer]\nname = \"{}\"\n", name);
      const bool has = optimizers.contains(name) && !(key == "beta2" && name == "rmsprop");
      const std::string line = said(optimizer + key + " = 0.5\n");
      EXPECT_EQ(line.empty(), has) << name << " " << line;
      const std::string group = said(optimizer + "[[optimizer.group]]\nmatch = \"*\"\n" + key + " = 0.5\n");
      EXPECT_EQ(group.empty(), has) << name << " " << group;
    }
  }
  EXPECT_EQ(said("[optimizer]\nname = \"adam\"\nmomentum = 0.5\n"),
            "job.toml:3: optimizer.momentum: adam does not have it; leave it out");
  EXPECT_EQ(said("[optimizer]\nnesterov = true\nmomentum = 0.5\n"), "");
}

TEST(OptimizerSettings, OfAnotherOptimizerMeanNothingInARecordedJob) {
  const std::string text =
      "[optimizer]\nname = \"adam\"\nmomentum = 0.5\nbeta1 = 0.8\n[[optimizer.group]]\nmatch = "
      "\"*\"\nmomentum = 0.5\n";
  const auto job = parse_job(with_current_keys(text), "job.toml");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->optimizer.beta1, 0.8);
  EXPECT_EQ(job->groups.at(0).momentum, std::nullopt);
}

}  // namespace
}  // namespace paceline::config
