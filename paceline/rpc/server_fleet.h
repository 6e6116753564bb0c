// The servers of a run as the coordinator sees them: who is here, which part of the model each keeps, and
// where its weights lie. Of the event loop's thread.
//
// What always holds: one server a shard, and every server hears the same orders in the same sequence.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/status.h>

#include "paceline/base/ids.h"
#include "paceline/ps/layout.h"
#include "paceline/rpc/paceline.pb.h"
#include "paceline/rpc/peer_stream.h"

namespace paceline::rpc {

using ServerStream = PeerStream<wire::ServerMessage, wire::ServerOrder>;

class ServerFleet {
 public:
  explicit ServerFleet(std::size_t count) : servers_(count) {}

  std::size_t size() const { return servers_.size(); }

  // A part of the model for each. Errors: InvalidArgument when it has too few tensors.
  absl::Status split(const ps::Layout& layout);

  // False when there is no such shard, or it has a server.
  bool take_place(const ServerStream::Pointer& stream, std::int32_t shard);
  // The shard that is without a server now; nothing when the stream had none.
  std::optional<std::size_t> leave(const ServerStream::Pointer& stream);
  std::optional<std::size_t> shard_of(const ServerStream::Pointer& stream) const;
  bool all_here() const;
  bool none_here() const;

  // Tells each to start with its own part; `common` is what they all get. Requires: all here, and split.
  void start(const wire::ServerStart& common);
  // That server has started: its weights lie there.
  void started(std::size_t shard, const std::string& board_path) { servers_[shard].board_path = board_path; }
  bool all_started() const;
  // Where a reader finds the weights. Requires: all started.
  wire::Boards boards(int reader) const;

  // That server has made that version. The newest that all have made.
  Version applied(std::size_t shard, Version version);

  void tell(const wire::ServerOrder& order) const;
  void say_goodbye(const std::string& why) const;

 private:
  struct Server {
    ServerStream::Pointer stream;  // null: it is not here
    std::string board_path;        // empty: it has not started
    Version applied{};
  };

  std::vector<Server> servers_;
  std::vector<ps::Layout> parts_;
};

}  // namespace paceline::rpc
