// A call of one request and one reply whose caller is known before a byte of the request is read. gRPC's own
// unary calls read the request first.
#pragma once

#include <functional>
#include <utility>

#include <grpcpp/grpcpp.h>

namespace paceline::rpc {

// The object owns itself until gRPC is done with it.
template <class In, class Out>
class SingleCall final : public grpc::ServerBidiReactor<In, Out> {
 public:
  // `take` gets the request on one of gRPC's threads, and has to answer the call or fail it, once, from any
  // thread. If the caller is not admitted, the call fails with `admitted`, and nothing is read.
  static SingleCall* start(const grpc::Status& admitted, std::function<void(SingleCall&)> take) {
    auto* call = new SingleCall(std::move(take));
    if (admitted.ok()) {
      call->StartRead(&call->request_);
    } else {
      call->Finish(admitted);
    }
    return call;
  }

  const In& request() const { return request_; }
  void answer(Out reply) {
    reply_ = std::move(reply);
    this->StartWriteAndFinish(&reply_, grpc::WriteOptions(), grpc::Status::OK);
  }
  void fail(const grpc::Status& why) { this->Finish(why); }

  void OnReadDone(bool read) override {
    if (read) return take_(*this);
    this->Finish({grpc::StatusCode::INVALID_ARGUMENT, "a call without a request"});
  }
  void OnDone() override { delete this; }

 private:
  explicit SingleCall(std::function<void(SingleCall&)> take) : take_(std::move(take)) {}

  const std::function<void(SingleCall&)> take_;
  In request_;
  Out reply_;
};

// The caller's side.
template <class Stream, class In, class Out>
grpc::Status call_once(const Stream& stream, const In& request, Out& reply) {
  stream->Write(request);
  stream->WritesDone();
  stream->Read(&reply);
  return stream->Finish();
}

}  // namespace paceline::rpc
