#include "paceline/processes/server/server_role.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/base/status_macros.h"
#include "paceline/formats/config/job_config.h"
#include "paceline/formats/config/server_parts.h"
#include "paceline/formats/wire/wire.h"
#include "paceline/parameters/exchange/commit_exchange.h"
#include "paceline/parameters/exchange/exchange.h"
#include "paceline/parameters/memory/gradient_buffer.h"
#include "paceline/parameters/ps/fused_update.h"
#include "paceline/parameters/ps/shard.h"
#include "paceline/processes/peer/called_files.h"
#include "paceline/processes/peer/heartbeats.h"
#include "paceline/processes/peer/peer.h"
#include "paceline/processes/peer/refused_log.h"
#include "paceline/processes/rpc/link_keys.h"
#include "paceline/processes/server/commit_log.h"
#include "paceline/processes/server/kept_shards.h"
#include "paceline/processes/server/left_shard.h"
#include "paceline/processes/server/update_times.h"
#include "paceline/records/store/shard_files.h"
#include "paceline/records/store/shared_folder.h"
#include "paceline/transport/ipc/descriptor_keep.h"

namespace paceline::server {

namespace {

absl::StatusOr<exchange::Peer> peer_of(const wire::HostShard& host) {
  PACELINE_ASSIGN_OR_RETURN(const links::LinkKeys keys, rpc::link_keys(host.send_key(), host.receive_key()));
  return exchange::Peer{host.exchange(), keys};
}

using peer::ServerConnection, wire::coordinator_lost;

// A server's state that outlives a session.
struct Kept {
  CommitLog log;
  std::unique_ptr<ServersCard> card;  // the card that has the shards; null: the host's memory has them
  std::optional<KeptShards> shards;
  std::optional<ipc::DescriptorKeep> keep;  // the launcher's, for this server's memory
  std::optional<LeftShard> left;            // an earlier server's shard there, until this one starts
};

// The shards of each server, as numbers, for the exchange.
std::vector<std::vector<int>> numbers_of(const config::ServerShards& kept) {
  std::vector<std::vector<int>> numbers(kept.size());
  for (const ServerId server : kept.ids()) {
    for (const ShardId shard : kept[server])
      numbers[static_cast<std::size_t>(server.value())].push_back(shard.value());
  }
  return numbers;
}

// A server while it has a connection: carries out what its log says.
class Server {
 public:
  // `exchange`: with the other hosts' servers; null when there are none. All others outlive this.
  Server(ServerConnection& connection, peer::Stub& stub, const rpc::Access& access, Kept& kept,
         UpdateTimes& times, std::unique_ptr<exchange::Exchange> exchange)
      : connection_(connection),
        stub_(stub),
        access_(access),
        log_(kept.log),
        card_(kept.card),
        shards_(kept.shards),
        keep_(kept.keep),
        left_(kept.left),
        times_(times),
        exchange_(std::move(exchange)) {
    log_.new_session();
    // The exchange may wait for hosts that will never come.
    if (exchange_ != nullptr) connection_.on_end([this] { exchange_->give_up(coordinator_lost()); });
  }
  ~Server() { connection_.on_end({}); }

  // Orders in sequence, until the disconnect. An error has been told to the coordinator.
  absl::Status serve();

  // Any thread.
  void report_traffic(wire::Heartbeat& beat) const;

