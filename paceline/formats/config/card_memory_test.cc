#include "paceline/formats/config/card_memory.h"

#include <gtest/gtest.h>

namespace paceline::config {
namespace {

JobConfig job_of(const std::string& text, const std::vector<std::string>& sets = {}) {
  const auto job = parse_job(text, "job.toml", sets);
  EXPECT_TRUE(job.ok()) << job.status();
  return *job;
}

std::vector<std::int64_t> gigabytes(const std::vector<double>& each) {
  std::vector<std::int64_t> bytes;
  for (const double one : each) bytes.push_back(static_cast<std::int64_t>(one * 1e9));
  return bytes;
}

constexpr char kTwo[] = "parallel = \"joint\"\n[[device]]\ncount = 2\n";

TEST(CardMemory, DevicesHaveWhatTheirCardsHaveWithoutTheReserve) {
  const auto setting = card_memory_setting(job_of(kTwo), gigabytes({24, 8.5}));
  ASSERT_EQ(setting, "card_memory_mb=[23000,7500]");
  const JobConfig job = job_of(kTwo, {*setting});
  EXPECT_EQ(job.devices[0].memory_mb, 23000);
  EXPECT_EQ(job.devices[1].memory_mb, 7500);
  EXPECT_EQ(card_memory_words(job),
            "w0 23000 MB, w1 7500 MB: their cards' free memory when the run began, less 1000 MB for each");
}

TEST(CardMemory, WhatTheJobSaysCountsMore) {
  const std::string text = "parallel = \"joint\"\n[[device]]\nmemory_mb = 500\n[[device]]\n";
  const JobConfig job = job_of(text, {*card_memory_setting(job_of(text), gigabytes({24, 8}))});
  EXPECT_EQ(job.devices[0].memory_mb, 500);
  EXPECT_FALSE(job.devices[0].memory_of_card);
  EXPECT_EQ(job.devices[1].memory_mb, 7000);
  const std::string all = "parallel = \"joint\"\n[[device]]\nmemory_mb = 500\ncount = 2\n";
  EXPECT_EQ(card_memory_setting(job_of(all), gigabytes({24, 8})), std::nullopt);
  EXPECT_EQ(card_memory_words(job_of(all)), "");
}

TEST(CardMemory, DevicesOfOneCardShareIt) {
  const JobConfig three = job_of("parallel = \"joint\"\n[[device]]\ncount = 3\n");
  EXPECT_EQ(card_memory_setting(three, gigabytes({24, 8})), "card_memory_mb=[11000,7000,11000]");
  EXPECT_EQ(card_memory_setting(three, gigabytes({24, 8, 16, 90})), "card_memory_mb=[23000,7000,15000]");
}

TEST(CardMemory, AFullCardHasNoRoomAndSeveralHostsAreNotAsked) {
  EXPECT_EQ(card_memory_setting(job_of(kTwo), gigabytes({0.2, 8})), "card_memory_mb=[1,7000]");
  const JobConfig hosts = job_of(kTwo, {"cluster.hosts=2"});
  EXPECT_EQ(card_memory_setting(hosts, gigabytes({24, 8})), std::nullopt);
  EXPECT_EQ(job_of(kTwo, {"card_memory_mb=[0,7000]"}).devices[0].memory_mb, std::nullopt);
}

TEST(CardMemory, IsSaidOfTheDevicesOfAHost) {
  const JobConfig job = job_of("[[device]]\ncount = 5\n", {"cluster.hosts=2"});
  EXPECT_EQ(free_memory_words(job, 0, gigabytes({24, 8.5})),
            "w0 11000 MB, w1 7500 MB, w2 11000 MB: their cards' free memory, less 1000 MB for each");
  EXPECT_EQ(free_memory_words(job, 1, gigabytes({3})),
            "w3 500 MB, w4 500 MB: their cards' free memory, less 1000 MB for each");
  EXPECT_EQ(free_memory_words(job, 1, {}), "");
}

TEST(CardMemory, ARunWithOtherDevicesHasNoneOfTheNumbers) {
  EXPECT_EQ(job_of(kTwo, {"card_memory_mb=[7000]"}).devices[0].memory_mb, std::nullopt);
}

}  // namespace
}  // namespace paceline::config
