// The speed of a link between two hosts: its round trips and its throughput each way, measured over the same
// kind of link that a run has (links::Network). One end listens and answers, the other one connects and
// measures. One thread each.
//
// Invariant: both ends take a bounded time whatever the other one does, and no message of the other end makes
// them use more than a few megabytes of memory.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/transport/links/network.h"

namespace paceline::doctor {

struct LinkFigures {
  double round_trip_us = 0;  // the median
  double there_mb_s = 0;
  double back_mb_s = 0;
};

// How a link is made. `keys` are there if and only if links are sealed; the two ends have each other's.
struct ProbeEnd {
  std::string address;  // this host's address, in numbers
  links::Fabric fabric = links::Fabric::kSealed;
  std::optional<links::LinkKeys> keys{};
};

// The end that answers.
class ProbeListener {
 public:
  // Errors: those of Network.
  static absl::StatusOr<std::unique_ptr<ProbeListener>> open(const ProbeEnd& own);
  ~ProbeListener();

  // The address for the other end.
  const std::string& address() const;
  // Answers one prober until the prober is done, `enough` returns true, or `limit` is over.
  void serve(const std::function<bool()>& enough, std::chrono::milliseconds limit);

 private:
  struct State;
  explicit ProbeListener(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The end that measures, against the listener at `address`. Takes about a second on a good link. Errors: the
// reason why there is no link, or why it ended.
absl::StatusOr<LinkFigures> probe(const ProbeEnd& own, const std::string& address,
                                  std::chrono::milliseconds limit);

}  // namespace paceline::doctor