 private:
  absl::Status take(wire::ServerOrder order);
  absl::Status act(const Actions& actions);
  absl::Status act(const Make& make);
  absl::Status act(const Prepare& prepare);
  absl::Status act(const SendAhead& ahead);
  absl::Status act(const Publish& publish);
  absl::Status act(const CarryOut& turn);
  absl::Status act(const WriteCopy& copy);
  absl::Status act(const SendMessage& action) {
    return send(action.message) ? absl::OkStatus() : coordinator_lost();
  }
  absl::Status start(const wire::ServerStart& order);
  absl::Status take_up(const wire::ServerStart& order, const config::JobConfig& job);
  bool keeps(const wire::ServerStart& order, const config::JobConfig& job) const;
  absl::StatusOr<KeptShards> start_shards(const wire::ServerStart& order, const config::JobConfig& job,
                                          std::span<const float> first, store::CheckpointFiles& saved,
                                          wire::ServerStarted& started);
  absl::Status pass_on_first(std::span<const float> weights);
  absl::Status start_exchange(const wire::ServerStart& order, const config::JobConfig& job);
  absl::Status map_gradient(const wire::MapGradient& order);
  absl::Status say_mapped(std::int32_t replica, const std::string& error);
  absl::Status unmap_gradient(const wire::UnmapGradient& order);
  absl::Status apply_here(const wire::Apply& order, ps::Update update);
  absl::Status check_finite(const wire::Apply& order, const ps::Shard& shard);
  absl::StatusOr<std::vector<exchange::HostMember>> members_of(const wire::Apply& order);
  absl::StatusOr<const float*> gradient(const wire::Apply::Member& member);
  absl::StatusOr<int> host_of(std::int32_t replica) const;
  absl::Status send_early(const wire::SendEarly& order);
  absl::Status keep(const wire::Keep& order);
  bool say_kept(Version version);
  void say_failed(const absl::Status& status, bool host_lost);
  void say_host_lost(const absl::Status& status);
  absl::Status write_checkpoint(const wire::WriteCheckpoint& order);
  // The host's memory has the weights at their places, or this reads them from the card. Any thread.
  absl::Status write_shard(store::CheckpointFiles& checkpoint, std::span<const float> places,
                           const ps::OptimizerState& state) const;
  // One after the other. What is still being written when this server's session ends is given up.
  void write_beside(std::function<void(const std::stop_token& stop)> write) {
    if (writer_.joinable()) writer_.join();
    writer_ = std::jthread(std::move(write));
  }
  // Files of a checkpoint, in a folder that this host sees or not.
  std::unique_ptr<store::CheckpointFiles> files(bool by_call, const std::string& dir, std::stop_token stop,
                                                std::vector<std::string> names = {}) const;
  bool send(wire::ServerMessage message) {
    times_.move_to(message);
    return connection_.send(message);
  }
  void note(const wire::Apply& order, std::chrono::steady_clock::time_point began);

  ps::Shard& own() const { return shards_->own(); }

