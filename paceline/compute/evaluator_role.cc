#include "paceline/compute/evaluator_role.h"

#include <unistd.h>

#include <spdlog/spdlog.h>

#include "paceline/base/status_macros.h"
#include "paceline/compute/board_readers.h"
#include "paceline/config/job_config.h"
#include "paceline/roles/beats.h"
#include "paceline/roles/peer.h"
#include "paceline/train/replica.h"
#include "paceline/train/threads.h"

namespace paceline::compute {

namespace {

// Workers come first: the evaluator gets what they leave.
constexpr int kLowestPriority = 19;

struct Evaluator {
  roles::EvaluatorConnection& connection;
  config::JobConfig job;
  train::DataSets data;
  std::unique_ptr<train::Replica> replica;
  std::optional<BoardReaders> boards;

  absl::Status prepare(const rpc::wire::Welcome& welcome);
  absl::Status evaluate(Version version);
  absl::Status carry_out(const rpc::wire::EvaluatorOrder& order);
};

absl::Status Evaluator::prepare(const rpc::wire::Welcome& welcome) {
  PACELINE_ASSIGN_OR_RETURN(job, config::parse_job(welcome.job_toml(), "job.toml"));
  train::use_threads(1);
  PACELINE_ASSIGN_OR_RETURN(data, train::load_data(job.data, job.model.context));
  PACELINE_ASSIGN_OR_RETURN(
      replica, train::Replica::create(job.model, data.test->sample_shape(), data.test->classes(), job.seed));
  return absl::OkStatus();
}

absl::Status Evaluator::evaluate(Version version) {
  const auto weights = boards->pin_exactly(version);
  if (!weights) return absl::FailedPreconditionError(fmt::format("version {} is not kept", version));
  const auto result = replica->evaluate(*data.test, weights->tensors, job.evaluate_batch,
                                        [&] { return !connection.ended(); });
  boards->unpin();
  PACELINE_RETURN_IF_ERROR(result.status());
  rpc::wire::EvaluatorMessage message;
  message.mutable_evaluated()->set_version(version.value());
  message.mutable_evaluated()->set_loss(result->loss);
  message.mutable_evaluated()->set_accuracy(result->accuracy);
  return connection.send(message) ? absl::OkStatus() : roles::coordinator_lost();
}

absl::Status Evaluator::carry_out(const rpc::wire::EvaluatorOrder& order) {
  if (order.has_welcome()) return prepare(order.welcome());
  if (order.has_boards() && replica != nullptr) {
    PACELINE_ASSIGN_OR_RETURN(boards, BoardReaders::open(order.boards(), replica->layout(), job.look_ahead));
    return absl::OkStatus();
  }
  if (order.has_evaluate() && boards) return evaluate(Version(order.evaluate().version()));
  return absl::InternalError("the coordinator answered out of turn");
}

absl::Status serve(roles::EvaluatorConnection& connection) {
  rpc::wire::EvaluatorMessage hello;
  hello.mutable_hello();
  if (!connection.send(hello)) return roles::coordinator_lost();
  Evaluator evaluator{connection, {}, {}, nullptr, std::nullopt};
  while (auto order = connection.next()) {
    if (order->has_goodbye()) return roles::farewell(order->goodbye());
    PACELINE_RETURN_IF_ERROR(evaluator.carry_out(*order));
  }
  return roles::coordinator_lost();
}

}  // namespace

absl::Status run_evaluator(const roles::PeerOptions& options) {
  if (nice(kLowestPriority) == -1) spdlog::warn("the evaluator runs at normal priority");
  return roles::with_coordinator(options, security::Role::kEvaluator,
                                 [&](roles::Stub& stub, const rpc::Access& access) {
                                   roles::EvaluatorConnection connection([&](grpc::ClientContext* context) {
                                     rpc::show_token(*context, access);
                                     return stub.Evaluate(context);
                                   });
                                   const roles::Beats beats(connection);
                                   return roles::end_of_stay(connection, serve(connection));
                                 });
}

}  // namespace paceline::compute
