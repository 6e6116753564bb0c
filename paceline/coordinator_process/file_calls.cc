#include "paceline/coordinator_process/file_calls.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/store/crc32.h"
#include "paceline/store/files.h"
#include "paceline/store/shard_files.h"
#include "paceline/wire/wire.h"

namespace paceline::coordinator_process {

namespace fs = std::filesystem;

FileCalls::FileCalls(const std::optional<coordinator::Restart>& restart, int shards,
                     store::CheckpointSink& next)
    : to_read_from_(restart ? restart->checkpoint_dir : ""),
      to_read_(restart ? restart->files : std::vector<std::string>()),
      shards_(shards),
      next_(next) {}

absl::StatusOr<std::string> FileCalls::begin(Version version) {
  PACELINE_ASSIGN_OR_RETURN(std::string dir, next_.begin(version));
  set_under_way(dir);
  return dir;
}

absl::Status FileCalls::finish(const control::ControllerState& state, Duration elapsed) {
  set_under_way(std::nullopt);
  return next_.finish(state, elapsed);
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
  return absl::OkStatus();  // the server is gone, and so is what it sent
}

absl::Status FileCalls::give(Call& call, const wire::FileAsked& asked) const {
  const bool known = std::find(to_read_.begin(), to_read_.end(), asked.name()) != to_read_.end();
  if (asked.dir() != to_read_from_ || !known)
    return absl::FailedPreconditionError("the run does not go on from such a file");
  const fs::path path = fs::path(asked.dir()) / asked.name();
  std::int64_t size = 0;
  PACELINE_ASSIGN_OR_RETURN(const auto file, store::open_to_read(path, size));
  std::uint32_t crc = 0;
  wire::FileMessage message;
  std::string& piece = *message.mutable_piece();
  for (std::int64_t at = 0; at < size; at += static_cast<std::int64_t>(piece.size())) {
    piece.resize(static_cast<std::size_t>(std::min<std::int64_t>(wire::kPieceBytes, size - at)));
    PACELINE_ASSIGN_OR_RETURN(const std::size_t got,
                              store::read_at(file, path, at, piece.data(), piece.size()));
    if (got != piece.size()) return absl::DataLossError(fmt::format("{}: truncated", path.string()));
    crc = store::crc32_after(piece.data(), piece.size(), crc);
    if (!call.write(message)) return absl::OkStatus();  // the server is gone
  }
  message.set_whole(crc);
  call.write(message);
  return absl::OkStatus();
}

}  // namespace paceline::coordinator_process
