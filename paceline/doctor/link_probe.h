// What a link between two hosts is good for: its round trips and what it carries each way, measured over the
// very links that a run has (links::Network). One end listens and answers, the other one connects and
// measures. One thread each.
//
// Invariant: both ends take a bounded time whatever the other one does, and nothing that the other
// one says makes them use more than a few megabytes of memory.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/links/network.h"

namespace paceline::doctor {

struct LinkFigures {
  double round_trip_us = 0;  // the median
  double there_mb_s = 0;
  double back_mb_s = 0;
};

// How a link is made. Keys are there exactly where links are sealed; a pair of ends has each other's.
struct ProbeEnd {
  std::string address;  // of this host, in numbers
  links::Fabric fabric = links::Fabric::kSealed;
  std::optional<links::LinkKeys> keys{};
};

// The end that answers.
class ProbeListener {
 public:
  // Errors: those of Network.
  static absl::StatusOr<std::unique_ptr<ProbeListener>> open(const ProbeEnd& own);
  ~ProbeListener();

  // To be told to the other end.
  const std::string& address() const;
  // Answers one prober until that is done, `enough` says so, or `limit` is over.
  void serve(const std::function<bool()>& enough, std::chrono::milliseconds limit);

 private:
  struct State;
  explicit ProbeListener(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The end that measures, against the listener at `address`. A second or so on a link that is well. Errors:
// why there is no link, or why it ended.
absl::StatusOr<LinkFigures> probe(const ProbeEnd& own, const std::string& address,
                                  std::chrono::milliseconds limit);

}  // namespace paceline::doctor
