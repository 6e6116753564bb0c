#include "paceline/rpc/coordinator_server.h"

#include <utility>

#include <grpc/support/log.h>

#include "paceline/rpc/paceline.grpc.pb.h"

namespace paceline::rpc {

namespace {
constexpr int kLeastPing_ms = 1000;
}  // namespace

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
  int port = 0;
  grpc::ServerBuilder builder;
  // gRPC's default lets two servers share one port, which would hide that it is taken.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Peers ask every few seconds whether this host is still there.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kLeastPing_ms);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  builder.AddListeningPort(address, credentials, &port);
  builder.RegisterService(made->service_.get());
  // What gRPC itself would print of an address that cannot be used, the error below says.
  gpr_set_log_function([](gpr_log_func_args*) {});
  made->server_ = builder.BuildAndStart();
  gpr_set_log_function(nullptr);
  if (made->server_ == nullptr || port == 0) {
    return absl::UnavailableError(fmt::format(
        "network.listen: cannot listen on '{}': the port is taken or the address is not this machine's; "
        "write \"127.0.0.1:0\" for any free port",
        address));
  }
  made->address_ = fmt::format("{}:{}", address.substr(0, address.rfind(':')), port);
  return made;
}

CoordinatorServer::~CoordinatorServer() {
  if (server_ != nullptr)
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
}

}  // namespace paceline::rpc
