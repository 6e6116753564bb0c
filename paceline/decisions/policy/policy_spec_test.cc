// Policies as users write them. Every text that is refused says what to write instead.
#include "paceline/decisions/policy/policy_spec.h"

#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::policy {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Good {
  const char* text;
  PolicySpec spec;
};

TEST(PolicySpec, ReadsEveryPolicyAndWritesItBackAsItWas) {
  const Good all[] = {
      {"bsp", BspSpec{}},
      {"asp", AspSpec{}},
      {"local-sgd:1", LocalSgdSpec{1}},
      {"local-sgd:10000", LocalSgdSpec{10'000}},
      {"ssp:0", SspSpec{0}},
      {"ssp:3", SspSpec{3}},
      {"ssp:1000000", SspSpec{1'000'000}},
      {"dssp:3-15", DsspSpec{3, 15, DsspReading::kBounded}},
      {"dssp:0-0", DsspSpec{0, 0, DsspReading::kBounded}},
      {"dssp:3-15:transient", DsspSpec{3, 15, DsspReading::kTransient}},
      {"dssp:3-15:printed", DsspSpec{3, 15, DsspReading::kPrinted}},
      {"elastic-bsp:1", ElasticBspSpec{1, false}},
      {"elastic-bsp:240", ElasticBspSpec{240, false}},
      {"elastic-bsp:10000:average", ElasticBspSpec{10'000, true}},
      {"backup:0", BackupSpec{0}},
      {"backup:1000000", BackupSpec{1'000'000}},
      {"groups:4:asp", GroupsSpec{{4}, AspSpec{}}},
      {"groups:2+2+4:ssp:3", GroupsSpec{{2, 2, 4}, SspSpec{3}}},
      {"groups:1+1000000:dssp:3-15:printed",
       GroupsSpec{{1, 1'000'000}, DsspSpec{3, 15, DsspReading::kPrinted}}},
      {"groups:2+2:elastic-bsp:15:average", GroupsSpec{{2, 2}, ElasticBspSpec{15, true}}},
      {"groups:2+2:backup:1", GroupsSpec{{2, 2}, BackupSpec{1}}},
      {"cgp", CgpSpec{}},
      {"cgp:k_min=2:k_max=4:S=16:wait_max=50ms:grouping=dp",
       CgpSpec{2, 4, 16, std::chrono::milliseconds(50), Grouping::kDp}},
      {"cgp:k_max=1", CgpSpec{.k_max = 1}},
      {"cgp:S=0", CgpSpec{.staleness = 0}},
      {"cgp:k_min=1000000:wait_max=forever", CgpSpec{.k_min = 1'000'000, .wait_max = CgpSpec::kForever}},
      {"cgp:k_min=3:k_max=2:wait_max=forever",
       CgpSpec{.k_min = 3, .k_max = 2, .wait_max = CgpSpec::kForever}},
      {"cgp:wait_max=0ms", CgpSpec{.wait_max = Duration::zero()}},
      {"cgp:wait_max=0.3ms", CgpSpec{.wait_max = std::chrono::microseconds(300)}},
      {"cgp:wait_max=0.00001ms", CgpSpec{.wait_max = std::chrono::nanoseconds(10)}},
      {"cgp:wait_max=1000000000ms", CgpSpec{.wait_max = std::chrono::seconds(1'000'000)}},
      {"cgp:grouping=window", CgpSpec{.grouping = Grouping::kWindow}},
      {"cgp:patience=0.2:d=0.5", CgpSpec{.patience = 0.2, .delay = 0.5}},
      {"cgp:patience=0", CgpSpec{.patience = 0}},
      {"cgp:patience=1:d=1", CgpSpec{.patience = 1, .delay = 1}},
  };
  for (const Good& good : all) {
    const auto spec = parse_policy(good.text);
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(*spec, good.spec) << good.text;
    EXPECT_EQ(to_string(*spec), good.text);
  }
}

TEST(PolicySpec, ElasticBspAloneLooksAsFarAheadAsThePaper) {
  EXPECT_EQ(parse_policy("elastic-bsp").value(), PolicySpec(ElasticBspSpec{15, false}));
}

TEST(PolicySpec, CgpTakesItsKeysInAnyOrderAndLeavesOutWhatIsUsual) {
  const auto spec = parse_policy("cgp:grouping=natural:S=3:k_min=1:k_max=2");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(to_string(*spec), "cgp:k_max=2:S=3");
}

TEST(PolicySpec, EveryWaitOfCgpIsReadBackAsItWas) {
  for (std::int64_t ns = 1; ns <= 1'000'000'000'000'000; ns = ns * 7 + 3) {
    const PolicySpec spec = CgpSpec{.wait_max = std::chrono::nanoseconds(ns)};
    const auto read = parse_policy(to_string(spec));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, spec) << to_string(spec);
  }
}

TEST(PolicySpec, ALeadingZeroIsStillTheNumber) {
  EXPECT_EQ(parse_policy("ssp:03").value(), PolicySpec(SspSpec{3}));
}

struct Bad {
  const char* text;
  const char* fix;
};

class BadSpec : public ::testing::TestWithParam<Bad> {};

TEST_P(BadSpec, SaysWhatToWrite) {
  const auto spec = parse_policy(GetParam().text);
  ASSERT_FALSE(spec.ok()) << GetParam().text;
  EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(spec.status().message()),
              AllOf(HasSubstr(fmt::format("policy '{}'", GetParam().text)), HasSubstr(GetParam().fix)));
}

constexpr char kNames[] =
    "write bsp, asp, ssp:S, dssp:LOWER-UPPER, elastic-bsp:R, cgp, local-sgd:H, backup:C or "
    "groups:SIZES:POLICY";
constexpr char kSsp[] = "write ssp:S with S from 0 to 1000000, for example ssp:3";
constexpr char kDssp[] =
    "write dssp:LOWER-UPPER, and :printed or :transient behind it if you like, for example dssp:3-15";
constexpr char kElastic[] =
    "write elastic-bsp:R or elastic-bsp:R:average with R from 1 to 10000, for example elastic-bsp:15";
constexpr char kLocal[] = "write local-sgd:H with H from 1 to 10000, for example local-sgd:8";
constexpr char kCgp[] = "for example cgp:k_min=2:S=16";

constexpr char kBackup[] = "write backup:C with C from 0 to 1000000, for example backup:1";
constexpr char kGroups[] =
    "write groups:SIZES:POLICY with sizes from 1 to 1000000, for example groups:2+2+4:ssp:3";

INSTANTIATE_TEST_SUITE_P(
    Texts, BadSpec,
    ::testing::Values(
        Bad{"local-sgd", kLocal}, Bad{"local-sgd:0", kLocal}, Bad{"local-sgd:10001", kLocal},
        Bad{"local-sgd:-1", kLocal}, Bad{"local-sgd:8:2", kLocal}, Bad{"", kNames}, Bad{" ", kNames},
        Bad{"BSP", kNames}, Bad{" bsp", kNames}, Bad{"bsp ", kNames}, Bad{"ssp3", kNames}, Bad{":", kNames},
        Bad{"cgp2", kNames}, Bad{"elastic", kNames}, Bad{"elastic-bsp:", kElastic},
        Bad{"elastic-bsp:0", kElastic}, Bad{"elastic-bsp:-1", kElastic}, Bad{"elastic-bsp:10001", kElastic},
        Bad{"elastic-bsp:average", kElastic}, Bad{"elastic-bsp:15:", kElastic},
        Bad{"elastic-bsp:15:mean", kElastic}, Bad{"elastic-bsp:15:average:x", kElastic},
        Bad{"bsp:3", "bsp takes no number; write bsp"}, Bad{"bsp:", "bsp takes no number; write bsp"},
        Bad{"asp:1", "asp takes no number; write asp"}, Bad{"ssp", kSsp}, Bad{"ssp:", kSsp},
        Bad{"ssp:-1", kSsp}, Bad{"ssp:+1", kSsp}, Bad{"ssp:x", kSsp}, Bad{"ssp:3x", kSsp},
        Bad{"ssp: 3", kSsp}, Bad{"ssp:3.5", kSsp}, Bad{"ssp:3:4", kSsp}, Bad{"ssp:1000001", kSsp},
        Bad{"ssp:99999999999999999999", kSsp}, Bad{"dssp", kDssp}, Bad{"dssp:", kDssp}, Bad{"dssp:3", kDssp},
        Bad{"dssp:3-", kDssp}, Bad{"dssp:-15", kDssp}, Bad{"dssp:3-15-20", kDssp}, Bad{"dssp:a-b", kDssp},
        Bad{"dssp:3-15:", kDssp}, Bad{"dssp:3-15:bounded", kDssp}, Bad{"dssp:3-15:printed:x", kDssp},
        Bad{"dssp:3-99999999999999999999", kDssp},
        Bad{"dssp:9-3", "the lower bound 9 is above the upper bound 3; write dssp:3-9"},
        Bad{"dssp:9-3:printed", "write dssp:3-9"}, Bad{"backup", kBackup}, Bad{"backup:", kBackup},
        Bad{"backup:-1", kBackup}, Bad{"backup:1:2", kBackup}, Bad{"backup:1000001", kBackup},
        Bad{"groups", kGroups}, Bad{"groups:2+2", kGroups}, Bad{"groups::asp", kGroups},
        Bad{"groups:2+:asp", kGroups}, Bad{"groups:0+2:asp", kGroups}, Bad{"groups:2+-2:asp", kGroups},
        Bad{"groups:2-2:asp", kGroups}, Bad{"groups:1000001:asp", kGroups}, Bad{"groups:asp", kGroups},
        Bad{"groups:2+2:groups:1+1:asp", "'groups:1+1:asp' makes groups of its own; write another policy"},
        Bad{"groups:2+2:cgp:k_min=2", "'cgp:k_min=2' makes groups of its own; write another policy"},
        Bad{"cgp:", kCgp}, Bad{"cgp:2", kCgp}, Bad{"cgp:k_min", kCgp}, Bad{"cgp:k_min=", kCgp},
        Bad{"cgp:k_min=0", kCgp}, Bad{"cgp:k_max=0", kCgp}, Bad{"cgp:k_max=-1", kCgp},
        Bad{"cgp:k_min=2=3", kCgp}, Bad{"cgp:k_min=1000001", kCgp}, Bad{"cgp:S=-1", kCgp},
        Bad{"cgp:s=1", kCgp}, Bad{"cgp:S=none", kCgp}, Bad{"cgp:k_min=2:", kCgp},
        Bad{"cgp:wait_max=50", kCgp}, Bad{"cgp:wait_max=ms", kCgp}, Bad{"cgp:wait_max=.ms", kCgp},
        Bad{"cgp:wait_max=-1ms", kCgp}, Bad{"cgp:wait_max=1e3ms", kCgp}, Bad{"cgp:wait_max=1.2.3ms", kCgp},
        Bad{"cgp:wait_max=1000000001ms", kCgp}, Bad{"cgp:wait_max=infms", kCgp},
        Bad{"cgp:wait_max=never", kCgp}, Bad{"cgp:grouping=", kCgp}, Bad{"cgp:grouping=static", kCgp},
        Bad{"cgp:patience=1.5", "patience is the share of their iterations' time"},
        Bad{"cgp:patience=1.5", "write a number from 0 to 1, for example patience=0.1"},
        Bad{"cgp:patience=-0.1", "patience is the share"}, Bad{"cgp:patience=", "patience is the share"},
        Bad{"cgp:d=1.01", kCgp}, Bad{"cgp:d=", kCgp}, Bad{"cgp:d=half", kCgp},
        Bad{"cgp:S=2:S=2", "S is there twice; write it once"},
        Bad{"cgp:k_min=3:k_max=2", "k_min is above k_max; write k_max=3 or more"},
        Bad{"cgp:k_max=2:k_min=3:wait_max=9ms", "write k_max=3 or more"}));

TEST(PolicySpec, NamesTheInnerPolicyInItsErrors) {
  EXPECT_THAT(std::string(parse_policy("groups:2+2:ssp").status().message()),
              AllOf(HasSubstr("policy 'ssp'"), HasSubstr(kSsp)));
  EXPECT_THAT(std::string(parse_policy("groups:2+2:").status().message()), HasSubstr(kNames));
}

TEST(PolicySpec, ReadsAListAndNamesTheBadOneInIt) {
  const auto specs = parse_policies("bsp,ssp:3,dssp:3-15:printed");
  ASSERT_TRUE(specs.ok()) << specs.status();
  EXPECT_THAT(*specs, ElementsAre(PolicySpec(BspSpec{}), PolicySpec(SspSpec{3}),
                                  PolicySpec(DsspSpec{3, 15, DsspReading::kPrinted})));
  EXPECT_THAT(std::string(parse_policies("bsp,ssp,asp").status().message()), HasSubstr("policy 'ssp'"));
  EXPECT_THAT(std::string(parse_policies("bsp,,asp").status().message()), HasSubstr(kNames));
  EXPECT_FALSE(parse_policies("").ok());
}

// Runs of one policy count as seeds of it.
TEST(PolicySpec, AListHasEachPolicyOnce) {
  EXPECT_THAT(std::string(parse_policies("bsp,asp,bsp").status().message()),
              HasSubstr("policy 'bsp': is there twice"));
  EXPECT_FALSE(parse_policies("cgp,cgp:patience=0.1").ok());
  EXPECT_TRUE(parse_policies("ssp:3,ssp:4").ok());
}

TEST(MakePolicy, MakesThePolicyThatWasAskedFor) {
  EXPECT_EQ(make_policy(BspSpec{})->bounds().gap, 1);
  EXPECT_EQ(make_policy(BspSpec{})->bounds().version_staleness, 0);
  EXPECT_EQ(make_policy(AspSpec{})->bounds().gap, std::nullopt);
  EXPECT_EQ(make_policy(SspSpec{3})->bounds().gap, 4);
  EXPECT_EQ(make_policy(DsspSpec{3, 15, DsspReading::kBounded})->bounds().gap, 16);
  EXPECT_EQ(make_policy(DsspSpec{3, 3, DsspReading::kBounded})->bounds().gap, 4);
  EXPECT_EQ(make_policy(DsspSpec{3, 15, DsspReading::kPrinted})->bounds().gap, std::nullopt);
  EXPECT_EQ(make_policy(ElasticBspSpec{15, false})->bounds().quota, 15);
  EXPECT_EQ(make_policy(ElasticBspSpec{15, false})->bounds().gap, std::nullopt);
  EXPECT_EQ(make_policy(BackupSpec{1})->bounds().version_staleness, 0);
  EXPECT_EQ(make_policy(BackupSpec{1})->bounds().gap, std::nullopt);
  EXPECT_EQ(make_policy(GroupsSpec{{2, 2}, BspSpec{}})->bounds().version_staleness, 0);
  EXPECT_EQ(make_policy(GroupsSpec{{2, 2}, AspSpec{}})->bounds().version_staleness, std::nullopt);
  EXPECT_EQ(make_policy(GroupsSpec{{2, 2}, AspSpec{}})->reduction(), Reduction::kInGroup);
  EXPECT_EQ(make_policy(CgpSpec{.staleness = 3})->bounds().version_staleness, 3);
  EXPECT_EQ(make_policy(CgpSpec{})->bounds().version_staleness, std::nullopt);
  EXPECT_EQ(make_policy(CgpSpec{})->bounds().gap, std::nullopt);
}

TEST(PolicySpec, FitsTheNumberOfReplicas) {
  const auto said = [](const char* text, std::int64_t replicas) {
    return std::string(check_replicas(parse_policy(text).value(), replicas).message());
  };
  EXPECT_EQ(
      said("backup:100", 8),
      "policy 'backup:100': the job has 8 replicas, and a round needs at least one; write backup:7 or less");
  EXPECT_EQ(said("backup:7", 8), "");
  EXPECT_EQ(
      said("groups:4+4+2:bsp", 8),
      "policy 'groups:4+4+2:bsp': the job has 8 replicas, and the last group would have none; write smaller "
      "groups");
  EXPECT_EQ(said("groups:4+3+2:bsp", 8), "");
  EXPECT_EQ(said("groups:2+2:backup:1", 4), "");
  EXPECT_THAT(said("groups:2+2:backup:3", 4),
              HasSubstr("to its policy a group is a replica: policy 'backup:3': the job has 2 replicas"));
  EXPECT_EQ(said("cgp:k_min=2", 1), "policy 'cgp:k_min=2': the job has 1 replica; write k_min=1 or less");
  EXPECT_EQ(said("cgp:k_min=2:wait_max=forever", 1), "");
  EXPECT_EQ(said("asp", 1), "");
}

}  // namespace
}  // namespace paceline::policy
