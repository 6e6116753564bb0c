#include "paceline/cli/server_role.h"

#include <algorithm>
#include <map>
#include <optional>
#include <thread>

#include <spdlog/spdlog.h>

#include "paceline/base/status_macros.h"
#include "paceline/cli/peer.h"
#include "paceline/config/job_config.h"
#include "paceline/ps/shard.h"
#include "paceline/rpc/wire.h"
#include "paceline/store/shard_files.h"
#include "paceline/transport/gradient_buffer.h"

namespace paceline::cli {

namespace {

// Versions that evaluations and a checkpoint may hold at once.
constexpr int kMostKept = 8;

int threads_for(const config::JobConfig& job) {
  if (job.server_threads > 0) return static_cast<int>(job.server_threads);
  const int processors = static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(processors / static_cast<int>(job.servers), 1, 4);
}

class Server {
 public:
  explicit Server(ServerConnection& connection) : connection_(connection) {}

  // Orders in sequence, until goodbye. An error has been told to the coordinator.
  absl::Status serve();

 private:
  absl::Status carry_out(const rpc::wire::ServerOrder& order);
  absl::Status start(const rpc::wire::ServerStart& order);
  absl::Status start_from_worker(const rpc::wire::ServerStart& order);
  absl::Status start_from_checkpoint(const rpc::wire::ServerStart& order);
  absl::Status map_gradient(const rpc::wire::MapGradient& order);
  absl::Status apply(const rpc::wire::Apply& order);
  absl::Status keep(const rpc::wire::Keep& order);
  absl::Status write_checkpoint(const rpc::wire::WriteCheckpoint& order);
  bool send(const rpc::wire::ServerMessage& message) { return connection_.send(message); }

