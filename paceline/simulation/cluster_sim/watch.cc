#include "paceline/simulation/cluster_sim/watch.h"

#include "paceline/base/rng.h"

namespace paceline::cluster_sim {

Content after_commit(Content before, const wire::Apply& commit) {
  Content content = mix_seed({before, static_cast<std::uint64_t>(commit.version())});
  for (const wire::Apply::Member& member : commit.members())
    content = mix_seed(
        {content, static_cast<std::uint64_t>(member.replica()), static_cast<std::uint64_t>(member.clock())});
  return content;
}

void Watch::leads(int host, bool alone) {
  leaders_.insert(host);
  if (alone && leaders_.size() > 1) world_.broken("there are two coordinators");
}

void Watch::goes_on_from(const std::string& attempt, const std::string& before,
                         const SavedCheckpoint* checkpoint, std::optional<Version> recorded) {
  // Servers may publish versions of the attempt before until commits take their place.
  if (const auto line = lines_.find(before); line != lines_.end()) lines_[attempt] = line->second;
  if (checkpoint == nullptr) {
    lines_[attempt][Version(0)] = kFirstContent;
    return;
  }
  is_whole(attempt, *checkpoint);
  if (recorded.value_or(Version(0)) < checkpoint->state.version)
    world_.broken(fmt::format("the run goes on from version {}, and the journal has not all that led to it",
                              checkpoint->state.version));
}

void Watch::commits(const std::string& attempt, const wire::Apply& commit) {
  const Version version(commit.version());
  std::map<Version, Content>& line = lines_[attempt];
  const auto before = line.find(Version(commit.version() - 1));
  if (before == line.end())
    return world_.broken(fmt::format("version {} is ordered, and not the one before", version));
  const Content content = after_commit(before->second, commit);
  line.erase(line.lower_bound(version), line.end());
  line[version] = content;
}

void Watch::is_there(const std::string& attempt, const std::string& where, Version version, Content content) {
  const std::map<Version, Content>& line = lines_[attempt];
  const auto expected = line.find(version);
  if (expected == line.end() || expected->second != content)
    world_.broken(fmt::format("{} has something else as version {} than what was committed", where, version));
}

void Watch::counts(const std::string& attempt, const SavedCheckpoint& checkpoint) {
  is_whole(attempt, checkpoint);
}

void Watch::is_whole(const std::string& attempt, const SavedCheckpoint& checkpoint) {
  const Version version = checkpoint.state.version;
  if (static_cast<int>(checkpoint.shards.size()) != checkpoint.parts)
    world_.broken(fmt::format("the checkpoint of version {} counts with {} of {} shards", version,
                              checkpoint.shards.size(), checkpoint.parts));
  for (const auto& [shard, file] : checkpoint.shards)
    is_there(attempt, fmt::format("shard {} of the checkpoint", shard), version, file.content);
}

void Watch::trains_from(Version version, bool twice) {
  if (twice && !may_lose_ && !split_ && version < seen_)
    world_.broken(fmt::format("version {} was seen, and the run goes on from {}", seen_, version));
  seen_ = version;
  may_lose_ = false;
}

}  // namespace paceline::cluster_sim
