#include "paceline/tools/doctor/examination.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/tools/doctor/made_up_cluster.h"

namespace paceline::doctor {
namespace {

using ::testing::HasSubstr;

// The findings that are not ok.
std::vector<HostFinding> troubles(const ClusterFacts& facts) {
  std::vector<HostFinding> all = examine(facts);
  std::erase_if(all, [](const HostFinding& one) { return one.finding.health == Health::kOk; });
  return all;
}

// The only such finding; the test fails if there is not exactly one, or if it has no advice.
HostFinding trouble(const ClusterFacts& facts) {
  const auto all = troubles(facts);
  EXPECT_EQ(all.size(), 1u);
  if (all.empty()) return {};
  EXPECT_FALSE(all.front().finding.fix.empty());
  return all.front();
}

TEST(Examination, FindsNothingIfAllIsWell) {
  for (int hosts = 1; hosts < 5; ++hosts) {
    EXPECT_TRUE(troubles(well_cluster(hosts)).empty());
    EXPECT_FALSE(any_failed(examine(well_cluster(hosts))));
  }
}

TEST(Examination, NamesHostsThatDidNotCome) {
  ClusterFacts facts = well_cluster(3);
  facts.hosts[2] = {};
  const HostFinding one = trouble(facts);
  EXPECT_EQ(one.host, 2);
  EXPECT_EQ(one.finding.what, "arrival");
  EXPECT_THAT(one.finding.says, HasSubstr("within 60 s"));
  EXPECT_TRUE(any_failed({one}));
}

TEST(Examination, PassesOnAHostsOwnFindings) {
  ClusterFacts facts = well_cluster(2);
  facts.hosts[1].own.push_back({"token", Health::kFail, "none", "copy it"});
  EXPECT_EQ(trouble(facts).finding, facts.hosts[1].own.back());
}

TEST(Examination, AnotherProgramJobOrDataSetFails) {
  ClusterFacts facts = well_cluster(3);
  facts.hosts[1].version = "0.2.0";
  EXPECT_THAT(trouble(facts).finding.says, HasSubstr("0.2.0, and host 0 has 0.1.0"));
  facts = well_cluster(3);
  facts.hosts[1].other_keys = {"batch = 16, there 8"};
  EXPECT_THAT(trouble(facts).finding.says, HasSubstr("batch = 16"));
  facts = well_cluster(3);
  facts.hosts[2].data = "600 samples";
  EXPECT_THAT(trouble(facts).finding.says, HasSubstr("600 samples, and host 0 has 1200 samples"));
  EXPECT_EQ(trouble(facts).host, 2);
  facts = well_cluster(3);
  facts.hosts[1].fabric = "ucx";
  EXPECT_THAT(trouble(facts).finding.says, HasSubstr("ucx, and host 0's over sealed"));
  EXPECT_TRUE(any_failed(examine(facts)));
}

TEST(Examination, AnotherBuildIsOnlyMentioned) {
  ClusterFacts facts = well_cluster(2);
  facts.hosts[1].build = "5678";
  EXPECT_EQ(trouble(facts).finding.health, Health::kWarn);
}

// A host whose data cannot be read has a finding of its own.
TEST(Examination, DataThatAreNotThereAreNotCompared) {
  ClusterFacts facts = well_cluster(3);
  facts.hosts[0].data = "";
  EXPECT_TRUE(troubles(facts).empty());
}

TEST(Examination, ClocksFarApartAreNamedAndUncertainOnesNot) {
  ClusterFacts facts = well_cluster(2);
  facts.hosts[1].clock = ClockFacts{-3600, 0.2};
  EXPECT_EQ(trouble(facts).finding.says, "3600.0 s ± 200.0 ms behind host 0's");
  facts.hosts[1].clock = ClockFacts{2, 1.5};
  EXPECT_TRUE(troubles(facts).empty());
}

TEST(Examination, ARunFolderOfItsOwnFails) {
  ClusterFacts facts = well_cluster(3);
  facts.hosts[1].folder = "/shared/runs is not the folder that the first host has";
  const HostFinding one = trouble(facts);
  EXPECT_EQ(one.host, 1);
  EXPECT_EQ(one.finding.health, Health::kFail);
  EXPECT_THAT(one.finding.fix, HasSubstr("/shared/runs"));
}

TEST(Examination, ARunFolderThatNobodyLookedForIsNotJudged) {
  ClusterFacts facts = well_cluster(3);
  facts.hosts[0].folder = "runs: cannot be written";
  facts.hosts[1].folder.reset();
  facts.hosts[2].folder.reset();
  EXPECT_EQ(trouble(facts).host, 0);
}

TEST(Examination, DoesNotCompareAHostThatLeft) {
  ClusterFacts facts = well_cluster(2);
  facts.hosts[1].left = "its connection ended";
  facts.hosts[1].folder = "nobody looked";
  EXPECT_EQ(trouble(facts).finding.what, "connection");
}

TEST(Examination, APairWithoutALinkFails) {
  ClusterFacts facts = well_cluster(3);
  facts.links[2] = {1, 2, "not connected within 5000 ms"};
  const HostFinding one = trouble(facts);
  EXPECT_EQ(one.host, 2);
  EXPECT_EQ(one.finding.what, "link to host 1");
  EXPECT_EQ(one.finding.health, Health::kFail);
}

TEST(Examination, AHostWithSlowLinksIsNamedOnce) {
  ClusterFacts facts = well_cluster(4);
  for (LinkFacts& link : facts.links) {
    if (link.b == 3) link.to_a_mb_s = link.to_b_mb_s = 12;
  }
  const HostFinding one = trouble(facts);
  EXPECT_EQ(one.host, 3);
  EXPECT_EQ(one.finding.what, "links");
  EXPECT_THAT(one.finding.says, HasSubstr("12 MB/s at most, the best between other hosts 1000"));
  EXPECT_FALSE(any_failed({one}));
}

TEST(Examination, OneSlowLinkAndOneSlowWayAreNamed) {
  ClusterFacts facts = well_cluster(3);
  facts.links[1] = {0, 2, "", 80, 12, 12};
  EXPECT_EQ(trouble(facts).finding.what, "link to host 0");
  facts = well_cluster(2);
  facts.links[0].to_b_mb_s = 12;
  EXPECT_THAT(trouble(facts).finding.says, HasSubstr("1000 MB/s there and 12 back"));
}

}  // namespace
}  // namespace paceline::doctor
