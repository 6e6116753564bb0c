// How much this worker has sent to stages on other hosts since it began, and how fast their data came, for
// its heartbeats.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "paceline/formats/wire/paceline.pb.h"
#include "paceline/transport/channels/channel.h"
#include "paceline/transport/links/received.h"

namespace paceline::compute {

// Any thread may ask while others send.
class StageTraffic {
 public:
  // The same channel, which counts what is sent to the worker at the other end of this link.
  std::unique_ptr<channels::Channel> counted(std::unique_ptr<channels::Channel> channel,
                                             const wire::StageLink& link);
  // The count to which all that comes over this link is to be added.
  std::shared_ptr<links::ReceivedCount> received(const wire::StageLink& link);
  void report(wire::Heartbeat& beat) const;

 private:
  using Count = std::shared_ptr<std::atomic<std::int64_t>>;  // in bytes

  mutable std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, Count> counts_;            // key: worker, and what is sent
  std::map<std::string, std::shared_ptr<links::ReceivedCount>> received_;  // key: worker
};

}  // namespace paceline::compute
