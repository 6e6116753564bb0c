// What tests of channels share: ends of every kind, made and found as processes of a job do.
#pragma once

#include <memory>
#include <string>

#include "paceline/channels/channel.h"
#include "paceline/links/link_channels.h"

namespace paceline::links::testing {

enum class ChannelKind { kRing, kSealed, kTcp, kUcx };
std::string to_string(ChannelKind kind);

// Both ways the same.
constexpr channels::ChannelSizes alike(std::int64_t slots, std::int64_t bytes) {
  return {{slots, bytes}, {slots, bytes}};
}

// Where ends are, each as if on a host of its own. Made in each process for itself; outlives its ends.
class ChannelHost {
 public:
  explicit ChannelHost(ChannelKind kind);

  struct Made {
    std::unique_ptr<channels::Channel> channel;
    std::string where;
  };
  Made create(const channels::ChannelSizes& sizes);
  std::unique_ptr<channels::Channel> open(const std::string& where, const channels::ChannelSizes& sizes);

 private:
  std::unique_ptr<LinkChannels> links_;  // null: ends are in memory
};

}  // namespace paceline::links::testing
