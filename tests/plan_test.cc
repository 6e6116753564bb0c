// `paceline plan` and a planned `paceline simulate` as a user runs them.
#include <algorithm>
#include <filesystem>
#include <set>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/program.h"

namespace paceline::tests {
namespace {

using Json = nlohmann::json;

TEST(Plan, EveryExampleIsPlannedAndBeatsItsBaselines) {
  int planned = 0, shared = 0;
  for (const auto& entry : std::filesystem::directory_iterator("examples/plan")) {
    const Ended ended = run({"plan", entry.path().string(), "--json", "-"});
    ASSERT_EQ(ended.status, 0) << ended.errors;
    const Json plan = Json::parse(ended.output);
    std::vector<std::string> keys;
    for (const auto& [key, value] : plan.items()) keys.push_back(key);
    EXPECT_EQ(keys, (std::vector<std::string>{"baselines", "batch_ms", "costs", "micro_batch", "reason",
                                              "replicas", "samples_per_s", "search", "second"}));
    const bool budgets = entry.path().filename() == "spot-prices.toml";
    for (const auto& [name, batch_ms] : plan["baselines"].items()) {
      if (batch_ms.is_null() || budgets) continue;
      EXPECT_GE(batch_ms, plan["batch_ms"]) << entry.path() << name;
    }
    for (const Json& replica : plan["replicas"]) {
      EXPECT_EQ(replica["stage_ms"].size(), replica["devices"].size());
      EXPECT_EQ(replica["cuts"].size() + 1, replica["devices"].size());
      // Devices that begin at the same layer share a stage.
      std::set<int> stages{0};
      for (const Json& cut : replica["cuts"]) stages.insert(cut.get<int>());
      shared += stages.size() < replica["devices"].size() ? 1 : 0;
      EXPECT_EQ(replica["link_ms"].size() + 1, stages.size());
      EXPECT_EQ(replica["memory_mb"].size(), replica["devices"].size());
      EXPECT_GT(replica["samples"], 0);
    }
    EXPECT_NE(run({"plan", entry.path().string()}).output.find("replica 0: "), std::string::npos);
    ++planned;
  }
  EXPECT_GE(planned, 4);
  EXPECT_GE(shared, 1);
}

TEST(Plan, AModelByNameIsMeasuredAndItsProfileReadBack) {
  const TempFolder folder;
  const std::string devices = "[[device]]\nname = \"a\"\n[[device]]\nname = \"b\"\nspeed = 3\n";
  write_text(folder / "named.toml", "batch = 32\n[model]\nname = \"mlp\"\nsample = [1, 28, 28]\n" + devices);
  const std::string profile = (folder / "layers.toml").string();
  const Ended named =
      run({"plan", (folder / "named.toml").string(), "--json", "-", "--write-profile", profile});
  ASSERT_EQ(named.status, 0) << named.errors;
  write_text(folder / "profiled.toml", "batch = 32\n[model]\nprofile = \"layers.toml\"\n" + devices);
  const Ended profiled = run({"plan", (folder / "profiled.toml").string(), "--json", "-"});
  ASSERT_EQ(profiled.status, 0) << profiled.errors;
  const double first = Json::parse(named.output)["batch_ms"],
               second = Json::parse(profiled.output)["batch_ms"];
  EXPECT_NEAR(first, second, 1e-3 * first);
}

void expect_one_line(const std::string& text, const std::string& says) {
  const TempFolder folder;
  write_text(folder / "c.toml", text);
  const Ended ended = run({"plan", (folder / "c.toml").string()});
  EXPECT_EQ(ended.status, 2);
  EXPECT_EQ(std::count(ended.errors.begin(), ended.errors.end(), '\n'), 1) << ended.errors;
  EXPECT_NE(ended.errors.find("c.toml"), std::string::npos) << ended.errors;
  EXPECT_NE(ended.errors.find(says), std::string::npos) << ended.errors;
}

TEST(Plan, WhatCannotBeIsNamedWithTheNumberThatWouldMakeItPossible) {
  const std::string model = "[model]\nlayers = [10, 10]\nparameter_kb = 1000\n";
  expect_one_line(
      model + "[[device]]\nmemory_mb = 1\n[[device]]\nmemory_mb = 1.5\n",
      "needs 4 MB of memory (weights, gradients, activations of 1 sample) and the 2 devices have 2.5 MB "
      "together: 1.5 MB are missing");
  expect_one_line(
      model + "[[device]]\nmemory_mb = 1.5\n[[device]]\nmemory_mb = 1\n[[device]]\nmemory_mb = 1.6\n",
      "layer layer0 needs 2 MB of memory and the largest device has 1.6 MB: 0.4 MB are missing");
  // 128 samples of 20 ms at 0.001 a second are 0.00256, and synchronizing takes 3.3 ms.
  expect_one_line(
      model + "[[device]]\nprice_per_hour = 3.6\n[[budget]]\nmost = 0.001\n",
      "the budget of 0.001 (money) a batch is below the cheapest plan that was found, which costs 0.00256");
  expect_one_line("[model]\nname = \"resnet2000\"\n[[device]]\n", "no such model");
  expect_one_line("[model]\nprofile = \"no-c.toml\"\n[[device]]\n", "no-c.toml: no such file");
}

TEST(Plan, ASimulationSaysWhatEachOfThemTook) {
  const TempFolder folder;
  write_text(
      folder / "c.toml",
      "batch = 32\nbatches = 120\n[model]\nlayers = [1, 2, 2, 1]\n[planner]\n[[device]]\ncount = 3\n"
      "[[change]]\nat_s = 1\ndevice = \"d0-1\"\nspeed = 0.25\n[[budget]]\nkind = \"energy_j\"\nmost = 100\n");
  const Ended ended = run({"simulate", (folder / "c.toml").string(), "--json", "-"});
  ASSERT_EQ(ended.status, 0) << ended.errors;
  const Json runs = Json::parse(ended.output);
  std::vector<std::string> names;
  for (const Json& one : runs) {
    names.push_back(one["plan"]);
    EXPECT_EQ(one["batches"], 120);
    EXPECT_GE(one["batch_ms_mean"].get<double>() * 1.0001, runs[0]["batch_ms_mean"].get<double>())
        << one["plan"];
    EXPECT_EQ(one["cost_mean"].size(), 3u);
    EXPECT_EQ(one["queue_max"].size(), 1u);
    for (const char* key : {"replans", "migrations", "predicted_error", "virtual_s"})
      EXPECT_GE(one[key], 0) << key;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"paceline", "bsp", "lb-bsp", "gpipe", "gpipe-work", "pipedream",
                                             "hetpipe", "frozen"}));
}

