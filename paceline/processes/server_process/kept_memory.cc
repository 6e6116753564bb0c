#include "paceline/processes/server_process/kept_memory.h"

#include <fcntl.h>

#include <utility>
#include <vector>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "paceline/base/status_macros.h"
#include "paceline/base/text_hash.h"
#include "paceline/parameters/memory/weight_board.h"
#include "paceline/parameters/ps/kept_state.h"

namespace paceline::server_process {

namespace {

FileDescriptor copy_of(int descriptor) { return FileDescriptor(fcntl(descriptor, F_DUPFD_CLOEXEC, 0)); }

}  // namespace

KeptMemory::KeptMemory(ipc::DescriptorKeep& keep, const wire::ServerStart& order) : keep_(&keep) {
  wire::KeptShard& shard = *about_.mutable_shard();
  shard.set_attempt(order.attempt());
  shard.set_shard(order.shard());
  shard.set_shard_count(order.shard_count());
}

std::optional<KeptMemory> KeptMemory::look(ipc::DescriptorKeep& keep) {
  std::optional<ipc::PassedMessage> found = keep.look();
  KeptMemory kept(keep);
  if (!found || !kept.about_.ParseFromString(found->text)) return std::nullopt;
  if (static_cast<std::size_t>(kept.about_.pieces_size()) != found->descriptors.size()) return std::nullopt;
  for (int i = 0; i < kept.about_.pieces_size(); ++i) {
    const wire::KeptMemory::Piece& piece = kept.about_.pieces(i);
    kept.pieces_.insert_or_assign(piece.name(),
                                  Piece{std::move(found->descriptors[static_cast<std::size_t>(i)]),
                                        static_cast<std::size_t>(piece.bytes())});
  }
  kept.about_.clear_pieces();
  const auto board = kept.memory(kBoard);
  if (!board.ok()) return std::nullopt;
  const auto version = memory::WeightWriter::version_in(*board);
  if (!version.ok()) return std::nullopt;
  kept.about_.mutable_shard()->set_version(version->value());
  const auto state = kept.memory(kState);
  kept.about_.mutable_shard()->set_begun(state.ok() && ps::KeptState::has_begun(*state, version->next()));
  return kept;
}

void KeptMemory::set_card(const std::string& uuid, const std::string& socket) {
  about_.set_card(uuid);
  about_.set_socket(socket);
}

void KeptMemory::put(const std::string& name, int descriptor, std::size_t bytes) {
  pieces_.insert_or_assign(name, Piece{copy_of(descriptor), bytes});
  write();
}

void KeptMemory::remove(const std::string& name) {
  if (pieces_.erase(name) > 0) write();
}

void KeptMemory::write() {
  if (given_up_) return;
  wire::KeptMemory all = about_;
  std::vector<int> descriptors;
  for (const auto& [name, piece] : pieces_) {
    wire::KeptMemory::Piece& one = *all.add_pieces();
    one.set_name(name);
    one.set_bytes(static_cast<std::int64_t>(piece.bytes));
    descriptors.push_back(piece.descriptor.get());
  }
  const absl::Status kept = keep_->keep(all.SerializeAsString(), descriptors);
  if (kept.ok()) return;
  given_up_ = true;
  keep_->clear();
  spdlog::warn("if this server dies, the run goes back to its newest checkpoint: {}",
               std::string(kept.message()));
}

std::map<std::string, ipc::DescriptorService::Given> KeptMemory::on_card() const {
  std::map<std::string, ipc::DescriptorService::Given> all;
  for (const auto& [name, piece] : pieces_) {
    if (name.find('/') == std::string::npos || name == kCardState) continue;
    all.emplace(name, ipc::DescriptorService::Given{copy_of(piece.descriptor.get()), piece.bytes});
  }
  return all;
}

std::optional<FileDescriptor> KeptMemory::find(const std::string& name) const {
  const auto found = pieces_.find(name);
  if (found == pieces_.end()) return std::nullopt;
  return copy_of(found->second.descriptor.get());
}

absl::StatusOr<ipc::SharedMemory> KeptMemory::memory(const std::string& name) const {
  std::optional<FileDescriptor> descriptor = find(name);
  if (!descriptor) return absl::NotFoundError(fmt::format("no memory '{}' is kept", name));
  return ipc::SharedMemory::adopt(*std::move(descriptor));
}

std::uint64_t identity_of(const wire::ServerStart& order) {
  return text_hash(fmt::format("{}/{}/{}/{}/{}", order.attempt(), order.shard(), order.shard_count(),
                               order.part().SerializeAsString(), order.job_toml()));
}

}  // namespace paceline::server_process
