#include "paceline/tools/doctor/cluster_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "paceline/tools/doctor/made_up_cluster.h"

namespace paceline::doctor {
namespace {

using ::testing::HasSubstr;

std::string text(const ClusterFacts& facts) { return text_of(facts, examine(facts)); }

TEST(ClusterReport, HostsAreNamedShortly) {
  EXPECT_EQ(names_of({0}, 1), "0");
  EXPECT_EQ(names_of({0, 1, 2}, 3), "all");
  EXPECT_EQ(names_of({0, 1, 2, 5, 7, 8}, 9), "0-2, 5, 7-8");
}

TEST(ClusterReport, ReadsWell) {
  ClusterFacts facts = well_cluster(3);
  facts.links[1].to_b_mb_s = 900;
  facts.hosts[2].other_keys = {"batch = 16, there 8"};
  EXPECT_EQ(text(facts), R"(host 0 is at 10.0.0.1
host 1 is at 10.0.0.2
host 2 is at 10.0.0.3

      hosts
ok    0        processors       2
ok    1        processors       3
ok    2        processors       4
ok    all      libraries        gRPC 1.51
ok    all      program          version 0.1.0, build 1234
ok    0-1      job file         as host 0's
fail  2        job file         another job than host 0's: batch = 16, there 8
                                fix: copy host 0's job file there, and give the same --set
ok    all      links over       sealed
ok    all      data set         1200 samples
ok    all      run folder       /shared/runs, on a disk shared with host 0
ok    1-2      clocks           200 µs ± 100 µs ahead of host 0's

round trip, µs  host 0  host 1  host 2
--------------------------------------
host 0                      80      80
host 1              80              80
host 2              80      80

MB/s, from / to  host 0  host 1  host 2
---------------------------------------
host 0                     1000     900
host 1             1000            1000
host 2             1000    1000

before a run, fix what fails above (hosts: 2)
)");
}

TEST(ClusterReport, AHostThatIsNotThereHasNoLinks) {
  ClusterFacts facts = well_cluster(3);
  facts.hosts[2] = {};
  std::erase_if(facts.links, [](const LinkFacts& link) { return link.b == 2; });
  EXPECT_THAT(text(facts), HasSubstr("host 1             1000            none\n"));
  EXPECT_THAT(text(well_cluster(1)), HasSubstr("nothing has to be fixed\n"));
}

TEST(ClusterReport, ProgramsReadTheSame) {
  ClusterFacts facts = well_cluster(3);
  facts.links[0].error = "not connected within 5000 ms";
  facts.hosts[2] = {};
  const auto document = nlohmann::json::parse(json_of(facts, examine(facts)));
  EXPECT_TRUE(document.at("failed"));
  EXPECT_EQ(document.at("hosts").size(), 3u);
  EXPECT_FALSE(document.at("hosts")[2].at("came"));
  EXPECT_EQ(document.at("hosts")[2].at("findings")[0].at("health"), "fail");
  EXPECT_DOUBLE_EQ(document.at("hosts")[1].at("clock_ahead_s"), 0.0002);
  EXPECT_EQ(document.at("links")[0].at("error"), "not connected within 5000 ms");
  EXPECT_DOUBLE_EQ(document.at("links")[1].at("to_b_mb_s"), 1000);
}

// Texts from other hosts may contain any bytes.
TEST(ClusterReport, OddBytesDoNotEndIt) {
  ClusterFacts facts = well_cluster(1);
  facts.hosts[0].own.push_back({"odd", Health::kOk, "\xff\xfe"});
  EXPECT_TRUE(nlohmann::json::accept(json_of(facts, examine(facts))));
}

}  // namespace
}  // namespace paceline::doctor
