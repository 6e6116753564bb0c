#include "paceline/rpc/coordinator_server.h"

#include <utility>

#include <grpc/support/log.h>

#include "paceline/rpc/paceline.grpc.pb.h"

namespace paceline::rpc {

class CoordinatorServer::Service final : public wire::Coordinator::CallbackService {
 public:
  Service(EventLoop& loop, rpc::Coordinator& coordinator, StatusSource status)
      : loop_(loop), coordinator_(coordinator), status_(std::move(status)) {}

  grpc::ServerBidiReactor<wire::WorkerMessage, wire::WorkerOrder>* Work(
      grpc::CallbackServerContext*) override {
    return WorkerStream::start(loop_, coordinator_);
  }
  grpc::ServerBidiReactor<wire::ServerMessage, wire::ServerOrder>* Serve(
      grpc::CallbackServerContext*) override {
    return ServerStream::start(loop_, coordinator_);
  }
  grpc::ServerBidiReactor<wire::EvaluatorMessage, wire::EvaluatorOrder>* Evaluate(
      grpc::CallbackServerContext*) override {
    return EvaluatorStream::start(loop_, coordinator_);
  }

  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext* context, const wire::StatusRequest* request,
                                   wire::StatusReply* reply) override {
    auto* reactor = context->DefaultReactor();
    const bool posted = loop_.post([this, request, reply, reactor] {
      status_(*request, *reply);
      reactor->Finish(grpc::Status::OK);
    });
    if (!posted) reactor->Finish({grpc::StatusCode::UNAVAILABLE, "the job is over"});
    return reactor;
  }

  grpc::ServerUnaryReactor* Stop(grpc::CallbackServerContext* context, const wire::StopRequest* request,
                                 wire::StopReply*) override {
    loop_.post([this, why = request->why()] { coordinator_.ask_stop(why); });
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

 private:
  EventLoop& loop_;
  rpc::Coordinator& coordinator_;
  StatusSource status_;
};

CoordinatorServer::CoordinatorServer() = default;

absl::StatusOr<std::unique_ptr<CoordinatorServer>> CoordinatorServer::start(const std::string& address,
                                                                            EventLoop& loop,
                                                                            Coordinator& coordinator,
                                                                            StatusSource status) {
  auto made = std::unique_ptr<CoordinatorServer>(new CoordinatorServer());
  made->service_ = std::make_unique<Service>(loop, coordinator, std::move(status));
  int port = 0;
  grpc::ServerBuilder builder;
  // gRPC's default lets two servers share one port, which would hide that it is taken.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
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
