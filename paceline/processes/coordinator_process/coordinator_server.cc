#include "paceline/processes/coordinator_process/coordinator_server.h"

#include <utility>

#include "paceline/base/status_macros.h"
#include "paceline/formats/wire/paceline.grpc.pb.h"
#include "paceline/formats/wire/status.h"
#include "paceline/processes/rpc/single_call.h"
#include "paceline/records/store/strict_json.h"

namespace paceline::coordinator_process {

using security::Role;

namespace {

StopCause cause_of(const wire::StopRequest& request) {
  switch (request.cause()) {
    case wire::StopRequest::INTERRUPTED:
      return StopCause::kInterrupted;
    case wire::StopRequest::SHUT_DOWN:
      return StopCause::kShutDown;
    default:
      return StopCause::kAsked;
  }
}

}  // namespace

class CoordinatorServer::Service final : public wire::Coordinator::CallbackService {
 public:
  Service(EventLoop& loop, coordinator_process::Coordinator* coordinator, Options options)
      : loop_(loop),
        coordinator_(coordinator),
        options_(std::move(options)),
        places_(options_.most_streams) {}

  grpc::ServerBidiReactor<wire::WorkerMessage, wire::WorkerOrder>* Work(
      grpc::CallbackServerContext* context) override {
    return admit<WorkerStream, wire::WorkerMessage, wire::WorkerOrder>(*context, Role::kWorker);
  }
  grpc::ServerBidiReactor<wire::ServerMessage, wire::ServerOrder>* Serve(
      grpc::CallbackServerContext* context) override {
    return admit<ServerStream, wire::ServerMessage, wire::ServerOrder>(*context, Role::kServer);
  }
  grpc::ServerBidiReactor<wire::EvaluatorMessage, wire::EvaluatorOrder>* Evaluate(
      grpc::CallbackServerContext* context) override {
    return admit<EvaluatorStream, wire::EvaluatorMessage, wire::EvaluatorOrder>(*context, Role::kEvaluator);
  }

  grpc::ServerBidiReactor<wire::FileMessage, wire::FileMessage>* File(
      grpc::CallbackServerContext* context) override {
    return serve(*context, {Role::kServer, Role::kOperator}, options_.file);
  }
  grpc::ServerBidiReactor<wire::KeeperMessage, wire::KeepOrder>* Keep(
      grpc::CallbackServerContext* context) override {
    return serve(*context, {Role::kOperator}, options_.keep);
  }

  grpc::ServerBidiReactor<wire::StatusRequest, wire::StatusReply>* Status(
      grpc::CallbackServerContext* context) override {
    const grpc::Status admitted = check(*context, {Role::kOperator}, Program::kAny);
    return rpc::SingleCall<wire::StatusRequest, wire::StatusReply>::start(admitted, [this](auto& call) {
      const bool posted = loop_.post([this, &call] {
        wire::StatusReply reply;
        options_.status(call.request(), reply);
        call.answer(std::move(reply));
      });
      if (!posted) call.fail({grpc::StatusCode::UNAVAILABLE, "the job is over"});
    });
  }

  grpc::ServerBidiReactor<wire::StopRequest, wire::StopReply>* Stop(
      grpc::CallbackServerContext* context) override {
    const grpc::Status admitted = check(*context, {Role::kOperator}, Program::kAny);
    return rpc::SingleCall<wire::StopRequest, wire::StopReply>::start(admitted, [this](auto& call) {
      const bool posted = loop_.post([this, &call] {
        // An attempt that is over takes no orders, and the next one would not know of this one.
        if (coordinator_ == nullptr || coordinator_->attempt().can_go_on())
          return call.fail({grpc::StatusCode::ABORTED, "the run is between two attempts"});
        order(call.request());
        call.answer({});
      });
      if (!posted)
        call.fail({grpc::StatusCode::ABORTED, "the job is over, or the run is between two attempts"});
    });
  }

