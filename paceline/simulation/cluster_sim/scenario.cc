#include "paceline/simulation/cluster_sim/scenario.h"

#include <array>
#include <vector>

#include <fmt/format.h>

#include "paceline/base/check.h"

namespace paceline::cluster_sim {

std::string name_of(Break one) {
  constexpr std::array kNames{
      "none",           "publish-uncertain", "forget-apply",    "apply-twice",    "count-unwritten",
      "ignore-journal", "forget-ballot",     "ballot-too-high", "kept-too-new",   "old-checkpoint",
      "ready-twice",    "nobody-missed",     "late-reply",      "forget-sync",    "forget-journal-sync",
      "two-leaders",    "wait-for-nobody",   "say-done",        "start-unkept",   "forget-state",
      "publish-half",   "state-later",       "drop-kept",       "stale-gradient", "wait-for-no-gradient",
      "skip-missing",   "stale-copy",        "forget-leases",   "forget-goodbye", "forget-want",
      "stale-mirror",   "forget-revoke",     "ready-unsaid"};
  static_assert(kNames.size() == kBreaks);
  return kNames[static_cast<std::size_t>(one)];
}

namespace {

constexpr std::uint64_t kOfData = 0xda7a;

// `least`: how many of the workers may be left.
std::string policy_for(World& world, std::uint64_t workers, std::uint64_t least) {
  static const std::vector<std::string> all = policy::example_policies();
  const auto may_have = [](const std::string& one, std::uint64_t replicas) {
    return policy::check_replicas(policy::parse_policy(one).value(), static_cast<std::int64_t>(replicas))
        .ok();
  };
  while (true) {
    const std::string& one = all[world.rng().below(all.size())];
    if (may_have(one, workers) && may_have(one, least)) return one;
  }
}

// The part of a job that says which samples its replicas train on.
struct Data {
  std::string keys;     // top-level keys
  std::string section;  // [data]
  std::string devices;
};

// `rng`: a source of its own, so that a seed keeps its faults whatever is drawn here.
Data data_for(Rng rng, std::uint64_t workers) {
  const auto chance = [&](double share) { return rng.uniform() < share; };
  Data data{
      .keys = "epochs = 1\n", .section = "", .devices = fmt::format("[[device]]\ncount = {}\n", workers)};
  if (chance(0.5)) return data;
  if (chance(0.3))
    data.devices =
        fmt::format("[[device]]\ncount = {}\n[[device]]\nbatch = {}\n", workers - 1, 3 + rng.below(4));
  if (chance(0.3)) data.keys = fmt::format("epochs = {}\n", kMostEpochs);
  if (chance(0.2)) data.keys += "drop_last = true\n";
  if (chance(0.2)) data.keys += "least_batch = 2\n";
  if (chance(0.2)) data.keys += "parallel = \"uneven-data\"\n";
  if (chance(0.3)) data.section = fmt::format("[data]\nahead = {}\n", 1 + rng.below(3));
  return data;
}

}  // namespace

Scenario scenario_of(World& world) {
  Scenario scenario;
  const bool twice = world.chance(0.5);
  const auto servers = twice ? 2 + world.rng().below(3) : 1 + world.rng().below(3);
  const auto workers = std::max<std::uint64_t>(2 + world.rng().below(3), twice ? servers : 0);
  scenario.hosts_apart = twice && world.chance(0.6);
  scenario.own_disks = scenario.hosts_apart && world.chance(0.6);
  const Data data = data_for(Rng(mix_seed({world.seed(), kOfData})), workers);
  scenario.job_toml = fmt::format(
      "name = \"small\"\nbatch = 2\n{}[sync]\npolicy = \"{}\"\n[evaluate]\nevery_epochs = {}\n"
      "[checkpoint]\nevery_epochs = {}\n[cluster]\nhost_patience_s = 3\n{}{}{}",
      data.keys, policy_for(world, workers, scenario.hosts_apart ? 1 : workers),
      world.chance(0.5) ? "0.3" : "1", world.chance(0.5) ? "0.2" : "1",
      twice ? fmt::format("hosts = {}\ncopies = 2\nshared_folder = {}\nseal = false\nfabric = \"tcp\"\n",
                          servers, !scenario.own_disks)
            : fmt::format("servers = {}\n", servers),
      data.section, data.devices);
  auto job = config::parse_job(scenario.job_toml, "job.toml");
  PACELINE_CHECK(job.ok(), "{}", std::string(job.status().message()));
  scenario.job = *std::move(job);
  const control::ControllerConfig config = config::controller_config(scenario.job, kSamples);
  scenario.samples_an_epoch = config.dataset_size;
  scenario.samples = config.total_samples;
  scenario.faults = static_cast<int>(world.rng().below(5));
  scenario.full_disks = world.chance(0.15);
  scenario.stopped = world.chance(0.15);
  return scenario;
}

}  // namespace paceline::cluster_sim
