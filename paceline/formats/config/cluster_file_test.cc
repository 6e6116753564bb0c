// Correct and wrong cluster files.
#include "paceline/formats/config/cluster_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::config {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kModel[] = "[model]\nlayers = [1, 2]\n";

void expect_cluster_error(const std::string& text, const std::string& says) {
  const absl::Status status = parse_cluster(text, "c.toml").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("c.toml"), HasSubstr(says), Not(HasSubstr("\n"))));
}

TEST(ClusterFile, EverySection) {
  const auto file = parse_cluster(R"(
batch = 48
micro_batch = [8, 2, 8]
seed = 7
batches = 20
jitter = 0.1
noise = 0.2

[model]
output_kb = 3
parameter_kb = 5

[[layer]]
name = "a"
count = 2
work_ms = 4
output_kb = 1

[[layer]]
name = "head"
activation_kb = 9

[servers]
gbps = 8
site = "here"

[link]
gbps = 4
latency_us = 500

[cross_site]
gbps = 0.8
latency_us = 30_000

[[device]]
name = "x"
count = 2
speed = 3
memory_mb = 100
price_per_hour = 1.5
power_w = 200

[[device]]
name = "y"
site = "there"
layer_ms = [1, 2, 3]
overhead_ms = 0.25
[device.link]
gbps = 1

[[path]]
from = "y"
to = "x-1"
gbps = 2

[[budget]]
kind = "money"
most = 7.2
per = "hour"

[[budget]]
kind = "cross_site_mb"
most = 3

[planner]
v = 5
trial = 0

[[change]]
at_s = 9
device = "x-1"
what = "speed"
speed = 0.5

[[change]]
at_s = 4
what = "link"
from = "here"
to = "there"
gbps = 0.08
)",
                                  "c.toml");
  ASSERT_TRUE(file.ok()) << file.status();
  const planner::Problem& problem = file->problem;
  EXPECT_EQ(problem.batch, 48);
  EXPECT_EQ(problem.micro_batches, (std::vector<std::int64_t>{2, 8}));
  ASSERT_EQ(problem.layers(), 3);
  EXPECT_EQ(problem.model.layers[1].name, "a1");
  EXPECT_EQ(problem.model.layers[1].output_bytes, 1000);
  EXPECT_EQ(problem.model.layers[1].activation_bytes, 3000);
  EXPECT_EQ(problem.model.layers[2].name, "head");
  EXPECT_EQ(problem.model.layers[2].activation_bytes, 9000);
  EXPECT_EQ(problem.model.layers[2].parameter_bytes, 5000);
  const planner::Cluster& cluster = problem.cluster;
  ASSERT_EQ(cluster.size(), 3);
  EXPECT_EQ(cluster.devices[1].name, "x-1");
  EXPECT_EQ(cluster.devices[1].memory_bytes, 100'000'000);
  EXPECT_EQ(cluster.devices[0].site, cluster.server_site);
  EXPECT_NE(cluster.devices[2].site, cluster.server_site);
  EXPECT_EQ(cluster.devices[2].memory_bytes, planner::Device::kNoLimit);
  EXPECT_DOUBLE_EQ(cluster.devices[2].servers.bytes_per_ms, 125'000);
  EXPECT_DOUBLE_EQ(cluster.devices[2].servers.latency_ms, 0.5);
  EXPECT_DOUBLE_EQ(cluster.server_bytes_per_ms, 1e6);
  EXPECT_DOUBLE_EQ(cluster.link(0, 1).bytes_per_ms, 500'000);
  EXPECT_DOUBLE_EQ(cluster.link(0, 2).bytes_per_ms, 100'000);
  EXPECT_DOUBLE_EQ(cluster.link(0, 2).latency_ms, 30);
  EXPECT_DOUBLE_EQ(cluster.link(1, 2).bytes_per_ms, 250'000);
  EXPECT_DOUBLE_EQ(cluster.link(2, 1).bytes_per_ms, 250'000);
  ASSERT_EQ(problem.budgets.size(), 2u);
  EXPECT_TRUE(problem.budgets[0].per_second);
  EXPECT_DOUBLE_EQ(problem.budgets[0].most, 0.002);
  EXPECT_DOUBLE_EQ(problem.budgets[1].most, 3e6);
  ASSERT_TRUE(file->planner.has_value());
  EXPECT_EQ(file->planner->v, 5);
  ASSERT_EQ(file->changes.size(), 3u);  // the link's twice, then the speed's
  EXPECT_EQ(file->changes[0].what, ClusterEvent::kLink);
  EXPECT_EQ(file->changes[2].device, 1);
}

TEST(ClusterFile, AModelByName) {
  const auto file =
      parse_cluster("[model]\nname = \"cnn\"\nsample = [1, 28, 28]\nclasses = 7\n[[device]]\n", "c.toml");
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(file->named.has_value());
  EXPECT_EQ(file->named->sample_shape, (std::vector<std::int64_t>{1, 28, 28}));
  EXPECT_EQ(file->named->classes, 7);
}

TEST(ClusterFile, AModelByNameAloneLeavesItsSamplesToTheModel) {
  const auto file = parse_cluster("[model]\nname = \"gpt-byte\"\ncontext = 16\n[[device]]\n", "c.toml");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->named->sample_shape.empty());
  EXPECT_EQ(file->named->classes, 0);
}

TEST(ClusterFile, SaysWhatIsWrong) {
  const std::string model(kModel);
  expect_cluster_error("", "model.layers: give the model once");
  expect_cluster_error(model + "name = \"mlp\"\n[[device]]\n", "give the model once");
  expect_cluster_error(model, "device: write at least one [[device]]");
  expect_cluster_error(model + "[[device]]\nspeeed = 2\n",
                       "device.speeed: unknown key; did you mean 'speed'?");
  expect_cluster_error(model + "[[device]]\nspeed = 0\n", "write a number from");
  expect_cluster_error(model + "[[device]]\nname = \"a\"\n[[device]]\nname = \"a\"\n", "'a' is there twice");
  expect_cluster_error(model + "[[device]]\nlayer_ms = [1]\n", "write one time for each of the 2 layers");
  expect_cluster_error(model + "[[device]]\ncount = 128\n[[device]]\n", "at most 128 devices in all");
  expect_cluster_error(model + "[[device]]\n[[path]]\nfrom = \"d0\"\nto = \"mars\"\n",
                       "'mars' is not a device and not a site");
  expect_cluster_error(model + "[[device]]\n[[budget]]\n", "budget.most");
  expect_cluster_error(model + "[[device]]\n[[budget]]\nmost = 1\n[[budget]]\nmost = 2\n",
                       "of this kind already");
  expect_cluster_error(model + "[[device]]\n[[change]]\ndevice = \"d0\"\nwhat = \"explode\"\n",
                       "'explode' is unknown");
  expect_cluster_error("micro_batch = [500]\n" + model + "[[device]]\n", "from 1 to 128");
  expect_cluster_error("micro_batch = [1.5]\n" + model + "[[device]]\n", "write a list of whole numbers");
}

// Devices that name no site have one without a name, and a key that was forgotten does not mean it.
TEST(ClusterFile, AKeyThatIsLeftOutMeansNoSite) {
  const std::string devices = std::string(kModel) + "[[device]]\nname = \"d\"\ncount = 2\n";
  expect_cluster_error(devices + "[[path]]\nfrom = \"d-0\"\n",
                       "path.to: write the name of a device or of a site");
  expect_cluster_error(devices + "[[path]]\nto = \"d-0\"\n", "path.from: write the name");
  expect_cluster_error(devices + "[[change]]\nwhat = \"leave\"\n", "change.device: write the name");
  expect_cluster_error(devices + "[[change]]\nwhat = \"price\"\ndevice = \"\"\n",
                       "change.price_per_hour: write the price from then on");
  const auto all = parse_cluster(devices + "[[change]]\nwhat = \"leave\"\ndevice = \"\"\n", "c.toml");
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->changes.size(), 2u);
}

planner::Cluster cluster_of(const std::string& text) {
  const auto file = parse_cluster("[model]\nlayers = [1]\n" + text, "c.toml");
  EXPECT_TRUE(file.ok()) << file.status();
  return file.ok() ? file->problem.cluster : planner::Cluster{};
}

TEST(ClusterFile, DevicesOfOneHostShareItsMemory) {
  for (const char* text : {"[[device]]\n[[device]]\n", "[[device]]\ncount = 2\nhost = \"a\"\n",
                           "[link]\ngbps = 1\n[[device]]\nhost = \"a\"\n[[device]]\nhost = \"a\"\n"}) {
    const planner::Cluster cluster = cluster_of(text);
    EXPECT_TRUE(cluster.on_one_host) << text;
    EXPECT_DOUBLE_EQ(cluster.link(0, 1).bytes_per_ms, 1e6) << text;
    EXPECT_DOUBLE_EQ(cluster.devices[1].servers.bytes_per_ms, 4e6) << text;
    EXPECT_DOUBLE_EQ(cluster.server_bytes_per_ms, 8e6) << text;
    EXPECT_DOUBLE_EQ(cluster.usual_overhead_ms, 0.6) << text;
  }
}

TEST(ClusterFile, AFileThatSaysLinksKeepsThem) {
  const std::string two = "[[device]]\n[[device]]\n";
  for (const std::string& text :
       {"[link]\ngbps = 10\n" + two, "[cross_site]\n" + two, "[servers]\ngbps = 10\n" + two,
        "[[path]]\nfrom = \"d0\"\nto = \"d0\"\n" + two, std::string("[[device]]\nsite = \"s\"\n[[device]]\n"),
        two + "[device.link]\n"}) {
    const planner::Cluster cluster = cluster_of(text);
    EXPECT_FALSE(cluster.on_one_host) << text;
    EXPECT_DOUBLE_EQ(cluster.devices[0].servers.bytes_per_ms, 1.25e6) << text;
    EXPECT_DOUBLE_EQ(cluster.usual_overhead_ms, 0) << text;
  }
}

TEST(ClusterFile, DevicesOfSeveralHostsHaveTheirLinks) {
  const planner::Cluster cluster =
      cluster_of("[[device]]\ncount = 2\nhost = \"a\"\n[[device]]\nhost = \"b\"\n[[device]]\ncount = 2\n");
  EXPECT_FALSE(cluster.on_one_host);
  EXPECT_DOUBLE_EQ(cluster.link(0, 1).bytes_per_ms, 1e6);
  EXPECT_DOUBLE_EQ(cluster.link(1, 2).bytes_per_ms, 1.25e6);
  EXPECT_DOUBLE_EQ(cluster.link(3, 4).bytes_per_ms, 1.25e6);
  EXPECT_EQ(cluster.devices[0].host, cluster.devices[1].host);
  EXPECT_NE(cluster.devices[3].host, cluster.devices[4].host);
  EXPECT_DOUBLE_EQ(cluster.devices[0].servers.bytes_per_ms, 1.25e6);
}

TEST(ClusterFile, TimesOfSizesAscend) {
  for (const char* times : {"[[4, 1], [2, 2]]", "[[2, 1], [2, 2]]", "[[0, 1]]", "[[1.5, 1]]"}) {
    const auto read = parse_profile(fmt::format("[[layer]]\nmeasured_ms = {}\n", times), "p.toml");
    ASSERT_FALSE(read.ok()) << times;
    EXPECT_THAT(std::string(read.status().message()), testing::HasSubstr("p.toml:2: ")) << times;
  }
}

TEST(ClusterFile, AProfileComesBackAsItWasWritten) {
  planner::ModelProfile profile;
  profile.layers = {{"conv", 1.5, 0.25, 64'500, 129'000, 1'728, 0.75},
                    {"a \"b\" \\", 1, 0.25, 8, 8, 512, 0, 128, 768},
                    {"head", 0.125, 0.5, 40, 44, 4'096, 0, 0, 0, 256, 1, 300, 20, 1'000}};
  profile.layers[0].measured = {{1, 2.5}, {8, 9.75}};
  profile.layers[2].activation_fixed_bytes = 7;
  profile.step_overhead = {{1, 0.25}};
  profile.stage_overhead = {{1, 0.5}, {4, 0.75}};
  profile.update_ms = 12.5;
  const auto read = parse_profile(profile_text(profile), "p.toml");
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->layers.size(), 3u);
  EXPECT_EQ(read->layers[0].measured, profile.layers[0].measured);
  EXPECT_TRUE(read->layers[1].measured.empty());
  EXPECT_EQ(read->step_overhead, profile.step_overhead);
  EXPECT_EQ(read->stage_overhead, profile.stage_overhead);
  EXPECT_EQ(read->update_ms, profile.update_ms);
  for (std::size_t l = 0; l < 3; ++l) {
    EXPECT_EQ(read->layers[l].name, profile.layers[l].name);
    EXPECT_EQ(read->layers[l].work_ms, profile.layers[l].work_ms);
    EXPECT_EQ(read->layers[l].forward_share, profile.layers[l].forward_share);
    EXPECT_EQ(read->layers[l].output_bytes, profile.layers[l].output_bytes);
    EXPECT_EQ(read->layers[l].activation_bytes, profile.layers[l].activation_bytes);
    EXPECT_EQ(read->layers[l].activation_fixed_bytes, profile.layers[l].activation_fixed_bytes);
    EXPECT_EQ(read->layers[l].parameter_bytes, profile.layers[l].parameter_bytes);
    EXPECT_EQ(read->layers[l].fixed_ms, profile.layers[l].fixed_ms);
    EXPECT_EQ(read->layers[l].frozen_bytes, profile.layers[l].frozen_bytes);
    EXPECT_EQ(read->layers[l].state_bytes, profile.layers[l].state_bytes);
    EXPECT_EQ(read->layers[l].tied_bytes, profile.layers[l].tied_bytes);
    EXPECT_EQ(read->layers[l].tied_to, profile.layers[l].tied_to);
    EXPECT_EQ(read->layers[l].returned_bytes, profile.layers[l].returned_bytes);
    EXPECT_EQ(read->layers[l].working_bytes, profile.layers[l].working_bytes);
    EXPECT_EQ(read->layers[l].working_fixed_bytes, profile.layers[l].working_fixed_bytes);
  }
  const auto refused = [](const std::string& layers) {
    return std::string(parse_profile(layers, "p.toml").status().message());
  };
  EXPECT_THAT(refused(""), HasSubstr("write at least one [[layer]]"));
  EXPECT_THAT(refused("[[layer]]\nparameter_kb = 1\nfrozen_kb = 2\n"),
              HasSubstr("write at most parameter_kb, of which it is a part"));
  EXPECT_THAT(refused("[[layer]]\ntied_kb = 1\n"), HasSubstr("write tied_kb and tied_to together"));
  EXPECT_THAT(refused("[[layer]]\nname = \"a\"\ntied_kb = 1\ntied_to = \"a\"\n"),
              HasSubstr("'a' is not the name of a layer above this one"));
}

TEST(ClusterFile, SizesAreThoseOfEachLayerThatDoesNotSay) {
  const auto file = parse_cluster("[model]\nprofile = \"p.toml\"\noutput_kb = 7\n[[device]]\n", "c.toml");
  ASSERT_TRUE(file.ok()) << file.status();
  const auto read = parse_profile("[[layer]]\n[[layer]]\noutput_kb = 3\n", "p.toml", file->each);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->layers[0].output_bytes, 7000);
  EXPECT_EQ(read->layers[1].output_bytes, 3000);
  EXPECT_THAT(
      std::string(
          parse_cluster("[model]\nname = \"mlp\"\noutput_kb = 7\n[[device]]\n", "c.toml").status().message()),
      HasSubstr("output_kb: leave it out"));
}

}  // namespace
}  // namespace paceline::config