  grpc::ServerBidiReactor<wire::EvaluateNowRequest, wire::EvaluateNowReply>* EvaluateNow(
      grpc::CallbackServerContext* context) override {
    const grpc::Status admitted = check(*context, {Role::kOperator}, Program::kAny);
    return rpc::SingleCall<wire::EvaluateNowRequest,
                           wire::EvaluateNowReply>::start(admitted, [this](auto& call) {
      const bool posted = loop_.post([this, &call] {
        if (coordinator_ == nullptr)
          return call.fail({grpc::StatusCode::UNAVAILABLE, "the run is between two attempts"});
        const absl::StatusOr<Version> version = coordinator_->ask_evaluation();
        if (!version.ok())
          return call.fail({grpc::StatusCode::FAILED_PRECONDITION, std::string(version.status().message())});
        wire::EvaluateNowReply reply;
        reply.set_version(version->value());
        call.answer(std::move(reply));
      });
      if (!posted) call.fail({grpc::StatusCode::UNAVAILABLE, "the job is over"});
    });
  }

 private:
  void order(const wire::StopRequest& request) {
    const std::string why = store::printable(request.why(), store::kLongestError);
    if (request.has_give_way_to()) {
      const wire::StopRequest::Leader& to = request.give_way_to();
      return coordinator_->give_way(
          {HostRank(to.host()), store::printable(to.address(), store::kLongestError)});
    }
    if (request.checkpoint()) return coordinator_->ask_checkpoint(why);
    coordinator_->ask_stop(why, store::printable(request.cannot_start(), store::kLongestError),
                           cause_of(request));
  }

  // A process that only looks at the job, or stops it, may have another version.
  enum class Program { kThis, kAny };
  grpc::Status check(const grpc::CallbackServerContext& context, const std::vector<Role>& roles,
                     Program program = Program::kThis) const {
    grpc::Status admitted = rpc::admit(context, options_.access, roles);
    if (admitted.ok() && program == Program::kThis) admitted = rpc::same_program(context);
    if (!admitted.ok())
      options_.notice(fmt::format("refused a process at {}: {}", context.peer(), admitted.error_message()));
    return admitted;
  }

  template <class Stream, class In, class Out>
  grpc::ServerBidiReactor<In, Out>* admit(grpc::CallbackServerContext& context, Role role) {
    const grpc::Status admitted = check(context, {role});
    if (!admitted.ok()) return new rpc::RefusedStream<In, Out>(admitted);
    if (coordinator_ == nullptr) return rpc::hold_stream<In, Out>(places_);
    return rpc::start_stream<Stream, In, Out>(loop_, *coordinator_, context, places_);
  }

  // Serves the call on a thread of its own.
  template <class In, class Out>
  grpc::ServerBidiReactor<In, Out>* serve(
      grpc::CallbackServerContext& context, const std::vector<Role>& roles,
      const std::function<absl::Status(rpc::BlockingCall<In, Out>&)>& serve_call) {
    const grpc::Status admitted = check(context, roles);
    if (!admitted.ok()) return new rpc::RefusedStream<In, Out>(admitted);
    if (coordinator_ == nullptr) return rpc::hold_stream<In, Out>(places_);
    auto place = places_.take();
    if (place == nullptr) return new rpc::RefusedStream<In, Out>(rpc::no_place_left());
    return rpc::BlockingCall<In, Out>::start(context, std::move(place),
                                             [&](auto& call) { return wire::to_grpc(serve_call(call)); });
  }

  EventLoop& loop_;
  coordinator_process::Coordinator* const coordinator_;
  const Options options_;
  rpc::StreamPlaces places_;
};

CoordinatorServer::CoordinatorServer() = default;

absl::StatusOr<std::unique_ptr<CoordinatorServer>> CoordinatorServer::start(ListeningSocket listening,
                                                                            EventLoop& loop,
                                                                            Coordinator* coordinator,
                                                                            Options options) {
  auto made = std::unique_ptr<CoordinatorServer>(new CoordinatorServer());
  made->service_ = std::make_unique<Service>(loop, coordinator, options);
  PACELINE_ASSIGN_OR_RETURN(
      made->port_, rpc::Port::open(std::move(listening), options.access, *made->service_, options.notice));
  return made;
}

CoordinatorServer::~CoordinatorServer() = default;

}  // namespace paceline::coordinator_process
