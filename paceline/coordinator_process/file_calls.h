// Files of checkpoints for servers whose hosts do not see the run folder: they send theirs to this process,
// which writes them, and get those of the checkpoint that the attempt goes on from.
//
// Stands before the sink of checkpoints, so that it knows which one is under way: only into that can be
// written. The sink's calls on one thread, `serve` on any.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/status.h>

#include "paceline/coordinator/restart.h"
#include "paceline/rpc/blocking_call.h"
#include "paceline/store/checkpoint_sink.h"
#include "paceline/wire/paceline.pb.h"

namespace paceline::coordinator_process {

class FileCalls final : public store::CheckpointSink {
 public:
  using Call = rpc::BlockingCall<wire::FileMessage, wire::FileMessage>;

  // A checkpoint that counts, at first that of the restart: its folder, and the names of all files in it.
  using Counted = std::function<void(const std::string& dir, const std::vector<std::string>& files)>;

  // Of an attempt with so many shards, which goes on from there. `next` outlives this.
  FileCalls(
      std::filesystem::path run, const std::optional<coordinator::Restart>& restart, int shards,
      store::CheckpointSink& next, Counted counted = [](const auto&, const auto&) {});

  absl::StatusOr<std::string> begin(Version version) override;
  absl::Status finish(const control::ControllerState& state, Duration elapsed) override;
  void give_up() override;

  // Errors: it asks for something else than one of those files; the disk's.
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
  std::map<std::string, std::vector<std::string>> to_read_;  // files by their folder
  std::optional<std::string> under_way_;
};

}  // namespace paceline::coordinator_process
