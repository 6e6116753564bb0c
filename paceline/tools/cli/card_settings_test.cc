#include "paceline/tools/cli/card_settings.h"

#include <gtest/gtest.h>

#include "paceline/computing/program/messages.h"
#include "paceline/formats/config/job_config.h"

namespace paceline::cli {
namespace {

// The job of a program that computes on two cards.
config::JobConfig on_two_cards(const std::string& keys, const std::string& policy) {
  program::Model model;
  model.cards = 2;
  model.free_memory = {3'000'000'000, 2'000'000'000};
  const std::string text =
      keys + "[program]\nrun = \"train.py\"\n[cluster]\nmemory = \"gpu\"\n[[device]]\ncount = 2\n" +
      "[sync]\npolicy = \"" + policy + "\"\n";
  const auto with = with_card_settings(text, "job.toml", model);
  EXPECT_TRUE(with.ok()) << with.status();
  const auto job = config::parse_job(with.value_or(text), "job.toml");
  EXPECT_TRUE(job.ok()) << job.status();
  return job.value_or(config::JobConfig());
}

TEST(CardSettings, DependOnThePolicy) {
  EXPECT_EQ(on_two_cards("", "bsp").servers, 2);
  EXPECT_EQ(on_two_cards("", "cgp").servers, 1) << "its replicas look ahead";
}

TEST(CardSettings, AProgramThatSaidNothingHasNone) {
  EXPECT_EQ(*with_card_settings("epochs = 2\n", "job.toml", std::string()), "epochs = 2\n");
}

}  // namespace
}  // namespace paceline::cli