  ServerConnection& connection_;
  peer::Stub& stub_;
  const rpc::Access& access_;
  CommitLog& log_;
  std::unique_ptr<ServersCard>& card_;
  std::optional<KeptShards>& shards_;
  std::optional<ipc::DescriptorKeep>& keep_;
  std::optional<LeftShard>& left_;
  UpdateTimes& times_;
  int index_ = 0;
  int count_ = 1;
  int evaluator_host_ = 0;
  bool by_call_ = false;  // files of checkpoints
  std::int64_t whole_floats_ = 0;
  // gradients of this host's replicas; key: replica
  std::map<std::int32_t, memory::GradientReader> gradients_;
  std::map<std::int32_t, int> hosts_;                // key: replica
  std::optional<exchange::CommitExchange> commits_;  // set if there are several hosts
  Version diverged_;                                 // whose weights are not finite; 0: none
  std::vector<std::int32_t> not_finite_;             // its members whose gradients are not
  std::optional<std::int32_t> not_here_;             // a replica that has not the gradient of a commit
  // Reads the gradients, and the sums of commits_; tells of a host that is lost from a thread of its own.
  std::unique_ptr<exchange::Exchange> exchange_;
  std::jthread writer_;  // writes the checkpoint under way
};

absl::Status Server::serve() {
  while (auto order = connection_.next()) {
    if (order->has_disconnect()) return wire::outcome_of_job(order->disconnect());
    const absl::Status status = take(*std::move(order));
    if (status.ok()) continue;
    const bool host_lost = commits_ && exchange_->ended();
    if (host_lost && log_.cut_off()) continue;  // the exchange has told the coordinator
    say_failed(status, host_lost);
    if (host_lost) return absl::AbortedError(status.message());
    return peer::unless_disconnected(connection_, status,
                                     wire::outcome_of_job);  // which also means that it was heard
  }
  return coordinator_lost();
}

void Server::report_traffic(wire::Heartbeat& beat) const {
  if (exchange_ == nullptr) return;
  int host = 0;
  for (const auto& [gradients, weights] : exchange_->sent_bytes()) {
    if (gradients + weights > 0) {
      wire::SentBytes& sent = *beat.add_sent();
      sent.set_host(host);
      sent.set_gradients(gradients);
      sent.set_weights(weights);
    }
    ++host;
  }
  host = 0;
  for (const links::Received& so_far : exchange_->received()) {
    if (so_far.bytes > 0) {
      wire::Received& received = *beat.add_received();
      received.set_host(host);
      received.set_bytes(so_far.bytes);
      received.set_busy_ns(so_far.busy.count());
      received.set_times(so_far.times);
    }
    ++host;
  }
}

absl::Status Server::take(wire::ServerOrder order) {
  if (order.has_start()) return start(order.start());
  PACELINE_ASSIGN_OR_RETURN(const Actions actions, log_.take(std::move(order)));
  return act(actions);
}

absl::Status Server::act(const Actions& actions) {
  for (const Action& action : actions)
    PACELINE_RETURN_IF_ERROR(std::visit([this](const auto& one) { return act(one); }, action));
  return absl::OkStatus();
}

// Any thread: it knows nothing of this server's work.
void Server::say_host_lost(const absl::Status& status) {
  wire::ServerMessage failed;
  failed.mutable_failed()->set_error(std::string(status.message()));
  failed.mutable_failed()->set_host_lost(true);
  send(failed);
}

void Server::say_failed(const absl::Status& status, bool host_lost) {
  wire::ServerMessage failed;
  failed.mutable_failed()->set_error(std::string(status.message()));
  failed.mutable_failed()->set_host_lost(host_lost);
  failed.mutable_failed()->set_diverged(diverged_.value());
  failed.mutable_failed()->mutable_not_finite()->Add(not_finite_.begin(), not_finite_.end());
  if (not_here_ && !host_lost) failed.mutable_failed()->set_not_here(*not_here_);
  send(failed);
}

absl::Status Server::act(const CarryOut& turn) {
  const wire::ServerOrder& order = turn.order;
  switch (order.what_case()) {
    case wire::ServerOrder::kMapGradient:
      return map_gradient(order.map_gradient());
    case wire::ServerOrder::kUnmapGradient:
      return unmap_gradient(order.unmap_gradient());
    case wire::ServerOrder::kReleaseReader:
      own().board().release_reader(order.release_reader().reader());
      if (commits_) exchange_->release_reader(order.release_reader().reader());
      return absl::OkStatus();
    case wire::ServerOrder::kWant:
      if (commits_) exchange_->want(order.want().host(), Version(order.want().version()));
      return absl::OkStatus();
    case wire::ServerOrder::kSendEarly:
      return send_early(order.send_early());
    case wire::ServerOrder::kKeep:
      return keep(order.keep());
    case wire::ServerOrder::kDrop:
      own().board().drop(Version(order.drop().version()));
      if (commits_ && !order.drop().checkpoint()) exchange_->drop(Version(order.drop().version()));
      return absl::OkStatus();
    case wire::ServerOrder::kWriteCheckpoint:
      return write_checkpoint(order.write_checkpoint());
    default:
      return absl::InternalError("the coordinator sent an unknown order");
  }
}

absl::Status Server::start(const wire::ServerStart& order) {
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job, config::parse_job(order.job_toml(), "job.toml"));
  index_ = order.shard();
  count_ = order.shard_count();
  evaluator_host_ = order.evaluator_host();
  whole_floats_ = order.whole_floats();
  by_call_ = order.by_call();
  if (!order.mark_file().empty()) {
    // A checkpoint that cannot be written is found out before there is anything to lose.
    PACELINE_RETURN_IF_ERROR(
        store::check_shared(order.mark_file(), order.mark_text(), fmt::format("shard{}", index_)));
  }
  wire::ServerMessage message;
  wire::ServerStarted& started = *message.mutable_started();
  if (order.take_up()) return take_up(order, job);
  const auto first = FirstWeights::of(order);
  if (!first.ok()) {
    started.set_error(std::string(first.status().message()));
    return send(message) ? absl::OkStatus() : coordinator_lost();
  }
  log_ = CommitLog();
  shards_.reset();
  // Memory of an earlier attempt would be there beside the new one.
  left_.reset();
  if (keep_) keep_->clear();
  const auto saved = files(by_call_, order.checkpoint_dir(), {},
                           {order.checkpoint_files().begin(), order.checkpoint_files().end()});
  auto shards = start_shards(order, job, first->weights, *saved, started);
  if (!shards.ok()) return saved->in_words(shards.status());
  shards_ = *std::move(shards);
  if (order.hosts_size() == 0) {
    started.add_board_paths(own().board().path());
    if (card_ != nullptr) {
      started.set_card(card_->uuid());
      started.set_socket(card_->socket());
    }
    started.set_kept(keeps(order, job));
  } else {
    PACELINE_RETURN_IF_ERROR(start_exchange(order, job));
    if (order.first_passed_on() && index_ < 2) PACELINE_RETURN_IF_ERROR(pass_on_first(first->weights));
    exchange_->published(own().version());
    started.mutable_board_paths()->Add(exchange_->boards().begin(), exchange_->boards().end());
  }
  log_.start(order);
  return send(message) ? absl::OkStatus() : coordinator_lost();
}

// Whether the launcher keeps the shard's memory.
bool Server::keeps(const wire::ServerStart& order, const config::JobConfig& job) const {
  return keep_ && card_ == nullptr && order.hosts_size() == 0 && order.copies() <= 1 &&
         KeptShards::can_outlive(job);
}

absl::Status Server::take_up(const wire::ServerStart& order, const config::JobConfig& job) {
  wire::ServerMessage message;
  wire::ServerStarted& started = *message.mutable_started();
  absl::StatusOr<KeptShards> shards = absl::NotFoundError("nothing of it is left");
  if (left_) shards = KeptShards::take_up(order, job, *std::exchange(left_, std::nullopt));
  if (!shards.ok()) {
    started.set_error(std::string(shards.status().message()));
    return send(message) ? absl::OkStatus() : coordinator_lost();
  }
  shards_ = *std::move(shards);
  started.add_board_paths(own().board().path());
  started.set_kept(keeps(order, job));
  log_.start(order);
  return send(message) ? absl::OkStatus() : coordinator_lost();
}

// A job that asks for a card's memory gets it or an error. Any other gets the host's memory instead, and a line.
absl::StatusOr<KeptShards> Server::start_shards(const wire::ServerStart& order, const config::JobConfig& job,
                                                std::span<const float> first, store::CheckpointFiles& saved,
                                                wire::ServerStarted& started) {
  card_.reset();
  if (!order.card().empty()) {
    absl::Status no_card;
    if (auto card = ServersCard::open(order.card(), order.whole_floats()); card.ok()) {
      card_ = *std::move(card);
      auto shards = KeptShards::start(order, job, first, saved, card_.get());
      if (shards.ok() || !absl::IsResourceExhausted(shards.status())) return shards;
      no_card = shards.status();
      card_.reset();
    } else {
      no_card = card.status();
    }
    if (job.memory == config::ShardMemory::kGpu)
      return absl::FailedPreconditionError(
          fmt::format("the weights cannot be in the GPU's memory: {}; write memory = \"host\" in [cluster], "
                      "or take a smaller "
                      "batch if the memory is full",
                      std::string(no_card.message())));
    started.set_why_host(std::string(no_card.message()));
  }
  return KeptShards::start(order, job, first, saved, nullptr, keeps(order, job) ? &*keep_ : nullptr);
}

absl::Status Server::start_exchange(const wire::ServerStart& order, const config::JobConfig& job) {
  if (exchange_ == nullptr) return absl::InternalError("the coordinator speaks of other hosts");
  exchange::ExchangeOptions options;
  options.host = index_;
  if (evaluator_host_ < 0 || evaluator_host_ >= order.hosts_size())
    return absl::InternalError(fmt::format("the coordinator has its evaluator on host {}", evaluator_host_));
  std::vector<ps::Layout> parts;
  for (const wire::HostShard& host : order.hosts()) {
    PACELINE_ASSIGN_OR_RETURN(ps::Layout part, wire::part_from_wire(host.part()));
    PACELINE_ASSIGN_OR_RETURN(exchange::Peer peer, peer_of(host));
    options.peers.push_back(std::move(peer));
    options.part_floats.push_back(part.size());
    options.board_floats.push_back(ps::Shard::board_floats(part, job.look_ahead));
    options.moving.push_back(exchange::moving_blocks(part, options.board_floats.back()));
    parts.push_back(std::move(part));
  }
  std::vector<std::vector<int>> kept =
      numbers_of(config::shards_kept(order.hosts_size(), std::max(1, order.copies())));
  options.kept_here = kept[static_cast<std::size_t>(index_)];
  const bool on_the_way = config::sums_on_the_way(job);
  if (on_the_way && index_ > 0) options.kept_here.push_back(0);
  options.early = config::sends_early(job);
  options.pass_on = on_the_way;
  options.own_board = own().board().path();
  options.readers = order.readers();
  options.kept = KeptShards::kMostKept;
  options.kept_there = [this](Version version) { say_kept(version); };
  options.failed = [this](const absl::Status& status) { say_host_lost(status); };
  PACELINE_RETURN_IF_ERROR(exchange_->start(std::move(options)));
  commits_.emplace(*exchange_, std::move(parts), std::move(kept), index_, on_the_way);
  return absl::OkStatus();
}

// Sends the first weights as a sum of version 0, which no commit makes: they begin with 1.
absl::Status Server::pass_on_first(std::span<const float> weights) {
  constexpr int kKeeper = 0, kSender = 1;
  constexpr Version kFirst(0);
  if (index_ == kSender) {
    for (std::size_t block = 0; block < exchange::block_count(std::ssize(weights)); ++block) {
      const std::int64_t begin = exchange::block_begin(std::ssize(weights), block);
      exchange_->send(kKeeper, kKeeper, kFirst, begin, exchange::block_at(weights, begin));
    }
    return exchange_->flush(kKeeper);
  }
  const float* const first = exchange_->slice(kKeeper, kSender, kFirst);
  PACELINE_RETURN_IF_ERROR(exchange_->wait(kKeeper, kSender, kFirst, 0, whole_floats_));
  PACELINE_RETURN_IF_ERROR(shards_->begin_with({first, static_cast<std::size_t>(whole_floats_)}));
  exchange_->release(kKeeper, kSender, kFirst);
  return absl::OkStatus();
}

absl::Status Server::map_gradient(const wire::MapGradient& order) {
  hosts_[order.replica()] = order.host();
  if (commits_ && order.host() != index_) return say_mapped(order.replica(), "");
  auto reader = memory::GradientReader::open(order.path(), whole_floats_);
  if (!reader.ok()) return say_mapped(order.replica(), std::string(reader.status().message()));
  if (card_ != nullptr) {
    const auto place = card_->gradient(order.replica());
    if (!place.ok()) return say_mapped(order.replica(), std::string(place.status().message()));
  }
  gradients_.insert_or_assign(order.replica(), *std::move(reader));
  return say_mapped(order.replica(), "");
}

absl::Status Server::say_mapped(std::int32_t replica, const std::string& error) {
  wire::ServerMessage mapped;
  mapped.mutable_mapped()->set_replica(replica);
  mapped.mutable_mapped()->set_error(error);
  return send(mapped) ? absl::OkStatus() : coordinator_lost();
}

absl::Status Server::unmap_gradient(const wire::UnmapGradient& order) {
  if (commits_ && gradients_.contains(order.replica())) PACELINE_RETURN_IF_ERROR(commits_->flush());
  if (gradients_.erase(order.replica()) > 0 && card_ != nullptr) card_->free_gradient(order.replica());
  hosts_.erase(order.replica());
  return absl::OkStatus();
}

absl::StatusOr<const float*> Server::gradient(const wire::Apply::Member& member) {
  const auto found = gradients_.find(member.replica());
  if (found == gradients_.end()) {
    not_here_ = member.replica();
    return absl::InternalError(fmt::format("the gradient of replica {} is not here", member.replica()));
  }
  const Clock clock(member.clock());
  if (card_ != nullptr) {
    const absl::Status held = found->second.check(clock);
    if (held.ok()) return card_->gradient(member.replica());
    not_here_ = member.replica();
    return held;
  }
  const auto gradient = found->second.gradient(clock);
  if (gradient.ok()) return gradient->data();
  not_here_ = member.replica();
  return gradient.status();
}

absl::StatusOr<int> Server::host_of(std::int32_t replica) const {
  const auto found = hosts_.find(replica);
  if (found == hosts_.end())
    return absl::FailedPreconditionError(fmt::format("no host has replica {}", replica));
  return found->second;
}

// If the gradient is not on this host, nothing is sent. That becomes an error only when a commit names it; it
// may never be committed.
absl::Status Server::send_early(const wire::SendEarly& order) {
  if (!commits_) return absl::InternalError("the coordinator has a gradient go to other hosts");
  PACELINE_ASSIGN_OR_RETURN(const int host, host_of(order.replica()));
  const float* values = nullptr;
  if (host == index_) {
    const auto found = gradients_.find(order.replica());
    if (found == gradients_.end()) return absl::OkStatus();
    const auto gradient = found->second.gradient(Clock(order.clock()));
    if (!gradient.ok()) return absl::OkStatus();
    values = gradient->data();
  }
  commits_->send_early(host, EarlyNumber(order.number()), values);
  return absl::OkStatus();
}

// The update of this commit, without its members.
ps::Update update_of(const wire::Apply& order) {
  return {.version = Version(order.version()),
          .members = {},
          .learning_rate = order.learning_rate(),
          .fraction = order.fraction(),
          .only_finite = true,
          .of_differences = order.of_differences()};
}

absl::Status Server::act(const Make& make) {
  const wire::Apply& order = make.commit;
  const auto began = std::chrono::steady_clock::now();
  ps::Update update = update_of(order);
  absl::Status applied;
  if (commits_) {
    PACELINE_ASSIGN_OR_RETURN(const auto members, members_of(order));
    applied = commits_->apply(own(), std::move(update), members);
  } else {
    applied = apply_here(order, std::move(update));
  }
  PACELINE_RETURN_IF_ERROR(check_finite(order, own()));
  PACELINE_RETURN_IF_ERROR(applied);
  note(order, began);
  return act(log_.made(Version(order.version())));
}

void Server::note(const wire::Apply& order, std::chrono::steady_clock::time_point began) {
  std::int64_t floats = 0;
  for (const ps::Shard* shard : shards_->all()) floats += shard->layout().size();
  if (floats == 0) return;
  wire::UpdateTime update;
  update.set_version(order.version());
  update.set_took_ns(std::chrono::nanoseconds(std::chrono::steady_clock::now() - began).count());
  update.set_bytes(floats * static_cast<std::int64_t>(sizeof(float)));
  update.set_threads(own().threads());
  update.set_members(order.members_size());
  times_.made(std::move(update));
}

// Before it can become a checkpoint. Nobody looks at gradients for this but then.
absl::Status Server::check_finite(const wire::Apply& order, const ps::Shard& shard) {
  if (shard.finite()) return absl::OkStatus();
  diverged_ = Version(order.version());
  for (const auto& member : order.members()) {
    PACELINE_ASSIGN_OR_RETURN(const float* const place, gradient(member));
    const std::span<const float> part(place + shards_->own_offset(),
                                      static_cast<std::size_t>(shard.layout().size()));
    PACELINE_ASSIGN_OR_RETURN(const std::vector<float> values, shard.read(part));
    if (!ps::all_finite(shard.layout(), values.data())) not_finite_.push_back(member.replica());
  }
  return absl::OutOfRangeError(fmt::format("version {} is not finite", order.version()));
}

absl::Status Server::act(const Prepare& prepare) {
  const wire::Apply& order = prepare.commit;
  const auto began = std::chrono::steady_clock::now();
  PACELINE_ASSIGN_OR_RETURN(const auto members, members_of(order));
  PACELINE_RETURN_IF_ERROR(commits_->prepare(shards_->all(), update_of(order), members));
  for (const ps::Shard* shard : shards_->all()) PACELINE_RETURN_IF_ERROR(check_finite(order, *shard));
  note(order, began);
  return act(log_.prepared(order));
}

absl::Status Server::act(const SendAhead& ahead) {
  PACELINE_ASSIGN_OR_RETURN(const auto members, members_of(ahead.commit));
  return commits_->send(Version(ahead.commit.version()), members);
}

absl::Status Server::act(const Publish& publish) {
  shards_->publish();
  exchange_->published(publish.version);
  return absl::OkStatus();
}

absl::Status Server::apply_here(const wire::Apply& order, ps::Update update) {
  std::vector<const memory::GradientReader*> readers;
  for (const auto& member : order.members()) {
    PACELINE_ASSIGN_OR_RETURN(const float* values, gradient(member));
    update.members.push_back({values + shards_->own_offset(), member.weight(), member.share()});
    readers.push_back(&gradients_.at(member.replica()));
  }
  if (order.group() && !readers.empty()) {
    update.group.emplace(update.version, std::move(readers), whole_floats_, shards_->own_offset());
  }
  return own().apply(update);
}

absl::StatusOr<std::vector<exchange::HostMember>> Server::members_of(const wire::Apply& order) {
  std::vector<exchange::HostMember> members;
  for (const auto& member : order.members()) {
    PACELINE_ASSIGN_OR_RETURN(const int host, host_of(member.replica()));
    members.push_back(
        {host, nullptr, member.weight(), member.share(), member.waits(), EarlyNumber(member.early())});
  }
  for (std::size_t i = 0; i < members.size(); ++i) {
    exchange::HostMember& one = members[i];
    if (one.host != index_ || !commits_->reads(one, members)) continue;
    PACELINE_ASSIGN_OR_RETURN(one.gradient, gradient(order.members(static_cast<int>(i))));
  }
  return members;
}

absl::Status Server::keep(const wire::Keep& order) {
  const Version version(order.version());
  PACELINE_RETURN_IF_ERROR(order.again() && version < own().version() ? own().board().keep_again(version)
                                                                      : own().board().keep(version));
  // The evaluator reads it on its own host, if there is anything to read.
  if (commits_ && index_ != evaluator_host_ && own().layout().size() > 0) {
    exchange_->keep(evaluator_host_, version);
    return absl::OkStatus();
  }
  return say_kept(version) ? absl::OkStatus() : coordinator_lost();
}

bool Server::say_kept(Version version) {
  wire::ServerMessage kept;
  kept.mutable_kept()->set_version(version.value());
  return send(kept);
}

absl::Status Server::write_checkpoint(const wire::WriteCheckpoint& order) {
  const Version version(order.version());
  PACELINE_RETURN_IF_ERROR(own().board().keep(version));
  // The weights stay as they are; the optimizer's state moves on with the next commit, so it is copied. The
  // files are written beside training.
  PACELINE_ASSIGN_OR_RETURN(ps::OptimizerState state, own().read_state());
  write_beside([this, dir = order.dir(), version, places = own().kept_weights(version),
                state = std::move(state)](const std::stop_token& stop) {
    const auto checkpoint = files(by_call_, dir, stop);
    const absl::Status status = write_shard(*checkpoint, places, state);
    wire::ServerMessage written;
    written.mutable_written()->set_version(version.value());
    if (!status.ok()) written.mutable_written()->set_error(std::string(status.message()));
    send(written);
  });
  return absl::OkStatus();
}

absl::Status Server::write_shard(store::CheckpointFiles& checkpoint, std::span<const float> places,
                                 const ps::OptimizerState& state) const {
  std::vector<float> read;
  if (card_ != nullptr) {
    PACELINE_ASSIGN_OR_RETURN(read, own().read(places));
    places = read;
  }
  return store::write_shard(checkpoint, index_ + 1, count_, own().layout(), places, state);
}

std::unique_ptr<store::CheckpointFiles> Server::files(bool by_call, const std::string& dir,
                                                      std::stop_token stop,
                                                      std::vector<std::string> names) const {
  if (!by_call) return std::make_unique<store::FolderFiles>(dir);
  return std::make_unique<peer::CalledFiles>(stub_, access_, dir, std::move(names), std::move(stop));
}

// Nothing changes any more: no commit is made after this.
absl::Status Server::act(const WriteCopy& copy) {
  if (copy.publish) shards_->publish();
  write_beside([this, copy](const std::stop_token& stop) {
    const auto checkpoint = files(copy.by_call, copy.dir, stop);
    const absl::Status status = shards_->write(copy.shard.value(), copy.version, *checkpoint);
    wire::ServerMessage written;
    written.mutable_copy_written()->set_shard(copy.shard.value());
    written.mutable_copy_written()->set_error(std::string(status.message()));
    send(written);
  });
  return absl::OkStatus();
}

}  // namespace

