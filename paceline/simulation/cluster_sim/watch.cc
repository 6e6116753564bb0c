#include "paceline/simulation/cluster_sim/watch.h"

namespace paceline::cluster_sim {

void Watch::leads(int host, bool alone) {
  leaders_.insert(host);
  if (alone && leaders_.size() > 1) world_.broken("there are two coordinators");
}

void Watch::goes_on_from(const std::string& attempt, const std::string& before,
                         const SavedCheckpoint* checkpoint, std::optional<Version> recorded) {
  // Servers may publish versions of the attempt before until commits take their place.
  if (const auto line = lines_.find(before); line != lines_.end()) lines_[attempt] = line->second;
  if (checkpoint == nullptr) {
    lines_[attempt][Version(0)] = {};
    return;
  }
  is_whole(attempt, *checkpoint);
  if (recorded.value_or(Version(0)) < checkpoint->state.version)
    world_.broken(fmt::format("the run goes on from version {}, and the journal has not all that led to it",
                              checkpoint->state.version));
}

void Watch::leases(const std::string& attempt, ReplicaId replica, paceline::Clock clock, const Lease& lease) {
  Samples& samples = leases_[attempt][{replica.value(), clock.value()}];
  samples.reset();
  const std::int64_t before = lease.epoch * samples_an_epoch_;
  lease.for_each_run([&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t sample = begin; sample < end; ++sample)
      samples.set(static_cast<std::size_t>(before + sample));
  });
}

void Watch::commits(const std::string& attempt, const wire::Apply& commit) {
  const Version version(commit.version());
  commit_early(attempt, version);
  std::map<Version, Made>& line = lines_[attempt];
  const auto before = line.find(Version(commit.version() - 1));
  if (before == line.end())
    return world_.broken(fmt::format("version {} is ordered, and not the one before", version));
  Made made{after_commit(before->second.content, attempt, commit, momentum_), before->second.samples};
  for (const wire::Apply::Member& member : commit.members()) {
    const Samples& samples = leases_[attempt][{member.replica(), member.clock()}];
    if (samples.none() || (samples & made.samples).any())
      world_.broken(fmt::format("version {} has samples that are in it already, or none", version));
    made.samples |= samples;
  }
  line.erase(line.lower_bound(version), line.end());
  line[version] = made;
  const auto expected = expected_.find(attempt);
  if (expected == expected_.end()) return;
  const Expected early = expected->second;
  expected_.erase(expected);
  if (early.made && early.commit.SerializeAsString() != commit.SerializeAsString())
    world_.broken(fmt::format("version {} is ordered, and a server has made another commit of it", version));
}

// An order reaches no server if all are gone, and one of them may have made the version by itself before.
void Watch::commit_early(const std::string& attempt, Version before) {
  const auto early = expected_.find(attempt);
  if (early == expected_.end() || !early->second.made || Version(early->second.commit.version()) >= before)
    return;
  const wire::Apply commit = early->second.commit;
  commits(attempt, commit);
}

void Watch::expects(const std::string& attempt, const wire::Apply& commit) {
  commit_early(attempt, Version(commit.version()));
  const auto before = lines_[attempt].find(Version(commit.version() - 1));
  if (before == lines_[attempt].end())
    return world_.broken(fmt::format("version {} is expected, and not the one before", commit.version()));
  Expected& one = expected_[attempt];
  if (one.made && one.commit.SerializeAsString() != commit.SerializeAsString())
    world_.broken(fmt::format("version {} is expected, and a server has made another one", commit.version()));
  if (!one.made) one = {commit, after_commit(before->second.content, attempt, commit, momentum_)};
}

void Watch::is_there(const std::string& attempt, const std::string& where, Version version,
                     std::int64_t offset, std::span<const float> weights) {
  const std::map<Version, Made>& line = lines_[attempt];
  const auto early = expected_.find(attempt);
  if (early != expected_.end() && Version(early->second.commit.version()) == version &&
      has_weights(early->second.content, offset, weights)) {
    if (!std::exchange(early->second.made, true)) ++made_early_;
    return;
  }
  const auto expected = line.find(version);
  if (expected == line.end() || !has_weights(expected->second.content, offset, weights))
    world_.broken(fmt::format("{} has something else as version {} than what was committed", where, version));
}

Watch::Samples Watch::committed(const control::SampleLedger::Saved& ledger) {
  Samples samples;
  for (std::int64_t sample = 0; sample < ledger.next; ++sample) samples.set(static_cast<std::size_t>(sample));
  for (const auto& [begin, end] : ledger.open) {
    for (std::int64_t sample = begin; sample < end; ++sample) samples.reset(static_cast<std::size_t>(sample));
  }
  return samples;
}

void Watch::counts(const std::string& attempt, const SavedCheckpoint& checkpoint) {
  is_whole(attempt, checkpoint);
}

void Watch::is_whole(const std::string& attempt, const SavedCheckpoint& checkpoint) {
  const Version version = checkpoint.state.version;
  if (static_cast<int>(checkpoint.shards.size()) != checkpoint.parts)
    world_.broken(fmt::format("the checkpoint of version {} counts with {} of {} shards", version,
                              checkpoint.shards.size(), checkpoint.parts));
  const auto expected = lines_[attempt].find(version);
  if (expected != lines_[attempt].end() && committed(checkpoint.state.ledger) != expected->second.samples)
    world_.broken(fmt::format("the checkpoint of version {} has {} samples as committed, and {} are", version,
                              committed(checkpoint.state.ledger).count(), expected->second.samples.count()));
  for (const auto& [shard, file] : checkpoint.shards) {
    const PartNumbers& part = *file.numbers;
    is_there(attempt, fmt::format("shard {} of the checkpoint", shard), version, part.offset, part.weights);
    if (expected != lines_[attempt].end() &&
        !has_velocity(expected->second.content, part.offset, part.state.streams.front()))
      world_.broken(fmt::format("shard {} of the checkpoint of version {} has the state of another version",
                                shard, version));
  }
}

void Watch::trains_from(Version version, bool twice) {
  if (twice && !may_lose_ && !split_ && version < seen_)
    world_.broken(fmt::format("version {} was seen, and the run goes on from {}", seen_, version));
  seen_ = version;
  may_lose_ = false;
}

}  // namespace paceline::cluster_sim
