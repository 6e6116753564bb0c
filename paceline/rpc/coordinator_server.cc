#include "paceline/rpc/coordinator_server.h"

#include <utility>

#include "paceline/base/status_macros.h"
#include "paceline/rpc/paceline.grpc.pb.h"

namespace paceline::rpc {

using security::Role;

class CoordinatorServer::Service final : public wire::Coordinator::CallbackService {
 public:
  Service(EventLoop& loop, rpc::Coordinator& coordinator, Door door)
      : loop_(loop), coordinator_(coordinator), door_(std::move(door)) {}

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

  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext* context, const wire::StatusRequest* request,
                                   wire::StatusReply* reply) override {
    auto* reactor = context->DefaultReactor();
    if (refused(*context, Role::kOperator, *reactor)) return reactor;
    const bool posted = loop_.post([this, request, reply, reactor] {
      door_.status(*request, *reply);
      reactor->Finish(grpc::Status::OK);
    });
    if (!posted) reactor->Finish({grpc::StatusCode::UNAVAILABLE, "the job is over"});
    return reactor;
  }

  grpc::ServerUnaryReactor* Stop(grpc::CallbackServerContext* context, const wire::StopRequest* request,
                                 wire::StopReply*) override {
    auto* reactor = context->DefaultReactor();
    if (refused(*context, Role::kOperator, *reactor)) return reactor;
    loop_.post([this, why = request->why()] { coordinator_.ask_stop(why); });
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

 private:
  grpc::Status check(const grpc::CallbackServerContext& context, Role role) const {
    grpc::Status admitted = rpc::admit(context, door_.access, {role});
    if (!admitted.ok())
      door_.notice(fmt::format("refused a process at {}: {}", context.peer(), admitted.error_message()));
    return admitted;
  }

  template <class Stream, class In, class Out>
  grpc::ServerBidiReactor<In, Out>* admit(const grpc::CallbackServerContext& context, Role role) {
    const grpc::Status admitted = check(context, role);
    if (!admitted.ok()) return new RefusedStream<In, Out>(admitted);
    return Stream::start(loop_, coordinator_, context.peer());
  }

  bool refused(const grpc::CallbackServerContext& context, Role role,
               grpc::ServerUnaryReactor& reactor) const {
    const grpc::Status admitted = check(context, role);
    if (!admitted.ok()) reactor.Finish(admitted);
    return !admitted.ok();
  }

  EventLoop& loop_;
  rpc::Coordinator& coordinator_;
  const Door door_;
};

CoordinatorServer::CoordinatorServer() = default;

absl::StatusOr<std::unique_ptr<CoordinatorServer>> CoordinatorServer::start(const std::string& address,
                                                                            EventLoop& loop,
                                                                            Coordinator& coordinator,
                                                                            Door door) {
  auto made = std::unique_ptr<CoordinatorServer>(new CoordinatorServer());
  const auto credentials = server_credentials(door.access);
  made->service_ = std::make_unique<Service>(loop, coordinator, std::move(door));
  PACELINE_ASSIGN_OR_RETURN(made->port_, Port::open(address, credentials, *made->service_));
  return made;
}

CoordinatorServer::~CoordinatorServer() = default;

}  // namespace paceline::rpc
