// Files of checkpoints for servers whose hosts do not see the run folder: they send their files to this
// process, which writes them, and get the files of the checkpoint that the attempt goes on from.
//
// This object stands before the sink of checkpoints, so it knows which checkpoint is under way: only into
// that one can be written. The sink's calls come on one thread, `serve` on any.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/status.h>

#include "paceline/decisions/coordinator/restart.h"
#include "paceline/formats/wire/paceline.pb.h"
#include "paceline/processes/rpc/blocking_call.h"
#include "paceline/records/store/checkpoint_sink.h"

namespace paceline::coordinator_process {

class FileCalls final : public store::CheckpointSink {
 public:
  using Call = rpc::BlockingCall<wire::FileMessage, wire::FileMessage>;

  // Hears of a checkpoint that counts, at first that of the restart: its folder, and the names of all files
  // in it.
  using Counted = std::function<void(const std::string& dir, const std::vector<std::string>& files)>;

  // For one attempt with `shards` shards, which goes on from `restart`. `next` outlives this.
  FileCalls(
      std::filesystem::path run, const std::optional<coordinator::Restart>& restart, int shards,
      store::CheckpointSink& next, Counted counted = [](const auto&, const auto&) {});

  absl::StatusOr<std::string> begin(Version version) override;
  absl::Status finish(const control::ControllerState& state, Duration elapsed) override;
  void give_up() override;

  // Serves a server's call. Errors: the call asks for a file that is none of those above; the disk's.
  absl::Status serve(Call& call) const;

 private:
  absl::Status take(Call& call, const wire::FileAsked& asked) const;
  absl::Status give(Call& call, const wire::FileAsked& asked) const;
  bool under_way(const std::string& dir) const;
  bool to_read(const wire::FileAsked& asked) const;
  void set_under_way(std::optional<std::string> dir);

  const std::filesystem::path run_;
  const int shards_;
  store::CheckpointSink& next_;
  const Counted counted_;
  mutable std::mutex mutex_;
  std::map<std::string, std::vector<std::string>> to_read_;  // names of files by their folder
  std::optional<std::string> under_way_;
};

}  // namespace paceline::coordinator_process
