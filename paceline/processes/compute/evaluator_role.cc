#include "paceline/processes/compute/evaluator_role.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>

#include <absl/cleanup/cleanup.h>
#include <spdlog/spdlog.h>

#include "paceline/base/status_macros.h"
#include "paceline/formats/config/job_config.h"
#include "paceline/processes/compute/board_readers.h"
#include "paceline/processes/compute/own_engine.h"
#include "paceline/processes/peer/heartbeats.h"
#include "paceline/processes/peer/peer.h"

namespace paceline::compute {

namespace {

// Workers come first: the evaluator gets what they leave.
constexpr int kLowestPriority = 19;
// How long the end of a session may take to be seen here, at that priority on a busy machine.
constexpr std::chrono::seconds kEndPatience{60};

struct Evaluator {
  peer::EvaluatorConnection& connection;
  OwnEngine& own;
  config::JobConfig job = {};
  engine::Engine* engine = nullptr;
  std::optional<BoardReaders> boards = {};
  std::vector<engine::Memory> shared = {};

  void forget();
  absl::Status prepare(const wire::Welcome& welcome);
  absl::Status open(const wire::Boards& order);
  absl::Status evaluate(Version version);
  absl::Status carry_out(const wire::EvaluatorOrder& order);
};

absl::Status Evaluator::prepare(const wire::Welcome& welcome) {
  PACELINE_ASSIGN_OR_RETURN(job, own.job_of(welcome.job_toml()));
  constexpr int kThreads = 1;
  PACELINE_ASSIGN_OR_RETURN(engine, own.of(job, "evaluator", kThreads));
  wire::EvaluatorMessage message;
  message.mutable_prepared()->set_card(engine->card().uuid);
  return connection.send(message) ? absl::OkStatus() : wire::coordinator_lost();
}

absl::Status Evaluator::open(const wire::Boards& order) {
  auto opened = BoardReaders::open(order, engine->layout(), job.look_ahead);
  // Servers of a coordinator that is gone may have other memory by now under the names in its order.
  if (!opened.ok()) return absl::NotFoundError(opened.status().message());
  boards = *std::move(opened);
  forget();
  for (const engine::Memory& memory : boards->memories()) {
    engine->share(memory);
    shared.push_back(memory);
  }
  return absl::OkStatus();
}

void Evaluator::forget() {
  for (const engine::Memory& memory : shared) engine->forget(memory.base);
  shared.clear();
}

absl::Status Evaluator::evaluate(Version version) {
  const auto weights = boards->pin_exactly(version);
  // The order may be of a coordinator that is gone, whose servers have let go of the version.
  if (!weights) return absl::NotFoundError(fmt::format("version {} is not kept", version));
  const auto began = std::chrono::steady_clock::now();
  const auto result =
      engine->evaluate(weights->tensors, job.evaluate_batch, [&] { return !connection.ended(); });
  boards->unpin();
  // The evaluation stops with the session, and is no error of its own: the next coordinator asks again.
  if (!result.ok() && connection.ended()) return wire::coordinator_lost();
  PACELINE_RETURN_IF_ERROR(result.status());
  wire::EvaluatorMessage message;
  message.mutable_evaluated()->set_version(version.value());
  message.mutable_evaluated()->set_took_ns(Duration(std::chrono::steady_clock::now() - began).count());
  message.mutable_evaluated()->set_loss(result->loss);
  message.mutable_evaluated()->set_accuracy(result->accuracy);
  message.mutable_evaluated()->mutable_metrics()->insert(result->metrics.begin(), result->metrics.end());
  return connection.send(message) ? absl::OkStatus() : wire::coordinator_lost();
}

absl::Status Evaluator::carry_out(const wire::EvaluatorOrder& order) {
  if (order.has_welcome()) return prepare(order.welcome());
  if (order.has_boards() && engine != nullptr) return open(order.boards());
  if (order.has_evaluate() && boards) return evaluate(Version(order.evaluate().version()));
  return absl::InternalError("the coordinator answered out of turn");
}

// Not before the hello, which the end of a run waits for. On Linux this is for the calling thread and those that it
// starts from now on: the heartbeats of the first session stay at normal priority.
void take_lowest_priority() {
  errno = 0;  // -1 may be the priority
  if (nice(kLowestPriority) == -1 && errno != 0) spdlog::warn("the evaluator runs at normal priority");
}

absl::Status serve(peer::EvaluatorConnection& connection, OwnEngine& own) {
  wire::EvaluatorMessage hello;
  hello.mutable_hello();
  if (!connection.send(hello)) return wire::coordinator_lost();
  take_lowest_priority();
  Evaluator evaluator{connection, own};
  const absl::Cleanup forget = [&] { evaluator.forget(); };
  while (true) {
    while (!connection.wait(OwnEngine::kLook)) {
      if (const absl::Status alive = own.check_alive(); !alive.ok())
        return peer::unless_over(connection, alive);
    }
    const auto order = connection.next();
    if (!order) return wire::coordinator_lost();
    if (order->has_disconnect()) return wire::outcome_of_job(order->disconnect());
    const absl::Status outcome = evaluator.carry_out(*order);
    if (!outcome.ok()) return peer::unless_over(connection, outcome, kEndPatience);
  }
}

}  // namespace

absl::Status run_evaluator(const peer::PeerOptions& options, const std::string& job_file) {
  OwnEngine engine(OwnEngine::Use::kEvaluate, job_file);
  const absl::Status outcome = peer::with_coordinator(
      options, security::Role::kEvaluator, [&](peer::Stub& stub, const rpc::Access& access) {
        peer::EvaluatorConnection connection([&](grpc::ClientContext* context) {
          rpc::introduce(*context, access);
          return stub.Evaluate(context);
        });
        const peer::Heartbeats heartbeats(connection);
        return peer::end_of_session(connection, serve(connection, engine));
      });
  if (wire::is_stop(outcome)) return wire::end_of_stopped(outcome);
  PACELINE_RETURN_IF_ERROR(outcome);
  return engine.end(false);
}

}  // namespace paceline::compute
