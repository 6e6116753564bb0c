#include "paceline/processes/coordinator_process/coordinator.h"

#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/decisions/control/observer.h"
#include "paceline/formats/wire/coordinator_messages.h"
#include "paceline/formats/wire/coordinator_orders.h"

namespace paceline::coordinator_process {

namespace {

template <class... Cases>
struct ByType : Cases... {
  using Cases::operator()...;
};

}  // namespace

Coordinator::Coordinator(EventLoop& loop, CoordinatorOptions options)
    : loop_(loop),
      options_(std::move(options)),
      attempt_(options_.attempt, std::chrono::steady_clock::now()),
      timer_(loop, [this] { take(coordinator::WokeUp{}); }),
      awaits_copy_(options_.attempt.awaits_copy) {}

// ---- Events ----

template <class Peer, class Stream>
Peer Coordinator::peer_of(Connections<Peer, Stream>& all, const typename Stream::Pointer& stream) {
  const auto [found, is_new] = all.peers.try_emplace(stream.get(), Peer(next_peer_));
  if (is_new) all.streams.emplace(Peer(next_peer_++), stream);
  return found->second;
}

template <class Gone, class Peer, class Stream>
void Coordinator::remove(Connections<Peer, Stream>& all, const typename Stream::Pointer& stream) {
  const auto found = all.peers.find(stream.get());
  if (found == all.peers.end()) {
    // This happens after a message that cannot be read, or one that is too long.
    return options_.notice(
        fmt::format("refused a process at {}: it ended without a word that makes sense", stream->peer()));
  }
  const Peer peer = found->second;
  all.peers.erase(found);
  all.streams.erase(peer);
  take(Gone{peer});
}

void Coordinator::received(const WorkerStream::Pointer& stream, wire::WorkerMessage message) {
  take(coordinator::WorkerSaid{peer_of(workers_, stream), wire::from_wire(message), stream->peer()});
}

void Coordinator::received(const ServerStream::Pointer& stream, wire::ServerMessage message) {
  take(coordinator::ServerSaid{peer_of(servers_, stream), wire::from_wire(message), stream->peer()});
}

void Coordinator::received(const EvaluatorStream::Pointer& stream, wire::EvaluatorMessage message) {
  take(coordinator::EvaluatorSaid{peer_of(evaluators_, stream), wire::from_wire(message), stream->peer()});
}

void Coordinator::closed(const WorkerStream::Pointer& stream) {
  remove<coordinator::WorkerGone>(workers_, stream);
}

void Coordinator::closed(const ServerStream::Pointer& stream) {
  remove<coordinator::ServerGone>(servers_, stream);
}

void Coordinator::closed(const EvaluatorStream::Pointer& stream) {
  remove<coordinator::EvaluatorGone>(evaluators_, stream);
}

absl::StatusOr<Version> Coordinator::ask_evaluation() {
  const absl::StatusOr<Version> version = attempt_.next_to_measure();
  if (version.ok()) take(coordinator::EvaluationWanted{});
  return version;
}

void Coordinator::take(decltype(coordinator::Event::what) what) {
  carry_out(attempt_.take({std::chrono::steady_clock::now(), std::move(what)}));
}

// ---- Actions ----

void Coordinator::carry_out(std::vector<coordinator::Action> actions) {
  for (coordinator::Action& action : actions) {
    Answer answer = carry_out(action);
    if (!answer) continue;
    const bool recording_failed = std::holds_alternative<coordinator::RecordingFailed>(*answer);
    take(*std::move(answer));
    if (recording_failed) return;
  }
}

void Coordinator::tick() {
  if (awaits_copy_ && !options_.awaits_copy()) {
    awaits_copy_ = false;
    take(coordinator::RestartKept{});
  }
  take(coordinator::TimePassed{});
}

template <class Peer, class Stream, class Order>
void Coordinator::send(const Connections<Peer, Stream>& all, Peer to, Order order, bool last) {
  const auto found = all.streams.find(to);
  if (found == all.streams.end()) return;  // the peer has gone; the event that says so is under way
  found->second->send(std::move(order));
  if (last) found->second->close();
}

Coordinator::Answer Coordinator::carry_out(coordinator::Action& action) {
  using coordinator::CheckpointCounted, coordinator::CheckpointOpened;
  Answer answer;
  std::visit(
      ByType{
          [&](const coordinator::SendWorker& one) {
            send(workers_, one.to, wire::to_wire(one.order), one.last);
          },
          [&](const coordinator::SendServer& one) {
            send(servers_, one.to, wire::to_wire(one.order), one.last);
          },
          [&](const coordinator::SendServers& all) {
            const wire::ServerOrder order = wire::to_wire(all.order);
            for (const coordinator::ServerPeer to : all.to) send(servers_, to, order);
          },
          [&](const coordinator::SendEvaluator& one) {
            send(evaluators_, one.to, wire::to_wire(one.order), one.last);
          },
          [&](const coordinator::HangUp& one) {
            if (const auto found = evaluators_.streams.find(one.peer); found != evaluators_.streams.end())
              found->second->close();
          },
          [&](const coordinator::Begin& begin) {
            witnesses_.emplace(control::Observer(begin.bounds, begin.config.dataset_size,
                                                 begin.config.total_samples, begin.state),
                               options_.listeners);
            options_.on_data_known(begin);
          },
          [&](const coordinator::Record& record) {
            const auto complaint = witnesses_->record(record.fact, record.orders);
            PACELINE_CHECK(!complaint, "{}", *complaint);
          },
          [&](const coordinator::FlushRecords&) {
            if (absl::Status kept = options_.flush_records(); !kept.ok())
              answer = coordinator::RecordingFailed{std::move(kept)};
          },
          [&](const coordinator::WakeUp& wake) { timer_.set(wake.at); },
          [&](const coordinator::OpenCheckpoint& open) {
            answer = CheckpointOpened{options_.checkpoints->begin(open.version)};
          },
          [&](const coordinator::CountCheckpoint& count) {
            answer = CheckpointCounted{options_.checkpoints->finish(count.state, count.elapsed)};
          },
          [&](const coordinator::DropCheckpoint&) { options_.checkpoints->give_up(); },
          [&](const control::Evaluated& evaluated) { witnesses_->evaluated(evaluated); },
          [&](const control::ProcessReport& report) { options_.on_process(report); },
          [&](const control::SideWork& work) { witnesses_->side_work(work); },
          [&](const control::SearchPlan& search) {
            searcher_ = std::jthread([this, search] {
              loop_.post(
                  [this, result = control::searched(search)] { take(coordinator::PlanFound{result}); });
            });
          },
          [&](const coordinator::Tell& tell) {
            (tell.remember ? options_.news : options_.notice)(tell.line);
          },
          [&](const coordinator::NoteShardLengths& note) { options_.on_shard_lengths(note.lengths); },
          [&](const coordinator::NothingLost&) { options_.nothing_lost(); },
          [&](const coordinator::End&) { loop_.stop(); },
      },
      action);
  return answer;
}

}  // namespace paceline::coordinator_process