absl::Status run_server(const ServerRoleOptions& options) {
  Kept kept;
  if (options.keep.size() == 2)
    kept.keep.emplace(FileDescriptor(options.keep[0]), FileDescriptor(options.keep[1]));
  const absl::Status outcome = peer::with_coordinator(
      options.reach, security::Role::kServer,
      [&](peer::Stub& stub, const rpc::Access& access) -> absl::Status {
        wire::ServerMessage hello;
        hello.mutable_hello()->set_shard(options.shard);
        const auto held = kept.log.ballot();
        if (held) *hello.mutable_hello()->mutable_ballot() = *held;
        if (!held) {
          kept.log = {};
          kept.shards.reset();
          kept.card.reset();
          if (kept.keep) kept.left = LeftShard::look(*kept.keep);
        }
        if (kept.left) *hello.mutable_hello()->mutable_kept() = kept.left->about;
        std::unique_ptr<exchange::Exchange> exchange;
        if (!options.exchange.empty()) {
          PACELINE_ASSIGN_OR_RETURN(const auto fabric,
                                    links::fabric_of_host(options.fabric, options.exchange));
          PACELINE_ASSIGN_OR_RETURN(
              exchange, exchange::Exchange::listen(options.exchange, fabric, peer::warn_of_refused));
          hello.mutable_hello()->set_exchange(exchange->address());
          hello.mutable_hello()->set_fabric(std::string(links::name_of(fabric)));
        }
        ServerConnection connection([&](grpc::ClientContext* context) {
          rpc::introduce(*context, access);
          return stub.Serve(context);
        });
        const bool said = connection.send(hello);
        UpdateTimes times;
        Server server(connection, stub, access, kept, times, std::move(exchange));
        const peer::Heartbeats beats(connection, [&](wire::ServerMessage& beat) {
          times.move_to(beat);
          if (beat.heartbeat().resident_bytes() > 0) server.report_traffic(*beat.mutable_heartbeat());
        });
        return peer::end_of_session(connection, said ? server.serve() : coordinator_lost());
      });
  return wire::is_stop(outcome) ? wire::end_of_stopped(outcome) : outcome;
}

}  // namespace paceline::server
