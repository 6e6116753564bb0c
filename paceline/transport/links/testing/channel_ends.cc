#include "paceline/transport/links/testing/channel_ends.h"

#include <array>

#include "paceline/transport/channels/ring_channel.h"
#include "paceline/transport/links/testing/link_ends.h"

namespace paceline::links::testing {

namespace {

constexpr char kName[] = "the channel";

}  // namespace

std::string to_string(ChannelKind kind) {
  constexpr std::array kNames{"Ring", "Sealed", "Tcp", "Ucx"};
  return kNames[static_cast<std::size_t>(kind)];
}

ChannelHost::ChannelHost(ChannelKind kind) {
  if (kind == ChannelKind::kRing) return;
  const Fabric fabric = kind == ChannelKind::kSealed ? Fabric::kSealed
                        : kind == ChannelKind::kTcp  ? Fabric::kTcp
                                                     : Fabric::kUcx;
  links_ = LinkChannels::listen("127.0.0.1", fabric).value();
}

ChannelHost::Made ChannelHost::create(const channels::ChannelSizes& sizes) {
  if (links_ != nullptr) return {links_->expect(kName, sizes, keys(1, false)), links_->address()};
  auto ring = std::make_unique<channels::RingChannel>(channels::RingChannel::create(sizes).value());
  const std::string path = ring->path();
  return {std::move(ring), path};
}

std::unique_ptr<channels::Channel> ChannelHost::open(const std::string& where,
                                                     const channels::ChannelSizes& sizes) {
  if (links_ != nullptr) return links_->connect(where, kName, sizes, keys(1, true));
  return std::make_unique<channels::RingChannel>(channels::RingChannel::open(where, sizes).value());
}

}  // namespace paceline::links::testing