// The budget slows Paceline's run down, so that it is not over when all devices leave.
TEST(Plan, NothingIsComparedWithARunThatEndedEarly) {
  const TempFolder folder;
  for (const char* name : {"a.toml", "b.toml"}) {
    write_text(folder / name,
               "batch = 32\nbatches = 60\n[model]\nlayers = [10, 10]\n[planner]\nv = 1\n"
               "[[device]]\nname = \"fast\"\nprice_per_hour = 3600\n"
               "[[device]]\nname = \"slow\"\nspeed = 0.25\nprice_per_hour = 36\n[[budget]]\nmost = 0.1\n"
               "[[change]]\nat_s = 40\ndevice = \"fast\"\nwhat = \"leave\"\n"
               "[[change]]\nat_s = 40\ndevice = \"slow\"\nwhat = \"leave\"\n");
  }
  const Ended both = run({"simulate", (folder / "a.toml").string(), (folder / "b.toml").string()});
  ASSERT_EQ(both.status, 0) << both.errors;
  EXPECT_NE(both.output.find("| paceline | – | – |\n"), std::string::npos) << both.output;
  EXPECT_NE(both.output.find("| lb-bsp | 528.8 | 528.8 |\n"), std::string::npos) << both.output;
}

TEST(Plan, SeveralSimulationsMakeOneListAndHaveNoPolicies) {
  const TempFolder folder;
  for (const char* name : {"a.toml", "b.toml"}) {
    write_text(folder / name,
               "batch = 32\nbatches = 10\n[model]\nlayers = [1, 2]\n[planner]\n[[device]]\ncount = 2\n");
  }
  write_text(folder / "scenario.toml", "[[device]]\ncompute_ms = 100\n");
  const std::string a = (folder / "a.toml").string(), b = (folder / "b.toml").string();
  const Ended both = run({"simulate", a, b, "--json", "-"});
  ASSERT_EQ(both.status, 0) << both.errors;
  const Json runs = Json::parse(both.output);
  ASSERT_EQ(runs.size(), 16u);
  EXPECT_EQ(runs[0]["cluster"], "a");
  EXPECT_EQ(runs[8]["cluster"], "b");
  EXPECT_EQ(runs[8]["plan"], "paceline");
  const Ended policies = run({"simulate", a, b, "--policies", "bsp"});
  EXPECT_EQ(policies.status, 2);
  EXPECT_NE(policies.errors.find("--policies: "), std::string::npos) << policies.errors;
  const Ended mixed = run({"simulate", a, (folder / "scenario.toml").string()});
  EXPECT_EQ(mixed.status, 2);
  EXPECT_NE(mixed.errors.find("scenario.toml: has no [planner]"), std::string::npos) << mixed.errors;
}

}  // namespace
}  // namespace paceline::tests
