// How long pushes and pulls take: pipes of given rates, in which transfers follow each other. Pure.
//
// The model. Pushes queue for what the servers take in, pulls for what they give out; each also has its
// replica's link, and both directions are free at once. A transfer goes through chunk by chunk, so it
// takes as long as its slowest pipe, not the sum. The weights are spread evenly over the servers, so that all
// of them together are one pipe. Chunks of the pushes of one commit interleave and commits follow each other,
// so weights of a version can be pulled from the moment (`open`) when the last of its members pushes and the
// version before is complete; the pull ends when the version is complete at the earliest.
//
// A group (policy::Reduction::kInGroup) reduces over its members' links, in a ring, and each member then
// pushes its part of the sum, so that one gradient and not k of them goes to the servers; one copy of the
// weights comes back, in parts that the members pass on. All of it goes through chunk by chunk: each link
// carries 2(k − 1)/k + 1/k times the bytes in each direction, the servers' pipes once the bytes, and the step
// takes as long as the slowest of them.
//
// Making an update is a pipe as well: chunks of a commit are summed and stepped as they come, and one commit
// follows the other. It takes as long as config::UpdateTime says for the gradients that the servers sum: one
// of a group that reduced over links, and each member's where there are no links (`free`), as within one
// host.
//
// With one server beside each of P replicas, 1/P of a replica's bytes stay at home, and pushes and pulls
// share one pipe of P times the slowest link: what each link sends is the replica's own pushes and the pulls
// it serves.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <span>

#include "paceline/base/sum_of_durations.h"
#include "paceline/base/time.h"
#include "paceline/formats/config/network.h"

namespace paceline::sim {

// No run goes on for longer. A later time can still be computed with.
inline constexpr Time kEndOfTime{std::chrono::hours(24 * 365 * 100)};

// A resource that is taken for a while, in order of asking.
class Pipe {
 public:
  // The moment from which it is taken: not before `earliest`.
  Time take(Time earliest, Duration length) {
    const Time start = std::max(earliest, free_);
    free_ = std::min(start + length, kEndOfTime);
    return start;
  }

 private:
  Time free_{};
};

// One replica's end of the network.
struct Port {
  config::Link link;
  Pipe up;
  Pipe down;
};

struct Transfer {
  Time start;  // the first chunk goes
  Time end;    // the last chunk is there
};

// The sums over all updates.
struct UpdateSums {
  std::int64_t count = 0;
  Duration made{0};          // time in which the servers made them
  SumOfDurations queued{0};  // time in which they waited for earlier ones
};

class Network {
 public:
  // `bytes`: of one push or pull; 0: they take no time. `directions`: a pull has twice as many, for replicas
  // that look ahead (ps/look_ahead.h).
  Network(const config::ServerLinks& servers, std::int64_t bytes, bool directions = false)
      : servers_(servers), bytes_(bytes), pull_bytes_(directions ? 2 * bytes : bytes) {}

  bool free() const { return bytes_ == 0; }
  // True if updates take no time, either.
  bool instant() const { return free() && servers_.update.none(); }
  Duration latency(const Port& port) const;

  // A replica takes part from now on, or no longer. O(log P).
  void join(const config::Link& link);
  void leave(const config::Link& link);

  Transfer push(Port& port, Time now);
  // The pull begins at `earliest` or later; the weights are complete at `complete`.
  Transfer pull(Port& port, Time earliest, Time complete);

  // The same for a group. Its members have nothing else under way. Requires: at least one.
  Transfer push_group(std::span<Port* const> members, Time now);
  Transfer pull_group(std::span<Port* const> members, Time earliest, Time complete);

  // The update of a commit whose pushes have all begun at `begun` and end at `pushed`.
  Transfer update(Time begun, Time pushed, std::size_t gradients);
  const UpdateSums& updates() const { return updates_; }

 private:
  Duration own_length(const Port& port, std::int64_t bytes) const;
  Duration shared_length(std::int64_t bytes) const;
  Duration group_latency(std::span<Port* const> members) const;
  Transfer pass(Pipe& own, Pipe& shared, const Port& port, std::int64_t bytes, Time earliest);
  // Bytes that one transfer of `bytes` moves over the network, and the servers' rate for it, bytes a second.
  double moved(std::int64_t bytes) const;
  double servers_rate() const;

  const config::ServerLinks servers_;
  const std::int64_t bytes_;
  const std::int64_t pull_bytes_;
  std::multiset<double> links_;  // Gb/s of the replicas that take part
  Pipe in_;
  Pipe out_;
  Pipe updating_;
  UpdateSums updates_;
};

}  // namespace paceline::sim
