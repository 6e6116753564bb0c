// Helpers for tests of channels: ends of every kind, made and found like those of a job's processes.
#pragma once

#include <memory>
#include <string>

#include "paceline/transport/channels/channel.h"
#include "paceline/transport/links/link_channels.h"

namespace paceline::links::testing {

enum class ChannelKind { kRing, kSealed, kTcp, kUcx };
std::string to_string(ChannelKind kind);

// The same size both ways.
constexpr channels::ChannelSizes alike(std::int64_t slots, std::int64_t bytes) {
  return {{slots, bytes}, {slots, bytes}};
}

// The place of some ends, as if each was on a host of its own. Each process makes one for itself; it outlives
// its ends.
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
