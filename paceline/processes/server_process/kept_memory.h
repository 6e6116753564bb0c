// The memory of a server's shard that its launcher keeps, so that the next server can take it up if this one is killed:
// the board, the optimizer's state and what lies on a card, by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/formats/wire/paceline.pb.h"
#include "paceline/transport/ipc/descriptor_keep.h"
#include "paceline/transport/ipc/descriptor_service.h"
#include "paceline/transport/ipc/shared_memory.h"

namespace paceline::server_process {

class KeptMemory {
 public:
  // Names of memory of the host. Names with a "/" are of memory of a card.
  static constexpr char kBoard[] = "board";
  static constexpr char kState[] = "state";
  static constexpr char kCardState[] = "card/state";
  static constexpr char kMirror[] = "mirror";

  // Nothing is kept yet. The keep outlives this.
  KeptMemory(ipc::DescriptorKeep& keep, const wire::ServerStart& order);
  // Memory that an earlier server left in the keep; nothing if it left no shard, or not all that it names.
  static std::optional<KeptMemory> look(ipc::DescriptorKeep& keep);

  // The shard and its version on the board.
  const wire::KeptShard& shard() const { return about_.shard(); }
  // The card that has the shard, and the socket that gives the descriptors of the card's memory; empty: the host's
  // memory has the shard.
  const std::string& card() const { return about_.card(); }
  const std::string& socket() const { return about_.socket(); }
  void set_card(const std::string& uuid, const std::string& socket);

  // Keeps a copy of the descriptor. If the keep cannot, it keeps nothing any more: the shard then ends with its server.
  void put(const std::string& name, int descriptor, std::size_t bytes);
  void put(const std::string& name, const ipc::SharedMemory& memory) {
    put(name, memory.descriptor(), memory.size());
  }
  void remove(const std::string& name);

  // Copies of the descriptors of all memory of the card that programs map, by name.
  std::map<std::string, ipc::DescriptorService::Given> on_card() const;
  // A copy of a descriptor that is kept; nothing if there is none of that name.
  std::optional<FileDescriptor> find(const std::string& name) const;
  // Its size. Requires: it is kept.
  std::size_t bytes(const std::string& name) const { return pieces_.at(name).bytes; }
  // Errors: NotFound; those of SharedMemory::adopt().
  absl::StatusOr<ipc::SharedMemory> memory(const std::string& name) const;

 private:
  struct Piece {
    FileDescriptor descriptor;
    std::size_t bytes;
  };

  explicit KeptMemory(ipc::DescriptorKeep& keep) : keep_(&keep) {}
  void write();

  ipc::DescriptorKeep* keep_;
  wire::KeptMemory about_;  // without the pieces
  std::map<std::string, Piece> pieces_;
  bool given_up_ = false;
};

// A number for a shard, its run and its attempt.
std::uint64_t identity_of(const wire::ServerStart& order);

}  // namespace paceline::server_process