  ServerConnection& connection_;
  std::optional<ps::Shard> shard_;
  bool announce_ = false;
  int index_ = 0;
  int count_ = 1;
  std::size_t part_offset_ = 0;
  std::int64_t whole_floats_ = 0;
  std::map<std::int32_t, transport::GradientReader> gradients_;  // by replica
  std::jthread writer_;                                          // of the checkpoint under way
};

absl::Status Server::serve() {
  while (auto order = connection_.next()) {
    if (order->has_goodbye()) return farewell(order->goodbye());
    if (const absl::Status status = carry_out(*order); !status.ok()) {
      rpc::wire::ServerMessage failed;
      failed.mutable_failed()->set_error(std::string(status.message()));
      send(failed);
      return status;
    }
  }
  return coordinator_lost();
}

absl::Status Server::carry_out(const rpc::wire::ServerOrder& order) {
  if (order.has_start()) return start(order.start());
  if (!shard_) return absl::InternalError("the coordinator sent an order before the start");
  switch (order.what_case()) {
    case rpc::wire::ServerOrder::kMapGradient:
      return map_gradient(order.map_gradient());
    case rpc::wire::ServerOrder::kUnmapGradient:
      gradients_.erase(order.unmap_gradient().replica());
      return absl::OkStatus();
    case rpc::wire::ServerOrder::kReleaseReader:
      shard_->board().release_reader(order.release_reader().reader());
      return absl::OkStatus();
    case rpc::wire::ServerOrder::kApply:
      return apply(order.apply());
    case rpc::wire::ServerOrder::kKeep:
      return keep(order.keep());
    case rpc::wire::ServerOrder::kDrop:
      shard_->board().drop(Version(order.drop().version()));
      return absl::OkStatus();
    case rpc::wire::ServerOrder::kWriteCheckpoint:
      return write_checkpoint(order.write_checkpoint());
    default:
      return absl::InternalError("the coordinator sent an unknown order");
  }
}

absl::Status Server::start(const rpc::wire::ServerStart& order) {
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job, config::parse_job(order.job_toml(), "job.toml"));
  PACELINE_ASSIGN_OR_RETURN(ps::Layout part, rpc::from_wire(order.part()));
  announce_ = order.announce();
  index_ = order.shard();
  count_ = order.shard_count();
  part_offset_ = static_cast<std::size_t>(order.part_offset());
  whole_floats_ = order.whole_floats();
  PACELINE_ASSIGN_OR_RETURN(auto board,
                            transport::WeightWriter::create(ps::Shard::board_floats(part, job.look_ahead),
                                                            order.readers(), kMostKept));
  shard_.emplace(std::move(part), job.optimizer, std::move(board), threads_for(job));
  PACELINE_RETURN_IF_ERROR(order.checkpoint_dir().empty() ? start_from_worker(order)
                                                          : start_from_checkpoint(order));
  rpc::wire::ServerMessage started;
  started.mutable_started()->set_board_path(shard_->board().path());
  return send(started) ? absl::OkStatus() : coordinator_lost();
}

absl::Status Server::start_from_worker(const rpc::wire::ServerStart& order) {
  PACELINE_ASSIGN_OR_RETURN(const auto reader,
                            transport::GradientReader::open(order.weights_path(), whole_floats_));
  PACELINE_ASSIGN_OR_RETURN(const auto weights, reader.gradient(Clock(0)));
  shard_->start(Version(0), weights.subspan(part_offset_, static_cast<std::size_t>(shard_->layout().size())));
  return absl::OkStatus();
}

absl::Status Server::start_from_checkpoint(const rpc::wire::ServerStart& order) {
  PACELINE_ASSIGN_OR_RETURN(auto saved,
                            store::read_shard(order.checkpoint_dir(), index_ + 1, count_, shard_->layout()));
  PACELINE_RETURN_IF_ERROR(shard_->restore_optimizer(std::move(saved.optimizer)));
  shard_->start(Version(order.version()), saved.weights);
  return absl::OkStatus();
}

absl::Status Server::map_gradient(const rpc::wire::MapGradient& order) {
  auto reader = transport::GradientReader::open(order.path(), whole_floats_);
  // A worker that died this very moment: its leaving is the next thing to come.
  if (!reader.ok()) {
    spdlog::warn("replica {}: {}", order.replica(), std::string(reader.status().message()));
    return absl::OkStatus();
  }
  gradients_.insert_or_assign(order.replica(), *std::move(reader));
  return absl::OkStatus();
}

absl::Status Server::apply(const rpc::wire::Apply& order) {
  ps::Update update{.version = Version(order.version()),
                    .members = {},
                    .learning_rate = order.learning_rate(),
                    .fraction = order.fraction(),
                    .of_differences = order.of_differences()};
  std::vector<const transport::GradientReader*> readers;
  for (const auto& member : order.members()) {
    const auto found = gradients_.find(member.replica());
    if (found == gradients_.end()) {
      return absl::FailedPreconditionError(fmt::format(
          "commit {} names replica {}, whose gradient is not here", order.version(), member.replica()));
    }
    PACELINE_ASSIGN_OR_RETURN(const auto gradient, found->second.gradient(Clock(member.clock())));
    update.members.push_back({gradient.data() + part_offset_, member.weight(), member.share()});
    readers.push_back(&found->second);
  }
  if (order.group() && !readers.empty()) {
    update.group.emplace(update.version, std::move(readers), whole_floats_,
                         static_cast<std::int64_t>(part_offset_));
  }
  PACELINE_RETURN_IF_ERROR(shard_->apply(update));
  if (!announce_) return absl::OkStatus();
  rpc::wire::ServerMessage applied;
  applied.mutable_applied()->set_version(order.version());
  return send(applied) ? absl::OkStatus() : coordinator_lost();
}

absl::Status Server::keep(const rpc::wire::Keep& order) {
  PACELINE_RETURN_IF_ERROR(shard_->board().keep(Version(order.version())));
  rpc::wire::ServerMessage kept;
  kept.mutable_kept()->set_version(order.version());
  return send(kept) ? absl::OkStatus() : coordinator_lost();
}

absl::Status Server::write_checkpoint(const rpc::wire::WriteCheckpoint& order) {
  const Version version(order.version());
  PACELINE_RETURN_IF_ERROR(shard_->board().keep(version));
  // The weights stay as they are; the optimizer's state moves on with the next commit, so it is copied. The
  // files are written beside training.
  writer_ = std::jthread([this, dir = order.dir(), version, weights = shard_->kept_weights(version),
                          state = shard_->optimizer_state()] {
    const absl::Status status = store::write_shard(dir, index_ + 1, count_, shard_->layout(), weights, state);
    rpc::wire::ServerMessage written;
    written.mutable_written()->set_version(version.value());
    if (!status.ok()) written.mutable_written()->set_error(std::string(status.message()));
    send(written);
  });
  return absl::OkStatus();
}

}  // namespace

absl::Status run_server(const std::string& coordinator, int shard) {
  const auto stub = coordinator_stub(coordinator);
  ServerConnection connection([&](grpc::ClientContext* context) { return stub->Serve(context); });
  rpc::wire::ServerMessage hello;
  hello.mutable_hello()->set_shard(shard);
  if (!connection.send(hello)) return coordinator_lost();
  return Server(connection).serve();
}

}  // namespace paceline::cli
