#include "paceline/processes/coordinator_process/file_calls.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/formats/wire/wire.h"
#include "paceline/records/store/checkpoint.h"
#include "paceline/records/store/crc32.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/shard_files.h"

namespace paceline::coordinator_process {

namespace fs = std::filesystem;

namespace {

// No names if the folder cannot be read: then no server gets its files.
std::vector<std::string> files_of(const fs::path& checkpoint) {
  return store::names_in(checkpoint).value_or(std::vector<std::string>());
}

}  // namespace

FileCalls::FileCalls(fs::path run, const std::optional<coordinator::Restart>& restart, int shards,
                     store::CheckpointSink& next, Counted counted)
    : run_(std::move(run)), shards_(shards), next_(next), counted_(std::move(counted)) {
  if (!restart) return;
  to_read_[restart->checkpoint_dir] = files_of(restart->checkpoint_dir);
  counted_(restart->checkpoint_dir, to_read_[restart->checkpoint_dir]);
}

absl::StatusOr<std::string> FileCalls::begin(Version version) {
  PACELINE_ASSIGN_OR_RETURN(std::string dir, next_.begin(version));
  set_under_way(dir);
  return dir;
}

absl::Status FileCalls::finish(const control::ControllerState& state, Duration elapsed) {
  set_under_way(std::nullopt);
  PACELINE_RETURN_IF_ERROR(next_.finish(state, elapsed));
  const auto newest = store::latest_checkpoint(run_);
  if (!newest.ok()) return absl::OkStatus();  // the checkpoint counts, whatever has become of it since
  const std::vector<std::string> files = files_of(newest->directory);
  {
    const std::lock_guard lock(mutex_);
    to_read_[newest->directory.string()] = files;
  }
  counted_(newest->directory.string(), files);
  return absl::OkStatus();
}

void FileCalls::give_up() {
  set_under_way(std::nullopt);
  next_.give_up();
}

void FileCalls::set_under_way(std::optional<std::string> dir) {
  const std::lock_guard lock(mutex_);
  under_way_ = std::move(dir);
}

bool FileCalls::under_way(const std::string& dir) const {
  const std::lock_guard lock(mutex_);
  return under_way_ == dir;
}

bool FileCalls::to_read(const wire::FileAsked& asked) const {
  const std::lock_guard lock(mutex_);
  const auto found = to_read_.find(asked.dir());
  return found != to_read_.end() &&
         std::find(found->second.begin(), found->second.end(), asked.name()) != found->second.end();
}

absl::Status FileCalls::serve(Call& call) const {
  wire::FileMessage message;
  if (!call.read(message)) return absl::OkStatus();
  if (message.has_put()) return take(call, message.put());
  if (message.has_get()) return give(call, message.get());
  return absl::InvalidArgumentError("a call of files begins with a name");
}

absl::Status FileCalls::take(Call& call, const wire::FileAsked& asked) const {
  if (!under_way(asked.dir()) || !store::is_shard_file(asked.name(), shards_))
    return absl::FailedPreconditionError("no checkpoint under way has such a file");
  PACELINE_ASSIGN_OR_RETURN(auto file, store::AtomicFile::create(fs::path(asked.dir()) / asked.name()));
  std::uint32_t crc = 0;
  for (wire::FileMessage message; call.read(message);) {
    if (message.has_whole()) {
      if (message.whole() != crc) return absl::DataLossError("the file did not come as it was sent");
      PACELINE_RETURN_IF_ERROR(file.commit());
      call.write(message);
      return absl::OkStatus();
    }
    if (!message.has_piece()) return absl::InvalidArgumentError("neither a piece of a file nor its end");
    crc = store::crc32_after(message.piece().data(), message.piece().size(), crc);
    PACELINE_RETURN_IF_ERROR(file.write(message.piece().data(), message.piece().size()));
  }
  return absl::OkStatus();  // the server is gone, and so are the bytes that it sent
}

absl::Status FileCalls::give(Call& call, const wire::FileAsked& asked) const {
  if (!to_read(asked)) return absl::FailedPreconditionError("no checkpoint of the run has such a file");
  wire::FileMessage message;
  bool heard = true;
  PACELINE_ASSIGN_OR_RETURN(
      const std::uint32_t crc,
      store::read_pieces(fs::path(asked.dir()) / asked.name(), wire::kPieceBytes, [&](std::string& piece) {
        message.set_piece(piece);
        return heard = call.write(message);
      }));
  if (!heard) return absl::OkStatus();  // the server is gone
  message.set_whole(crc);
  call.write(message);
  return absl::OkStatus();
}

}  // namespace paceline::coordinator_process
