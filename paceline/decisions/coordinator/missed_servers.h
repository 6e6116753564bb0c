// Servers that died and whose shards are in memory that outlives them: they are started again, and take up the
// version that the memory has. Pure.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "paceline/base/ids.h"
#include "paceline/decisions/coordinator/actions.h"

namespace paceline::coordinator {

class MissedServers {
 public:
  // A server that died is started again at once, and one that hangs is killed after 10 s. On a busy machine both
  // may take longer.
  static constexpr std::chrono::seconds kPatience{30};
  // A server that dies so often without making a version would do so again.
  static constexpr int kMostTakeUps = 10;

  // A server that dies again before it has started is waited for no longer than one that did not come.
  void miss(ServerId server, const std::string& why) { missed_.try_emplace(server, Missed{why}); }
  bool contains(ServerId server) const { return missed_.contains(server); }
  // Why each of them is missed.
  std::map<ServerId, std::string> reasons() const {
    std::map<ServerId, std::string> all;
    for (const auto& [server, missed] : missed_) all[server] = missed.why;
    return all;
  }
  const std::string& why(ServerId server) const { return missed_.at(server).why; }
  // Called as time passes: a server that has not come within the patience. `listened`: from Hearing.
  std::optional<ServerId> overdue(SteadyTime::duration listened) {
    for (auto& [server, missed] : missed_) {
      if (!missed.since) missed.since = listened;
      if (listened - *missed.since >= kPatience) return server;
    }
    return std::nullopt;
  }
  // The server came again, with that version. False if it came with the same one too often.
  bool came(ServerId server, Version version) {
    TakenUp& last = taken_up_[server];
    last = {version, last.version == version ? last.times + 1 : 1};
    return last.times <= kMostTakeUps;
  }
  void takes_up(ServerId server, Version version) { missed_.at(server).version = version; }
  // The server is not missed any more. Returns the version that it took up; nothing if it was not missed.
  std::optional<Version> started(ServerId server) {
    const auto found = missed_.find(server);
    if (found == missed_.end()) return std::nullopt;
    const Version version = found->second.version;
    missed_.erase(found);
    return version;
  }

 private:
  struct Missed {
    std::string why;
    std::optional<SteadyTime::duration> since{};  // set as soon as time passes
    Version version{};                            // the version that it takes up, once it is here
  };
  // The version that a server took up last, and how often.
  struct TakenUp {
    Version version{};
    int times = 0;
  };

  std::map<ServerId, Missed> missed_;
  std::map<ServerId, TakenUp> taken_up_;
};

}  // namespace paceline::coordinator
